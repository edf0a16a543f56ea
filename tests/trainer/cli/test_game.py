"""A person at the terminal, played by a list of lines."""

import html
import io
import re
import threading
import urllib.request
from urllib.parse import urljoin

import pytest
from rich.console import Console

from agent_envs.cli.play import HELP, browse, find_id, play


class Person:
    """Answers each question with the next line, then leaves as Ctrl-D does."""

    def __init__(self, *lines, leaves=EOFError):
        self.lines = list(lines)
        self.leaves = leaves

    def __call__(self, question):
        assert question == "> "
        if not self.lines:
            raise self.leaves
        return self.lines.pop(0)


@pytest.fixture
def game(corridor):
    """Plays on the corridor: info at the end, and all that was printed."""

    def run(*lines, env_id="Corridor-v0", leaves=EOFError, **options):
        out = io.StringIO()
        console = Console(file=out, width=100, force_terminal=False)
        info = play(env_id, console=console, ask=Person(*lines, leaves=leaves), **options)
        return info, out.getvalue()

    return run


def test_a_game_won_shows_the_four_signals_every_turn(game):
    info, shown = game("east", "east", task=1)
    assert info["success"]
    assert "Walk 2 steps." in shown
    assert "corridor/2" in shown
    lines = [line for line in shown.splitlines() if line.startswith("turn ")]
    assert [line.split()[:3] for line in lines] == [
        ["turn", "0/50", "valid"],
        ["turn", "1/50", "valid"],
        ["turn", "2/50", "valid"],
    ]
    assert ["progress 0.00" in lines[0], "progress 0.50" in lines[1]] == [True, True]
    assert "anchor at 1" in lines[1]
    assert "reward 1" in lines[2]
    assert shown.endswith("Success after 2 turns.\n")


def test_an_invalid_action_and_a_state_seen_before_are_told(game):
    _, shown = game("north", task=3)
    assert "invalid: refused" in shown
    assert "seen at 0" in shown


@pytest.mark.parametrize("line", ["", "?", "  ? "])
def test_asking_lists_what_can_be_done_and_costs_nothing(game, line):
    info, shown = game(line, task=3)
    assert info["turn"] == 0
    assert HELP in shown
    assert "  1 east" in shown


def test_a_number_does_the_listed_action(game):
    info, shown = game("1", task=0)
    assert info["success"]
    assert "\n  east\n" in shown
    # one that is not listed is an action
    info, _ = game("2", task=0)
    assert (info["turn"], info["valid"]) == (1, False)


@pytest.mark.parametrize("last", [["quit"], ["Q"], ["exit"], []])
@pytest.mark.parametrize("leaves", [EOFError, KeyboardInterrupt])
def test_leaving(game, last, leaves):
    info, shown = game("east", *last, task=4, leaves=leaves)
    assert not info["success"]
    assert shown.endswith("Stopped at turn 1, progress 0.20.\n")


def test_the_turn_limit_ends_the_game(game):
    _, shown = game("north", "north", "north", env_kwargs={"max_turns": 2})
    assert "turn 2/2" in shown
    assert "Over after 2 turns" in shown


def test_a_task_by_number_by_id_or_drawn_by_a_seed(game):
    assert game(task=2)[0]["task_id"] == game(task="corridor/3")[0]["task_id"] == "corridor/3"
    assert game(seed=4)[0] == game(seed=4)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"env_id": "alfwrld"}, "no environment 'alfwrld', did you mean 'alfworld'?"),
        ({"env_id": "chess"}, "no environment 'chess'; there are alfworld"),
        ({"env_id": "chess"}, "your own is given as package:Id-v0 or package.module:Class"),
        ({"env_id": "chess:Chess"}, "names 'chess:Chess', but there is no module 'chess'"),
        ({"env_kwargs": {"max_tuns": 3}}, "has no option 'max_tuns', did you mean 'max_turns'?"),
        ({"task": 9}, r"task must lie in 0\.\.4"),
        ({"task": "corridor/9"}, "no task 'corridor/9'"),
    ],
)
def test_what_is_not_there_is_refused(game, options, message):
    with pytest.raises(ValueError, match=message):
        game(**options)


@pytest.mark.parametrize("name", ["alfworld", "AlfWorld", "AlfWorld-v0", "alfworld-v0"])
def test_names_of_an_environment(name):
    assert find_id(name) == "AlfWorld-v0"


def test_a_class_that_is_not_registered(game):
    info, _ = game("1", env_id="agent_envs.ezpoints.env:EZPoints", env_kwargs={"split": "test"})
    assert (info["turn"], info["goal"][:8]) == (1, "Make 12:")


def test_nothing_typed_or_shown_can_steer_the_terminal(game, corridor, monkeypatch):
    def told(self, *, valid=True):
        turn = original(self, valid=valid)
        return turn._replace(observation="\x1b[2J[bold]x[/bold]\x07", anchor="[red]\x1b]0;")

    original = corridor.Corridor._turn
    monkeypatch.setattr(corridor.Corridor, "_turn", told)
    _, shown = game("\x1b[31m", task=3)
    assert "\x1b" not in shown
    assert "[bold]x[/bold]" in shown


def test_a_picture_is_shown_by_its_text():
    out = io.StringIO()
    play("visualsokoban", seed=1, console=Console(file=out, width=100), ask=Person("up"))
    shown = out.getvalue()
    assert "turn 1/" in shown
    assert "#" in shown


class TestBrowse:
    def shopper(self, *, tasks):
        """Buys the first product found, task after task, looks twice at each receipt, and stops."""

        def ask(address, data=None):
            with urllib.request.urlopen(address, data) as answer:  # noqa: S310 - ours
                return answer.geturl(), answer.read().decode()

        def shop(address):
            for left in reversed(range(tasks)):
                _, found = ask(urljoin(address, "results?query=cooler"))
                item = re.search(r'href="(item[^"]*)" data-kind="product"', found)[1]
                _, text = ask(urljoin(address, html.unescape(item)))
                buy = re.search(r'class="buy" method="post" action="([^"]*)"', text)[1]
                receipt, told = ask(urljoin(address, html.unescape(buy)), b"")
                assert ask(receipt) == (receipt, told)
                self.told.append(float(re.search(r"<strong>([\d.]+)</strong> of 1", told)[1]))
                address, after = ask(urljoin(address, "/another" if left else "/stop"), b"")
            assert "close this window" in after

        def start(address):
            self.thread = threading.Thread(target=shop, args=[address])
            self.thread.start()

        self.told = []
        return start

    def test_task_after_task_until_stopped(self):
        out = io.StringIO()
        scores = browse(seed=1, console=Console(file=out), show=self.shopper(tasks=3))
        self.thread.join()
        assert len(scores) == 3
        assert [round(score, 2) for score in scores] == self.told
        assert "http://127.0.0.1:" in out.getvalue()
        assert out.getvalue().count("Bought, score") == 3
        assert out.getvalue().endswith("Stopped. Purchases: 3.\n")

    def test_leaving(self):
        def leave(address):
            raise KeyboardInterrupt

        out = io.StringIO()
        assert browse(seed=1, console=Console(file=out), show=leave) == []
        assert out.getvalue().endswith("Stopped. Purchases: 0.\n")

    def test_what_has_no_site(self):
        with pytest.raises(ValueError, match="only webshop has a site to browse, got 'alfworld'"):
            browse("alfworld")
