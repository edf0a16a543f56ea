"""EZPoints-v0 and Points-v0: make 12 of two cards, or 24 of four, one symbol per turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from agent_envs.contract import AgentEnv, Turn
from agent_envs.ezpoints import cards, rules
from agent_envs.ezpoints.prompt import POINTS as POINTS_TEMPLATE
from agent_envs.ezpoints.prompt import TEMPLATE
from agent_envs.panels import Panel, one_of

OBSERVATIONS = ("text", "image")


class EZPoints(AgentEnv):
    """Make 12 from two cards with a formula, symbol by symbol.

    Description:
        Two cards are on the table. Each turn appends a number, `+` or `*` to the formula; `=` ends
        it. Its value must be 12, and it must use both cards once; J, Q and K count 10. Every hand
        can be solved in four turns. Python's arithmetic: `*` before `+`, and `+` may be a sign.

    Observation:
        "text": the cards and the current formula, after a notice if there is one.
        "image": the table as a uint8 image [300, 300, 3], drawn by this package; `info["text"]`
        then has the text.

    Action:
        `1` to `10`, `+`, `*` or `=`; whitespace around it is ignored. `action_space="discrete13"`:
        the position in that list, counted from 0; the text is accepted, too.

    Validity:
        "format" for anything but the thirteen symbols, "unknown" for a number that is not on the
        cards, "refused" for a number that is already used, and if "rl4vlm" has no room left. With
        "rl4vlm" such a number takes effect, as a space in the formula. Signs are always valid.

    Progress:
        Completed share of a shortest solution, in quarters; 0 once the formula can no longer make
        12. 1 for the right answer.

    Anchor:
        The sorted numbers of the cards, and the formula.

    Reward:
        "success" (default): 1 for a right `=`, else 0. "verl-agent": 10, else 0. "rl4vlm": 10 for a
        right `=`, -1 for a wrong one, for an unusable number, which adds a space to the formula,
        and for the turn after the sixth symbol, which has no effect. An action that is not a symbol
        only costs the turn.

    Ends:
        `=` terminates, a success if right. `max_turns` truncates: 8, but 7 for "rl4vlm", when the
        formula is full.

    Tasks and splits:
        A task is a deal; its id has a number and the cards, such as `006-2C-10D`. `all` has the 304
        possible deals, each once; the public game deals some more often. `val` (76) has the deals
        of clubs and hearts, `test` (76) those of diamonds and spades, `train` (152) the others: no
        hand is in two of them, and numbers have the same distribution in all. There are only seven
        pairs of numbers, so splits hold out cards, not pairs of numbers.

    Data:
        None. `info` also has `formula`; `cards`, their names; `numbers`, their values.

    Source:
        Rules after EZPoints of Zhai et al., Fine-Tuning Large Vision-Language Models as
        Decision-Making Agents via Reinforcement Learning, NeurIPS 2024 (RL4VLM), and of verl-agent.

    Args:
        split: see Tasks and splits.
        reward: see Reward.
        action_space: see Action.
        observation: see Observation.
        max_turns: turn limit; None for the reward's.
        render_mode: None, "ansi", or "rgb_array" for the image.

    Raises:
        ValueError: an unknown option, more turns than "rl4vlm" has, or from `step` a number that
            is not an action.
    """

    metadata = AgentEnv.metadata | {"render_modes": ["ansi", "rgb_array"]}
    template = TEMPLATE
    experts = "agent_envs.ezpoints.experts"
    verbs = (("write", "{symbol}"),)
    game = rules.EZPOINTS
    goal_text = (
        f"Make {game.target}: build a formula from the numbers of both cards, each used once, "
        "and + or *. Say one number or sign a turn, and = when it is finished. J, Q and K count 10."
    )

    def __init__(
        self,
        *,
        split: str = "train",
        reward: str = "success",
        action_space: str = "text",
        observation: str = "text",
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        one_of("reward", reward, tuple(rules.SCHEMES))
        self.known = self.game.symbols
        one_of("action_space", action_space, ("text", f"discrete{len(self.known)}"))
        one_of("observation", observation, OBSERVATIONS)
        self.scheme, self.graded = rules.SCHEMES[reward], reward != "success"
        self.longest = self.game.longest if self.scheme.is_bounded else None
        most = self.game.turns if self.longest is None else self.longest + 1
        turns = most if max_turns is None else max_turns
        if self.longest is not None and turns > most:
            raise ValueError(
                f"reward={reward!r} fills the formula in {most} turns, so max_turns is at most "
                f"that, got {turns}"
            )
        panel, self.deals = self.open_deals(split)
        super().__init__(panel, max_turns=turns, render_mode=render_mode)
        self.takes_numbers, self.shows_image = action_space != "text", observation == "image"
        if self.takes_numbers:
            self.action_space = cast("Any", spaces.Discrete(len(self.known)))
        if self.shows_image:
            shape = cards.SIZE, cards.SIZE, 3
            self.observation_space = cast("Any", spaces.Box(0, 255, shape, np.uint8))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Deal the cards: observation and info; raises as `AgentEnv.reset`."""
        text, info = super().reset(seed=seed, options=options)
        return self._add_image(text, info), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Append one symbol: observation, reward, terminated, truncated, info."""
        if self.takes_numbers and not isinstance(action, str):
            action = self._read_number(action)
        text, reward, terminated, truncated, info = super().step(action)
        return self._add_image(text, info), reward, terminated, truncated, info

    def open_deals(self, split: str) -> tuple[Panel, Mapping[str, rules.Hand]]:
        """The panel of a split, and all hands by task id.

        Raises:
            ValueError: no such split.
        """
        return rules.open_panel(split), rules.list_deals()

    def arrange_numbers(self) -> rules.Numbers:
        """The numbers of the cards, in the order in which a solution tries them."""
        return tuple(self.numbers)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The cards of a task and an empty formula."""
        self.hand = self.deals[task_id]
        self.names = [card.name for card in self.hand]
        self.numbers = [rules.VALUES[card.rank] for card in self.hand]
        self.numbers_left = self.arrange_numbers()
        self.key = ",".join(map(str, sorted(self.numbers)))
        self.symbols: list[str] = []
        self.formula = rules.Formula()
        self.shortest = len(self.find_solution())
        return self.goal_text, self._turn("")

    def act(self, action: str) -> Turn:
        """One symbol."""
        symbol = action.strip()
        if symbol not in self.known:
            return self.reject("format", f"An action is one of {' '.join(self.known)}.")
        if len(self.symbols) == self.longest:
            return self._turn("The formula is full.", "refused", self.scheme.wrong)
        if symbol == "=":
            return self._finish()
        if symbol in rules.NUMBERS:
            number = rules.NUMBERS[symbol]
            if number not in self.numbers_left:
                return self._reject_number(symbol)
            self.numbers_left = rules.remove_number(self.numbers_left, number)
        self.formula = rules.append_symbol(self.formula, symbol)
        self.symbols.append(symbol)
        return self._turn("")

    def reject(self, reason: str, notice: str) -> Turn:
        """An invalid turn without effect; the observation has the notice and the table."""
        return super().reject(reason, self._write_table(notice, "".join(self.symbols)))

    def find_solution(self) -> tuple[str, ...]:
        """The fewest actions from here to the target; () if the formula cannot make it."""
        way = rules.find_solution(self.formula, self.numbers_left, self.game)
        fits = self.longest is None or len(self.symbols) + len(way) <= self.longest
        return way if fits else ()

    def render(self) -> Any:
        """The table as text or image; None without a render mode or before the reset."""
        if self.render_mode == "rgb_array" and self.transcript:
            return self._draw()
        return super().render()

    def _finish(self) -> Turn:
        """The answer to "="."""
        target = self.game.target
        right = not self.numbers_left and self.formula.value == target
        self.symbols.append("=")
        turn = self._turn(
            f"That makes {target}."
            if right
            else f"That does not make {target} of {self.game.whole}.",
            reward=self.scheme.right if right else self.scheme.wrong,
        )
        return turn._replace(
            progress=float(right), admissible_actions=(), success=right, failure=not right
        )

    def _reject_number(self, number: str) -> Turn:
        """The answer to an unusable number."""
        if self.longest is not None:
            self.symbols.append(" ")
        if int(number) in self.numbers:
            return self._turn(f"{number} is used up.", "refused", self.scheme.unusable)
        return self._turn(f"{number} is not on the cards.", "unknown", self.scheme.unusable)

    def _turn(self, notice: str, reason: str = "", reward: float = 0.0) -> Turn:
        """The turn of the table after a symbol, or after the deal."""
        way, formula = self.find_solution(), "".join(self.symbols)
        full = len(self.symbols) == self.longest
        left = dict.fromkeys(str(n) for n in self.numbers if n in self.numbers_left)
        return Turn(
            self._write_table(notice, formula),
            valid=not reason,
            invalid_reason=reason,
            progress=max(0.0, 1 - len(way) / self.shortest) if way else 0.0,
            anchor=f"{self.key}:{formula}",
            reward=reward,
            admissible_actions=() if full else [*left, *self.game.signs, "="],
            extra={"formula": formula, "cards": self.names, "numbers": self.numbers},
        )

    def _write_table(self, notice: str, formula: str) -> str:
        """The notice, if any, and the table."""
        table = f"cards: {', '.join(self.names)}\ncurrent formula: '{formula}'"
        return f"{notice}\n{table}" if notice else table

    def _add_image(self, text: str, info: dict[str, Any]) -> Any:
        """The observation: the text; or the image, with the text in `info`."""
        if not self.shows_image:
            return text
        info["text"] = text
        return self._draw()

    def _draw(self) -> cards.Image:
        return cards.draw(self.hand, "".join(self.symbols))

    def _read_number(self, action: Any) -> str:
        """The symbol for a number of the Discrete space."""
        if action in self.action_space:
            return self.known[int(action)]
        raise ValueError(
            f"an action must be one of {self.known}, or its number from 0 to "
            f"{len(self.known) - 1}; got {action!r:.60}"
        )


