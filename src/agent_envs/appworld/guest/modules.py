"""The modules that agent code can import, as copies with the time and chance of the task.

The copies make episodes repeatable; they protect nothing. They have a module's public names, and
clocks that show the time of the task. Real modules lead to the machine's clocks and randomness.
"""

from __future__ import annotations

import importlib
import random
import time
import types
import warnings
from datetime import UTC, date, datetime, tzinfo
from functools import cache
from typing import Any

PLAIN = tuple(
    """
    __future__ base64 bisect calendar collections collections.abc copy datetime decimal difflib
    fractions functools hashlib heapq html itertools json math operator pprint random re statistics
    string textwrap time typing unicodedata
    """.split()  # noqa: SIM905
)
# The key of variables is not read once these are used: they can change what it does not see.
DEEP = tuple(
    """
    abc array ast binascii contextlib dataclasses enum html.entities inspect io json.decoder
    json.encoder keyword numbers reprlib struct traceback types warnings weakref
    """.split()  # noqa: SIM905
)
MODULES = (*PLAIN, *DEEP)
WITHHELD = {"random": {"SystemRandom"}}  # it draws from the machine

_COPIES: dict[str, types.ModuleType] = {}


def load() -> None:
    """Import all of them, with their lazy imports: there are no files in the jail."""
    _COPIES.update((name, _make_copy(name)) for name in MODULES)
    for name, made in _COPIES.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(_COPIES[parent], child, made)
    warnings.simplefilter("ignore")  # they depend on Python's version
    datetime.strptime("2024-01-01", "%Y-%m-%d").astimezone(UTC)
    time.strptime("2024", "%Y")


def make_copies(now: datetime, seed: str) -> dict[str, types.ModuleType]:
    """The copy of each module, with the task's clock and seeded randomness.

    A process has one task: the copies are made by `load`, and completed here.
    """
    random.seed(seed)
    made = _COPIES | {"time": _make_clock(now)}
    made["random"].__dict__.update(_make_chance(seed))
    made["datetime"].__dict__.update(_make_calendar(now))
    return made


def _make_copy(name: str) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__dict__.update(list_public(name))
    return made


@cache
def list_public(name: str) -> dict[str, Any]:
    """The names in a module's copy."""
    module = importlib.import_module(name)
    keys = getattr(module, "__all__", [key for key in vars(module) if not key.startswith("_")])
    return {
        key: value
        for key in keys
        if key not in WITHHELD.get(name, ())
        and not isinstance(value := getattr(module, key), types.ModuleType)
    }


def _make_chance(seed: str) -> dict[str, Any]:
    """The names that without a seed draw from the machine; here they use the task's seed."""

    def seed_again(a: Any = None, version: int = 2) -> None:
        """As `random.seed`."""
        random.seed(seed if a is None else a, version)

    class Random(random.Random):
        """As `random.Random`."""

        def seed(self, a: Any = None, version: int = 2) -> None:
            """As of `random.Random`."""
            super().seed(seed if a is None else a, version)

    return {"Random": Random, "seed": seed_again}


def _make_clock(now: datetime) -> types.ModuleType:
    """The module `time`, with the names that do not need the machine; nothing waits."""
    moment = now.replace(tzinfo=UTC).timestamp()

    def struct(seconds: float | None = None) -> time.struct_time:
        return time.gmtime(moment if seconds is None else seconds)

    def strftime(form: str, when: Any = None) -> str:
        return time.strftime(form, struct() if when is None else when)

    clocks = ("time", "monotonic", "perf_counter", "process_time")
    made = types.ModuleType("time")
    made.__dict__.update(
        {name: getattr(time, name) for name in ("mktime", "strptime", "struct_time")},
        **dict.fromkeys(clocks, lambda: moment),
        **dict.fromkeys((f"{name}_ns" for name in clocks), lambda: int(moment) * 10**9),
        asctime=lambda when=None: time.asctime(when or struct()),
        ctime=lambda seconds=None: time.asctime(struct(seconds)),
        gmtime=struct,
        localtime=struct,
        strftime=strftime,
        sleep=lambda _: None,
    )
    return made


def _make_calendar(now: datetime) -> dict[str, Any]:
    """The classes of `datetime` that have a current time."""

    class Datetime(datetime):
        """A datetime whose present is the task's."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            """The time of the task."""
            return cls.fromisoformat(now.isoformat()).replace(tzinfo=tz)

        @classmethod
        def today(cls) -> Any:
            """The time of the task."""
            return cls.now()

        @classmethod
        def utcnow(cls) -> Any:
            """The time of the task."""
            return cls.now()

    class Date(date):
        """A date whose today is the task's."""

        @classmethod
        def today(cls) -> Any:
            """The day of the task."""
            return cls.fromisoformat(now.date().isoformat())

    Datetime.__name__ = Datetime.__qualname__ = "datetime"
    Date.__name__ = Date.__qualname__ = "date"
    return {"datetime": Datetime, "date": Date}
