"""What a step of each method costs, and the same step in TRL where it is installed.

    python benchmarks/trainer.py            # one table; --steps, --tasks, --turns change the load

Every method runs in a process of its own: three steps of 8 games x 8 rollouts of the pocket policy
on embedded AlfWorld, one thread, no evaluation; figures are of the last two steps. Peak memory is
the process's resident set. TRL's GRPOTrainer gets the same model, games, group size and reply
length: single turn as it is meant to be used, and over turns through its `rollout_func`, where each
turn is one call of `model.generate` on the conversation so far, which is all it offers without vLLM.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

METHODS = (
    "grpo", "rloo", "gigpo", "empg", "mgr", "mgr_critic", "ppo", "has_progressive", "has_turnrd_film",
    "istar", "stapo",
)  # fmt: skip


def ours(method: str, steps: int, tasks: int, turns: int) -> dict[str, float]:
    """Figures of our trainer on one method."""
    from trainer import metrics, recipe
    from trainer.train import train

    options = [
        f"run.steps={steps}", "run.threads=1", "sft.steps=0", "run.save_every=1000", "eval.tasks=1",
        f"sampling.tasks={tasks}", f"env.max_turns={turns}", "turnrd.round=1",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        train(recipe.load(f"study/{method}", options), Path(folder))
        lines = [x for x in metrics.read(Path(folder) / "metrics.jsonl") if x["stage"] == "rl"][1:]
    tokens, seconds = (sum(line[key] for line in lines) for key in ("tokens", "seconds"))
    sampling = sum(line["tokens"] / line["tokens_per_second"] for line in lines)
    return {
        "seconds a step": seconds / len(lines),
        "tokens a second": tokens / seconds,
        "of it sampling": sampling / seconds,
        "turns a step": sum(line["turns"] * line["episodes"] for line in lines) / len(lines),
    }


def trl(steps: int, tasks: int, turns: int) -> dict[str, float]:
    """Figures of TRL's GRPOTrainer on the same load."""
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer, LlamaForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    from trainer import recipe
    from trainer.episodes import Episode
    from trainer.parts import make_rollouts
    from trainer.policy import resolve
    from trainer.rollout import draw_tasks, opening

    torch.set_num_threads(1)
    source = resolve("pocket")
    tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left")
    model = LlamaForCausalLM.from_pretrained(source, dtype=torch.float32)
    chosen = recipe.load("study/grpo", [f"env.max_turns={turns}"])
    rollouts = make_rollouts(chosen, "train")
    drawn = draw_tasks(rollouts.panel, tasks=tasks, rollouts=1, seed=0, step=1)
    envs = rollouts._envs(tasks * 8)  # noqa: SLF001
    start = {}
    for task in drawn:
        observation, _ = envs[0].reset(seed=task.seed, options={"task_id": task.task_id})
        start[opening(observation)] = task
    played: list[tuple[int, int]] = []  # turns, tokens of each call

    def generate(prompts: list[str]) -> list[list[int]]:
        given = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
        given.pop("token_type_ids", None)
        with torch.no_grad():
            out = model.generate(
                **given, max_new_tokens=32, do_sample=True, temperature=1.0, top_k=0
            )
        replies = out[:, given["input_ids"].shape[1] :].tolist()
        end = tokenizer.eos_token_id
        return [r[: r.index(end) + 1] if end in r else r for r in replies]

    def play(prompts, trainer):  # noqa: ARG001
        """Every episode turn by turn; the environment's tokens are masked out of the loss."""
        texts = [p if isinstance(p, str) else p[-1]["content"] for p in prompts]
        chats = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
            )
            for text in texts
        ]
        tasks_of = [start[text] for text in texts]
        for env, task in zip(envs, tasks_of, strict=False):
            env.reset(seed=task.seed, options={"task_id": task.task_id})
        ids = [tokenizer.encode(chat, add_special_tokens=False) for chat in chats]
        completions = [[] for _ in texts]
        masks = [[] for _ in texts]
        rewards = [0.0] * len(texts)
        alive, count = list(range(len(texts))), 0
        for turn in range(turns):
            replies = generate([chats[i] for i in alive])
            count += len(alive)
            going = []
            for i, reply in zip(alive, replies, strict=True):
                completions[i] += reply
                masks[i] += [1] * len(reply)
                text = tokenizer.decode(reply, skip_special_tokens=False)
                observation, _, terminated, truncated, info = envs[i].step(
                    text.removesuffix("<|end|>")
                )
                rewards[i] = float(info["success"])
                if not (terminated or truncated) and turn + 1 < turns:
                    message = f"<|user|>{observation}<|end|><|assistant|>"
                    chats[i] += text + message
                    seen = tokenizer.encode(message, add_special_tokens=False)
                    completions[i] += seen
                    masks[i] += [0] * len(seen)
                    going.append(i)
            alive = going
            if not alive:
                break
        played.append((count, sum(map(len, ids)) + sum(map(len, completions))))
        return {
            "prompt_ids": ids,
            "completion_ids": completions,
            "env_mask": masks,
            "logprobs": [[0.0] * len(c) for c in completions],
            "outcome": rewards,
        }

    def reward(completions, **columns):
        return columns.get("outcome") or [float("</action>" in str(c)) for c in completions]

    prompts = [{"prompt": [{"role": "user", "content": text}]} for text in start]
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, per_device_train_batch_size=tasks * 8, num_generations=8,
            max_completion_length=32 if turns == 1 else 4096, max_steps=steps, use_cpu=True,
            report_to="none", beta=0.0, learning_rate=2e-4, save_strategy="no", logging_steps=1,
            temperature=1.0, top_k=0, shuffle_dataset=False, bf16=False,
            gradient_checkpointing=False, disable_tqdm=True,
        )  # fmt: skip
        stamps = [time.monotonic()]
        made = GRPOTrainer(
            model=model, reward_funcs=reward, args=config, processing_class=tokenizer,
            train_dataset=Dataset.from_list(prompts * steps),
            **({"rollout_func": play} if turns > 1 else {}),
        )  # fmt: skip
        step = made.training_step
        made.training_step = lambda *a, **k: (step(*a, **k), stamps.append(time.monotonic()))[0]
        made.train()
    seconds = (stamps[-1] - stamps[1]) / (len(stamps) - 2)
    turns_a_step = tasks * 8 if turns == 1 else sum(n for n, _ in played[1:]) / len(played[1:])
    told = {"seconds a step": seconds, "turns a step": turns_a_step}
    if played:
        told["tokens a second"] = sum(t for _, t in played[1:]) / len(played[1:]) / seconds
    assert Episode  # the import above checks the installation
    return told


