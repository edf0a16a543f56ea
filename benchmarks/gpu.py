"""One GPU: what sampling, update and a whole step cost: python benchmarks/gpu.py [--size 1.5b].

A random model of Qwen2.5's shape is made from a config (no hub) and trained by GRPO on embedded
household games: bfloat16 products, float32 weights, one prompt a turn. Figures are means over the
steps after the first; the run is then resumed from its checkpoint for one more. Beside the figures
stand two limits of the device: an update of N weights needs 6 N floating-point operations a token,
and a decoded token of a small batch reads all weights once. --size tiny runs on one core of a CPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import torch  # noqa: E402
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM  # noqa: E402

from trainer import recipe  # noqa: E402
from trainer.model.pretrained import resolve  # noqa: E402
from trainer.run import metrics  # noqa: E402
from trainer.train import train  # noqa: E402

SIZES = {  # hidden, intermediate, layers, heads, key-value heads, vocabulary
    "tiny": (128, 256, 2, 2, 1, 4096),
    "0.5b": (896, 4864, 24, 14, 2, 151936),
    "1.5b": (1536, 8960, 28, 12, 2, 151936),
}
GIB = 2.0**30


def model(size: str, folder: Path) -> int:
    """Write a random model with the pocket policy's tokenizer; the number of its weights."""
    hidden, between, layers, heads, groups, words = SIZES[size]
    tokenizer = AutoTokenizer.from_pretrained(resolve("pocket"))
    torch.manual_seed(0)
    made = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=words,
            hidden_size=hidden,
            intermediate_size=between,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=groups,
            max_position_embeddings=32768,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return made.num_parameters()


def peak(device: str) -> float:
    """Operations a second of one large product of bfloat16 matrices."""
    size = 8192 if device == "cuda" else 1024
    one = torch.rand(size, size, device=device, dtype=torch.bfloat16)

    def timed(count: int) -> float:
        start = time.monotonic()
        for _ in range(count):
            one @ one
        if device == "cuda":
            torch.cuda.synchronize()
        return time.monotonic() - start

    timed(3)
    return 20 * 2 * size**3 / timed(20)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="0.5b")
    parser.add_argument("--rollouts", type=int, default=64)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--engine", choices=["own", "vllm"], default="own")
    given = parser.parse_args()
    if given.engine == "vllm" and not find_spec("vllm"):
        sys.exit("vLLM is not installed: pip install 'agent-envs[vllm]', or --engine own")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        weights = model(given.size, folder / "model")
        options = [
            f"policy.model={folder / 'model'}", "policy.dtype=bfloat16", "policy.lora.rank=0",
            "policy.gradient_checkpointing=true", f"engine.name={given.engine}",
            "prompt.context=turn", "sft.steps=0", f"run.steps={given.steps}", "run.save_every=1",
            f"sampling.tasks={max(given.rollouts // 8, 1)}", "sampling.max_reply_tokens=64",
            f"sampling.rollouts={min(given.rollouts, 8)}", f"env.max_turns={given.turns}",
            "update.tokens=16384", "update.skip_dead_groups=false", "update.learning_rate=1e-6",
            "eval.tasks=1", "eval.every=0", f"run.threads={int(given.size == 'tiny')}",
        ]  # fmt: skip
        train(recipe.load("alfworld grpo", options), folder / "run")
        lines = [x for x in metrics.read_log(folder / "run/metrics.jsonl") if x["stage"] == "rl"][
            1:
        ]
        more = [*options, f"run.steps={given.steps + 1}"]
        train(recipe.load("alfworld grpo", more), folder / "run", resume=True)
        resumed = metrics.read_log(folder / "run/metrics.jsonl")[-1]
    tokens, seconds = (sum(line[key] for line in lines) for key in ("tokens", "seconds"))
    sampling = sum(line["tokens"] / line["tokens_per_second"] for line in lines)
    turns = sum(line["turns"] * line["episodes"] for line in lines)
    top = peak(device)
    print(f"\n{name}, {given.size}: {weights / 1e6:,.0f} million weights, engine {given.engine}")
    print(f"{'seconds a step':32}{seconds / len(lines):12,.1f}")
    print(f"{'turns a step':32}{turns / len(lines):12,.0f}")
    print(f"{'tokens a step':32}{tokens / len(lines):12,.0f}")
    print(f"{'sampling, tokens/s':32}{tokens / sampling:12,.0f}")
    print(f"{'update, tokens/s':32}{tokens / (seconds - sampling):12,.0f}")
    used = 6 * weights * tokens / (seconds - sampling)
    print(f"{'update, share of the peak':32}{used / top:12.0%}   of {top / 1e12:,.1f} TFLOP/s")
    print(f"{'limit: bytes a decoded token':32}{2 * weights / GIB:12,.2f}   GiB in bfloat16")
    if device == "cuda":
        print(f"{'peak memory, GiB':32}{torch.cuda.max_memory_allocated() / GIB:12,.1f}")
    print(f"{'resumed, seconds of its step':32}{resumed['seconds']:12,.1f}")


if __name__ == "__main__":
    main()
