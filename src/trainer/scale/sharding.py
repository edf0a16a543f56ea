"""Weights, gradients and moments divided among processes by FSDP2, and their files.

Without several processes tensors are whole, and every function here takes them as they are. Left
out: tensor, pipeline and expert parallelism.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from trainer.scale.parallel import mesh, rank, run_on_first, size

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor
    from typing_extensions import TypeIs


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


def is_sharded(tensor: object) -> TypeIs[DTensor]:
    """Whether it is a tensor of which this process has only a part."""
    if size() == 1:
        return False
    from torch.distributed.tensor import DTensor  # takes as long to load as all the rest of torch

    return isinstance(tensor, DTensor)


def full(tensor: Tensor) -> Tensor:
    """The whole tensor; all processes call this at the same time."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def gather_weights(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """Whole tensors in CPU memory of process 0, gathered one by one; none in the others."""
    whole = ((name, full(tensor.detach())) for name, tensor in tensors)
    return {name: tensor.cpu() for name, tensor in whole if rank() == 0}


def like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A tensor divided as a parameter of the same shape is."""
    if is_sharded(tensor) or not is_sharded(parameter):
        return tensor
    if tensor.shape != parameter.shape:  # e.g. a number of steps
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
    """Context in which parameters and weights, divided as they are, have each other's values."""
    _swap(parameters, weights)
    try:
        yield
    finally:
        _swap(parameters, weights)


@torch.no_grad()
def _swap(parameters: Mapping[str, nn.Parameter], weights: Mapping[str, Tensor]) -> None:
    for name, parameter in parameters.items():
        own = parameter.detach().clone()
        parameter.copy_(weights[name])
        weights[name].copy_(own)


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
    for parameter in parameters:
        if parameter.grad is not None and not is_sharded(parameter):
            dist.all_reduce(parameter.grad)
    kinds = [group["params"] for group in groups(parameters)]
    norms = [full(get_total_norm([p.grad for p in kind if p.grad is not None])) for kind in kinds]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    for kind in kinds:
        clip_grads_with_norm_(kind, limit, norm)
    return norm


def save(state: Mapping[str, Any], path: Path) -> None:
    """Write a state, with whole tensors; all processes call this at the same time.

    Process 0 has all of it in CPU memory meanwhile.

    Raises:
        RankError: It could not be written.
    """
    whole = _gather(state)
    run_on_first(lambda: torch.save(whole, path))


def load(path: Path) -> dict[str, Any]:
    """Read a state that `save` wrote."""
    state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu", mmap=size() > 1)
    return state


def _gather(state: Any) -> Any:
    """A nested state whose sharded tensors are whole in process 0, and None in the others."""
    if is_sharded(state):
        whole = full(state.detach())
        return whole.cpu() if rank() == 0 else None
    if isinstance(state, dict):
        return {key: _gather(value) for key, value in state.items()}
    return [_gather(value) for value in state] if isinstance(state, list) else state
