"""Training in several processes, started by torchrun: each has a part of the weights (FSDP2).

One process needs none of this, and every function here then returns what it is given. Several
processes take the update of one: tasks and rows are divided among them, sums go over all of them.
Left out: tensor, pipeline and expert parallelism.

What every process computes alike needs no communication. Two rules keep the others from waiting
for ever: all processes call these functions in the same order, and what is passed to `gathered` or
`first` does not communicate itself.
"""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh

_Made = TypeVar("_Made")

PATIENCE = timedelta(hours=2)
"""How much later than another a process may come to a common point."""
_FAILED, _KEY = "agent-envs/failed", "sharded"
_GONE = ("closed by peer", "reset by peer", "connection was", "timed out", "nccl", "gloo", "store")
_NEEDED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_


class RankError(ChildProcessError):
    """Another process of the run failed; the message has its error."""


def started() -> int:
    """Number of processes that torchrun started, 1 without it.

    Raises:
        ValueError: $WORLD_SIZE is not a positive number.
    """
    given = os.environ.get("WORLD_SIZE", "1")
    if not given.isdecimal() or not int(given):
        raise ValueError(f"$WORLD_SIZE is the number of processes, got {given!r}; use torchrun")
    return int(given)


def size() -> int:
    """Number of processes that train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0. Process 0 writes the files of the run."""
    return dist.get_rank() if dist.is_initialized() else 0


@contextmanager
def joined(device: str) -> Iterator[None]:
    """Context in which the processes of torchrun train together; without torchrun, no change.

    Args:
        device: As in `policy.device`; with GPUs each process takes its own.

    Raises:
        ValueError: Variables of torchrun are missing, or there are more processes than GPUs.
        RankError: Another process failed.
    """
    if started() == 1:
        yield
        return
    if missing := [name for name in _NEEDED if not os.environ.get(name)]:
        raise ValueError(
            f"$WORLD_SIZE is {started()}, but {', '.join(missing)} not set: start several "
            "processes with torchrun, or unset WORLD_SIZE for one"
        )
    gpus = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if gpus:
        local, here = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= here:
            raise ValueError(
                f"torchrun started {os.environ['LOCAL_WORLD_SIZE']} processes on a machine with "
                f"{here} GPUs; give --nproc-per-node {here}"
            )
        torch.cuda.set_device(local)
    store, number, count = next(rendezvous("env://", timeout=PATIENCE))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if gpus else "gloo",
        store=store,
        rank=number,
        world_size=count,
        timeout=PATIENCE,
    )
    _mesh("cuda" if gpus else "cpu")
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
        _mesh.cache_clear()


def _raise_first(store: Any, error: BaseException) -> None:
    """Leave word of an error, or raise what another process left if the error follows from it."""
    cause: BaseException | None = error
    while cause is not None and not _is_loss(cause):
        cause = cause.__cause__
    lost, text = cause is not None, str(cause)
    try:
        if not lost:
            store.set(_FAILED, f"process {rank()} of {size()} failed: {_told(error)}")
            return
        text = store.get(_FAILED).decode() if store.check([_FAILED]) else _lost(text)
    except (RuntimeError, ValueError):  # the store is gone with process 0
        text = _lost(text) if lost else ""
    if lost:
        raise RankError(text) from error


def _is_loss(error: BaseException) -> bool:
    """Whether an error is that of a connection to another process."""
    found = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in found for word in _GONE)


def _lost(text: str) -> str:
    return (
        f"another process of the run ended without a word ({text.splitlines()[0][:200]}); look at "
        "its output, and continue with --resume"
    )


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


@cache
def _mesh(device: str = "cpu") -> DeviceMesh:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device, (size(),))


def _world() -> DeviceMesh:
    """All processes; `joined` has made it."""
    return _mesh("cuda" if "nccl" in dist.get_backend_config() else "cpu")


