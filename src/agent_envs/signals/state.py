"""The state of a foreign world: a digest of all of it, and its chance kept apart.

Left out: what lives outside the object (files, servers, threads, the clock), which no copy has.
"""

from __future__ import annotations

import copyreg
import io
import random
import types
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from hashlib import blake2b
from typing import Any, cast

import numpy as np

_SIZE = 16  # bytes of a digest
_NAMED = (
    type,
    types.BuiltinFunctionType,
    types.ModuleType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    np.ufunc,
)
UNSEEN = frozenset(
    {"_np_random", "np_random", "_np_random_seed", "spec", "metadata", "render_mode"}
    | {"action_space", "observation_space", "reward_range"}
)
"""Attributes that are no state: Gymnasium's chance, and what describes the world."""


def digest_state(world: Any, ignore: Sequence[str] = ()) -> str:
    """Hex digest of everything that an object holds, equal for its deep copies.

    Attributes of a name in `UNSEEN` or `ignore` are left out, wherever they are. Aliases are not
    seen: two equal parts and one part that is held twice are the same.

    Raises:
        TypeError: a part has no state that can be read, such as a lock, a socket or a generator.
    """
    return _Digest(UNSEEN.union(ignore)).read(world).hex()


class _Digest:
    """Digests of the parts of an object; each object is read once."""

    def __init__(self, unseen: frozenset[str]) -> None:
        self.unseen = unseen
        self.known: dict[int, bytes] = {}
        self.kept: list[Any] = []  # an id stays that of its object

    def read(self, value: Any) -> bytes:
        kind = type(value)
        if value is None or kind in (bool, int, float, str, complex):
            return _hash(kind.__name__, repr(value).encode("utf-8", "surrogatepass"))
        if kind is bytes:
            return _hash("bytes", value)
        if isinstance(value, _NAMED):
            name = getattr(value, "__qualname__", None) or value.__name__
            return _hash("name", f"{getattr(value, '__module__', '')}.{name}".encode())
        if id(value) not in self.known:
            self.kept.append(value)
            self.known[id(value)] = b"itself"  # for what holds itself
            self.known[id(value)] = self._read_parts(value)
        return self.known[id(value)]

    def _read_parts(self, value: Any) -> bytes:
        name = type(value).__qualname__
        if isinstance(value, (list, tuple)):
            return _hash(name, *map(self.read, value), *self._read_own(value))
        if isinstance(value, (set, frozenset)):
            return _hash(name, *sorted(map(self.read, value)))
        if isinstance(value, dict):
            return _hash(name, *self._read_table(value, ()), *self._read_own(value))
        if isinstance(value, types.FunctionType):
            held = [cell.cell_contents for cell in value.__closure__ or () if cell != _EMPTY]
            code = f"{value.__module__}.{value.__qualname__}"
            return _hash(name, self.read([code, held, value.__defaults__, value.__kwdefaults__]))
        reduce = copyreg.dispatch_table.get(type(value))  # such as that of compiled patterns
        return _hash(name, *self._read_reduced(reduce(value) if reduce else value.__reduce_ex__(4)))

    def _read_reduced(self, made: str | tuple[Any, ...]) -> list[bytes]:
        """What `pickle` would keep of an object."""
        if isinstance(made, str):
            return [made.encode()]
        function, given, state, items, pairs = [*made, None, None, None][:5]
        more = [list(one) for one in (items, pairs) if one is not None]
        return [*map(self.read, (function, given, *more)), *self._read_state(state)]

    def _read_own(self, value: Any) -> list[bytes]:
        """What an object of a class that derives from a container holds besides its items."""
        return self._read_table(getattr(value, "__dict__", {}), self.unseen)

    def _read_state(self, state: Any) -> list[bytes]:
        if isinstance(state, dict):
            return self._read_table(state, self.unseen)
        match state:
            case (own, dict(slots)):
                return self._read_state(own) + self._read_table(slots, self.unseen)
        return [self.read(state)]

    def _read_table(self, table: dict[Any, Any], unseen: Collection[str]) -> list[bytes]:
        return sorted(
            self.read(key) + self.read(value)
            for key, value in table.items()
            if not (unseen and key in unseen)
        )


_EMPTY = types.CellType()


def _hash(kind: str, *parts: bytes) -> bytes:
    made = blake2b(kind.encode(), digest_size=_SIZE)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()


class Chance:
    """Whether a call drew from Python's or NumPy's global generator, or the world's own."""

    drew = False


@contextmanager
def keep_chance(seed: int, world: Any) -> Iterator[Chance]:
    """Seed the global generators, and that of a world, for a call; then give the former ones back.

    What the call prints is dropped.

    Args:
        seed: Seed of the call, in 0..2^32 - 1.
        world: Its `np_random` is seeded for the call if it has one; None for the globals alone.
    """
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002  theirs, not ours
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    inner = getattr(world, "unwrapped", world)
    own = getattr(inner, "_np_random", None)
    if own is not None:
        own = inner.np_random = np.random.default_rng(seed)
    before = _read_generators(own)
    chance = Chance()
    try:
        with redirect_stdout(io.StringIO()):
            yield chance
    finally:
        now = getattr(inner, "_np_random", None)
        chance.drew = before != _read_generators(own) or now is not own
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002


def _read_generators(own: np.random.Generator | None) -> list[Any]:
    held = own.bit_generator.state if own is not None else None
    _, keys, *rest = cast("tuple[Any, ...]", np.random.get_state())  # noqa: NPY002
    return [random.getstate(), keys.tobytes(), rest, held]
