"""The command `agent-envs serve`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_envs.cli.console import make_console
from agent_envs.cli.options import check_not_own, parse_assignment

if TYPE_CHECKING:
    from agent_envs.toolset import Toolset


def serve(
    env: Annotated[
        str, typer.Argument(help="An environment by id, name, or package.module:Class.")
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="max_turns, data, invalid_penalty, wrappers, context, template, history, goal, "
            "and arguments of the environment.",
        ),
    ] = None,
    *,
    split: Annotated[
        list[str] | None,
        typer.Option(help="A split that is served, the default one first; several times."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            help="Port, 0 for a free one.", show_default="8000; with --mcp stdin and stdout"
        ),
    ] = None,
    sessions: Annotated[int, typer.Option(help="Sessions at the same time.")] = 64,
    message: Annotated[int, typer.Option(help="Bytes of a message.")] = 256 * 1024,
    idle: Annotated[
        float, typer.Option(help="Seconds without a message that end a session.")
    ] = 600.0,
    mcp: Annotated[
        bool,
        typer.Option(
            "--mcp", help="Serve tools with MCP: over stdin and stdout, or HTTP at --port."
        ),
    ] = False,
    typed: Annotated[
        bool, typer.Option("--typed", help="With --mcp, a tool for each verb instead of `act`.")
    ] = False,
    public: Annotated[
        bool, typer.Option("--public", help="Let other machines connect without a token.")
    ] = False,
) -> None:
    """Serve an environment with OpenEnv's protocol, or MCP, until Ctrl-C.

    Clients send the token in $AGENT_ENVS_TOKEN, if it is set.
    """
    from agent_envs.assets import require
    from agent_envs.cli.play import find_id
    from agent_envs.net import connections

    if typed and not mcp:
        raise ValueError("--typed is for tools: give --mcp, too")
    if mcp and port is None and (public or host != "127.0.0.1"):
        raise ValueError("--mcp serves over stdin and stdout; for --host and --public give --port")
    kind = "mcp" if mcp else "openenv"
    require(kind, kind)
    from agent_envs_adapters.gate import VARIABLE, Limits
    from trainer.options import make_options

    given = dict(map(parse_assignment, options or ()))
    check_not_own(given, "split", "host", "port", "sessions", "message", "idle", "public", "typed")
    name, token = find_id(env), os.environ.get(VARIABLE, "")
    numbers = {"sessions": sessions, "message": message, "idle": idle}
    limits = make_options(Limits, numbers, "limits")
    page = make_console()
    app: connections.Guard
    if mcp:
        from agent_envs_adapters import mcp as served

        server = served.make_server(name, _plan_tools(name, given, split or [], typed=typed))
        if port is None:
            served.serve_stdio(server)
            return
        app, path = served.Gate(server, limits=limits, token=token), "/mcp"
    else:
        from agent_envs_adapters import openenv

        app = openenv.make_app(name, splits=split or ["train"], limits=limits, token=token, **given)
        path = ""
    connections.serve(
        app,
        host,
        8000 if port is None else port,
        public=public,
        ready=lambda url: page.print(f"serving {name} at {url}{path}"),
    )


def _plan_tools(
    name: str, options: dict[str, Any], split: list[str], *, typed: bool
) -> Callable[[], Toolset]:
    """What makes the tools of an environment.

    Raises:
        ValueError: Several splits; also when called, for an environment that has no tools.
    """
    from agent_envs.cli.options import make_env
    from agent_envs.toolset import Toolset

    if len(split) > 1:
        raise ValueError(f"--mcp serves one split, got {', '.join(split)}; serve each at its port")
    arguments = options | ({"split": split[0]} if split else {})

    def make() -> Toolset:
        try:
            return Toolset(make_env(name, arguments), typed=typed)
        except TypeError as error:  # no agent environment, or one of images
            raise ValueError(str(error)) from error

    return make
