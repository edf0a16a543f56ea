"""How a worker of vLLM takes over weights; `--worker-extension-cls` names this class.

vLLM's CPU build multiplies by a packed copy of the output layer, which reloading leaves as it was
where the layer is tied to the embeddings; here it is packed anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor


class Take:
    """Methods that vLLM adds to its worker class; `collective_rpc` calls them by name."""

    model_runner: Any

    def take_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Load weights that are in this process, by the names of the checkpoint."""
        self.model_runner.reload_weights(weights_iterator=iter(weights))
        self._pack()

    def take_folder(self, folder: str) -> None:
        """Load the `*.safetensors` of a folder that this machine can read."""
        from safetensors.torch import load_file

        files = sorted(Path(folder).glob("*.safetensors"))
        if not files:
            raise FileNotFoundError(
                f"no *.safetensors in {folder}; trainer and server need a folder that both see"
            )
        self.take_weights(pair for file in files for pair in load_file(file).items())

    def _pack(self) -> None:
        head = getattr(self.model_runner.get_model(), "lm_head", None)
        if hasattr(head, "cpu_linear"):
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(head, remove_weight=False)