def alone(what: str, options: argparse.Namespace) -> dict[str, float]:
    """The figures of one method, from a process of its own."""
    command = [sys.executable, __file__, "--only", what, "--steps", str(options.steps)]
    command += ["--tasks", str(options.tasks), "--turns", str(options.turns)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{what} failed:\n{done.stderr[-3000:]}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--turns", type=int, default=20)
    options = parser.parse_args()
    if options.only:
        load = options.steps, options.tasks, options.turns
        told = trl(*load) if options.only == "trl" else ours(options.only, *load)
        told["peak MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(told))
        return
    peers = ("trl",) if find_spec("trl") else ()
    head = ("seconds a step", "turns a step", "tokens a second", "of it sampling", "peak MiB")
    print(f"{options.tasks} games x 8 rollouts, at most {options.turns} turns, one thread")
    print(f"{'':18}" + "".join(f"{name:>17}" for name in head))
    base = 0.0
    for what in (*METHODS, *peers):
        told = alone(what, options)
        base = base or told["seconds a step"] / told["turns a step"]
        cells = (f"{told[name]:17,.2f}" if name in told else f"{'':17}" for name in head)
        ratio = told["seconds a step"] / told["turns a step"] / base
        print(f"{what:18}" + "".join(cells) + f"   {ratio:.2f} x grpo a turn", flush=True)
    if not peers:
        print("TRL is not installed; pip install trl for its rows")


if __name__ == "__main__":
    main()
