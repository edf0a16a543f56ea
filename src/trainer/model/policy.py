"""A policy: any causal or vision-language model of transformers, trained fully or by LoRA.

Dropout is always off, so that a ratio of probabilities compares the same function. Trained weights
are float32, whatever the dtype of the matrix products, unless an optimiser rounds stochastically:
at the learning rates of reinforcement learning an update is smaller than the distance between two
bfloat16 numbers. Left out: quantised training.
"""

from __future__ import annotations

import copy
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from pydantic.dataclasses import dataclass
from torch import nn

from trainer.model import lora as adapters
from trainer.model import packing, pretrained, transformer
from trainer.model.chat import Chat
from trainer.model.logprobs import NEVER, Finish, Head
from trainer.model.lora import FULL, LoRA
from trainer.model.pretrained import read_tensors
from trainer.model.vision import Vision
from trainer.options import STRICT
from trainer.scale import parallel, sharding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from trainer.learn.batch import Batch
    from trainer.model.vision import Picture

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
REFERENCE = "reference.safetensors"


@dataclass(frozen=True, config=STRICT)
class Model:
    """The policy.

    Attributes:
        model: A name of `trainer.model.pretrained.NAMES`, e.g. "pocket", a folder or a hub name.
        lora: Low-rank adapters, `rank` 0 trains all weights.
        dtype: Of the matrix products; trained weights are float32, see `update.optimizer`.
        device: "cpu", "cuda" or another of torch; "auto" uses a GPU if there is one.
        gradient_checkpointing: Recompute activations in the backward pass, to save memory.
    """

    model: str = "pocket"
    lora: LoRA = FULL
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str = "auto"
    gradient_checkpointing: bool = False


