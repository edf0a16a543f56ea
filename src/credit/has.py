"""HAS: the trajectory's advantage blended with that of each turn, from a decomposer of credit."""

from dataclasses import dataclass

import numpy as np

from credit import segments
from credit.choices import choose, nonnegative, within
from credit.decomposers import Decompose, checked, named
from credit.segments import Array
from credit.turns import Turns

NORMALIZE = ("position", "anchor", "group")


@dataclass(frozen=True)
class HAS:
    """A_t = α A_traj + (1 - α) A_turn,t: [N]. HAS Eq. 2.

    A_traj is `grpo`, A_turn standardizes the decomposer's credit over the turns that it is compared
    with. The blend is not standardized again. With α = 1 this is `grpo` bit for bit, and the
    decomposer is not asked.

    Args:
        alpha: α in [0, 1].
        decomposer: a callable `Turns -> [N]` credit, or a name ("progressive").
        normalize: compare credit at the same "position" of the group's trajectories that reached
            it, in the same "anchor", or over the whole "group".
        eps: added to deviations.

    Raises:
        TypeError: a decomposer that is neither a name nor callable.
        ValueError: an option out of range, or credit of another length or not finite.
    """

    alpha: float = 0.5
    decomposer: Decompose | str = "progressive"
    normalize: str = "position"
    eps: float = 1e-6

    def __post_init__(self) -> None:
        within("alpha", self.alpha, 0, 1, "it blends two advantages")
        choose("normalize", self.normalize, NORMALIZE)
        nonnegative("eps", self.eps, "it is added to a deviation")
        if isinstance(self.decomposer, str):
            named(self.decomposer)
        elif not callable(self.decomposer):
            raise TypeError(f"decomposer is a name or a callable, got {self.decomposer!r}")

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn; `rng` is not used."""
        whole = segments.standardize(turns.outcome, turns.group, eps=self.eps)[turns.trajectory]
        if self.alpha == 1:
            return whole
        return self.alpha * whole + (1 - self.alpha) * self.turn(turns)

    def turn(self, turns: Turns) -> Array:
        """A_turn: [N]."""
        chosen = self.decomposer
        decompose = named(chosen) if isinstance(chosen, str) else chosen
        ids = turns.segment(self.normalize)
        return segments.standardize(checked(decompose, turns), ids, eps=self.eps)
