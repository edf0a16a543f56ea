"""Whether learning seems to have stalled."""

from __future__ import annotations

from collections import deque

import numpy as np

_STEPS, _MOST = 5, 0.8  # more than this share of groups is dead for so many steps


class Stalled:
    """The last steps of a run."""

    def __init__(self) -> None:
        self.recent: deque[dict[str, float]] = deque(maxlen=_STEPS)

    def after(self, values: dict[str, float]) -> str:
        """What to say after a step with these values of its log, "" if nothing.

        After something was said, five more steps are read before more is.
        """
        self.recent.append(values)
        if len(self.recent) < _STEPS:
            return ""
        dead = np.mean([line["dead_groups"] for line in self.recent])
        same = np.mean([line["identical_groups"] for line in self.recent])
        if max(dead, same) <= _MOST:
            return ""
        self.recent.clear()
        if same > _MOST:
            return (
                f"in {same:.0%} of the groups of the last {_STEPS} steps all rollouts had the "
                "same replies: the policy has become nearly deterministic; "
                "lower update.learning_rate, or set update.entropy or update.kl"
            )
        return (
            f"{dead:.0%} of the groups of the last {_STEPS} steps had equal outcomes, which leaves "
            "little to learn; raise sampling.rollouts or sampling.temperature, or use other tasks"
        )
