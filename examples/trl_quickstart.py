"""TRL's GRPOTrainer learns household games with MGR on a CPU: pip install '.[trl]'.

torchrun --nproc-per-node 2 examples/trl_quickstart.py  # or: python examples/trl_quickstart.py
"""

import os
from pathlib import Path

from rich import print as show
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig

from agent_envs import evaluation
from agent_envs_adapters.episodes import Episodes
from agent_envs_adapters.trl import CreditGRPOTrainer, Rollout, dataset
from trainer import recipe
from trainer.build import evaluate_model
from trainer.model.pretrained import resolve

OUT, PROCESSES = Path("runs/trl-quickstart"), int(os.environ.get("WORLD_SIZE", "1"))
STEPS, TASKS, ROLLOUTS, ROWS = 20, 16, 8, 32  # ROWS: of a forward and backward pass


def evaluated(model: str, path: Path) -> evaluation.Evaluation:
    """Greedy success on 120 held-out games, played by all processes and saved."""
    args.distributed_state.wait_for_everyone()  # process 0 writes the model and the file
    if not path.is_file():
        options = ["run.threads=1", f"policy.model={model}"]
        found = evaluate_model(recipe.load("alfworld mgr pocket", options))
        if args.process_index == 0:
            found.save(path)
        args.distributed_state.wait_for_everyone()
    return evaluation.load(path)


args = GRPOConfig(
    str(OUT),
    use_cpu=True,
    bf16=False,
    gradient_checkpointing=False,
    max_steps=STEPS,
    per_device_train_batch_size=ROWS,
    gradient_accumulation_steps=TASKS * ROLLOUTS // (ROWS * PROCESSES),
    num_generations=ROLLOUTS,
    max_completion_length=4096,
    learning_rate=2e-4,
    lr_scheduler_type="constant_with_warmup",
    warmup_steps=2,
    loss_type="grpo",  # a mean over episodes: failures are twice as long as successes
    logging_steps=1,
    save_steps=2,
    save_total_limit=1,
    report_to="none",
)
start = evaluated("pocket", OUT / "start.json")
episodes = Episodes("AlfWorld-v0", data="embedded", max_turns=15)
grpo = CreditGRPOTrainer(
    resolve("pocket"),
    args=args,
    train_dataset=dataset(episodes, TASKS * STEPS, seed=args.seed),
    rollout_func=Rollout(episodes, max_reply_tokens=32),
    credit="mgr",
)
grpo.train(resume_from_checkpoint=get_last_checkpoint(OUT))
grpo.save_model(str(OUT / "policy"))

end = evaluated(str(OUT / "policy"), OUT / "end.json")
if args.process_index == 0:
    show(evaluation.make_table(end, before=start))
grpo.accelerator.end_training()  # a process group that is still open may abort the exit
