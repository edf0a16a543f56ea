"""Several processes that train together, started by torchrun; `sharding` has their weights.

One process needs none of this, and every function here then returns what it is given. Several
processes take the update of one: tasks and rows are divided among them, sums go over all of them.

What every process computes alike needs no communication. Two rules keep the others from waiting
for ever: all processes call these functions in the same order, and what is passed to `gather` or
`run_on_first` does not communicate itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from agent_envs.imports import describe_error

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_Made = TypeVar("_Made")

PATIENCE = timedelta(hours=2)
"""How much later than another a process may come to a common point."""
_FAILED = "agent-envs/failed"
_GONE = ("closed by peer", "reset by peer", "connection was", "timed out", "nccl", "gloo")


class RankError(ChildProcessError):
    """Another process of the run failed; the message has its error."""


def size() -> int:
    """Number of processes that train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0. Process 0 writes the files of the run."""
    return dist.get_rank() if dist.is_initialized() else 0


@contextmanager
def join_processes(device: str) -> Iterator[None]:
    """Context in which the processes of torchrun train together; without torchrun, no change.

    Args:
        device: As in `policy.device`; with GPUs each process takes its own.

    Raises:
        ValueError: Variables of torchrun are missing, there are more processes than GPUs, or the
            device is one GPU.
        RankError: Another process failed.
    """
    if (count := int(os.environ.get("WORLD_SIZE", "1"))) == 1:
        yield
        return
    gpus = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if gpus:
        here = torch.cuda.device_count()
        if ":" in device or int(os.environ["LOCAL_RANK"]) >= here:
            raise ValueError(
                f"torchrun started {count} processes, with policy.device={device!r} on a machine "
                f"with {here} GPUs; each takes a GPU of its own, so set policy.device=cuda and "
                f"start with --nproc-per-node {here}"
            )
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store, number, _ = next(rendezvous("env://", timeout=PATIENCE))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if gpus else "gloo",
        store=store,
        rank=number,
        world_size=count,
        timeout=PATIENCE,
    )
    try:
        yield
    except RankError:
        raise
    except BaseException as error:
        _raise_first(store, error)
        raise
    else:
        dist.destroy_process_group()
    finally:
        mesh.cache_clear()


def _raise_first(store: Any, error: BaseException) -> None:
    """Leave word of an error, or raise what another process left if the error follows from it."""
    cause: BaseException | None = error
    while cause is not None and not _is_loss(cause):
        cause = cause.__cause__
    word = (
        f"another process of the run ended without a word ({str(cause).splitlines()[:1]!r:.200}); "
        "look at its output, and continue with --resume"
    )
    with suppress(RuntimeError, ValueError):  # the store is gone with process 0
        if cause is None:
            store.set(_FAILED, f"process {rank()} of {size()} failed: {describe_error(error)}")
        elif store.check([_FAILED]):
            word = store.get(_FAILED).decode()
    if cause is not None:
        raise RankError(word) from error


def _is_loss(error: BaseException) -> bool:
    """Whether an error is that of a connection to another process."""
    found = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in found for word in _GONE)


@cache
def mesh() -> DeviceMesh:
    """All processes and their devices."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cuda" if "nccl" in dist.get_backend_config() else "cpu", (size(),))


def share(count: int) -> range:
    """This process's part of `count` things in order."""
    return range(rank() * count // size(), (rank() + 1) * count // size())


def gather(call: Callable[[], _Made]) -> list[_Made]:
    """Results of a call in each process, in the order of the processes.

    Raises:
        RankError: The call failed in another process.
    """
    if size() == 1:
        return [call()]
    made, failed = None, None
    try:
        made = call()
    except Exception as error:  # noqa: BLE001 - raised below, after the others have heard of it
        failed = error
    told: list[Any] = [None] * size()
    dist.all_gather_object(told, (made, failed and describe_error(failed)))
    if failed:
        raise failed
    for number, (_, problem) in enumerate(told):
        if problem:
            raise RankError(f"process {number} of {size()} failed: {problem}")
    return [one for one, _ in told]


def run_on_first(call: Callable[[], _Made]) -> _Made:
    """Result of a call in process 0, in every process.

    Raises:
        RankError: The call failed there.
    """
    made, *_ = gather(lambda: [call()] if rank() == 0 else [])
    return made[0]


def check_alike(what: str, value: str) -> None:
    """Check that all processes have the same value.

    Raises:
        ValueError: They do not.
    """
    for number, other in enumerate(gather(lambda: value)):
        if other != value:
            raise ValueError(
                f"process {number} of {size()} has another {what}: start all of them with the same "
                "command"
            )


def check_shared(folder: Path) -> None:
    """Check that all processes see the same folder.

    Raises:
        ValueError: Some do not.
    """
    mark = folder / ".shared"
    run_on_first(mark.touch)
    seen = str(mark.is_file())
    check_alike(f"{folder}, which must be a folder that all machines share (--out)", seen)
    run_on_first(mark.unlink)


def sum_totals(values: Mapping[str, float]) -> dict[str, float]:
    """Sums of values over all processes; all have the same names."""
    if size() == 1:
        return dict(values)
    sums = torch.tensor([values[name] for name in sorted(values)], dtype=torch.float64)
    dist.all_reduce(sums)
    return dict(zip(sorted(values), sums.tolist(), strict=True))


def find_largest(value: float) -> float:
    """The largest of the values of all processes."""
    return max(gather(lambda: value))


def sum_tensor(tensor: Tensor) -> Tensor:
    """Sum of a CPU tensor over all processes, in place."""
    if size() > 1:
        dist.all_reduce(tensor)
    return tensor
