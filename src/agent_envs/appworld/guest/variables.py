"""The key of an interpreter's state: variables, random state, scratch files, module settings.

Two interpreters with the same key run any code alike. Values of the usual kinds are read
completely: plain values, containers and their shared objects, functions, dates, matches. Other
values (generators, instances of classes, large data) have no key. An interpreter has no key, too,
if code did what might change a module or the interpreter (assigned attributes, read `__names__`,
used one of `_MEDDLING` or of `modules.DEEP`), or if it has a set and code that pops, since the next
element of a set is not visible.

The world is told of meddling before such code runs, and believes no key of this interpreter from
then on: code that reaches the interpreter could change this module.
"""

from __future__ import annotations

import ast
import calendar
import decimal
import io
import random
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from fractions import Fraction
from functools import cache
from hashlib import blake2b
from math import isnan
from sys import getsizeof
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import IO, Any, ClassVar

from agent_envs.appworld.guest import modules

NODES = 20_000  # most values that are read
SIZE = 4_000_000  # most bytes of values that are read
_GUEST = "agent_envs.appworld.guest.run"
_BUILTINS = "__builtins__"  # made anew for each execution
_SEEN = frozenset({"__class__", "__doc__", "__init__", "__module__", "__name__", "__qualname__"})
# Names that run code which is not read, change what is not a variable, or lead to frames.
_MEDDLING = frozenset(
    """
    ForwardRef Formatter _convert_ _evaluate ag_code ag_frame attrgetter compile cr_code cr_frame
    delattr eval evaluate_forward_ref exec f_back f_builtins f_globals f_locals f_trace final
    get_type_hints gi_code gi_frame globals locals methodcaller no_type_check overload register
    runtime_checkable setattr tb_frame tb_next update_wrapper vars wraps
    """.split()  # noqa: SIM905
)
_LEADS = frozenset({"obj"})  # attributes that lead there; as variables these names are harmless
_HOOKS = frozenset(  # methods by which a copy or a pattern reaches the attributes of any object
    """
    __getnewargs__ __getnewargs_ex__ __getstate__ __instancecheck__ __new__ __prepare__ __reduce__
    __reduce_ex__ __setstate__
    """.split()  # noqa: SIM905
)
_SETTINGS = frozenset({"calendar", "decimal", "random"})
_LEAVES = frozenset({type(None), bool, int, float, str, bytes})
_WRITTEN = (type(None), bool, float, complex, type(...), range)
_TEXTS = (str, bytes, bytearray)
_DATES = (datetime, date, time, timedelta, timezone, decimal.Decimal, Fraction)


_GONE = object()


def _is_deep(name: str) -> bool:
    """Whether a name leads from objects to what is not a variable."""
    return name in _MEDDLING or (str(name).startswith("__") and name not in _SEEN)


def _read_decimals() -> list[tuple[Any, ...]]:
    """The settings and flags of decimal numbers, of the current and the default contexts."""
    kept = (decimal.BasicContext, decimal.ExtendedContext, decimal.DefaultContext)
    return [
        (
            *(one.prec, one.rounding, one.Emin, one.Emax, one.clamp, one.capitals),
            *(tuple(signs.values()) for signs in (one.traps, one.flags)),
        )
        for one in (decimal.getcontext(), *kept)
    ]


_DECIMAL = _read_decimals()


@cache
def list_public() -> dict[int, str]:
    """The objects of the modules by id: functions, classes and so on, which are never freed."""
    plain = (*_WRITTEN, *_TEXTS, int, tuple, frozenset)
    return {
        id(value): f"{name}.{key}"
        for name in modules.PLAIN
        for key, value in modules.list_public(name).items()
        if type(value) not in plain
    }


MODES = ("r", "w", "a", "x", "rt", "wt", "at", "xt")


