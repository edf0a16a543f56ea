"""FreeText, the space of observations and actions, and its handlers for Gymnasium's shared memory.

Gymnasium's `AsyncVectorEnv(shared_memory=True)`, its default, reads the memory of a plain `Text`
space only once, when it is constructed, and returns "000..." from then on. The handlers here read
the memory at every step.
"""

from __future__ import annotations

import multiprocessing
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, overload

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from numpy.typing import NDArray

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import SynchronizedArray


ACTION_LENGTH = 4096
OBSERVATION_LENGTH = 65_536
SAMPLE_LENGTH = 80
PRINTABLE = "".join(map(chr, range(32, 127)))


class FreeText(spaces.Text):
    """Any string of at most `max_length` characters of any script, including the empty string.

    `sample` draws at most 80 printable ASCII characters, so that random actions stay readable.
    """

    def __init__(
        self, max_length: int = ACTION_LENGTH, *, seed: int | np.random.Generator | None = None
    ) -> None:
        super().__init__(max_length, min_length=0, charset=PRINTABLE, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string of at most `max_length` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A random string of at most 80 printable ASCII characters; options as in `Text.sample`."""
        if mask is None and probability is None:
            mask = (int(self.np_random.integers(min(self.max_length, SAMPLE_LENGTH) + 1)), None)
        return super().sample(mask=mask, probability=probability)

    @property
    def is_np_flattenable(self) -> bool:
        """False: characters that are never sampled have no index."""
        return False

    def __repr__(self) -> str:
        return f"FreeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeText) and self.max_length == other.max_length

    def __hash__(self) -> int:
        return hash(self.max_length)


class Picture(NamedTuple):
    """An immutable, hashable image: [height, width, 3] of uint8 as bytes."""

    height: int
    width: int
    pixels: bytes

    @classmethod
    def of(cls, image: NDArray[np.uint8]) -> Self:
        """Make a picture from an array, [height, width, 3] of uint8."""
        height, width, _ = image.shape
        return cls(height, width, image.tobytes())

    @property
    def array(self) -> NDArray[np.uint8]:
        """The image as an array, [height, width, 3] of uint8."""
        return np.frombuffer(self.pixels, np.uint8).reshape(self.height, self.width, 3)

    @property
    def data_url(self) -> str:
        """The image as PNG in a data URL."""
        rows = b"".join(b"\0" + row.tobytes() for row in self.array)
        size = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        chunks = ((b"IHDR", size), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
        image = b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
            for name, data in chunks
        )
        return f"data:image/png;base64,{b64encode(image).decode()}"


class SharedTexts(Sequence[str]):
    """Texts that n processes write into shared memory, decoded on access; deep copies are tuples.

    A row is a text's length in characters followed by its code points: int32 [n, 1 + max_length].
    """

    def __init__(self, rows: NDArray[np.int32]) -> None:
        self.rows = rows

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        if isinstance(place, slice):
            return tuple(self)[place]
        length, *_ = self.rows[place, :1]
        return self.rows[place, 1 : 1 + length].tobytes().decode("utf-32-le", "surrogatepass")

    def __len__(self) -> int:
        return len(self.rows)

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"SharedTexts{tuple(self)!r}"


@create_shared_memory.register(FreeText)
def _create_rows(space: FreeText, n: int = 1, ctx: Any = multiprocessing) -> SynchronizedArray[int]:
    memory: SynchronizedArray[int] = ctx.Array("i", n * (1 + space.max_length))
    return memory


@read_from_shared_memory.register(FreeText)
def _read_rows(space: FreeText, memory: SynchronizedArray[int], n: int = 1) -> SharedTexts:
    return SharedTexts(_view_rows(space, memory)[:n])


@write_to_shared_memory.register(FreeText)
def _write_row(space: FreeText, index: int, value: str, memory: SynchronizedArray[int]) -> None:
    if value not in space:
        raise ValueError(
            f"an observation in shared memory may have at most {space.max_length} characters, "
            f"got {len(value)}; use agent_envs.make_vec, or AsyncVectorEnv(shared_memory=False)"
        )
    row = _view_rows(space, memory)[index]
    row[1 : 1 + len(value)] = np.frombuffer(value.encode("utf-32-le", "surrogatepass"), np.int32)
    row[0] = len(value)


def _view_rows(space: FreeText, memory: SynchronizedArray[int]) -> NDArray[np.int32]:
    flat: NDArray[np.int32] = np.ctypeslib.as_array(memory.get_obj())
    return flat.reshape(-1, 1 + space.max_length)