class Points(EZPoints):
    """Make 24 from four cards with a formula, symbol by symbol.

    Description:
        As EZPoints, with four cards, `-`, `/` and parentheses; A counts 1. Each card must be used
        once. Every hand can be solved, in 8 to 12 turns. Python's precedence and exact fractions:
        `8/(3-8/3)` is 24. Adjacent numbers, `**` and `//` are no formula.

    Observation:
        As EZPoints.

    Action:
        `1` to `10`, `+`, `-`, `*`, `/`, `(`, `)` or `=`. `action_space="discrete17"`: the position
        in that list, counted from 0; the text is accepted, too.

    Validity:
        As EZPoints. With "rl4vlm" an unusable number takes effect, as a space in the formula.

    Progress:
        1 - the fewest symbols from here to 24 / those at the start, at least 0, by an exact solver;
        0 once the formula can no longer make 24. 1 for the right answer.

    Anchor:
        The sorted numbers of the cards, and the formula.

    Reward:
        As EZPoints; with "rl4vlm" a formula has at most 21 symbols.

    Ends:
        `=` terminates, a success if right. `max_turns` truncates: 24, but 22 for "rl4vlm".

    Tasks and splits:
        566 of the 715 sets of four numbers from 1 to 10 can make 24. `train` has 454 of them, `val`
        and `test` 56 each: no set of numbers is in two splits. Each set is dealt four times, with
        other suits, order and court cards; a task id has the numbers, such as `2-3-4-10/0`, which
        are also its origin in the panel. `all` has all 2,264 deals.

    Data:
        None. `info` also has `formula`; `cards`, their names; `numbers`, their values.

    Source:
        Points24 of RL4VLM, as EZPoints. There hands need not be solvable, and Python evaluates the
        formula: in floating point, with adjacent numbers as one, `**` and `//`.

    Args:
        split, reward, action_space, observation, max_turns, render_mode: as EZPoints.

    Raises:
        ValueError: as EZPoints.
    """

    template = POINTS_TEMPLATE
    game = rules.POINTS
    goal_text = (
        f"Make {game.target}: build a formula from the numbers of all cards, each used once, "
        "with +, -, *, / and parentheses. Say one number or sign a turn, and = when it is "
        "finished. A counts 1; J, Q and K count 10."
    )

    def open_deals(self, split: str) -> tuple[Panel, Mapping[str, rules.Hand]]:
        """The panel of a split, and its hands by task id.

        Raises:
            ValueError: no such split.
        """
        return rules.open_points(split), rules.list_points(split)

    def arrange_numbers(self) -> rules.Numbers:
        """The numbers of the cards, sorted, so that all deals of them share their solutions."""
        return tuple(sorted(self.numbers))
