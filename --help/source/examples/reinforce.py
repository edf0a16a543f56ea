"""REINFORCE in plain PyTorch: a vector of environments, and `credit` for each turn.

python examples/reinforce.py METHOD STEPS SEED
"""

import sys
import zlib

import numpy as np
import torch
from torch import nn

import agent_envs
import credit

ACTIONS = [*map(str, range(1, 11)), "+", "*", "="]
TASKS, COPIES = 16, 8  # of each step; the copies of a task are a group


def words(texts):
    """Numbers of the hashed words, at most the last ten: cards and formula."""
    rows = [[zlib.crc32(word.encode()) % 4096 for word in text.split()[-10:]] for text in texts]
    return torch.tensor(rows)


def rollout(vec, embed, mix, seeds):
    """One episode of each copy; copies with the same seed get the same task."""
    texts, info = vec.reset(seed=seeds)
    turns, logprobs, entropies = [], [], []
    outcome, running = np.zeros(len(seeds)), np.ones(len(seeds), dtype=bool)
    while running.any():  # a copy that has ended begins another episode, which is ignored
        scores = mix(embed(words(texts))) @ embed(words(ACTIONS)).T / 8
        admissible = [[action in row for action in ACTIONS] for row in info["admissible_actions"]]
        scores = scores.where(torch.tensor(admissible), -1e9)
        choice = torch.distributions.Categorical(logits=scores)
        sampled = choice.sample()
        logprobs.append(choice.log_prob(sampled)[torch.tensor(running)])
        entropies.append(choice.entropy()[torch.tensor(running)])
        actions = [ACTIONS[number] for number in sampled]
        turn = {"uid": seeds, "step": info["turn"], "anchor": info["anchor"], "action": actions}
        texts, _, terminated, truncated, info = vec.step(actions)
        turn |= {"trajectory": range(len(seeds)), **{k: info[k] for k in ("valid", "progress")}}
        turns += [{name: turn[name][row] for name in turn} for row in np.flatnonzero(running)]
        outcome[running] = info["success"][running]
        running &= ~(terminated | truncated)
    columns = {name: [turn[name] for turn in turns] for name in turns[0]}
    columns |= {"outcome": outcome[columns["trajectory"]], "reward": np.zeros(len(turns))}
    return credit.rows(**columns), torch.cat(logprobs), torch.cat(entropies), outcome.mean()


def main(method="has", steps=60, seed=0):
    """Learn to make 12 of two cards."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    vec = agent_envs.make_vec("EZPoints-v0", TASKS * COPIES)
    embed = nn.EmbeddingBag(4096, 64, mode="sum")
    mix = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    optimizer = torch.optim.Adam([*embed.parameters(), *mix.parameters()], lr=3e-3)
    estimator = credit.make(method)
    for step in range(steps):
        seeds = rng.integers(2**31, size=TASKS).repeat(COPIES).tolist()
        rows, logprobs, entropies, success = rollout(vec, embed, mix, seeds)
        advantage = torch.tensor(rows.advantage(estimator(rows.turns, rng)))
        optimizer.zero_grad()
        (-advantage * logprobs - 0.1 * entropies).mean().backward()
        optimizer.step()
        print(f"step {step + 1}: {success:.0%} of the episodes succeed")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
