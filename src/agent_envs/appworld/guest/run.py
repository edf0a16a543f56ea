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
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from agent_envs.appworld.guest import modules, variables
from agent_envs.appworld.guest.scratch import Scratch
from agent_envs.appworld.guest.wire import receive, send

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    Piece = tuple[CodeType, str]  # compiled code and its text

OUTPUT = 20_000  # characters
SUCCESS = "Execution successful."
FILE = "<code>"
FRAMES = 5  # frames of a traceback's top and bottom
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def load() -> None:
    """Import everything in advance: there are no files in the jail."""
    modules.load()
    variables.load()
    compile("'\\N{BULLET}'", FILE, "exec")


def serve(channel: socket.socket) -> None:
    """Run code from the socket until it is closed."""
    opening = receive(channel)
    main = ModuleType("__main__")  # where dataclasses and typing look names up
    sys.modules["__main__"] = main
    namespace = vars(main)
    scratch = Scratch()
    namespace["apis"] = _apis(channel)
    copies = modules.copies(datetime.fromisoformat(opening["now"]), opening["seed"])
    known = variables.Variables(namespace, scratch)
    copies["io"].__dict__["open"] = scratch.open
    own: dict[str, Any] = {
        "__import__": _importer(copies),
        "getattr": _noting(known.note),
        "open": scratch.open,
    }
    pieces: list[Piece] = []
    while True:
        try:
            request = receive(channel)
        except EOFError:
            return
        namespace["__builtins__"] = vars(builtins) | own
        output = output_of(request["code"], namespace, known.watch, pieces)
        send(channel, {"output": output, "variables": known.key()})


def output_of(
    code: str,
    namespace: dict[str, Any],
    watch: Callable[[Iterable[ast.AST]], None],
    pieces: list[Piece],
) -> str:
    """The output of `code`, and the traceback if it fails.

    `watch` gets its nodes before it runs; `pieces` has the earlier code, and gets this.
    """
    sys.stdout = sys.stderr = said = _Output()
    try:
        tree = ast.parse(code, FILE)
        watch(ast.walk(tree))
        compiled = compile(tree, FILE, "exec", dont_inherit=True)
        pieces.append((compiled, code))
        exec(compiled, namespace)  # noqa: S102
    except BaseException as error:  # noqa: BLE001  the agent also sees SystemExit
        failure = f"Execution failed. Traceback:\n{_told(error, pieces)}"
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


def _importer(known: dict[str, ModuleType]) -> Callable[..., ModuleType]:
    def load_copy(
        name: str, _globals: Any = None, _locals: Any = None, names: Any = (), level: int = 0
    ) -> ModuleType:
        if type(names) is list and name in sys.modules:
            return sys.modules[name]  # a part of Python written in C imports like this
        if level or name not in known:
            raise ModuleNotFoundError(
                f"there is no module {'.' * level + name!r} in the sandbox; modules are "
                f"{', '.join(sorted(known))}",
                name=name,
            )
        return known[name] if names else known[name.partition(".")[0]]

    return load_copy


def _noting(note: Callable[[str], None]) -> Callable[..., Any]:
    """`getattr` that notes the names: they are not in the text of the code."""

    def noted(thing: Any, name: str, *value: Any) -> Any:
        if isinstance(name, str):
            note(name)
        return getattr(thing, name, *value)

    noted.__name__ = noted.__qualname__ = "getattr"
    return noted


def _apis(channel: socket.socket) -> Any:
    """`apis`: an attribute is an app, and its attributes are calls."""

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


def _told(error: BaseException, pieces: list[Piece]) -> str:
    """The traceback of an error through the agent's own lines, also of earlier turns."""
    told = []
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == FILE:
            code = next((code for top, code in reversed(pieces) if _has(top, frame.f_code)), "")
            line = dict(enumerate(code.split("\n"), 1)).get(number, "").strip()
            where = f'  File "{FILE}", line {number}, in {frame.f_code.co_name}'
            told.append(f"{where}\n    {line}" if line else where)
    if len(told) > 2 * FRAMES:
        told[FRAMES:-FRAMES] = [f"  ... {len(told) - 2 * FRAMES} more calls ..."]
    said = _ADDRESS.sub(" at 0x", "".join(traceback.format_exception_only(error))[:OUTPUT])
    return "\n".join([*told, said.rstrip("\n")])


def _has(top: CodeType, wanted: CodeType) -> bool:
    """Whether code is `wanted`, or defines it."""
    inner = (part for part in top.co_consts if isinstance(part, CodeType))
    return top is wanted or any(_has(part, wanted) for part in inner)