def share(count: int) -> range:
    """This process's part of `count` things in order."""
    return range(rank() * count // size(), (rank() + 1) * count // size())


def gathered(call: Callable[[], _Made]) -> list[_Made]:
    """Results of a call in each process, in the order of the processes.

    Raises:
        RankError: The call failed in another process.
    """
    if size() == 1:
        return [call()]
    made: _Made | None = None
    failure: Exception | None = None
    try:
        made = call()
    except Exception as error:  # noqa: BLE001 - raised below, once all know
        failure = error
    told: list[Any] = [None] * size()
    dist.all_gather_object(told, (made, failure and _told(failure)))
    if failure is not None:
        raise failure
    for number, (_, problem) in enumerate(told):
        if problem:
            raise RankError(f"process {number} of {size()} failed: {problem}")
    return [one for one, _ in told]


def first(call: Callable[[], _Made]) -> _Made:
    """Result of a call in process 0, in every process.

    Raises:
        RankError: The call failed there.
    """
    return gathered(call if rank() == 0 else lambda: None)[0]  # type: ignore[return-value]


def check_alike(what: str, value: str) -> None:
    """Check that all processes have the same value.

    Raises:
        ValueError: They do not.
    """
    for number, other in enumerate(gathered(lambda: value)):
        if other != value:
            raise ValueError(
                f"process {number} of {size()} has another {what}: start all of them with the same "
                "command, and the same version of agent-envs"
            )


def check_shared(folder: Path) -> None:
    """Check that all processes see the same folder.

    Raises:
        ValueError: Some do not.
    """
    mark = folder / ".shared"
    first(mark.touch)
    seen = gathered(mark.is_file)
    first(mark.unlink)
    if not all(seen):
        raise ValueError(
            f"process {seen.index(False)} of {size()} does not see the run folder {folder} of "
            "process 0; give --out a folder that all machines share"
        )


def totals(values: Mapping[str, float]) -> dict[str, float]:
    """Sums of values over all processes; all have the same names."""
    if size() == 1:
        return dict(values)
    summed = torch.tensor([values[name] for name in sorted(values)], dtype=torch.float64)
    dist.all_reduce(summed)
    return dict(zip(sorted(values), summed.tolist(), strict=True))


def most(value: float) -> float:
    """The largest of the values of all processes."""
    return max(gathered(lambda: value))


def summed(tensor: Tensor) -> Tensor:
    """Sum of a CPU tensor over all processes, in place."""
    if size() > 1:
        dist.all_reduce(tensor)
    return tensor


def shard(model: nn.Module, blocks: set[str], whole: Iterable[nn.Parameter], *, half: bool) -> None:
    """Divide the weights of a model among the processes, in place.

    Weights of a block of layers are gathered when it runs. Gradients are sums over all processes.

    Args:
        model: The module whose forward is called.
        blocks: Names of the classes of its blocks.
        whole: Parameters that every process keeps; `clip` sums their gradients.
        half: Linear layers of the blocks compute in bfloat16. They are gathered as such; their
            gradients are summed in float32.
    """
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

    if not hasattr(FSDPModule, "set_force_sum_reduction_for_comms"):
        raise ImportError("several processes need torch >= 2.9; pip install -U torch")
    how: dict[str, Any] = {
        "mesh": _world(),
        "ignored_params": set(whole),
        "reshard_after_forward": True,  # the root, too: its weights may change before the next call
    }
    coarse = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
    for block in [module for module in model.modules() if type(module).__name__ in blocks]:
        if half:  # norms stay in float32, as under autocast
            for module in block.modules():
                if not isinstance(module, torch.nn.Linear) and [*module.parameters(recurse=False)]:
                    fully_shard(module, **how)
        fully_shard(block, mp_policy=coarse if half else MixedPrecisionPolicy(), **how)
    fully_shard(model, **how)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(enable=True)  # gloo has no other


def is_sharded(tensor: Tensor) -> bool:
    """Whether this process has only a part of a tensor."""
    return isinstance(tensor, DTensor)


def part(tensor: Tensor) -> Tensor:
    """This process's part of a tensor, which shares its memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def full(tensor: Tensor) -> Tensor:
    """The whole tensor; all processes call this at the same time."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A tensor divided as a parameter of the same shape is."""
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    if isinstance(tensor, DTensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    there = tensor.to(parameter.device)
    return distribute_tensor(there, parameter.device_mesh, parameter.placements, src_data_rank=None)


def groups(parameters: Sequence[nn.Parameter]) -> list[dict[str, Any]]:
    """Parameters as groups of an optimiser, whole ones apart from sharded ones."""
    kinds = [[p for p in parameters if is_sharded(p) == sharded] for sharded in (False, True)]
    return [{"params": kind} for kind in kinds if kind]


def clip(parameters: Sequence[nn.Parameter], limit: float) -> Tensor:
    """Clip the gradients to a norm over all parameters; returns the norm before.

    Gradients of whole parameters are summed over the processes first.
    """
    if size() == 1:
        return torch.nn.utils.clip_grad_norm_(parameters, limit)
    whole = [p.grad for p in parameters if p.grad is not None and not is_sharded(p)]
    parts = [part(p.grad) for p in parameters if p.grad is not None and is_sharded(p)]
    if whole:
        flat = torch.cat([gradient.flatten() for gradient in whole])
        dist.all_reduce(flat)
        sizes = [gradient.numel() for gradient in whole]
        for gradient, total in zip(whole, torch.split(flat, sizes), strict=True):
            gradient.copy_(total.view_as(gradient))
    squares = _squares(parts, _world().device_type)
    dist.all_reduce(squares)
    norm = (squares + _squares(whole, _world().device_type)).sqrt().float()
    scale = (limit / (norm + _EPSILON)).clamp(max=1.0)
    for gradient in [*whole, *parts]:
        gradient.mul_(scale)
    return norm


def _squares(tensors: list[Tensor], device: str) -> Tensor:
    start = torch.zeros((), dtype=torch.float64, device=device)
    return start + sum(tensor.double().square().sum() for tensor in tensors)


def save(state: Mapping[str, Any], path: Path) -> None:
    """Write a state, to be read by `load` in any number of processes.

    Sharded tensors are in a folder beside `path`, each process writes its own parts of them.

    Raises:
        RankError: A process could not write.
        OSError: This one could not.
    """
    parts: dict[str, Tensor] = {}
    state = _without(state, "", parts)
    if parts:
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.state_dict_saver import save as write

        try:
            write(parts, checkpoint_id=path.with_suffix(".parts"))
        except CheckpointException as error:  # the same in all processes
            raise OSError(str(error)) from error
    first(lambda: torch.save(state, path))


def load(path: Path) -> dict[str, Any]:
    """Read a state that `save` wrote; tensors that were sharded are so among today's processes."""
    state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    folder = path.with_suffix(".parts")
    if not folder.is_dir():
        return state
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.state_dict_loader import load as read
    from torch.distributed.tensor import Shard, zeros

    known: dict[str, Any] = FileSystemReader(folder).read_metadata().state_dict_metadata
    parts: dict[str, Tensor] = {}
    for name, about in known.items():
        dtype = about.properties.dtype
        if size() == 1:
            parts[name] = torch.zeros(about.size, dtype=dtype)
        else:
            mesh = _world()
            parts[name] = zeros(*about.size, dtype=dtype, device_mesh=mesh, placements=[Shard(0)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*to load in a single process")
        read(parts, checkpoint_id=folder, no_dist=size() == 1)
    found: dict[str, Any] = _with(state, parts)
    return found


def _without(state: Any, name: str, parts: dict[str, Tensor]) -> Any:
    """A nested state with names for its sharded tensors, which are put into `parts`."""
    if isinstance(state, DTensor):
        parts[name] = state.detach()
        return {_KEY: name}
    if isinstance(state, dict):
        return {key: _without(value, f"{name}/{key}", parts) for key, value in state.items()}
    if isinstance(state, list):
        return [_without(value, f"{name}/{at}", parts) for at, value in enumerate(state)]
    return state


def _with(state: Any, parts: dict[str, Tensor]) -> Any:
    """The inverse of `_without`."""
    if isinstance(state, dict):
        if state.keys() == {_KEY}:
            return parts[state[_KEY]]
        return {key: _with(value, parts) for key, value in state.items()}
    return [_with(value, parts) for value in state] if isinstance(state, list) else state
