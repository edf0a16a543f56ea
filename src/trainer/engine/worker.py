"""How a worker of vLLM takes over weights; `--worker-extension-cls` names this class.

vLLM's CPU build multiplies by a packed copy of the output layer, which reloading leaves as it was
where the layer is tied to the embeddings; here it is packed anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

WORKER = "trainer.engine.worker.Take"
_SHAPE = (
    *("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
    *("num_attention_heads", "num_key_value_heads", "tie_word_embeddings"),
)


class Take:
    """Methods that vLLM adds to its worker class; `collective_rpc` calls them by name."""

    model_runner: Any

    def take_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Load weights that are in this process, by the names of the checkpoint."""
        self.model_runner.reload_weights(weights_iterator=iter(weights))
        self._pack()

    def take_folder(self, folder: str) -> None:
        """Load the weights of a folder that this machine can read.

        Raises:
            ValueError: They are of another shape, and would break the model that is served.
        """
        from safetensors.torch import load_file

        given = json.loads((Path(folder) / "config.json").read_text())
        served = self.model_runner.model_config.hf_config.to_dict()
        for name in _SHAPE:
            if name in given and given[name] != served.get(name):
                raise ValueError(
                    f"this server has a model of {name} {served.get(name)}, the policy's is "
                    f"{given[name]}; give engine.urls of the policy's model"
                )
        self.take_weights(load_file(Path(folder) / "model.safetensors").items())

    def _pack(self) -> None:
        head = getattr(self.model_runner.get_model(), "lm_head", None)
        if hasattr(head, "cpu_linear"):
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(head, remove_weight=False)
