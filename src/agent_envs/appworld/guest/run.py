"""The interpreter: runs agent code, one piece after the other, in one namespace.

`apis.<app>.<api>(...)` calls the world at the other end of the socket. The printed text is the
output; a failure adds a traceback of the agent's own lines.

Agent code that finds this socket, or stays in this process, can answer as it likes while its turn
lasts. The world knows that: it takes one answer for one question, stops this process between turns,
and judges nothing by what it is told here.
"""

from __future__ import annotations

import ast
import builtins
import mmap
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from agent_envs.appworld.guest import ends, modules, variables
from agent_envs.appworld.guest.wire import CALL, LONGEST, TOKEN, encode, parse, receive, send

if TYPE_CHECKING:
    import socket

    Piece = tuple[CodeType, str]  # compiled code and its text

OUTPUT = 20_000  # characters
SUCCESS = "Execution successful."
FILE = "<code>"
FRAMES = 5  # frames of a traceback's top and bottom
SPARE = 4 * 2**20  # bytes of memory that are kept for telling that it is full
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def load() -> None:
    """Import everything in advance: there are no files in the jail."""
    modules.load()
    variables.list_public()  # once for all interpreters
    compile("'\\N{BULLET}'", FILE, "exec")


class _World:
    """The other end of the socket. It asks, or tells, and each time gets one answer."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel, self._token = channel, bytes(TOKEN)

    def say(self, message: Any) -> None:
        """Send the answer to what was last heard."""
        send(self._channel, encode(message, CALL), self._token)

    def hear(self) -> Any:
        """Wait for the next message.

        Raises:
            EOFError: The other side closed the socket.
            ValueError: The message is too deep.
        """
        try:
            self._token, body = receive(self._channel, LONGEST)
        except MemoryError:  # a part of it was read
            os._exit(ends.FULL)
        return parse(body)

    def ask(self, message: Any) -> Any:
        """Send a message that has a reply: the reply.

        Raises:
            RecursionError: Before it is sent; after that a reply would be left unread.
        """
        _go_down(30)
        self.say(message)
        return self.hear()


def _go_down(frames: int) -> bool:
    return not frames or _go_down(frames - 1)


def serve(channel: socket.socket, confine: Callable[[], object]) -> None:
    """Run code from the socket until it is closed, in a process that `confine` restricts.

    The first message has the time and the seed of the task.
    """
    world = _World(channel)
    opening = world.hear()
    try:
        confine()
    except (MemoryError, OSError, ValueError) as error:
        world.say({"refused": f"{type(error).__name__}: {error}"})
        return
    main = ModuleType("__main__")  # where dataclasses and typing look names up
    sys.modules["__main__"] = main
    namespace = vars(main)
    scratch = variables.Scratch()
    namespace["apis"] = _make_apis(world)
    copies = modules.make_copies(datetime.fromisoformat(opening["now"]), opening["seed"])
    known = variables.Variables(namespace, scratch, lambda: world.ask({"meddles": True}))
    copies["io"].__dict__["open"] = scratch.open
    own: dict[str, Any] = {
        "__import__": _make_importer(copies),
        "getattr": _make_getattr(known.note),
        "open": scratch.open,
    }
    pieces: list[Piece] = []
    world.say({"ready": True})
    while True:
        try:
            request = world.hear()
        except EOFError:
            return
        namespace["__builtins__"] = vars(builtins) | own
        output, failed = run_code(request["code"], namespace, known.watch, pieces)
        world.say({"output": output, "failed": failed, "variables": known.make_key()})


def run_code(
    code: str,
    namespace: dict[str, Any],
    watch: Callable[[Iterable[ast.AST]], None],
    pieces: list[Piece],
) -> tuple[str, bool]:
    """The output of `code`, with the traceback if it fails, and whether it does.

    `watch` gets its nodes before it runs; `pieces` has the earlier code, and gets this.
    """
    sys.stdout = sys.stderr = said = _Output()
    try:
        tree = _parse(code)
        watch(ast.walk(tree))
        compiled = compile(tree, FILE, "exec", dont_inherit=True)
        pieces.append((compiled, code))
        with _reserve_memory():
            exec(compiled, namespace)  # noqa: S102
    except BaseException as error:  # noqa: BLE001  the agent also sees SystemExit
        failure = f"Execution failed. Traceback:\n{_format_error(error, pieces)}"
    else:
        failure = ""
    printed = _ADDRESS.sub(" at 0x", said.text())
    if failure:
        return f"{printed}\n{failure}" if printed.strip() else failure, True
    return printed if printed.strip() else SUCCESS, False


def _parse(code: str) -> ast.Module:
    try:
        return ast.parse(code, FILE)
    except MemoryError as error:  # the parser's own limit has the same name
        raise MemoryError(
            "the code is nested too deeply, or longer than the memory left"
        ) from error


def _reserve_memory() -> AbstractContextManager[object]:
    """Keeps memory free, which takes no page; nothing if there is none left."""
    try:
        return mmap.mmap(-1, SPARE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return nullcontext()


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


def _make_importer(known: dict[str, ModuleType]) -> Callable[..., ModuleType]:
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


def _make_getattr(note: Callable[[str], None]) -> Callable[..., Any]:
    """`getattr` that notes the names: they are not in the text of the code."""

    def read_attribute(thing: Any, name: str, *value: Any) -> Any:
        if isinstance(name, str):
            note(name)
        return getattr(thing, name, *value)

    read_attribute.__name__ = read_attribute.__qualname__ = "getattr"
    return read_attribute


def _make_apis(world: _World) -> Any:
    """`apis`: an attribute is an app, and its attributes are calls."""

    def api_of(app: str, api: str) -> Any:
        path = f"apis.{app}.{api}"

        def ask_world(*unnamed: Any, **named: Any) -> Any:
            if unnamed:
                raise TypeError(f"{path} takes named arguments only, like page_index=0")
            reply = world.ask({"call": [app, api, named]})
            if "error" in reply:
                raise Exception(reply["error"])  # noqa: TRY002  the documented text
            return reply["value"]

        ask_world.__qualname__ = path
        return ask_world

    def app_of(app: str) -> Any:
        return _make_object(f"apis.{app}", lambda api: api_of(app, api))

    return _make_object("apis", app_of)


def _make_object(path: str, found: Callable[[str], Any]) -> Any:
    """An object whose attributes `found` gives."""

    class Apis:
        """The objects in `apis.<app>.<api>`."""

        __slots__ = ()

        def __getattr__(self, name: str) -> Any:
            return found(name)

    Apis.__qualname__ = path  # for the key of variables
    return Apis()


def _format_error(error: BaseException, pieces: list[Piece]) -> str:
    """The traceback of an error through the agent's own lines, also of earlier turns."""
    if type(error) is MemoryError and not error.args:
        error = MemoryError(ends.WANT).with_traceback(error.__traceback__)
    told = []
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == FILE:
            code = next((code for top, code in reversed(pieces) if _defines(top, frame.f_code)), "")
            line = dict(enumerate(code.split("\n"), 1)).get(number, "").strip()
            where = f'  File "{FILE}", line {number}, in {frame.f_code.co_name}'
            told.append(f"{where}\n    {line}" if line else where)
    if len(told) > 2 * FRAMES:
        told[FRAMES:-FRAMES] = [f"  ... {len(told) - 2 * FRAMES} more calls ..."]
    said = _ADDRESS.sub(" at 0x", "".join(traceback.format_exception_only(error))[:OUTPUT])
    return "\n".join([*told, said.rstrip("\n")])


def _defines(top: CodeType, wanted: CodeType) -> bool:
    """Whether code is `wanted`, or defines it."""
    inner = (part for part in top.co_consts if isinstance(part, CodeType))
    return top is wanted or any(_defines(part, wanted) for part in inner)
