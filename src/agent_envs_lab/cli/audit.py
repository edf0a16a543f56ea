"""The command `agent-envs audit`."""

import json
import sys
from contextlib import ExitStack
from faulthandler import cancel_dump_traceback_later, dump_traceback_later
from typing import Annotated

import typer

from agent_envs.cli.console import make_console
from agent_envs.cli.options import check_not_own, make_env, parse_assignment
from agent_envs.cli.play import find_id


def audit(
    env: Annotated[
        str,
        typer.Argument(
            help="An id or its name, e.g. webshop, package:MyWorld-v0, or package.module:Class."
        ),
    ],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Arguments of the environment, e.g. split=valid_unseen."
        ),
    ] = None,
    *,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks for the audit of anchors.")] = 10,
    episodes: Annotated[int, typer.Option(min=2, help="Episodes of each of these tasks.")] = 40,
    players: Annotated[
        int, typer.Option(min=1, help="Tasks for each player in the audit of rewards.")
    ] = 100,
    limit: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Success that no player who does not do the task may exceed."
        ),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option(
            "--word",
            help="An action to try, may be repeated; for text actions that are not listed.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the audit.")] = 0,
    seconds: Annotated[float, typer.Option(min=1, help="Time of all audits together.")] = 300,
    ladder: Annotated[
        bool,
        typer.Option(
            "--ladder", help="Only play scripts that do not do the task, on split= or test."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Audit the contract, the anchors and the rewards of any Gymnasium environment.

    Exits with 0 if all is shown, 1 if something is refuted, and 2 if the evidence is too little.
    """
    from agent_envs.testing import say_words
    from agent_envs_lab.audits import audit as audit_env
    from agent_envs_lab.audits.evidence import NOT_SHOWN, REFUTED, SHOWN

    env = find_id(env)
    codes = {SHOWN: 0, REFUTED: 1, NOT_SHOWN: 2}
    given = dict(map(parse_assignment, options or ()))
    check_not_own(
        given, "tasks", "episodes", "players", "limit", "word", "seed", "seconds", "ladder", "json"
    )
    if ladder:
        from agent_envs_lab.ladder import climb_ladder

        climbed = climb_ladder(
            lambda split: make_env(env, given | {"split": split}, disable_env_checker=True),
            test=str(given.get("split", "test")),
            tasks=players,
            seed=seed,
            seconds=seconds,
        )
        told = climbed.json() | {"options": {k: v for k, v in given.items() if k != "split"}}
        make_console().print(json.dumps(told) if as_json else str(climbed), soft_wrap=True)
        raise typer.Exit(codes[climbed.verdict])
    world = make_env(env, given, disable_env_checker=True)
    actions = say_words(words) if words else None
    page = make_console()
    # what hangs outside of Python ends with a traceback
    dump_traceback_later(2 * seconds + 60, exit=True, file=sys.__stderr__ or sys.stderr)
    with page.status("audit") as status, ExitStack() as ended:
        ended.callback(cancel_dump_traceback_later)
        found = audit_env(
            world,
            actions=actions,
            tasks=tasks,
            episodes=episodes,
            players=players,
            limit=limit,
            seed=seed,
            seconds=seconds,
            tell=status.update,
        )
    said = json.dumps(found.json(), indent=1, default=str) if as_json else str(found)
    page.print(said, soft_wrap=True)
    world.close()
    raise typer.Exit(codes[found.verdict])
