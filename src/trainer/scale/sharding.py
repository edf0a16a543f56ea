"""Weights, gradients and moments divided among processes by FSDP2, and their files.

Without several processes tensors are whole, and every function here takes them as they are. Left
out: tensor, pipeline and expert parallelism.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from trainer.scale.parallel import mesh, rank, run_on_first, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor, nn

_KEY = "sharded"
_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_


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
        raise ImportError(
            f"several processes need torch >= 2.9, got {torch.__version__}; pip install -U torch"
        )
    how: dict[str, Any] = {
        "mesh": mesh(),
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


def gather_weights(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """Whole tensors in CPU memory of process 0, gathered one by one; none in the others."""
    whole = ((name, full(tensor.detach())) for name, tensor in tensors)
    return {name: tensor.cpu() for name, tensor in whole if rank() == 0}


def like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A tensor divided as a parameter of the same shape is."""
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    if isinstance(tensor, DTensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    there = tensor.to(parameter.device)
    return distribute_tensor(there, parameter.device_mesh, parameter.placements, src_data_rank=None)


@torch.no_grad()
def assign(parameters: Mapping[str, nn.Parameter], weights: Mapping[str, Tensor]) -> None:
    """Copy weights, whole or divided, into the parameters of the same names."""
    for name, parameter in parameters.items():
        parameter.copy_(like(weights[name], parameter))


@contextmanager
def exchange_weights(
    parameters: Mapping[str, nn.Parameter], weights: Mapping[str, Tensor]
) -> Iterator[None]:
    """Context in which parameters have other weights, divided as they are."""
    if any(map(is_sharded, parameters.values())):  # gathered from where they are
        mine = {name: p.detach().clone() for name, p in parameters.items()}
        assign(parameters, weights)
        try:
            yield
        finally:
            assign(parameters, mine)
        return
    current = {name: p.data for name, p in parameters.items()}
    try:
        for name, parameter in parameters.items():
            parameter.data = weights[name]
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.data = current[name]


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
    squares = _squares(parts, mesh().device_type)
    dist.all_reduce(squares)
    norm = (squares + _squares(whole, mesh().device_type)).sqrt().float()
    scale = (limit / (norm + _EPSILON)).clamp(max=1.0)
    for gradient in [*whole, *parts]:
        gradient.mul_(scale)
    return norm


def _squares(tensors: list[Tensor], device: str) -> Tensor:
    start = torch.zeros((), dtype=torch.float64, device=device)
    norms = (torch.linalg.vector_norm(tensor, dtype=torch.float64) for tensor in tensors)
    return sum((norm.square() for norm in norms), start)


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
    run_on_first(lambda: torch.save(state, path))


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
            parts[name] = zeros(*about.size, dtype=dtype, device_mesh=mesh(), placements=[Shard(0)])
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
