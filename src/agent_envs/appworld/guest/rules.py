"""Which Python agent code may be: an allow-list of syntax, names, attributes and imports.

The kernel's jail is what agent code cannot get out of; these rules say early and clearly what will
not work, and keep the interpreter itself in order. They are no boundary: Python has more ways round
them than anybody can list, and who finds one is in the jail still.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from agent_envs.appworld.guest.modules import MODULES

if TYPE_CHECKING:
    from collections.abc import Iterable


def names(listed: str) -> frozenset[str]:
    """The names between blanks."""
    return frozenset(listed.split())


SYNTAX = names(
    """
    Module Expr Assign AugAssign AnnAssign For While If With Raise Try Assert Import ImportFrom
    Global Nonlocal Pass Break Continue Return Delete FunctionDef ClassDef Lambda
    BoolOp NamedExpr BinOp UnaryOp IfExp Dict Set ListComp SetComp DictComp GeneratorExp Yield
    YieldFrom Compare Call FormattedValue JoinedStr Constant Attribute Subscript Starred Name List
    Tuple Slice Load Store Del And Or Add Sub Mult Div Mod Pow LShift RShift BitOr BitXor BitAnd
    FloorDiv Invert Not UAdd USub Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn comprehension
    ExceptHandler arguments arg keyword alias withitem
    """
)
SPECIAL = frozenset({"__init__", "__name__"})  # may be read, other names like these not
INNER = names(
    """
    ag_await ag_code ag_frame cr_await cr_code cr_frame cr_origin f_back f_builtins f_code
    f_globals f_locals f_trace gi_code gi_frame gi_yieldfrom tb_frame tb_lasti tb_next
    _convert_ _evaluate
    """
)


class NotAllowedError(Exception):
    """Code that the sandbox does not run; the message has the line, what it was and what works."""

    __module__ = "builtins"  # tracebacks name it without a path


def check(nodes: Iterable[ast.AST]) -> None:
    """Refuse code of which a node is not on the lists.

    Raises:
        NotAllowedError: Something is not.
    """
    for node in nodes:
        if type(node).__name__ not in SYNTAX:
            _refuse(node, f"the syntax {type(node).__name__}", "write it without")
        elif isinstance(node, ast.Attribute):
            check_attribute(node.attr, node)
        elif isinstance(node, ast.Name) and _special(node.id):
            _refuse(node, f"the name {node.id}", "use other names")
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            _check_import(node)


def check_attribute(name: str, node: ast.AST | None = None) -> None:
    """Refuse attributes that lead from objects to the interpreter.

    Raises:
        NotAllowedError: `name` is one.
    """
    if _special(name) or name in INNER:
        _refuse(node, f"the attribute {name}", "use public attributes")


def _check_import(node: ast.Import | ast.ImportFrom) -> None:
    if isinstance(node, ast.ImportFrom):
        modules = ["." * node.level + (node.module or "")]
    else:
        modules = [alias.name for alias in node.names]
    for module in modules:
        if module not in MODULES:
            _refuse(node, f"importing {module}", f"modules are {', '.join(MODULES)}")
    for alias in node.names:
        if any(part.startswith("__") for part in (alias.name, alias.asname or "")):
            _refuse(node, f"importing {alias.name} as {alias.asname}", "use public names")


def _special(name: str) -> bool:
    return name.startswith("__") and name not in SPECIAL


def _refuse(node: ast.AST | None, what: str, instead: str) -> None:
    line = f"line {node.lineno}: " if node is not None and hasattr(node, "lineno") else ""
    raise NotAllowedError(f"{line}{what} is not allowed in the sandbox; {instead}")
