"""The weights of a policy: which are trained, how they are copied, divided, exported and saved.

Matrices that are not trained are stored in the dtype of the matrix products. Trained weights are
float32 unless an optimiser rounds stochastically.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from trainer.options import STRICT, Count, Positive, Section
from trainer.scale import parallel, sharding

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from trainer.model.vision import Vision

REFERENCE = "reference.safetensors"
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True, config=STRICT)
class LoRA(Section):
    """Low-rank adapters.

    Attributes:
        rank: Rank of each adapter; 0 for no adapters, i.e. all weights are trained.
        alpha: Scale; the adapter's output is multiplied by alpha / rank.
        targets: "all-linear", or the names of the modules that get an adapter.
    """

    unread: ClassVar[dict[str, str]] = {"rank=0": "alpha targets"}

    rank: Count = 0
    alpha: Positive = 32
    targets: str | tuple[str, ...] = "all-linear"


# No adapters: every weight is trained.
FULL = LoRA()


class Weights:
    """A model with its trained weights or its adapter.

    Attributes:
        model: The causal language model, with adapters where LoRA is on.
        tokenizer: Its tokenizer.
        vision: Encoding of images; None for a text-only model.
        name: Name that it was loaded by, written into a saved adapter.
        dtype: Dtype of the matrix products; norms, residuals, logits, their softmax and trained
            weights are float32.
        gradient_checkpointing: Whether activations are computed again in the backward pass.
        reference: Trained weights of the reference, None if it is the model without its adapter.
        adapter: Name of its adapter, if LoRA is on.
    """

    model: Any
    tokenizer: PreTrainedTokenizerBase
    vision: Vision | None
    name: str
    dtype: torch.dtype
    gradient_checkpointing: bool
    reference: dict[str, Tensor] | None = None
    adapter = "default"

    def prepare(self, model: Any) -> Any:
        """The model without dropout, and with gradient checkpointing where it is wanted."""
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            elif isinstance(getattr(module, "attention_dropout", None), float):
                module.attention_dropout = 0.0
        if self.gradient_checkpointing:
            enable = getattr(model, "activation_checkpointing_enable", None)  # its name since 5.23
            (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})
        return model.eval()

    def freeze(self) -> Self:
        """Stop training the policy, and store its matrices in `dtype`.

        The outputs of the policy stay the same.
        """
        self.model.requires_grad_(requires_grad=False)
        self.shrink()
        return self

    def store_in_bfloat16(self) -> None:
        """Store trained matrices in bfloat16, too, for an optimiser that rounds stochastically.

        Embeddings, norms and the output layer stay float32.

        Raises:
            ValueError: The dtype of the matrix products is another.
        """
        if self.dtype != torch.bfloat16:
            raise ValueError("update.optimizer='adamw8bit-sr' needs policy.dtype='bfloat16'")
        self.shrink(trained=True)

    def shrink(self, *, trained: bool = False) -> None:
        """Store matrices in the dtype of the matrix products, by default those not trained."""
        for module in self.matrices():
            if trained or not any(p.requires_grad for p in module.parameters()):
                module.to(self.dtype)

    def matrices(self) -> list[nn.Linear]:
        """The linear layers whose products are in `dtype`: all but the output layer."""
        head = set(self.model.get_output_embeddings().modules())  # several if it has an adapter
        modules = (m for m in self.model.modules() if isinstance(m, nn.Linear))
        return [module for module in modules if module not in head]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = self.model.device
        return device

    @property
    def has_adapter(self) -> bool:
        """Whether adapters are trained instead of all weights."""
        return hasattr(self.model, "peft_config")

    def parameters(self) -> list[nn.Parameter]:
        """The trained parameters."""
        return list(self.collect_trained().values())

    def twin(self, name: str) -> Self:
        """A copy of this policy that is trained separately.

        With LoRA it is another adapter of the same model, called `name`; else a second model.
        """
        other = copy.copy(self)
        other.reference = None
        if self.has_adapter:
            with ignore_peft_warning(), torch.random.fork_rng(devices=[]):
                self.model.add_adapter(name, copy.deepcopy(self.model.peft_config[self.adapter]))
            other.adapter = name
        elif self.is_sharded:
            other.model = self.make_untrained(self.device)
            other.shard()
        else:
            other.model = copy.deepcopy(self.model)
        other.set_weights(self.weights())
        return other

    def replica(self) -> Self:
        """A copy that is not trained, to sample from, or this policy if nothing in it is trained.

        Make it before `shard`; `update` brings it up to date.
        """
        if not self.parameters():
            return self
        other = copy.copy(self)
        other.reference = None
        other.model = copy.deepcopy(self.model)
        return other.freeze()

    @torch.no_grad()
    def update(self, other: Self) -> None:
        """Take over the trained weights of the policy that this one is a `replica` of."""
        own = dict(self.model.named_parameters())
        for name, parameter in other.model.named_parameters():
            if f".{self.adapter}." in name if self.has_adapter else parameter.requires_grad:
                own[name].copy_(sharding.full(parameter))

    @property
    def is_sharded(self) -> bool:
        """Whether this process has only a part of the weights."""
        return any(map(sharding.is_sharded, self.model.parameters()))

    def shard(self) -> None:
        """Divide the weights among the processes (`trainer.scale.sharding`); adapters stay whole.

        Raises:
            ValueError: It is a vision-language model or a mixture of experts.
        """
        config = self.model.config.get_text_config()
        if self.vision or any(getattr(config, name, None) for name in _EXPERTS):
            kind = "a vision-language model" if self.vision else "a mixture of experts"
            raise ValueError(
                f"{self.name!r} is {kind}, which trains in one process; start without torchrun"
            )
        blocks = set(self.base._no_split_modules or ())  # noqa: SLF001 - its only public place
        whole = self.parameters() if self.has_adapter else []
        half = self.dtype == torch.bfloat16 and not self.has_adapter
        sharding.shard(self.model, blocks, whole, half=half)
        if self.reference is not None:
            trained = self.collect_trained()
            self.reference = {
                name: sharding.like(kept, trained[name]) for name, kept in self.reference.items()
            }

    def make_untrained(self, device: torch.device | str) -> Any:
        """A model of this architecture with other weights, in float32."""
        from torch.distributed.fsdp import FSDPModule

        kind: Any = next(c for c in type(self.model).__mro__ if not issubclass(c, FSDPModule))
        with torch.random.fork_rng(devices=[]), torch.device(device):
            model = kind(self.model.config).float()
        model.tie_weights()
        return self.prepare(model)

    @property
    def base(self) -> Any:
        """The model without its adapters."""
        return self.model.get_base_model() if self.has_adapter else self.model

    def weights(self) -> dict[str, Tensor]:
        """A copy of the trained weights; of a sharded policy, this process's part of them."""
        return {name: p.detach().clone() for name, p in self.collect_trained().items()}

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Set the trained weights to those of `weights()`, of this policy or its twin."""
        sharding.assign(self.collect_trained(), weights)

    def export_weights(self) -> Iterator[tuple[str, Tensor]]:
        """All weights by their names in a checkpoint of the model, an adapter merged into them.

        Whole weights, one at a time; of a sharded policy all processes must take each of them.
        """
        for name, parameter in self.base.named_parameters():
            if ".lora_" in name:
                continue
            weight = sharding.full(parameter.detach())
            if name.endswith(".base_layer.weight"):
                layer: Any = self.base.get_submodule(name.removesuffix(".base_layer.weight"))
                if self.adapter in layer.lora_A:
                    weight = weight + layer.get_delta_weight(self.adapter).detach()
            yield name.replace(".base_layer.", "."), weight

    @contextmanager
    def active(self) -> Iterator[None]:
        """Context in which the model uses this policy's adapter, if it has one."""
        before = self.model.active_adapter if self.has_adapter else self.adapter
        if before == self.adapter:
            yield
            return
        self.model.set_adapter(self.adapter)
        try:
            yield
        finally:
            self.model.set_adapter(before)

    def collect_trained(self) -> dict[str, nn.Parameter]:
        """Trained parameters by name; names of adapter weights omit the name of the adapter."""
        named = dict(self.model.named_parameters())
        if not self.has_adapter:
            return {name: p for name, p in named.items() if p.requires_grad}
        mine = f".{self.adapter}."
        return {name.replace(mine, "."): p for name, p in named.items() if mine in name}

    def add_adapters(self, lora: LoRA) -> None:
        """Add new adapters, the same at every start whatever the random state."""
        from peft import LoraConfig, get_peft_model

        targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
        config = LoraConfig(
            r=lora.rank, lora_alpha=lora.alpha, target_modules=targets, task_type="CAUSAL_LM"
        )
        self.model.name_or_path = self.name  # recorded as base; the same on every machine
        with ignore_peft_warning(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.model = get_peft_model(self.model, config)

    def check_adapter(self, wanted: LoRA | None) -> None:
        """Refuse settings that are not those of the adapter that was loaded.

        Raises:
            ValueError: Another rank, scale or other modules.
        """
        has = self.model.peft_config[self.adapter]
        if wanted is None:
            return
        targets = {wanted.targets} if isinstance(wanted.targets, str) else {*wanted.targets}
        same = targets in ({"all-linear"}, {*has.target_modules})
        if not (same and (wanted.rank, wanted.alpha) == (has.r, has.lora_alpha)):
            raise ValueError(
                f"{self.name!r} has an adapter of rank {has.r}, alpha {has.lora_alpha:g} on "
                f"{', '.join(sorted(has.target_modules))}, and {wanted} is wanted; set "
                f"policy.lora.rank={has.r} and policy.lora.alpha={has.lora_alpha:g} to train it on,"
                " or merge it into its base (peft's merge_and_unload) for another or none"
            )

    def keep_reference(self) -> None:
        """Make the current policy the reference of the KL term.

        Costs a copy of the trained weights; with LoRA that is the adapter.
        """
        self.reference = self.weights()

    @contextmanager
    def as_reference(self) -> Iterator[None]:
        """Context in which the policy is its reference.

        That is the policy at `keep_reference`, else the model without its adapter.
        """
        if self.reference is None:
            with self.model.disable_adapter():
                yield
            return
        with sharding.exchange_weights(self.collect_trained(), self.reference):
            yield

    def save(self, folder: Path) -> None:
        """Write weights (or the adapter), tokenizer and reference to `folder`.

        `load` reads the folder. So does transformers, or peft if the base of the adapter is a
        folder or a hub name. Of sharded weights process 0 has the whole in CPU memory meanwhile.
        """
        whole = (
            sharding.gather_weights(self.model.named_parameters())
            if self.is_sharded and not self.has_adapter
            else {}
        )
        reference = sharding.gather_weights((self.reference or {}).items())
        parallel.run_on_first(lambda: self._write(folder, whole, reference))

    def _write(self, folder: Path, whole: dict[str, Tensor], reference: dict[str, Tensor]) -> None:
        """Write the files of `save`; `whole` has the gathered weights of a sharded model."""
        from safetensors.torch import save_file

        # no embedding has an adapter; to find that out, peft would request the base from the hub
        one = {"save_embedding_layers": False, "selected_adapters": [self.adapter]}
        if whole:
            self.make_untrained("meta").save_pretrained(folder, state_dict=whole)
        else:
            self.model.save_pretrained(folder, **one if self.has_adapter else {})
        self.tokenizer.save_pretrained(folder)
        if self.vision:
            self.vision.processor.save_pretrained(folder)
        if reference:
            save_file(reference, folder / REFERENCE)

    def restore(self, folder: Path) -> None:
        """Restore, bit for bit, the weights and the reference that `save` wrote to `folder`.

        Raises:
            ValueError: The weights belong to another architecture.
        """
        from safetensors.torch import load_file

        loaded: Any
        if self.has_adapter:
            from peft import set_peft_model_state_dict

            state = load_file(folder / "adapter_model.safetensors")
            loaded = set_peft_model_state_dict(self.model, state)
            missing = [name for name in loaded.missing_keys if "lora_" in name]
        else:
            files = sorted(folder.glob("model*.safetensors"))  # several of a large model
            state = {name: weight for file in files for name, weight in load_file(file).items()}
            loaded = self.model.load_state_dict(state, strict=False)
            missing = sorted({*loaded.missing_keys} - {*self.model.all_tied_weights_keys})
        if missing or loaded.unexpected_keys:
            raise ValueError(
                f"{folder} holds another architecture than this policy: "
                f"missing {missing[:3]}, unexpected {loaded.unexpected_keys[:3]}"
            )
        self.reference = None
        if (reference := folder / REFERENCE).is_file():
            self.reference = {k: t.to(self.device) for k, t in load_file(reference).items()}


@contextmanager
def ignore_peft_warning() -> Iterator[None]:
    """Context without the warning of peft 0.21 with transformers 5.23."""
    with warnings.catch_warnings():  # of a deprecated name
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        yield
