"""The command `agent-envs serve`."""

import os
from typing import Annotated

import typer

from agent_envs.cli.console import make_console
from agent_envs.cli.options import check_not_own, parse_assignment


def serve(
    env: Annotated[
        str, typer.Argument(help="An environment by id, name, or package.module:Class.")
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="max_turns, data, invalid_penalty, wrappers, context, template, history, and "
            "arguments of the environment.",
        ),
    ] = None,
    *,
    split: Annotated[
        list[str] | None,
        typer.Option(help="A split that is served, the default one first; several times."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port, 0 for a free one.")] = 8000,
    sessions: Annotated[int, typer.Option(help="Sessions at the same time.")] = 64,
    message: Annotated[int, typer.Option(help="Bytes of a message.")] = 256 * 1024,
    idle: Annotated[
        float, typer.Option(help="Seconds without a message that end a session.")
    ] = 600.0,
    public: Annotated[
        bool, typer.Option("--public", help="Let other machines connect without a token.")
    ] = False,
) -> None:
    """Serve an environment with OpenEnv's protocol until Ctrl-C.

    Clients send the token in $AGENT_ENVS_TOKEN, if it is set.
    """
    from agent_envs import connections
    from agent_envs.cli.play import find_id
    from agent_envs_adapters import openenv
    from agent_envs_adapters.gate import VARIABLE, Limits
    from trainer.options import make_options

    given = dict(map(parse_assignment, options or ()))
    check_not_own(given, "split", "host", "port", "sessions", "message", "idle", "public")
    name = find_id(env)
    limits = {"sessions": sessions, "message": message, "idle": idle}
    app = openenv.make_app(
        name,
        splits=split or ["train"],
        limits=make_options(Limits, limits, "limits"),
        token=os.environ.get(VARIABLE, ""),
        **given,
    )
    page = make_console()
    connections.serve(
        app, host, port, public=public, ready=lambda url: page.print(f"serving {name} at {url}")
    )
