"""What a step of each method costs: python benchmarks/trainer.py [--methods mgr ...] [--steps N].

Every method runs in a process of its own: three steps of 8 games x 8 rollouts of the pocket policy
on embedded AlfWorld, one thread, no evaluation; figures are of the steps after the first. Peak
memory is the process's resident set.

Where TRL is installed, its GRPOTrainer takes the same steps beside ours, both with every group in
the update: same model, games, group size, reply limit, rate and chat tokens, no divergence. Over
turns it goes through its `rollout_func`; each turn is a call of the trainer's own generation on the
conversations so far, as in its tool loop, which is what it has without a server for inference.
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
from typing import TYPE_CHECKING, Any

# This file has the name of the package that it measures.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

from agent_envs_lab.papers import read_table  # noqa: E402
from trainer import recipe  # noqa: E402
from trainer.build import make_rollouts  # noqa: E402
from trainer.model.policy import Policy  # noqa: E402
from trainer.play.environments import make_env  # noqa: E402
from trainer.play.episode import render_opening  # noqa: E402
from trainer.play.source import draw_tasks  # noqa: E402
from trainer.run import metrics  # noqa: E402
from trainer.train import train  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.model.chat import Chat
    from trainer.play.records import Task
    from trainer.recipe import Recipe

GROUP = 8
METHODS = (
    *("grpo", "rloo", "gigpo", "empg", "mgr", "mgr_critic", "ppo"),
    *("has_progressive", "has_turnrd_film", "istar", "stapo"),
)


_STUDIES = Path(__file__).parent / "studies.toml"
RECIPES = {
    cells[0].row.label: cells[0].run.recipe
    for cells in read_table(str(_STUDIES), "household").cells
    if cells[0].run
}
"""The recipe of each row of the household table."""


def ours(method: str, steps: int, tasks: int, turns: int, *, dead: bool) -> dict[str, float]:
    """Figures of our trainer on one method, with groups that say nothing in the update or not."""
    options = [
        f"run.steps={steps}", "run.threads=1", "sft.steps=0", "run.save_every=1000", "eval.tasks=1",
        f"sampling.tasks={tasks}", f"env.max_turns={turns}",
        f"sampling.rollouts={GROUP}", f"update.skip_dead_groups={str(not dead).lower()}",
    ]  # fmt: skip
    if "turnrd" in method:
        options.append("credit.models.turnrd.round=1")
    with tempfile.TemporaryDirectory() as folder:
        train(recipe.load(RECIPES[method], options), Path(folder))
        lines = [x for x in metrics.read_log(Path(folder) / "metrics.jsonl") if x["stage"] == "rl"][
            1:
        ]
    tokens, seconds = (sum(line[key] for line in lines) for key in ("tokens", "seconds"))
    sampling = sum(line["tokens"] / line["tokens_per_second"] for line in lines)
    return {
        "seconds a step": seconds / len(lines),
        "tokens a second": tokens / seconds,
        "of it sampling": sampling / seconds,
        "turns a step": sum(line["turns"] * line["episodes"] for line in lines) / len(lines),
    }


class Games:
    """The games as TRL plays them: rollouts of several turns, and rewards.

    Attributes:
        recipe: Whose environment and reply limit these are.
        prompts: The first message of each game, as a conversation.
        counts: Of each step so far: its turns, the tokens of its conversations.
    """

    def __init__(self, chosen: Recipe, chat: Chat, count: int, size: int) -> None:
        self.recipe, self.chat = chosen, chat
        drawn = draw_tasks(
            make_rollouts(chosen, "train").panel, tasks=count, rollouts=1, seed=0, step=1
        )
        self._envs = [make_env(chosen.env, chosen.prompt, split="train") for _ in range(size)]
        self._begin = {self._first(self._envs[0], task): task for task in drawn}
        self.prompts = [[{"role": "user", "content": text}] for text in self._begin]
        self.counts: list[tuple[int, int]] = []

    @staticmethod
    def _first(env: Any, task: Task) -> str:
        return render_opening(env, env.reset(seed=task.seed, options={"task_id": task.task_id})[0])

    def _opened(self, prompts: list[list[dict[str, str]]]) -> list[list[int]]:
        """Reset an environment for each prompt: the prompts' tokens."""
        texts = [prompt[-1]["content"] for prompt in prompts]
        for env, text in zip(self._envs, texts, strict=True):
            self._first(env, self._begin[text])
        return [list(self.chat.opening(text)) for text in texts]

    def valid(self, prompts: Any, completion_ids: Any, **_: object) -> list[float]:
        """Rewards of single turns: 1 for a valid action."""
        first = self._opened(prompts)
        self.counts.append((len(first), sum(map(len, (*first, *completion_ids)))))
        said = [self.chat.text(ids) for ids in completion_ids]
        return [float(env.step(s)[4]["valid"]) for env, s in zip(self._envs, said, strict=True)]

    def success(self, success: list[float], **_: object) -> list[float]:
        """Rewards of conversations, as `play` told them."""
        return success

    def play(self, prompts: Any, trainer: Any) -> dict[str, Any]:
        """Conversations of several turns, with the environment's tokens masked."""
        first = self._opened(prompts)
        after: list[list[int]] = [[] for _ in first]
        mask: list[list[int]] = [[] for _ in first]
        success, alive, turns = [0.0] * len(first), list(range(len(first))), 0
        while alive:
            turns += len(alive)
            seen = [first[i] + after[i] for i in alive]
            told, _ = trainer._generate_single_turn(seen, None, {}, 1)  # noqa: SLF001
            going = []
            for i, reply in zip(alive, told, strict=True):
                observation, _, ended, cut, info = self._envs[i].step(self.chat.text(reply))
                success[i] = float(info["success"])
                more = [] if ended or cut else self.chat.after(reply, observation)
                after[i] += [*reply, *more]
                mask[i] += [1] * len(reply) + [0] * len(more)
                going += [] if ended or cut else [i]
            alive = going
        self.counts.append((turns, sum(map(len, first + after))))
        known = {"prompt_ids": first, "completion_ids": after, "logprobs": None}
        return known | {"env_mask": mask, "success": success}


