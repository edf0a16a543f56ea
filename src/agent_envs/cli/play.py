"""The command `agent-envs play`: a person plays in the terminal, or WebShop in a browser.

In the terminal every turn shows the signals that a policy is trained on. Left out: scores over
several games, undo.
"""

from __future__ import annotations

import difflib
import os
import sys
import webbrowser
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console, Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

import agent_envs
from agent_envs.cli.console import make_console, show_data
from agent_envs.cli.options import check_not_own, make_env, parse_assignment

if TYPE_CHECKING:
    Env = gym.Env[str, str]

HELP = "an action, ? for what can be done now, its number to do it, quit to stop"
QUIT = ("quit", "exit", "q")
_WIDE = 100  # columns of a console that has room for a bar


def play(
    env_id: str = "alfworld",
    *,
    seed: int | None = None,
    task: int | str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    console: Console | None = None,
    ask: Callable[[str], str] = input,
) -> dict[str, Any]:
    """Play one episode: read actions with `ask` and show the four signals after each turn.

    Args:
        env_id: A registered id, its name without version, in any case ("alfworld"), or
            `package.module:Class`.
        seed: Seed of the episode; None for a random task.
        task: Number or id of the task in the panel of its split.
        env_kwargs: Arguments of the environment, such as `split` or `data`.
        console: Console to print to.
        ask: Shows a prompt and reads a line; EOFError or KeyboardInterrupt stop the game.

    Returns:
        The `info` of the last turn.

    Raises:
        ValueError: There is no such environment (the message has the nearest), or no such task.
    """
    console = make_console() if console is None else console
    env = make_env(find_id(env_id), env_kwargs or {})
    observation, info = env.reset(seed=seed, options=_choose_task(task))
    console.print(_render_goal(info))
    visits, done = {info["anchor"]: 0}, False
    console.print(_render_turn(env, observation, info, "start", console.width))
    console.print(show_data(HELP, "dim"))
    while not done:
        action = _read_action(console, ask, info["admissible_actions"])
        if action is None:
            break
        observation, reward, terminated, truncated, info = env.step(action)
        seen = visits.setdefault(info["anchor"], info["turn"])
        place = "new state" if seen == info["turn"] else f"seen at {seen}"
        console.print(_render_turn(env, observation, info, place, console.width, float(reward)))
        done = terminated or truncated
    console.print(_render_end(info, done))
    env.close()
    return info


def _open(address: str) -> None:
    """Open an address in the browser, if there is a desktop."""
    if sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        webbrowser.open(address)


def browse(
    env_id: str = "webshop",
    *,
    seed: int | None = None,
    task: int | str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    port: int = 0,
    console: Console | None = None,
    show: Callable[[str], object] = _open,
) -> list[float]:
    """Serve WebShop's site to a person, one task after another, until Ctrl-C or the button Stop.

    The receipt of a purchase stays visible until the person starts the next task from it.

    Args:
        env_id: Id or name of WebShop.
        seed: Seed of the first episode; the others follow from it. None for random tasks.
        task: Number or id of the first task in the panel of its split.
        env_kwargs: Arguments of the environment, such as `split` or `data`.
        port: Port of 127.0.0.1, 0 for a free one.
        console: Console to print to.
        show: Opens an address, by default in the browser, if there is a desktop.

    Returns:
        The score of each purchase.

    Raises:
        ValueError: The environment has no site, or `play` would refuse the arguments.
        OSError: The port is in use.
    """
    from agent_envs.net.connections import stop_on_signal
    from agent_envs.webshop.env import Shopping
    from agent_envs.webshop.site import Site

    console = make_console() if console is None else console
    env = make_env(find_id(env_id), env_kwargs or {}).unwrapped
    if not isinstance(env, Shopping):
        raise ValueError(  # noqa: TRY004 - wrong value, not wrong type
            f"only webshop has a site to browse, got {env_id!r}; leave out --browser"
        )

    def draw_next() -> str:
        env.reset()
        return env.task_id

    scores: list[float] = []
    env.reset(seed=seed, options=_choose_task(task))
    with Site(env.shop, port=port, following=draw_next) as site, stop_on_signal():
        address = site.start(env.task_id)
        console.print(show_data(f"{address}  (Ctrl-C stops)", "bold"))
        show(address)
        while receipt := site.wait():
            scores.append(receipt.score)
            console.print(show_data(f"Bought, score {receipt.score:.2f}.", "bold green"))
    env.close()
    console.print(show_data(f"Stopped. Purchases: {len(scores)}.", "dim"))
    return scores


def _choose_task(task: int | str | None) -> dict[str, Any] | None:
    return None if task is None else {"task" if isinstance(task, int) else "task_id": task}


