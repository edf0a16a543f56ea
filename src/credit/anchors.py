"""Anchor groups: which turns were taken in the same state of the same task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from credit import segments

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def exact(keys: Sequence[Any] | NDArray[np.object_], group: ArrayLike) -> NDArray[np.intp]:
    """Ids of equal (group, key) pairs: [N], [N] -> [N], numbered from 0. GiGPO's anchor states."""
    return segments.labels(group, keys)