class Policy:
    """A model and its tokenizer, with what training needs of them.

    Attributes:
        model: The causal language model, with adapters where LoRA is on.
        tokenizer: Its tokenizer.
        chat: Token pieces of conversations.
        name: Name that it was loaded by, written into a saved adapter.
        vision: Encoding of images; None for a text-only model.
        dtype: Dtype of the matrix products; norms, residuals, logits, their softmax and trained
            weights are float32.
        adapter: Name of its adapter, if LoRA is on.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        *,
        lora: LoRA = FULL,
        dtype: str = "float32",
        gradient_checkpointing: bool = False,
        name: str = "",
        images: Any = None,
    ) -> None:
        if dtype not in DTYPES:
            raise ValueError(f"dtype is one of {', '.join(DTYPES)}, got {dtype!r}")
        self.dtype = DTYPES[dtype]
        self.vision = None if images is None else Vision(images, tokenizer, model)
        self.chat = Chat(tokenizer, self.vision.mark if self.vision else "")
        self.tokenizer = tokenizer
        self.name = name or str(model.config.name_or_path)
        transformer.prepare(model.float(), gradient_checkpointing=gradient_checkpointing)
        self.gradient_checkpointing = gradient_checkpointing
        self.model = adapters.add_adapters(model, lora, self.name) if lora.rank else model
        self.adapter = "default"
        self._reference: dict[str, Tensor] | None = None
        self._packs = False
        self._shrink()
        self._finish = self._detect_finish()

    @classmethod
    def load(
        cls,
        name: str,
        *,
        lora: LoRA = FULL,
        dtype: str = "float32",
        device: str = "cpu",
        gradient_checkpointing: bool = False,
    ) -> Self:
        """Load a policy: `name` is one of `pretrained.NAMES`, a folder or a hub name.

        A folder that `save` wrote for a LoRA policy is loaded with its adapter, which stays
        trainable.

        Raises:
            FileNotFoundError: There is no such folder or name, or the folder lacks weights or
                tokenizer.
            ValueError: The dtype is unknown, the device is not available, or the tokenizer has no
                usable chat template.
        """
        found = pretrained.load(name, device)
        policy = cls(
            found.model,
            found.tokenizer,
            lora=FULL if found.adapter else lora,
            dtype=dtype,
            gradient_checkpointing=gradient_checkpointing,
            name=name,
            images=found.images,
        )
        if found.adapter:
            policy.model = adapters.with_saved(found.model, found.adapter)
            policy._shrink()
        return policy

    def freeze(self) -> Self:
        """Stop training the policy, and store its matrices in `dtype`.

        The outputs of the policy stay the same.
        """
        self.model.requires_grad_(requires_grad=False)
        self._shrink()
        return self

    def store_in_bfloat16(self) -> None:
        """Store trained matrices in bfloat16, too, for an optimiser that rounds stochastically.

        Embeddings, norms and the output layer stay float32.

        Raises:
            ValueError: The dtype of the matrix products is another.
        """
        if self.dtype != torch.bfloat16:
            raise ValueError(
                "update.optimizer='adamw8bit-sr' stores matrices in bfloat16, so their products "
                f"must be in it, got {self.dtype}: set policy.dtype='bfloat16'"
            )
        self._shrink(trained=True)

    def _shrink(self, *, trained: bool = False) -> None:
        """Store matrices in the dtype of the matrix products, by default those not trained."""
        for module in self.matrices():
            if trained or not any(p.requires_grad for p in module.parameters()):
                module.to(self.dtype)

    def matrices(self) -> list[nn.Linear]:
        """The linear layers whose products are in `dtype`: all but the output layer."""
        return transformer.matrices(self.model)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Context in which matrix products use `dtype`, and each weight is rounded only once.

        Weights must not change inside.
        """
        if self.dtype == torch.float32:
            yield
            return
        with torch.autocast(self.device.type, self.dtype):
            yield

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
        return list(self._collect_trained().values())

    def twin(self, name: str) -> Self:
        """A copy of this policy that is trained separately.

        With LoRA it is another adapter of the same model, called `name`; else a second model.
        """
        other = copy.copy(self)
        other.forget_reference()
        if self.has_adapter:
            adapters.add(self.model, name, like=self.adapter)
            other.adapter = name
        elif self.is_sharded:
            other.model = self._make_untrained(self.device)
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
        other.forget_reference()
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
        if self.vision or transformer.has_experts(self.model):
            kind = "a vision-language model" if self.vision else "a mixture of experts"
            raise ValueError(
                f"{self.name!r} is {kind}, which is trained in one process: in several, each "
                "must run the same layers; start it without torchrun"
            )
        base = self.model.get_base_model() if self.has_adapter else self.model
        whole = self.parameters() if self.has_adapter else []
        half = self.dtype == torch.bfloat16 and not self.has_adapter
        sharding.shard(self.model, transformer.blocks(base), whole, half=half)
        if self._reference is not None:
            trained = self._collect_trained()
            self._reference = {
                name: sharding.like(kept, trained[name]) for name, kept in self._reference.items()
            }

    def _make_untrained(self, device: torch.device | str) -> Any:
        """A model of this architecture with other weights."""
        model = transformer.untrained(self.model, device)
        transformer.prepare(model, gradient_checkpointing=self.gradient_checkpointing)
        return model

    def weights(self) -> dict[str, Tensor]:
        """A copy of the trained weights; of a sharded policy, this process's part of them."""
        return {name: p.detach().clone() for name, p in self._collect_trained().items()}

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Set the trained weights to those of `weights()`, of this policy or its twin.

        Raises:
            ValueError: The weights belong to another architecture.
        """
        own = self._collect_trained()
        if missing := own.keys() - weights.keys():
            raise ValueError(f"these weights are of another architecture: no {sorted(missing)[:3]}")
        sharding.assign(own, weights)

    def export_weights(self) -> Iterator[tuple[str, Tensor]]:
        """All weights by their names in a checkpoint of the model, an adapter merged into them.

        Whole weights, one at a time; of a sharded policy all processes must take each of them.
        """
        base = self.model.get_base_model() if self.has_adapter else self.model
        for name, parameter in base.named_parameters():
            if ".lora_" in name:
                continue
            weight = sharding.full(parameter.detach())
            if name.endswith(".base_layer.weight"):
                layer: Any = base.get_submodule(name.removesuffix(".base_layer.weight"))
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

    @contextmanager
    def training(self) -> Iterator[None]:
        """Context in which gradients are computed."""
        self.model.train(self.gradient_checkpointing)
        try:
            with self.active():
                yield
        finally:
            self.model.eval()

    def logits(self, ids: Tensor, keep: Tensor, **context: Any) -> Tensor:
        """Logits at the kept positions only: [B, L] int, [B, L] bool -> [P, V] float32.

        Position l gives the logits of token l + 1; the P kept positions are in row-major order.
        Rows are padded on the right. `context` is passed to the model: a cache with its mask and
        positions, or nothing for whole rows. Memory is O(P V), however long the rows are. The head
        always computes in float32: rounding logits changes log-probabilities by tenths.
        """
        layer = self.model.get_output_embeddings().forward
        _, logits = self._run(ids, lambda hidden: layer(hidden[keep].float()), context)
        never = self._never(logits.device)
        return logits if never is None else logits.index_fill(1, never, NEVER)

    def apply_head(
        self, ids: Tensor, keep: Tensor, value: Callable[[Tensor, Head], Tensor], **context: Any
    ) -> Tensor:
        """Read the last hidden states at the kept positions: [B, L] int, [B, L] bool -> `value`.

        `value` gets the states [P, D] float32 and the output layer. It is called within the forward
        pass of the model, where sharded weights are whole. `context` is passed to the model.

        Raises:
            ValueError: The model changes its logits in a way that is not known, see `Finish`.
        """
        if self._finish is None:
            raise ValueError(
                f"the model {self.name!r} changes the logits of its output layer in another way "
                "than by scaling or soft-capping all of them, so it can be sampled but not "
                "trained; use another model"
            )
        layer = self.model.get_output_embeddings().forward
        head = Head(layer, self._finish, self._never(ids.device))
        made, out = self._run(ids, lambda hidden: value(hidden[keep].float(), head), context)
        # a model may have changed them as if they were logits; still, gradients must pass its
        # output, where modules that shard weights gather them for the backward pass
        return made if out is made else made + 0 * out

    def states(self, ids: Tensor, keep: Tensor, **context: Any) -> Tensor:
        """Last hidden states at the kept positions, the input of the head: -> [P, D] float32."""
        return self.apply_head(ids, keep, lambda states, _: states, **context)

    def _run(
        self, ids: Tensor, head: Callable[[Tensor], Tensor], context: dict[str, Any]
    ) -> tuple[Tensor, Tensor]:
        """Run the model with another function in the place of its output layer.

        Returns the result of `head`, and what the model made of it.
        """
        with self.active(), self.computing():
            return transformer.run(self.model, ids, head, context)

    def _never(self, device: torch.device) -> Tensor | None:
        """Tokens that stand for images, which are never sampled."""
        return torch.tensor(self.vision.marks, device=device) if self.vision else None

    def _detect_finish(self) -> Finish | None:
        """What the model does to the logits of its output layer, None if that is not known."""
        token = torch.zeros(1, 1, dtype=torch.long, device=self.device)

        def finish(logits: Tensor) -> Tensor:
            with torch.no_grad():
                return self._run(token, lambda _: logits.to(token.device), {})[1]

        return Finish.detect(finish, self.vocabulary)

    @property
    def vocabulary(self) -> int:
        """Number of logits of a token, V."""
        return int(self.model.config.get_text_config().vocab_size)

    def prepare_inputs(self, batch: Batch) -> dict[str, Tensor]:
        """Model inputs for a batch beside its tokens: images, and positions of packed rows.

        Raises:
            ValueError: The rows are packed, but the model cannot keep them apart.
        """
        if batch.positions is None:
            return self.encode_images(batch.ids, batch.images)
        if not self._packs:
            if self.vision:
                raise ValueError("update.packed is for text-only models; set update.packed=false")
            packing.check(
                self.states, vocabulary=self.vocabulary, device=self.device, dtype=self.dtype
            )
            self._packs = True
        return {"position_ids": batch.positions}

    def encode_images(self, ids: Tensor, images: Sequence[Picture]) -> dict[str, Tensor]:
        """Model inputs for the images of whole rows [B, L], in row order."""
        return self.vision.encode(ids, images) if self.vision else {}

    def keep_reference(self) -> None:
        """Make the current policy the reference of the KL term.

        Costs a copy of the trained weights; with LoRA that is the adapter.
        """
        self._reference = self.weights()

    def forget_reference(self) -> None:
        """Have no reference, or the model without its adapter."""
        self._reference = None

    @contextmanager
    def as_reference(self) -> Iterator[None]:
        """Context in which the policy is its reference.

        That is the policy at `keep_reference`, else the model without its adapter.

        Raises:
            RuntimeError: All weights are trained and `keep_reference` was never called.
        """
        if self._reference is None and not self.has_adapter:
            raise RuntimeError("there is no reference; call keep_reference before the first update")
        if self._reference is None:
            with self.model.disable_adapter():
                yield
            return
        with sharding.exchanged(self._collect_trained(), self._reference):
            yield

    def _collect_trained(self) -> dict[str, nn.Parameter]:
        """Trained parameters by name; names of adapter weights omit the name of the adapter."""
        named = dict(self.model.named_parameters())
        if not self.has_adapter:
            return {name: p for name, p in named.items() if p.requires_grad}
        mine = f".{self.adapter}."
        return {name.replace(mine, "."): p for name, p in named.items() if mine in name}

    def save(self, folder: Path) -> None:
        """Write weights (or the adapter), tokenizer and reference to `folder`.

        `load` reads the folder. So does transformers, or peft if the base of the adapter is a
        folder or a hub name. Of sharded weights process 0 has the whole in CPU memory meanwhile.
        """
        whole = (
            sharding.gathered(self.model.named_parameters())
            if self.is_sharded and not self.has_adapter
            else {}
        )
        reference = sharding.gathered((self._reference or {}).items())
        parallel.first(lambda: self._write(folder, whole, reference))

    def _write(self, folder: Path, whole: dict[str, Tensor], reference: dict[str, Tensor]) -> None:
        """Write the files of `save`; `whole` has the gathered weights of a sharded model."""
        from safetensors.torch import save_file

        # no embedding has an adapter; to find that out, peft would request the base from the hub
        one = {"save_embedding_layers": False, "selected_adapters": [self.adapter]}
        if whole:
            self._make_untrained("meta").save_pretrained(folder, state_dict=whole)
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
            FileNotFoundError: The folder has no weights.
            ValueError: The weights are damaged, or belong to another architecture.
        """
        if self.has_adapter:
            state = read_tensors(folder / "adapter_model.safetensors")
            missing, unexpected = adapters.restore(self.model, state)
        else:
            state = read_tensors(folder / "model.safetensors")
            missing, unexpected = transformer.restore(self.model, state)
        if missing or unexpected:
            raise ValueError(
                f"{folder} holds another architecture than this policy: "
                f"missing {missing[:3]}, unexpected {unexpected[:3]}"
            )
        kept = folder / REFERENCE
        self._reference = None
        if kept.is_file():
            self._reference = {k: t.to(self.device) for k, t in read_tensors(kept).items()}
