"""The command `agent-envs audit`."""

import json
from typing import Annotated

import typer

from trainer.assignment import assignment


def audit(
    env: Annotated[str, typer.Argument(help="A registered id, or package:MyWorld-v0.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Its arguments, e.g. split=valid_unseen."),
    ] = None,
    *,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks in the audit of anchors.")] = 10,
    episodes: Annotated[int, typer.Option(min=2, help="Episodes of each of them.")] = 40,
    players: Annotated[
        int, typer.Option(min=1, help="Tasks that each player of the audit of rewards plays.")
    ] = 100,
    words: Annotated[
        list[str] | None,
        typer.Option("--word", help="An action to try, several times; for text without a list."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all that is drawn.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Audit the contract, the anchors and the rewards of any Gymnasium environment.

    Exits with 1 where something is violated.
    """
    import gymnasium as gym

    from agent_envs.testing import audit as audited
    from agent_envs.testing import saying

    given = dict(map(assignment, options or ()))
    try:
        made = gym.make(env, disable_env_checker=True, **given)
    except TypeError as error:  # an option of a wrong name or type
        raise ValueError(error) from error
    actions = saying(words) if words else None
    found = audited(
        made, actions=actions, tasks=tasks, episodes=episodes, players=players, seed=seed
    )
    typer.echo(json.dumps(found.json(), indent=1, default=str) if as_json else str(found))
    made.close()
    if not found.passed:
        raise typer.Exit(1)
