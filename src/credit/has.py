"""HAS, hybrid advantage shaping: a blend of the trajectory's advantage and that of each turn."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from credit import segments
from credit.decomposers import Decomposer, checked_credit, from_name
from credit.estimators import check_turns
from credit.options import Epsilon, Options, within
from credit.segments import Array
from credit.turns import Turns


@dataclass(frozen=True)
class HAS(Options):
    """HAS: a convex blend of trajectory-level and turn-level advantage.

    A_t = α A_traj + (1 - α) A_turn,t. A_traj is the outcome, standardized over the group. A_turn is
    the decomposer's credit, standardized over a set of turns that `normalize` chooses. The blend is
    not standardized again. With α = 1 this equals `GRPO` bit for bit, and the decomposer is not
    called.

    Bias: A_traj has that of `GRPO`. A_turn has no credit for what later turns bring, and is
    relative to the turns that exist at the position (or in the state, or the group), so that
    constant credit gives 0. Progress that is lost counts against a turn even if it is made good
    later.

    Source: HAS Eq. 1-2.

    Args:
        alpha: α in [0, 1].
        decomposer: Callable from `Turns` to [N] credit, or the name "progressive".
        normalize: Compare the credit of turns at the same "position" in the trajectories of the
            group that are long enough, in the same "anchor" state, or of the whole "group".
        eps: Added to standard deviations.

    Raises:
        TypeError: `decomposer` is neither a name nor callable.
        ValueError: An option out of range. At the call: credit of another length, or not finite.
    """

    alpha: Annotated[float, within(0, 1, "it blends two advantages")] = 0.5
    decomposer: Decomposer | str = "progressive"
    normalize: Literal["position", "anchor", "group"] = "position"
    eps: Epsilon = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.decomposer, str):
            from_name(self.decomposer)
        elif not callable(self.decomposer):
            raise TypeError(f"decomposer must be a name or a callable, got {self.decomposer!r}")

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        check_turns(turns)
        whole = segments.standardize(turns.outcome, turns.group, eps=self.eps)[turns.trajectory]
        if self.alpha == 1:
            return whole
        return self.alpha * whole + (1 - self.alpha) * self.turn_advantage(turns)

    def turn_advantage(self, turns: Turns) -> Array:
        """A_turn of each turn: [N]."""
        given = self.decomposer
        decomposer = from_name(given) if isinstance(given, str) else given
        ids = turns.segment_ids(self.normalize)
        return segments.standardize(checked_credit(decomposer, turns), ids, eps=self.eps)
