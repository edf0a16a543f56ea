"""Plant faults in a copy of `credit`, one at a time, and report which ones the tests catch.

python tests/credit/mutations.py [--only WORD] [--workers 2]

A fault is a line "module: description (test files)", the removed text after "-" and the inserted
text after "+". The test files run until the first failure, in a process forked from this one, so
that libraries are loaded once. The exit status is 1 if a fault was not caught.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FAULTS = r"""
segments: ddof 0 by default (segments)
-ddof: int = 1
+ddof: int = 0
segments: ddof ignored (segments)
-sizes - ddof
+sizes - 1
segments: eps inside the root (multi_turn)
-np.sqrt(variance) + eps
+np.sqrt(variance + eps)
segments: eps too large (segments)
-eps: float = 1e-6
+eps: float = 1e-2
segments: leave-one-out without m/(m-1) (segments)
-np.maximum(segments.sizes - 1, 1)
+np.maximum(segments.sizes, 1)
segments: no shift before the mean (segments)
-shifted = x - first[ids]
+shifted = x
segments: sign of the deviation (segments)
-return shifted - (
+return -shifted + (
segments: discount towards the past (segments)
-range(len(ends) - 1, 0, -1)
+range(1, len(ends))
segments: discount squared (gigpo)
-+= gamma * returns[later]
++= gamma * gamma * returns[later]
segments: pairs of columns run together (segments gigpo)
-(dense.max(initial=0) + 1) + dense
+dense.max(initial=0) + dense
turns: position from 1 (turns)
-- first[self.trajectory]
+- first[self.trajectory] + 1
turns: last turn one too early (turns)
-ends[:-1] = np.diff
+ends[1:] = np.diff
turns: infinity is accepted (turns)
-as_finite(name, getattr(self, name))
+getattr(self, name)
turns: progress above 1 is accepted (turns)
-| (self.progress > 1)
turns: always the first verifier (turns)
-self.turn_reward_names.index(name)
+0
turns: anchors compared across groups (has relations)
-return segments.make_ids(self.group_of_turn, getattr(self, by))
+return segments.make_ids(getattr(self, by))
trajectory: REINFORCE++ by group (trajectory)
-np.zeros(len(turns.outcome), dtype=np.intp)
+turns.group
trajectory: turn rewards of GRPO-MR subtracted (multi_turn)
-turns.outcome + paid
+turns.outcome - paid
multi_turn: λ on the other term (multi_turn)
-turn + self.lam * outcome
+self.lam * turn + outcome
multi_turn: A^T on the last turn too (multi_turn)
-np.where(turns.last, outcome, turn
+np.where(False, outcome, turn
multi_turn: eps of the paper in the code variant (multi_turn)
-else 1e-4
+else 1e-6
multi_turn: merged advantage everywhere at the end (multi_turn)
-only_turn = turns.last & (turns.position == 0)
+only_turn = turns.last
mgr: β of the other sign (mgr)
-+ self.beta * sign * changed
+- self.beta * sign * changed
mgr: temporal term at the first turn (mgr)
-(turns.position > 0) & (before != sign)
+(before != sign)
mgr: repetition counted from 0 (mgr)
-segments.rank_position(actions) + 1
+segments.rank_position(actions)
mgr: repetitions counted across trajectories (mgr)
-segments.make_ids(turns.trajectory[valid], turns.action[valid])
+segments.make_ids(turns.action[valid])
mgr: gate inverted (mgr)
-< self.p_retain(turns), 1.0, -1.0
+< self.p_retain(turns), -1.0, 1.0
mgr: gate applied to invalid turns (mgr)
-np.where(signal > 0, np.asarray
+np.where(signal < 0, np.asarray
mgr: γ on concordant signs (mgr)
-np.where(conflict, conflict_scale * sign * product, product)
+conflict_scale * np.where(conflict, sign * product, product)
mgr: size of the outcome dropped (mgr)
-signal * np.abs(size)
+signal
mgr: θ_C2 inclusive (mgr)
-completion < self.theta_c2
+completion <= self.theta_c2
mgr: δ dropped (mgr)
-1 - self.delta * completion
+1 - completion
turns: an outcome in the reward is accepted (turns)
-np.array_equal(self.reward[self.last][ended], self.outcome[ended])
+False
turns: the outcome is subtracted from every turn (turns)
-np.where(self.last, self.outcome[self.trajectory], 0.0)
+self.outcome[self.trajectory]
mgr: p_retain can be negative (mgr)
-max(1 - self.delta * completion, 0)
+1 - self.delta * completion
gigpo: outcome on every turn (gigpo)
-np.where(turns.last, turns.outcome[turns.trajectory], 0.0)
+turns.outcome[turns.trajectory]
gigpo: ω dropped (gigpo)
-self.omega * self.step_advantage(turns)
+self.step_advantage(turns)
gigpo: γ = 1 by default (gigpo)
-gamma: float = 0.95
+gamma: float = 1.0
gigpo: mean_norm divided by the deviation (gigpo)
-if self.mode == "mean_norm":
+if self.mode == "mean":
gigpo: states shared by tasks (relations)
-anchors.exact(turns.anchor, turns.group_of_turn)
+anchors.exact(turns.anchor, np.zeros(len(turns)))
anchors: threshold exclusive (anchors)
-if found >= self.threshold and
+if found > self.threshold and
anchors: later of two equal clusters (anchors)
-(found, -candidate) > (ratio, -cluster)
+(found, candidate) > (ratio, cluster)
anchors: bound too tight (anchors)
-bounds: NDArray[np.float64] = 2.0 * common / np.maximum(total, 1)
+bounds: NDArray[np.float64] = 1.9 * common / np.maximum(total, 1)
anchors: the first new cluster is skipped (anchors)
-bounds[:seen] = 0.0
+bounds[: seen + 1] = 0.0
stapo: fence inside out (stapo)
-(values < low) | (values > high)
+(values > low) | (values > high)
stapo: only the upper fence (stapo)
-(values < low) | (values > high)
+values > high
stapo: quartiles at 20% and 80% (stapo)
-[0.25, 0.75]
+[0.2, 0.8]
stapo: α and γ swapped (stapo)
-self.alpha * chosen, (self.penalty == "selective") * self.penalty_weight
+self.penalty_weight * chosen, (self.penalty == "selective") * self.alpha
stapo: mask dropped (stapo)
-chosen = self.mask(turns).astype(np.float64)
+chosen = np.ones(len(turns))
stapo: singleton not raw (stapo)
-segments.count(states) == 1
+segments.count(states) == 0
stapo: penalty added (stapo_terms)
-reward_weight * reward - penalty_weight * penalty
+reward_weight * reward + penalty_weight * penalty
stapo: KL the other way round (stapo_terms)
-kl.categorical(logits, reference)
+kl.categorical(reference, logits)
empg: bonus for the certainty of the same turn (empg)
-np.roll(entropy, -1)
+entropy
empg: bonus after the last turn (empg)
-bonus = np.where(turns.last, 0.0
+bonus = np.where(False, 0.0
empg: g not normalised (empg)
-(certainty / certainty.mean())
+certainty
has: α and 1 - α swapped (has)
-self.alpha * whole + (1 - self.alpha) *
+(1 - self.alpha) * whole + self.alpha *
decomposers: first turn counted from its own progress (has)
-np.where(turns.position == 0, 0.0,
+np.where(turns.position == 0, turns.progress,
decomposers: not clipped (has)
-np.clip(as_finite("values", values), -clip, clip)
+as_finite("values", values)
decomposers: shift of the other sign (has)
-return bounded - (excess
+return bounded + (excess
judge: malformed answers are 0 (judge)
-        raise JudgeError(f"{where} has no JSON list of labels: {answer[:80]!r}")
+        return [0.0] * count
judge: one retry too few (judge)
-tries = self.retries + 1
+tries = self.retries
judge: model not in the key (judge)
-[self.model, prompt, len(texts)]
+[prompt, len(texts)]
istar: α dropped (istar)
-self.alpha * step
+step
istar: implicit rewards within trajectories (istar)
-rewards, turns.group_of_turn, eps
+rewards, turns.trajectory, eps
istar: PRIME's baseline is the own mean (istar)
-rewards - others[trajectory]
+rewards - mean[trajectory]
istar: PRIME sums instead of means (istar)
-np.bincount(trajectory, rewards, count) / np.maximum(length, 1)
+np.bincount(trajectory, rewards, count)
implicit: β dropped (implicit)
-return beta * (upcast
+return (upcast
implicit: reference minus policy (implicit)
-(upcast(logprobs) - upcast(reference))
+(upcast(reference) - upcast(logprobs))
implicit: better and worse swapped (implicit)
-returns[pairs[:, 0]] - returns[pairs[:, 1]]
+returns[pairs[:, 1]] - returns[pairs[:, 0]]
implicit: threshold inclusive (implicit)
-turns.outcome > threshold
+turns.outcome >= threshold
gae: γ missing in the recursion (gae)
-gamma * lam * advantage
+lam * advantage
gae: value added (gae)
-+ gamma * following - value[:, step]
++ gamma * following + value[:, step]
gae: masked places discount (gae)
-torch.where(here, error + gamma * lam * advantage, advantage)
+error + gamma * lam * advantage
surrogate: max instead of min (surrogate)
-return torch.minimum(ratios
+return torch.maximum(ratios
surrogate: low and high swapped (surrogate)
-ratios.clamp(1 - low, 1 + high)
+ratios.clamp(1 - high, 1 + low)
surrogate: old over new (surrogate)
-gap = upcast(logprobs) - upcast(old)
+gap = upcast(old) - upcast(logprobs)
surrogate: value loss takes the smaller error (surrogate)
-torch.maximum(error, (near
+torch.minimum(error, (near
kl: k3 of the other sign (kl)
-gap = -k1(logprobs, reference)
+gap = k1(logprobs, reference)
kl: k2 not halved (kl)
-** 2 / 2
+** 2
kl: KL weighed by the reference (kl)
-(p.exp() * gap)
+(q.exp() * gap)
kl: coefficient the other way round (kl)
-return 2 * coefficient
+return coefficient / 2
tokens: half precision is not upcast (surrogate)
-return x.float() if
+return x if
tokens: mask dropped from the mean (surrogate)
-masked_fill(~chosen, 0.0)
+masked_fill(chosen & ~chosen, 0.0)
turnrd: attention sees padding (turnrd)
-src_key_padding_mask=~inside
+src_key_padding_mask=None
turnrd: softmax over padding (turnrd)
-masked_fill(~inside, -torch.inf)
+masked_fill(~inside, 0.0)
turnrd: FiLM does not start at zero (turnrd)
-nn.init.zeros_(self.film.weight)
+nn.init.ones_(self.film.weight)
turnrd: FiLM without the 1 (turnrd)
-(1 + scale)[:, None]
+scale[:, None]
turnrd: positions dropped (turnrd)
-self.input(given) + positions
+self.input(given)
turnrd: margin subtracted (turnrd)
-(margin - difference)
+(-margin - difference)
turnrd: ranked both ways (turnrd)
-returns[:, None] > returns[None, :]
+returns[:, None] != returns[None, :]
turnrd: prior without any change (turnrd)
-total[:, 0] > 0)
+total[:, 0] >= 0)
filters: mask of equal outcomes (filters)
-) != 0
+) == 0
filters: penalty starts at the maximum (filters)
-- (maximum - buffer)
+- maximum
verifiers: an error counts as executed (verifiers)
-called and not answer.startswith
+called or not answer.startswith
verifiers: case matters (verifiers)
-answer.lower() in _accepted
+answer in _accepted
verifiers: tags may open twice (verifiers)
-count == (1, 1)
+count[0] == count[1]
wrappers: valid turns are penalized (wrappers)
-0.0 if info["valid"] else self.penalty
+self.penalty if info["valid"] else 0.0
wrappers: γ on the previous potential (wrappers)
-self.gamma * self._progress - before
+self._progress - self.gamma * before
wrappers: terms of inner wrappers lost (wrappers)
-{**others, self.name
+{self.name
wrappers: count not reset (wrappers)
-        self._seen = Counter()
+        pass
validation: the caller's array is kept (turns)
-np.array(plain, dtype=kind)
+np.asarray(plain, dtype=kind)
validation: NaN is in every range (has relations)
-if not low <= value <= high:
+if value < low or value > high:
"""


class Fault(NamedTuple):
    """A fault: its module, description, test files, and the text before and after."""

    module: str
    what: str
    tests: list[str]
    before: str
    after: str


def parsed(text: str) -> list[Fault]:
    """Parse the list of faults."""
    found = re.findall(r"^(\w+): (.*) \(([\w ]+)\)\n((?:[-+].*\n)+)", text, re.MULTILINE)
    return [
        Fault(module, what, tests.split(), *("\n".join(lines(body, sign)) for sign in "-+"))
        for module, what, tests, body in found
    ]


def lines(body: str, sign: str) -> list[str]:
    """Lines that start with a sign, without it."""
    return [line[1:] for line in body.splitlines() if line[0] == sign]


def caught(fault: Fault) -> bool:
    """Whether the fault's tests fail on a copy of the package that has the fault."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src" / "credit", Path(folder) / "credit")
        module = Path(folder) / "credit" / f"{fault.module}.py"
        text = module.read_text()
        if fault.before not in text:
            raise ValueError(f"{fault.module} does not contain {fault.before!r}: {fault.what}")
        module.write_text(text.replace(fault.before, fault.after, 1))
        sys.path[:0] = [folder, str(ROOT)]
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        os.chdir(ROOT)
        files = [f"tests/credit/test_{name}.py" for name in fault.tests]
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *files])
        used = str(sys.modules["credit"].__file__).startswith(folder)
    if status not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED} or not used:
        raise RuntimeError(f"{fault.what}: no test ran\n{output.getvalue()}")
    return status == pytest.ExitCode.TESTS_FAILED


def main() -> None:
    """Plant the faults and print one line for each."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--only", default="", help="faults whose module or description has this word"
    )
    options.add_argument("--workers", type=int, default=2)
    given = options.parse_args()
    for library in ("gymnasium", "torch"):
        importlib.import_module(library)
    faults = [fault for fault in parsed(FAULTS) if given.only in f"{fault.module}: {fault.what}"]
    count = 0
    fork = multiprocessing.get_context("fork")
    with fork.Pool(given.workers, maxtasksperchild=1) as pool:
        for fault, found in zip(faults, pool.imap(caught, faults, chunksize=1), strict=True):
            sys.stdout.write(f"{'caught' if found else 'MISSED'}  {fault.module}: {fault.what}\n")
            sys.stdout.flush()
            count += found
    sys.stdout.write(f"{count} of {len(faults)} faults caught\n")
    sys.exit(count < len(faults))


if __name__ == "__main__":
    main()