def find_id(env_id: str) -> str:
    """The registered id for an id, or for a name without version in any case.

    `package:Id-v0` and `package.module:Class` stay as they are.

    Raises:
        ValueError: There is none; the message has the nearest.
    """
    if ":" in env_id:
        return env_id
    known = {
        name: spec.name.lower()
        for name, spec in gym.registry.items()
        if str(spec.entry_point).startswith(f"{agent_envs.__name__}.") or name == env_id
    }
    for name, short in reversed(known.items()):  # the newest version first
        if env_id.lower() in (name.lower(), short):
            return name
    close = difflib.get_close_matches(env_id.lower(), known.values(), n=1)
    hint = f", did you mean {close[0]!r}?" if close else ""
    names = ", ".join(dict.fromkeys(known.values()))
    raise ValueError(
        f"no environment {env_id!r}{hint}; there are {names}; your own is given as package:Id-v0 "
        "or package.module:Class"
    )


def _read_action(console: Console, ask: Callable[[str], str], admissible: list[str]) -> str | None:
    """Read the next action, None to stop; shows the actions on `?` or an empty line."""
    while True:
        try:
            line = ask("> ")
        except (EOFError, KeyboardInterrupt):
            return None
        word = line.strip()
        if word.lower() in QUIT:
            return None
        if word.isdecimal() and 1 <= int(word) <= len(admissible):
            console.print(show_data(f"  {admissible[int(word) - 1]}", "bold"))
            return admissible[int(word) - 1]
        if word not in ("", "?"):
            return line
        console.print(_render_choices(admissible))


def _render_goal(info: Mapping[str, Any]) -> Panel:
    return Panel(
        show_data(info["goal"], "bold"),
        title="goal",
        title_align="left",
        subtitle=show_data(info["task_id"], "dim"),
        subtitle_align="right",
        expand=False,
    )


def _render_turn(  # noqa: PLR0917
    env: Env, observation: Any, info: Mapping[str, Any], place: str, width: int, reward: float = 0.0
) -> Group:
    """The observation, and the four signals in a line below it, which fits 80 columns."""
    limit = getattr(env.unwrapped, "max_turns", "?")
    valid = show_data("valid", "green")
    if not info["valid"]:
        valid = show_data(f"invalid: {info['invalid_reason']}", "bold red")
    bar = ProgressBar(total=1.0, completed=info["progress"], width=12)
    signals = Table.grid(padding=(0, 1))
    signals.add_row(
        show_data(f"turn {info['turn']}/{limit}", "dim"),
        valid,
        *[bar] * (width >= _WIDE),
        show_data(f"progress {info['progress']:.2f}", "cyan"),
        show_data(f"anchor {info['anchor'][:6]}", "magenta"),
        show_data(place, "dim" if place == "new state" else "yellow"),
        show_data(f"reward {reward:g}" if reward else "", "bold green"),
    )
    return Group(Text(), show_data(_describe(observation, info)), signals)


def _describe(observation: Any, info: Mapping[str, Any]) -> str:
    """The observation; of a picture, its text in `info` if there is one, else its shape."""
    if isinstance(observation, str):
        return observation
    shape = " x ".join(map(str, getattr(observation, "shape", ())))
    return str(info.get("text") or f"(a {type(observation).__name__} {shape})")


def _render_choices(admissible: list[str]) -> Group:
    columns = Table.grid(padding=(0, 3))
    rows = -(-len(admissible) // 2)
    for row in range(rows):
        cells = [f"{i + 1:3} {admissible[i]}" for i in (row, row + rows) if i < len(admissible)]
        columns.add_row(*map(show_data, cells))
    return Group(show_data(HELP, "dim"), columns)


def _render_end(info: Mapping[str, Any], done: bool) -> Text:
    if info["success"]:
        return show_data(f"\nSuccess after {info['turn']} turns.", "bold green")
    if done:
        return show_data(
            f"\nOver after {info['turn']} turns, progress {info['progress']:.2f}.", "bold"
        )
    return show_data(f"\nStopped at turn {info['turn']}, progress {info['progress']:.2f}.", "dim")


def play_command(
    env: Annotated[
        str, typer.Argument(help="An environment by id, name, or package.module:Class.")
    ] = "alfworld",
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="Arguments of the environment, e.g. split=valid_unseen."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the episode.")] = None,
    task: Annotated[str | None, typer.Option(help="Number or id of the task.")] = None,
    port: Annotated[int, typer.Option(help="Port for --browser, 0 for a free one.")] = 0,
    *,
    browser: Annotated[
        bool, typer.Option("--browser", help="Play WebShop as a site in your browser instead.")
    ] = False,
) -> None:
    """Play an environment yourself and watch validity, progress, anchor and goal."""
    check_not_own(
        given := dict(map(parse_assignment, options or ())), "seed", "task", "port", "browser"
    )
    number = int(task) if task and task.isdecimal() else task
    env_kwargs = given
    if browser:
        browse(env, seed=seed, task=number, env_kwargs=env_kwargs, port=port)
    else:
        play(env, seed=seed, task=number, env_kwargs=env_kwargs)
