"""The interpreter: runs agent code, one piece after the other, in one namespace.

`apis.<app>.<api>(...)` calls the world at the other end of the socket. The printed text is the
output; a failure adds a traceback of the agent's own lines.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import traceback
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent_envs.appworld.guest import modules, variables
from agent_envs.appworld.guest.rules import (
    REACH,
    NotAllowedError,
    check,
    check_attribute,
    names,
    reach,
    rewrite,
)
from agent_envs.appworld.guest.scratch import Scratch
from agent_envs.appworld.guest.wire import receive, send

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import ModuleType

OUTPUT = 20_000  # characters
SUCCESS = "Execution successful."
FILE = "<code>"
FRAMES = 5  # frames of a traceback's top and bottom
BUILTINS = names(
    """
ArithmeticError AssertionError AttributeError BaseException EOFError Exception False
FileExistsError FileNotFoundError IndexError KeyError KeyboardInterrupt LookupError MemoryError
NameError None NotImplemented NotImplementedError OSError OverflowError PermissionError
RecursionError RuntimeError StopIteration SyntaxError SystemExit TimeoutError True TypeError
UnicodeError ValueError ZeroDivisionError __build_class__ abs all any ascii bin bool bytearray
bytes callable chr classmethod complex dict divmod enumerate filter float format frozenset hash hex
int isinstance issubclass iter len list map max min next object oct ord pow print property range
repr reversed round set slice sorted staticmethod str sum super tuple zip
"""
)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def load() -> None:
    """Import everything in advance: there are no files in the jail."""
    modules.load()
    variables.load()
    compile("'\\N{BULLET}'", FILE, "exec")


def serve(channel: socket.socket) -> None:
    """Run code from the socket until it is closed."""
    opening = receive(channel)
    namespace = _namespace(channel, datetime.fromisoformat(opening["now"]), opening["seed"])
    safe = namespace["__builtins__"]
    known = variables.Variables(namespace, safe["open"].__self__)
    while True:
        try:
            request = receive(channel)
        except EOFError:
            return
        namespace["__builtins__"] = dict(safe)
        output = output_of(request["code"], namespace, known.watch)
        send(channel, {"output": output, "variables": known.key()})


def output_of(code: str, namespace: dict[str, Any], watch: Callable[[list[ast.AST]], None]) -> str:
    """The output of `code`, and the traceback if it fails; `watch` gets its nodes before."""
    sys.stdout = said = _Output()
    try:
        tree = ast.parse(code, FILE)
        nodes = list(ast.walk(tree))
        check(nodes)
        watch(nodes)
        rewrite(nodes)
        exec(compile(tree, FILE, "exec", dont_inherit=True), namespace)  # noqa: S102
    except BaseException as error:  # noqa: BLE001  the agent also sees SystemExit
        failure = f"Execution failed. Traceback:\n{_told(error, code)}"
    else:
        failure = ""
    printed = _ADDRESS.sub(" at 0x", said.text())
    if failure:
        return f"{printed}\n{failure}" if printed.strip() else failure
    return printed if printed.strip() else SUCCESS


class _Output:
    """Keeps the beginning of the output, counts the rest."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0

    def write(self, text: str) -> int:
        """As of a file."""
        if self.size < OUTPUT:
            self.parts.append(text[: OUTPUT - self.size])
        self.size += len(text)
        return len(text)

    def flush(self) -> None:
        """As of a file."""

    def text(self) -> str:
        """The output without the last line break."""
        kept = "".join(self.parts)
        if self.size <= OUTPUT:
            return kept.removesuffix("\n")
        return f"{kept}\n[cut: the first {OUTPUT} of {self.size} characters]"


def _namespace(channel: socket.socket, now: datetime, seed: str) -> dict[str, Any]:
    known = modules.copies(now, seed)
    safe = {name: getattr(builtins, name) for name in BUILTINS}
    safe |= {
        "__import__": _importer(known),
        REACH: reach,
        "getattr": _guarded(reach),
        "hasattr": _guarded(hasattr),
        "open": Scratch().open,
        "setattr": _guarded(setattr),
        "type": _type,
    }
    return {"__name__": "__main__", "__builtins__": safe, "apis": _apis(channel)}


def _importer(known: dict[str, ModuleType]) -> Callable[..., ModuleType]:
    def load_copy(
        name: str, _globals: Any = None, _locals: Any = None, names: Any = (), level: int = 0
    ) -> ModuleType:
        if level or name not in known:
            raise NotAllowedError(
                f"importing {name} is not allowed in the sandbox; modules are {', '.join(known)}"
            )
        return known[name] if names else known[name.partition(".")[0]]

    return load_copy


def _guarded(reach: Callable[..., Any]) -> Callable[..., Any]:
    """`getattr` and similar functions, for the attributes that code may use itself."""

    def guarded(thing: Any, name: str, *value: Any) -> Any:
        if type(name) is not str:
            raise TypeError(f"an attribute's name is a string, got {type(name).__name__}")
        check_attribute(name)
        return reach(thing, name, *value)

    return guarded


def _type(thing: Any) -> type:
    """The type of an object; does not create types."""
    return type(thing)


def _apis(channel: socket.socket) -> Any:
    """`apis`: an attribute is an app, and its attributes are calls.

    The socket is in closures, which agent code cannot access.
    """

    def call(app: str, api: str, unnamed: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if unnamed:
            raise TypeError(f"apis.{app}.{api} takes named arguments only, like page_index=0")
        send(channel, {"call": [app, api, named]})
        reply = receive(channel)
        if "error" in reply:
            raise Exception(reply["error"])  # noqa: TRY002  the documented text
        return reply["value"]

    def api_of(app: str, api: str) -> Any:
        def asked(*unnamed: Any, **named: Any) -> Any:
            return call(app, api, unnamed, named)

        asked.__qualname__ = f"apis.{app}.{api}"
        return asked

    return _named("apis", lambda app: _named(f"apis.{app}", lambda api: api_of(app, api)))


def _named(path: str, found: Callable[[str], Any]) -> Any:
    """An object whose attributes `found` gives."""

    class Apis:
        """The objects in `apis.<app>.<api>`."""

        __slots__ = ()

        def __getattr__(self, name: str) -> Any:
            return found(name)

    Apis.__qualname__ = path  # for the key of variables
    return Apis()


def _told(error: BaseException, code: str) -> str:
    """The traceback of an error through the agent's own lines."""
    lines = code.split("\n")
    told = [
        f'  File "{FILE}", line {number}, in {frame.f_code.co_name}\n'
        f"    {lines[number - 1].strip()}"
        for frame, number in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == FILE and number <= len(lines)
    ]
    if len(told) > 2 * FRAMES:
        told[FRAMES:-FRAMES] = [f"  ... {len(told) - 2 * FRAMES} more calls ..."]
    said = _ADDRESS.sub(" at 0x", "".join(traceback.format_exception_only(error))[:OUTPUT])
    return "\n".join([*told, said.rstrip("\n")])