class Scratch:
    """Text files by name; agent code gets `open`."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def open(self, file: str, mode: str = "r", encoding: str = "utf-8") -> IO[str]:
        """A text file, kept until the end of the episode.

        Raises:
            ValueError: Another mode. FileNotFoundError, FileExistsError: As of Python's own.
        """
        if mode not in MODES or encoding.lower() not in ("utf-8", "utf8"):
            raise ValueError(
                f"files are UTF-8 texts in the sandbox, with mode one of {', '.join(MODES)}; got "
                f"mode {mode!r} and encoding {encoding!r}"
            )
        name, kind = str(file), mode[0]
        if kind == "r" and name not in self.files:
            raise FileNotFoundError(
                f"no file {name!r}: `open` sees only what this task's code has written "
                f"({', '.join(sorted(self.files)) or 'nothing so far'})"
            )
        if kind == "x" and name in self.files:
            raise FileExistsError(f"the file {name!r} is already there")
        if kind == "r":
            return io.StringIO(self.files[name])
        self.files.setdefault(name, "")
        return _OutFile(self, name, self.files[name] if kind == "a" else "")


class _OutFile(io.StringIO):
    """A file for writing; its text is stored at each flush and when it is closed."""

    def __init__(self, folder: Scratch, name: str, before: str) -> None:
        super().__init__(before)
        self.seek(0, io.SEEK_END)
        self._target = folder, name
        self.flush()

    def flush(self) -> None:
        if not self.closed:
            folder, name = self._target
            folder.files[name] = self.getvalue()

    def close(self) -> None:
        self.flush()
        super().close()

    def __exit__(self, *error: object) -> None:
        self.close()


class _UnreadableError(Exception):
    """A value has no key."""


class Variables:
    """Keys of one interpreter.

    Args:
        namespace: its variables.
        scratch: its scratch files.
        meddles: is called once, before code does what might change a module or the interpreter.
    """

    def __init__(
        self, namespace: Mapping[str, Any], scratch: Scratch, meddles: Callable[[], None]
    ) -> None:
        self._namespace, self._scratch, self._meddles = namespace, scratch, meddles
        self._start = dict(namespace)
        self._chance = random.getstate()
        self._meddled = self._pops = False
        self._imported = set[str]()

    def watch(self, nodes: Iterable[ast.AST]) -> None:
        """Inspect the nodes of code before it runs."""
        for node in nodes:
            if isinstance(node, ast.Name):
                self._report(meddling=_is_deep(node.id))
            elif isinstance(node, ast.Attribute):
                self._report(meddling=not isinstance(node.ctx, ast.Load))
                self.note(node.attr)
            elif isinstance(node, ast.FunctionDef):
                self._report(meddling=node.name in _HOOKS)
            elif isinstance(node, ast.MatchClass):
                self._report(meddling=bool(node.patterns))  # `__match_args__` names attributes
                for name in node.kwd_attrs:
                    self.note(name)
            elif isinstance(node, ast.Constant):
                self._pops |= node.value == "pop"
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)

    def note(self, name: str) -> None:
        """Inspect the name of an attribute that code reads."""
        self._report(meddling=_is_deep(name) or name in _LEADS)
        self._pops |= name == "pop"

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            for name in names:
                self.note(name)
            names = [node.module or ""]
        self._imported.update(names)
        self._report(meddling=not self._imported.isdisjoint(modules.DEEP))

    def _report(self, *, meddling: bool) -> None:
        if meddling and not self._meddled:
            self._meddles()  # before it does
            self._meddled = True

    def make_key(self) -> str | None:
        """The key; "" for an empty state, None if there is no key."""
        if self._meddled:
            return None
        try:
            facts = [*self._list_facts(), *self._list_settings()]
        except (_UnreadableError, RecursionError, MemoryError, ValueError):
            return None  # ValueError: integers with thousands of digits
        if not facts:
            return ""
        text = "\n".join(facts).encode("utf-8", "backslashreplace")
        return blake2b(text, digest_size=16).hexdigest()

    def _list_facts(self) -> Iterable[str]:
        """Variables and files."""
        writer = _Writer(self._namespace, pops=self._pops)
        for name in sorted((self._namespace.keys() | self._start.keys()) - {_BUILTINS}):
            value = self._namespace.get(name, _GONE)
            if value is not self._start.get(name, _GONE):
                writer.parts.append(f"variable {name}" if value is not _GONE else f"gone {name}")
                writer.write_value(None if value is _GONE else value)
        if self._scratch.files:
            writer.parts.append("files")
            writer.write_value(self._scratch.files)
        return writer.parts

    def _list_settings(self) -> Iterable[str]:
        if not self._imported & _SETTINGS:
            return
        chance = random.getstate()
        if chance != self._chance:
            yield f"chance {chance}"
        if _read_decimals() != _DECIMAL:
            yield f"decimal {_read_decimals()}"
        if calendar.firstweekday() != calendar.MONDAY:
            yield f"calendar {calendar.firstweekday()}"


class _Writer:
    """Serialises values to `parts`, each container once."""

    def __init__(self, namespace: Mapping[str, Any], *, pops: bool) -> None:
        self.parts: list[str] = []
        self._namespace, self._pops = namespace, pops
        self._seen: dict[int, tuple[int, Any]] = {}  # with the values, so that ids stay valid
        self._nodes = self._size = 0

    def write_value(self, value: Any) -> None:
        """Serialise a value.

        Raises:
            _UnreadableError: It cannot be serialised.
        """
        kind, public = type(value), list_public().get(id(value))
        way = self._WAYS.get(kind)
        if public is not None:
            self._write(public)
        elif way is not None:
            way(self, value)
        elif kind.__module__ == _GUEST:
            self._write(kind.__qualname__)
        elif kind.__module__ == modules.__name__:
            (self._write_generator if isinstance(value, random.Random) else self._write_date)(value)
        else:
            raise _UnreadableError

    def _write(self, text: str) -> None:
        self._count(1, len(text))
        self.parts.append(text)

    def _count(self, nodes: int, size: int) -> None:
        """Count values and bytes before they are serialised."""
        self._nodes += nodes
        self._size += size
        if self._nodes > NODES or self._size > SIZE:
            raise _UnreadableError

    def _write_int(self, value: int) -> None:
        self._count(0, getsizeof(value))
        self._write(f"{value:x}")

    def _write_float(self, value: float) -> None:
        if not isnan(value) or not self._is_known(
            value
        ):  # a NaN is only equal to itself by identity
            self._write(repr(value))

    def _write_text(self, value: str | bytes | bytearray) -> None:
        self._count(0, getsizeof(value))
        if type(value) is not bytearray or not self._is_known(value):
            self._write(repr(value))

    def _write_date(self, value: Any) -> None:
        self._write(f"{type(value).__name__} {value!r} {getattr(value, 'fold', '')}")

    def _write_generator(self, value: random.Random) -> None:
        if not self._is_known(value):
            self._write(f"chance {value.getstate()}")

    def _write_fixed(self, value: Collection[Any]) -> None:
        if self._has_only_leaves(value):
            self._write(f"{type(value).__name__} {len(value)} {value!r}")
        elif not self._is_known(value):
            self._write(f"{type(value).__name__} {len(value)}")
            self._write_all(value)

    def _has_only_leaves(self, values: Collection[Any]) -> bool:
        """Whether these contain no others and can be serialised at once; they are counted."""
        if not _LEAVES.issuperset(map(type, values)):
            return False
        if any(type(value) is float and isnan(value) for value in values):
            return False
        self._count(len(values), sum(map(getsizeof, values)))
        return True

    def _write_class(self, value: type) -> None:
        if value.__module__ == "__main__":
            raise _UnreadableError
        self._write(f"class {value.__module__}.{value.__qualname__}")

    def _write_builtin(self, value: BuiltinFunctionType) -> None:
        if not isinstance(value.__self__, ModuleType):
            raise _UnreadableError
        self._write(f"function {value.__module__}.{value.__qualname__}")

    def _is_known(self, value: Any) -> bool:
        """Whether a mutable object was serialised before; marks it as serialised."""
        known = id(value) in self._seen
        number, _ = self._seen.setdefault(id(value), (len(self._seen), value))
        self.parts.append(f"again {number}" if known else f"new {number}")
        return known

    def _write_list(self, value: Collection[Any]) -> None:
        if self._is_known(value):
            return
        self._write(f"{type(value).__name__} {len(value)}")
        if type(value) is set and self._pops:
            raise _UnreadableError
        if self._has_only_leaves(value):
            self._write(repr(value))
        else:
            self._write_all(value)
        if type(value) is deque:
            self.write_value(value.maxlen)

    def _write_map(self, value: Mapping[Any, Any]) -> None:
        if not self._is_known(value):
            self._write(f"{type(value).__name__} {len(value)}")
            if type(value) is defaultdict:
                self.write_value(value.default_factory)
            if self._has_only_leaves(value.keys()) and self._has_only_leaves(value.values()):
                self._write(repr(list(value.items())))
            else:
                self._write_all(item for pair in value.items() for item in pair)

    def _write_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.write_value(value)

    def _write_function(self, value: FunctionType) -> None:
        if value.__globals__ is not self._namespace:
            if value.__module__ != _GUEST:
                raise _UnreadableError
            self._write(value.__qualname__)
            return
        if value.__dict__:
            raise _UnreadableError
        if self._is_known(value):
            return
        self._write_code(value.__code__)
        self._write_all((value.__name__, value.__defaults__, value.__kwdefaults__))
        for cell in value.__closure__ or ():
            self._write_cell(cell)

    def _write_cell(self, cell: Any) -> None:
        if self._is_known(cell):
            return
        try:
            held = cell.cell_contents
        except ValueError:
            self._write("empty")
            return
        self.write_value(held)

    def _write_code(self, code: CodeType) -> None:
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        self._write(f"code {counts} {names} {code.co_code!r} {code.co_exceptiontable!r}")
        for value in code.co_consts:
            if type(value) is CodeType:
                self._write_code(value)
            else:
                self.write_value(value)

    _WAYS: ClassVar[dict[type, Callable[..., None]]] = {
        int: _write_int,
        **dict.fromkeys(_WRITTEN, lambda self, v: self._write(repr(v))),
        float: _write_float,
        **dict.fromkeys(_TEXTS, _write_text),
        **dict.fromkeys(_DATES, _write_date),
        **dict.fromkeys((tuple, frozenset), _write_fixed),
        **dict.fromkeys((list, set, deque), _write_list),
        **dict.fromkeys((dict, Counter, OrderedDict, defaultdict), _write_map),
        FunctionType: _write_function,
        BuiltinFunctionType: _write_builtin,
        type: _write_class,
        ModuleType: lambda self, v: self._write(f"module {v.__name__}"),
        re.Pattern: lambda self, v: self._write_all(("pattern", v.pattern, v.flags)),
        re.Match: lambda self, v: self._write_all(
            ("match", v.re, v.string, v.pos, v.endpos, v.regs)
        ),
    }