def trl(steps: int, tasks: int, turns: int) -> dict[str, float]:
    """Figures of TRL's GRPOTrainer."""
    import torch
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    policy = Policy.load("pocket")
    chosen = recipe.load(RECIPES["grpo"], [f"env.max_turns={turns}"])
    games = Games(chosen, policy.chat, tasks * steps, tasks * GROUP)
    stamps: list[float] = []

    class Timed(TrainerCallback):
        def on_step_end(self, *_: object, **__: object) -> None:
            stamps.append(time.monotonic())

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=tasks * GROUP,
            num_generations=GROUP, max_completion_length=chosen.sampling.max_reply_tokens,
            temperature=1.0, top_k=0, beta=0.0, learning_rate=chosen.update.learning_rate,
            gradient_checkpointing=False, bf16=False, use_cpu=True, shuffle_dataset=False,
            report_to="none", save_strategy="no", disable_tqdm=True, logging_steps=1000,
        )  # fmt: skip
        GRPOTrainer(
            model=policy.model, args=config, processing_class=policy.tokenizer, callbacks=[Timed()],
            train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in games.prompts]),
            reward_funcs=games.valid if turns == 1 else games.success,
            rollout_func=None if turns == 1 else games.play,
        ).train()  # fmt: skip
    seconds, late = stamps[-1] - stamps[0], games.counts[1:]
    return {
        "seconds a step": seconds / len(late),
        "tokens a second": sum(tokens for _, tokens in late) / seconds,
        "turns a step": sum(taken for taken, _ in late) / len(late),
    }


def alone(what: str, options: argparse.Namespace, turns: int) -> dict[str, float]:
    """The figures of one method, from a process of its own."""
    command = [sys.executable, __file__, "--only", what, "--steps", str(options.steps)]
    command += ["--tasks", str(options.tasks), "--turns", str(turns)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{what} failed:\n{done.stderr[-3000:]}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=METHODS)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--only", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        load = options.steps, options.tasks, options.turns
        method, _, groups = options.only.partition("+")
        told = trl(*load) if method == "trl" else ours(method, *load, dead=bool(groups))
        told["peak MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(told))
        return
    table(f"at most {options.turns} turns", options.methods, options, options.turns)
    if find_spec("trl") is None:
        print("\nTRL is not installed: pip install trl for its GRPOTrainer beside ours")
        return
    for turns in (1, options.turns):
        table(f"at most {turns} turns, every group", ("grpo+dead", "trl"), options, turns)


def table(head: str, rows: Sequence[str], options: argparse.Namespace, turns: int) -> None:
    """Print one table; ratios are to its first row."""
    names = ("seconds a step", "turns a step", "tokens a second", "of it sampling", "peak MiB")
    print(f"{options.tasks} games x {GROUP} rollouts, {head}, one thread")
    print(f"{'':18}" + "".join(f"{name:>17}" for name in names) + "   seconds a turn")
    base = 0.0
    for what in rows:
        told = alone(what, options, turns)
        each = told["seconds a step"] / told["turns a step"]
        base = base or each
        cells = (f"{told[name]:17,.2f}" if name in told else f"{'':17}" for name in names)
        print(f"{what:18}" + "".join(cells) + f"   {each / base:.2f} x {rows[0]}", flush=True)
    print()


if __name__ == "__main__":
    main()
