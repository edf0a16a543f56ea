"""The Python that agent code may use: an allow-list of syntax, names, attributes and imports.

Only the kernel's jail is a security boundary. These rules give early and clear errors, and protect
the interpreter itself. Nobody can list all ways around them in Python; code that finds one is still
in the jail.
"""

from __future__ import annotations

import ast
from _string import formatter_field_name_split, formatter_parser  # used by `string.Formatter`
from types import BuiltinMethodType
from typing import TYPE_CHECKING, Any

from agent_envs.appworld.guest.modules import MODULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def names(listed: str) -> frozenset[str]:
    """The names in a text."""
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
SPECIAL = frozenset({"__init__", "__name__"})  # the only such names that may be read
INNER = names(
    """
    ag_await ag_code ag_frame cr_await cr_code cr_frame cr_origin f_back f_builtins f_code
    f_globals f_locals f_trace gi_code gi_frame gi_yieldfrom tb_frame tb_lasti tb_next
    _convert_ _evaluate
    """
)


FORMATS = frozenset({"format", "format_map"})  # methods of str that read attributes by name
REACH = "__reach__"  # the name of `reach` in rewritten code


class NotAllowedError(Exception):
    """Code that the sandbox does not run; the message has the line, the code and a remedy."""

    __module__ = "builtins"  # tracebacks name it without a path


def check(nodes: Iterable[ast.AST]) -> None:
    """Refuse code with a node that is not on the lists.

    Raises:
        NotAllowedError: A node is not on the lists.
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
        NotAllowedError: `name` is such an attribute.
    """
    if _special(name) or name in INNER:
        _refuse(node, f"the attribute {name}", "use public attributes")


def rewrite(nodes: Sequence[ast.AST]) -> None:
    """Replace reads of `format` and `format_map` by `reach` in the tree of these nodes."""
    for node in reversed(nodes):
        for name, held in ast.iter_fields(node):
            if isinstance(held, list):
                held[:] = map(_reached, held)
            elif isinstance(held, ast.AST):
                setattr(node, name, _reached(held))


def _reached(node: Any) -> Any:
    if not (isinstance(node, ast.Attribute) and node.attr in FORMATS):
        return node
    if not isinstance(node.ctx, ast.Load):
        return node
    called = ast.copy_location(ast.Name(REACH, ast.Load()), node)
    name = ast.copy_location(ast.Constant(node.attr), node)
    return ast.copy_location(ast.Call(called, [node.value, name], []), node)


def reach(thing: Any, name: str, *value: Any) -> Any:
    """`getattr` for the attributes that code may use itself.

    Raises:
        NotAllowedError: `name` is not one of them.
    """
    check_attribute(name)
    found = getattr(thing, name, *value)
    return Format(found) if name in FORMATS and _of_texts(found) else found


def _of_texts(method: Any) -> bool:
    """Whether this is `format` or `format_map` of `str` or of a str object."""
    if isinstance(method, BuiltinMethodType):
        return isinstance(method.__self__, str)
    return method is str.format or method is str.format_map


class Format:
    """`format` or `format_map` of texts, for fields that code may read itself."""

    __slots__ = ("__method__",)  # a name that code cannot read

    def __init__(self, method: Callable[..., str]) -> None:
        self.__method__ = method

    def __call__(self, *given: Any, **named: Any) -> str:
        """The text with its fields filled in.

        Raises:
            NotAllowedError: A field has an attribute that code may not use itself.
        """
        text = getattr(self.__method__, "__self__", given[0] if given else "")
        if isinstance(text, str):
            _check_fields(text)
        return self.__method__(*given, **named)

    def __repr__(self) -> str:
        return repr(self.__method__)


def _check_fields(text: str) -> None:
    for _, field, inner, _ in formatter_parser(text):
        _, following = formatter_field_name_split(field or "")
        for name in (name for is_attribute, name in following if is_attribute):
            check_attribute(name)
        if inner:
            _check_fields(inner)


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
