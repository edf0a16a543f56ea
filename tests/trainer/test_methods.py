"""Methods that learn beside the policy: their numbers by hand, and runs that go on bit for bit."""

from __future__ import annotations

import copy
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import credit
from agent_envs.net.endpoint import EndpointError
from agent_envs.spaces import Picture
from credit.losses import k3
from credit.methods import istar, turnrd
from credit.methods.has import JudgeError
from tests.agent_envs.chat_server import fails, says
from trainer import recipe
from trainer.engine import Sampler
from trainer.engine.own import OwnEngine
from trainer.errors import RecipeError
from trainer.learn.batch import collate
from trainer.learn.rows import Row, make_rows
from trainer.learn.update import Update, token_logprobs
from trainer.methods import Experience, critic, implicit, make_method, replay
from trainer.methods.turnrd import hidden_states
from trainer.model.policy import Policy
from trainer.model.weights import FULL, LoRA
from trainer.play.records import Step
from trainer.train import train

from .conftest import METHODS, figures, gradient, quiet, rollouts, same, short, tiny, tiny_model


def play(policy, outcomes=(1.0, 0.0, 1.0, 0.0), turns=3, **options):
    """Rollouts of the policy in groups of two, with these outcomes."""
    episodes = rollouts(policy, episodes=len(outcomes), turns=turns, **options)
    for episode, outcome in zip(episodes, outcomes, strict=True):
        episode.outcome = outcome
    turns = credit.Turns.from_episodes(episodes)
    return Experience(1, episodes, turns, make_rows(episodes), np.random.default_rng(0), None, None)


def chosen(*options):
    return recipe.load("alfworld mgr pocket", list(options))


# runs


# `make test` leaves out adapters. Those of no state that another one here lacks go on with an
# adapter only, or without one.
DEAR = {"prime", "critic"}  # of the kind of `istar` and `ppo`
FULL_ONLY, LORA_ONLY = {"ppo", "prime"}, {"istar of tokens", "dapo", "dpo", "has"}


@pytest.mark.parametrize(
    ("name", "lora"),
    [
        *(
            pytest.param(name, 0, marks=pytest.mark.long if name in DEAR or "own" in name else ())
            for name in METHODS
            if name not in LORA_ONLY
        ),
        *(pytest.param(n, 2, marks=pytest.mark.long) for n in METHODS if n not in FULL_ONLY),
    ],
)
def test_a_run_goes_on_bit_for_bit(name, lora, corridor, tiny_folder, tmp_path):
    context = f"prompt.context={'turn' if lora else 'history'}"
    options = [*METHODS[name], f"policy.lora.rank={lora}", *NO_KL]
    options += ["sft.steps=1", "run.steps=2", "run.save_every=1", "run.keep=9", "eval.every=0"]
    options += ["update.warmup=4", "eval.tasks=1", context]
    options += [f"credit.models.prm.model={tiny_folder}"] if name == "istar" else []
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(short(tiny_folder, *options), whole, console=quiet())
    shutil.copytree(whole, cut)
    shutil.rmtree(cut / "checkpoints" / "step_3")
    train(short(tiny_folder, *options), cut, resume=True, console=quiet())
    assert figures(whole) == figures(cut)
    one, other = (run / "checkpoints" / "step_3" for run in (whole, cut))
    for file in one.glob("*.pt"):
        states = [torch.load(folder / file.name, weights_only=True) for folder in (one, other)]
        assert same(*states)
    files = sorted(path.name for path in one.glob("*.safetensors"))
    assert files
    assert all((one / file).read_bytes() == (other / file).read_bytes() for file in files)


CRITIC = "credit.model=critic"
NO_KL = ("update.kl=none", "update.kl_coefficient=0.0", "update.kl_target=0.0")
KEY = "OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([CRITIC, "credit.name=grpo"], "is for MGR or Reinforce, got credit.name='grpo'"),
        (["credit.model=prm"], "model='prm' is for IStar or Prime, got credit.name='mgr'"),
        (["credit.model=turnrd"], "'turnrd' is for HAS, got credit.name='mgr'"),
        (["credit.model=judge"], "'judge' is for HAS, got credit.name='mgr'"),
        (["credit.name=stapo", "credit.model=none"], "'stapo' has no model beside the policy"),
        (["credit.name=dpo", CRITIC], "'dpo' has no model beside the policy; leave out credit.mod"),
        (["credit.name=istar", "credit.options.variant=merged",
          "credit.models.prm.level=token"], "level=token of .* does not read credit.options.vari"),
        (
            [CRITIC, "credit.models.critic.cut_off=value"],
            "cut_off of credit.models.critic needs sequences that go on",
        ),
        (
            [CRITIC, "credit.name=reinforce", "credit.options.row_penalty=0.1"],
            "a critic reads rewards and no row_penalty",
        ),
        ([CRITIC, "credit.models.critic.lam=2"], r"models\.critic\.lam = 2: .*equal to 1"),
        ([CRITIC, "credit.models.critic.learn=1"],
         r"critic\.learn = 1: .* has learning_rate, trunk"),
        (["credit.name=has", "credit.model=judge"], f"needs .*judge.model, .*judge.url .* {KEY}"),
        (["credit.name=has", "credit.model=judge", "credit.models.judge.url=http://me:secret@h"],
         "credit.models.judge: (?!.*secret).*contains a user name, password"),
        (["credit.name=has", "credit.options={alpha='abc'}"], "credit.options of has"),
        (["credit.options={beta=[1]}"], "credit.options of mgr"),
        (
            ["credit.name=has", "credit.model=turnrd", "credit.models.turnrd.heads=3"],
            "credit.models.turnrd: hidden=128 must be a multiple of heads=3",
        ),
        (["credit.name=stapo", "credit.options={lam=true}"], "credit.options of stapo"),
        (["credit.name=dpo", "credit.options={b=1}"],
         r"credit\.options\.b = 1: .* beta, threshold"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(options, message):
    with pytest.raises(RecipeError, match=message):
        make_method(chosen(*options))


def test_a_judge_needs_a_key_or_a_server_of_its_own(monkeypatch):
    judge = ["credit.name=has", "credit.model=judge", "credit.models.judge.model=x"]
    make_method(chosen(*judge, "credit.models.judge.url=http://127.0.0.1:1/v1"))
    monkeypatch.setenv(KEY, "k")
    make_method(chosen(*judge))


# twins


@pytest.mark.parametrize("lora", [FULL, LoRA(rank=2)], ids=["full", "lora"])
def test_a_twin_is_trained_apart(lora):
    policy = tiny(lora=lora)
    start = policy.weights()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.01)
    twin = policy.twin("other")
    batch = collate(make_rows(rollouts(policy)))
    mine, others = (token_logprobs(who, batch) for who in (policy, twin))
    assert torch.equal(mine, others)
    twin.set_weights(start)
    assert not torch.equal(token_logprobs(twin, batch), mine)
    assert torch.equal(token_logprobs(policy, batch), mine)
    with twin.training():
        token_logprobs(twin, batch).sum().backward()
    assert all(p.grad is None for p in policy.parameters())
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in twin.parameters())


# the critic


def turns_of(lengths, outcomes):
    owner = np.repeat(np.arange(len(lengths)), lengths)
    n = len(owner)
    texts = np.array([""] * n, object)
    return credit.Turns(
        group=np.arange(len(lengths)), outcome=outcomes, goal=[""] * len(lengths),
        trajectory=owner, reward=np.zeros(n), valid=np.ones(n, bool), progress=np.zeros(n),
        anchor=texts, action=texts,
    )  # fmt: skip


def test_advantages_by_hand():
    # one trajectory, tokens of turns 0, 0, 1; rewards 2 and 3 at tokens 1 and 2; γ = λ = 1/2
    turn, values = torch.tensor([0, 0, 1]), np.array([1.0, 2.0, 4.0])
    advantage, returns = critic.compute_gae(
        turn, values, np.array([2.0, 3.0]), np.array([0, 0]), gamma=0.5, lam=0.5
    )
    # errors: 0 + .5*2 - 1 = 0;  2 + .5*4 - 2 = 2;  3 - 4 = -1
    assert advantage.tolist() == [0 + 0.25 * (2 - 0.25), 2 - 0.25, -1]
    assert returns.tolist() == [1.4375, 3.75, 3.0]
    # turns as samples of their own: errors 0, 2 - 2; -1
    options = {"gamma": 0.5, "lam": 0.5}
    alone, _ = critic.compute_gae(turn, values, np.array([2.0, 3.0]), np.arange(2), **options)
    assert alone.tolist() == [0.0, 0.0, -1.0]


def test_ppo_is_paid_by_the_environment_and_mgr_by_r_final():
    turns = replace(turns_of([2, 1], [1.0, 0.5]), reward=np.array([0.1, 0.2, 0.0]))
    rng = np.random.default_rng(0)
    paid = critic.compute_turn_rewards(credit.Reinforce(), turns, rng)
    assert paid.tolist() == [0.1, 1.2, 0.5]
    mgr = credit.MGR(gate="none")
    turns = replace(turns, group=np.zeros(2, int), outcome=np.array([1.0, 0.0]))
    assert critic.compute_turn_rewards(mgr, turns, rng).tolist() == mgr.rewards(turns).tolist()


@pytest.mark.parametrize(("span", "raised"), [("auto", False), ("trajectory", True)])
def test_mgr_with_a_critic_raises_no_invalid_turn(tmp_path, span, raised):
    """MGR Algorithm 1, l. 30-32: a turn is a sample, so that no later turn pays an invalid one."""
    options = [CRITIC, "credit.options.gate=none", f"credit.models.critic.span={span}"]
    method = make_method(chosen("credit.name=mgr", *options))
    method.begin(tiny(), tmp_path)
    rollout = play(method.policy)
    valid = np.arange(len(rollout.turns)) % 3 > 0
    rows = method.credit(replace(rollout, turns=replace(rollout.turns, valid=valid))).rows
    turn, before = (np.concatenate([getattr(r, k) for r in rows]) for k in ("turn", "returns"))
    means = np.bincount(turn, before) / np.bincount(turn)  # the critic's values are 0
    assert (means[~valid] > 0).any() == raised


def test_mgrs_algorithm_by_hand(tmp_path, monkeypatch):
    """Algorithm 1 on one task: β 0.1, α 0.5, q 2, conflict scale 0.8; critic with γ 0.9, λ 0.5."""
    valid = np.array([1, 0, 1, 1, 1,  0, 1, 0, 1,  1, 1, 1, 1, 1], bool)  # fmt: skip
    action = ["open", "??", *["look"] * 3, *["go"] * 4, *["go"] * 5]
    turns = turns_of([5, 4, 5], [1.0, 0.0, 0.0])
    turns = replace(turns, group=np.zeros(3, int), valid=valid, action=np.array(action, object))
    # l. 11-12: C = 1/3, V = 11/14, so p_retain = 1 - 1.5/3
    assert credit.MGR().p_retain(turns) == pytest.approx(0.5)
    # l. 14: 3/2 (1 - 1/3) = 1, and 3/2 (0 - 1/3) = -0.5 for both failures
    # l. 19-21, v + temporal + repetition:
    #   1; -1 - 0.1; 1 + 0.1; 1; 1 - 0.5 (third "look")
    #   -1; 1 + 0.1; -1 - 0.1; 1 + 0.1 (second valid "go": those that fail are not counted)
    #   1; 1; 1 - 0.5; 1 - 0.5 * 2; 1 - 0.5 * 3
    # l. 23-29; the generator draws 0.51, 0.95 and 0.14, so the gate flips the second trajectory
    #   1 * 1; 0.8 * -1.1 * 1; 1.1 * 1; 1 * 1; 0.5 * 1
    #   -1 * 0.5; -1 * 0.8 * 1.1 * 0.5; -1.1 * 0.5; -1 * 0.8 * 1.1 * 0.5
    #   0.8 * 1 * 0.5; the same; 0.8 * 0.5 * 0.5; 0; -0.5 * 0.5, since R_local is negative, too
    final = [1.0, -0.88, 1.1, 1.0, 0.5, -0.5, -0.44, -0.55, -0.44, 0.4, 0.4, 0.2, 0.0, -0.25]
    # l. 32: each turn is a sample of two tokens with the values 0.2 and 0.5. Last token: R - 0.5;
    # first: 0.9 * 0.5 - 0.2 = 0.25, and 0.45 times that of the last
    last = [0.5, -1.38, 0.6, 0.5, 0.0, -1.0, -0.94, -1.05, -0.94, -0.1, -0.1, -0.3, -0.5, -0.75]
    first = [
        0.475, -0.371, 0.52, 0.475, 0.25, -0.2, -0.173, -0.2225, -0.173, 0.205, 0.205, 0.115,
        0.025, -0.0875,
    ]  # fmt: skip
    gae = ["credit.models.critic.gamma=0.9", "credit.models.critic.lam=0.5"]
    method = make_method(chosen(CRITIC, "credit.options.conflict_scale=0.8", *gae))
    assert method.estimator.rewards(turns, np.random.default_rng(1)) == pytest.approx(final)
    method.begin(tiny(), tmp_path)
    rows = [Row([7] * 4, [2, 3], [turn] * 2, [0.0, 0.0]) for turn in range(14)]
    monkeypatch.setattr(critic, "annotate_rows", lambda *_, **__: np.tile([0.2, 0.5], 14))
    made = method.credit(Experience(1, [], turns, rows, np.random.default_rng(1), None, None)).rows
    found = np.array([np.subtract(row.returns, row.value) for row in made])
    assert found == pytest.approx(np.stack([first, last], 1))


@pytest.mark.parametrize("context", ["history", "turn"])
def test_a_limit_is_no_end_if_the_critic_says_what_follows(context, tmp_path):
    """A critic that says 0.5 everywhere, γ = λ = 1: A is the outcome, or 0.5, less 0.5."""
    policy = tiny()
    rollout = play(policy, context=context)
    for episode in rollout.episodes[1::2]:  # those without success
        end = list(policy.chat.opening("the end"))
        episode.truncated, episode.after = True, Step("", "", "", end, [])
    for cut_off, after in (("end", 0.0), ("value", 0.5)):
        options = [f"credit.models.critic.{one}" for one in (f"cut_off={cut_off}", "lam=1.0")]
        method = make_method(chosen("credit.name=reinforce", CRITIC, *options))
        method.begin(policy, tmp_path)
        torch.nn.init.constant_(method.learner.model.head.bias, 0.5)
        rows = method.credit(rollout).rows
        owner = rollout.turns.trajectory[[row.turn[0] for row in rows]]
        for row, number in zip(rows, owner, strict=True):
            expected = [0.5, after - 0.5][number % 2]
            assert np.subtract(row.returns, row.value) == pytest.approx(expected, abs=1e-6)


def test_a_critic_learns_what_will_come_and_leaves_the_policy_alone(tmp_path):
    """Outcomes that the first token tells: the critic explains them before the end."""
    policy = tiny()
    before = policy.weights()
    options = ["credit.models.critic.learning_rate=0.05", "credit.models.critic.epochs=30"]
    method = make_method(chosen("credit.name=reinforce", CRITIC, *options))
    method.begin(policy, tmp_path)
    rollout = play(policy)
    first = method.credit(rollout).figures
    assert first["explained_variance"] == pytest.approx(0.0)  # it starts at 0 everywhere
    later = method.credit(rollout).figures
    assert later["explained_variance"] > 0.3
    assert later["value_loss"] < first["value_loss"]
    advantage = np.concatenate([row.advantage for row in method.credit(rollout).rows])
    assert advantage.mean() == pytest.approx(0.0, abs=1e-6)
    assert advantage.std() == pytest.approx(1.0, abs=1e-4)
    assert same(before, policy.weights())
    assert all(p.grad is None for p in policy.parameters())


# implicit rewards


def prm(policy, folder, *options, name="istar"):
    rate = "credit.models.prm.learning_rate=1e-2"
    method = make_method(chosen(f"credit.name={name}", rate, *options))
    method.begin(policy, folder)
    return method


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float32", marks=pytest.mark.long)])
@pytest.mark.parametrize(("lora", "tokens"), [(FULL, 40), (LoRA(rank=2), 8192)])
def test_while_the_model_is_the_policy_there_is_no_step_credit(dtype, tokens, lora, tmp_path):
    policy = tiny(dtype=dtype, lora=lora)
    rollout = play(policy)
    options = f"update.tokens={tokens}", f"policy.dtype={dtype}"
    method = prm(policy, tmp_path, *options)
    assert not method.credit(play(policy, outcomes=(1.0,) * 4)).advantage.any()
    made = method.credit(rollout)  # equal outcomes have taught the model nothing
    assert made.advantage.tolist() == credit.GRPO()(rollout.turns).tolist()
    assert made.figures["prm_pairs"] == 2.0


@pytest.mark.parametrize("context", ["history", "turn"])
def test_the_step_follows_the_gradient_of_the_preference_loss(context, tmp_path):
    """Microbatches of one row each, against the loss differentiated in one piece."""
    policy = tiny()
    rollout = play(policy, context=context)
    method = prm(policy, tmp_path, "update.tokens=1")
    with torch.no_grad():  # away from the start, so that slopes differ between pairs
        for parameter in method.learner.model.parameters():
            parameter.mul_(1.03)
    batch = collate(rollout.rows)
    with torch.enable_grad():
        told = token_logprobs(method.learner.model, batch)
        rewards = istar.turn_rewards(told, batch.logprobs, batch.turn, len(rollout.turns))
        owner = torch.from_numpy(rollout.turns.trajectory.copy())
        returns = torch.zeros(4, dtype=rewards.dtype).index_add(0, owner, rewards)
        loss = istar.dpo_loss(returns, istar.preference_pairs(rollout.turns))
    expected = torch.autograd.grad(loss, method.learner.model.parameters())
    seen = []
    method.learner.options = replace(method.learner.options, grad_norm=1e9)
    method.learner.optimizer.step = lambda: seen.extend(
        p.grad.clone() for p in method.learner.model.parameters()
    )
    figures_ = method.credit(rollout).figures
    assert figures_["prm_loss"] == pytest.approx(loss.item(), rel=1e-4)
    for one, other in zip(seen, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-3)


def test_units_are_cut_by_the_rows_of_their_trajectories():
    group, owner = np.repeat([7, 3, 5], 4), np.repeat(np.arange(12), 2)  # two rows each
    pairs = np.array([(4 * g + a, 4 * g + b) for g in range(3) for a in (0, 1) for b in (2, 3)])

    def cut(units, size, seed=0):
        rng = np.random.default_rng(seed)
        return list(implicit.cut_units(units, group, owner, size=size, rng=rng))

    (whole,) = cut(pairs, 0)
    assert whole.tolist() == pairs.tolist()
    assert cut(pairs[:0], 0) == cut(pairs[:0], 5) == []
    for size, most in ((1, 4), (6, 6), (8, 8), (17, 16), (99, 24)):
        parts = cut(pairs, size)
        assert sorted(map(tuple, np.concatenate(parts))) == sorted(map(tuple, pairs))
        assert max(2 * len(np.unique(part)) for part in parts) == most
    assert [len(part) for part in cut(pairs, 8)] == [4, 4, 4]  # a group each
    assert [len(part) for part in cut(np.arange(12)[:, None], 10)] == [4, 4, 4]  # not 5, 5, 2
    assert len({str(cut(pairs, 8, seed)) for seed in range(9)}) == 9


@pytest.mark.parametrize("context", ["history", "turn"])
def test_each_minibatch_is_rewarded_by_the_model_of_its_time(context, tmp_path, monkeypatch):
    policy, seen, loss_of = tiny(), [], istar.dpo_loss
    rows = 4 if context == "history" else 12  # of two groups of two
    options = f"credit.models.prm.minibatch={rows}", "credit.models.prm.beta=1.0"
    method, rollout = prm(policy, tmp_path, *options), play(policy, (1.0, 0.0) * 6, context=context)
    batch = collate(rollout.rows)

    def watch(returns, pairs):
        with torch.no_grad():
            told = token_logprobs(method.learner.model, batch)
        rewards = istar.turn_rewards(told, batch.logprobs, batch.turn, len(rollout.turns), beta=1.0)
        expected = np.bincount(rollout.turns.trajectory, rewards.numpy())
        here = pairs.flatten()
        assert returns.detach().numpy()[here] == pytest.approx(expected[here], abs=1e-4)
        seen.append((sorted(here), loss_of(returns, pairs)))
        return seen[-1][1]

    monkeypatch.setattr(istar, "dpo_loss", watch)
    told = method.credit(rollout).figures
    assert sorted(np.concatenate([here for here, _ in seen])) == list(range(12))
    assert method.learner.steps == len(seen) == 3
    assert told["prm_loss"] == pytest.approx(np.mean([loss.item() for _, loss in seen]))
    assert len({loss.item() for _, loss in seen[1:]} - {np.log(2)}) == 2  # the model has moved


def test_a_text_model_scores_the_replies_of_a_policy_that_sees(vision_folder, tmp_path):
    """It gets the tokens of the images without their pixels; its state goes on elsewhere."""
    policy = Policy.load(str(vision_folder))
    tiny_model(policy.vocabulary, seed=1).save_pretrained(tmp_path / "text")
    policy.tokenizer.save_pretrained(tmp_path / "text")
    names = f"policy.model={vision_folder}", f"credit.models.prm.model={tmp_path / 'text'}"
    method, blind = prm(policy, tmp_path, *names), Policy.load(str(tmp_path / "text"))
    picture = Picture.of(np.zeros((56, 56, 3), np.uint8))
    rollout = play(policy)
    mark = policy.vision.expand_marks([policy.vision.token], [picture])
    for row in rollout.rows:
        row.ids[:0], row.at[:] = mark, [place + len(mark) for place in row.at]
    rows = [replace(row, images=(picture,)) for row in rollout.rows]
    told = method.credit(replace(rollout, rows=rows)).figures
    batch = collate(rows)
    known, seen = (token_logprobs(one, batch).detach() for one in (blind, policy))
    assert told["prm_kl"] == pytest.approx(k3(seen, known).mean().item(), rel=1e-4)
    assert told["prm_kl"] > 1e-3
    assert not torch.allclose(token_logprobs(method.learner.model, batch), known)
    other = prm(policy, tmp_path, *names)
    other.restore(method.state())
    assert same(other.state(), method.state())


def test_a_model_that_cannot_read_the_policys_tokens_is_refused(tiny_folder, vision_folder):
    names = f"policy.model={tiny_folder}", f"credit.models.prm.model={vision_folder}"
    with pytest.raises(RecipeError, match=r"vision0' has .* of 3\d\d tokens and .* one of 3"):
        make_method(chosen("credit.name=istar", *names))
    with pytest.raises(RecipeError, match=r"prm\.play=5 tells .* and credit\.models\.prm\.model="):
        make_method(chosen("credit.name=istar", *names, "credit.models.prm.play=5"))


def test_a_trained_model_knows_good_from_bad_and_moves_away(tmp_path):
    policy = tiny()
    method = prm(policy, tmp_path, "credit.models.prm.beta=1.0", "update.warmup=4")
    rollout = play(policy)
    told = [method.credit(rollout).figures]
    assert method.learner.optimizer.param_groups[0]["lr"] == pytest.approx(1e-2 / 4)
    told += [method.credit(rollout).figures for _ in range(15)]
    assert abs(told[0]["prm_kl"]) < 1e-9
    assert told[5]["prm_kl"] > told[1]["prm_kl"] > 1e-6
    assert told[-1]["prm_accuracy"] == 1.0
    assert told[-1]["prm_loss"] < 0.1
    advantage = method.credit(rollout).advantage.reshape(4, 3).mean(1)
    assert advantage[0] > 1 > -1 > advantage[1]


def test_groups_without_a_pair_teach_nothing(tmp_path):
    policy = tiny()
    method = prm(policy, tmp_path)
    made = method.credit(play(policy, outcomes=(1.0, 1.0, 0.0, 0.0)))
    assert made.figures["prm_pairs"] == 0.0
    assert "prm_loss" not in made.figures
    assert method.learner.steps == 0


def test_the_model_plays_and_a_model_that_cannot_is_told(tmp_path):
    policy = tiny()
    method, rollout = prm(policy, tmp_path, "credit.models.prm.play=2"), play(policy)
    played = []

    class Watched:
        """Plays what is recorded, with turns that are not valid."""

        def attempt(self, tasks, sampler, seed):
            played.append((tasks, sampler))
            found = copy.deepcopy(rollout.episodes[: len(tasks)])
            for episode in found:
                for step in episode.steps:
                    step.valid = False
            return found

    given = replace(rollout, rollouts=Watched(), sampler=Sampler(OwnEngine(policy), policy))
    assert "prm_valid" not in method.credit(replace(given, step=1)).figures
    assert not played
    with pytest.warns(UserWarning, match=r"no longer plays: 0% of its turns .* 100% of the policy"):
        told = method.credit(replace(given, step=2)).figures
    (tasks, sampler), *_ = played
    assert [task.group for task in tasks] == [0, 1]
    assert sampler.policy is method.learner.model
    assert sampler.engine.policy is method.learner.model
    assert told["prm_valid"] == 0.0
    assert told["prm_success"] == np.mean([one.success for one in rollout.episodes[:2]])


def test_primes_reference_is_the_start(tmp_path):
    policy = tiny()
    policy.keep_reference()
    method = prm(policy, tmp_path, "credit.models.prm.beta=1.0", name="prime")
    rollout = play(policy)
    with torch.no_grad():  # what the policy has become does not matter
        policy.parameters()[0].mul_(1.5)
    kl = method.credit(rollout).figures["prm_kl"]
    assert kl == pytest.approx(0.0, abs=1e-9)  # the model starts at the reference, too
    for _ in range(12):
        told = method.credit(rollout).figures
    assert told["prm_loss"] < 0.3 < np.log(2)


# STAPO's selective terms


def sighted(policy, context="history"):
    """Rollouts with blind prompts, every turn one of two outliers."""
    rollout = play(policy, context=context)
    for episode in rollout.episodes:
        for step in episode.steps:
            step.blind_ids = {"both": list(policy.chat.opening("ok " * 3))}
    return rollout


@pytest.mark.parametrize("estimator", ["exact", "k3"])
@pytest.mark.parametrize("context", ["history", "turn"])
def test_selective_terms_by_autograd(context, estimator, tmp_path):
    """In one piece: α KL(full || blind) - γ KL(blind || reference) of turns 1 and 4, over N."""
    policy = tiny()
    policy.keep_reference()
    with torch.no_grad():
        policy.parameters()[0].mul_(1.02)
    options = [f"credit.options={{alpha=0.5, penalty_weight=0.3, estimator='{estimator}'}}"]
    method = make_method(chosen("credit.name=stapo", "update.tokens=1", *options))
    method.begin(policy, tmp_path)
    rollout = sighted(policy, context)
    turns = len(rollout.turns)
    picked = np.isin(np.arange(turns), [1, 4])
    object.__setattr__(method.estimator, "mask", lambda _: picked)
    made = method.credit(rollout)
    assert made.figures["outliers"] == 2 / turns
    with policy.training():
        loss = made.more(rollout.rows)
    seen = [p.grad.clone() for p in policy.parameters()]
    policy.model.zero_grad()

    terms = []
    steps = [(e, t) for e in rollout.episodes for t in range(len(e.steps))]
    for turn in (1, 4):
        episode, t = steps[turn]
        before = episode.steps[: t + 1] if context == "history" else [episode.steps[t]]
        full = [i for s in before for i in (*s.prompt_ids, *s.reply_ids)]
        size = len(episode.steps[t].reply_ids)
        reply = torch.tensor(episode.steps[t].reply_ids)
        ids = [full, [*episode.steps[t].blind_ids["both"], *episode.steps[t].reply_ids]]

        def logp(tokens, size=size):
            return policy.model(torch.tensor([tokens])).logits[0, -size - 1 : -1].log_softmax(-1)

        with torch.no_grad(), policy.as_reference():
            reference = logp(ids[1])
        told, guessed = logp(ids[0]), logp(ids[1])

        def divergence(p, q, reply=reply):
            if estimator == "exact":
                return (p.exp() * (p - q)).sum(-1).mean()
            p, q = (x.gather(-1, reply[:, None])[:, 0] for x in (p, q))
            return ((q - p).exp() - (q - p) - 1).mean()

        term = 0.5 * divergence(told, guessed) - 0.3 * divergence(guessed, reference)
        (-term / turns).backward()  # before the reference takes the place of the weights again
        terms.append(term.item())
    assert loss == pytest.approx(-sum(terms) / turns, rel=1e-3, abs=1e-6)
    for one, parameter in zip(seen, policy.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, atol=1e-5, rtol=1e-2)


def test_without_outliers_nothing_more_is_computed(tmp_path):
    method = make_method(chosen("credit.name=stapo", "credit.options={lam=1000.0}"))
    policy = tiny()
    method.begin(policy, tmp_path)
    made = method.credit(sighted(policy))
    assert made.more is None
    assert made.figures == {"group_size": 6.0, "outliers": 0.0, "selective_seconds": 0.0}


def test_without_its_terms_stapo_trains_as_gigpo_bit_for_bit(corridor, tiny_folder, tmp_path):
    """App. H, with outliers and a divergence term."""
    options = ["sft.steps=0", "run.steps=2", "run.save_every=2", "eval.every=0", "eval.tasks=1"]
    terms = "credit.options={alpha=0.0, penalty_weight=0.0, lam=0.5}"
    for name, more in (("gigpo", []), ("stapo", [terms])):
        made = short(tiny_folder, *options, f"credit.name={name}", *more)
        train(made, tmp_path / name, console=quiet())
    assert any(line.get("outliers") for line in figures(tmp_path / "stapo"))
    one, other = (tmp_path / name / "checkpoints" / "step_2" for name in ("gigpo", "stapo"))
    file = "model.safetensors"
    assert (one / file).read_bytes() == (other / file).read_bytes()


# multi-turn DPO of the policy


def test_dpo_follows_the_gradient_of_its_loss(tmp_path):
    policy = tiny()
    policy.keep_reference()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(1.02)
    rollout = play(policy)
    method = make_method(chosen("credit.name=dpo", "credit.options={beta=0.5}"))
    method.begin(policy, tmp_path)
    batch = collate(rollout.rows)
    with torch.no_grad(), policy.as_reference():
        reference = token_logprobs(policy, batch)
    told = token_logprobs(policy, batch)
    returns = torch.zeros(4).index_add(0, batch.row, 0.5 * (told - reference))
    loss = istar.dpo_loss(returns, istar.preference_pairs(rollout.turns))
    expected = torch.autograd.grad(loss, policy.parameters())
    made = method.credit(rollout)
    assert made.figures["dpo_loss"] == pytest.approx(loss.item(), rel=1e-4)
    total = sum(len(row.at) for row in rollout.rows)
    for one, other in zip(
        gradient(policy, made.rows, Update(), tmp_path), expected, strict=True
    ):  # the update takes the mean over tokens, of advantages for each of four trajectories
        torch.testing.assert_close(one * total / 4, other, atol=1e-5, rtol=1e-2)


def test_dpo_learns_from_recordings(corridor, tiny_folder, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    brief = ["sft.steps=1", "run.steps=2", "eval.every=0", "run.episodes_every=1"]
    train(short(tiny_folder, *brief), source, console=quiet())
    given = ["credit.name=dpo", f"sampling.recorded={source / 'episodes'}"]
    train(short(tiny_folder, *brief, *given), target, console=quiet())
    assert {line["episodes"] for line in figures(target) if line["stage"] == "rl"} == {16.0}


def test_groups_that_ended_alike_give_way(corridor, tiny_folder, tmp_path):
    options = ["sft.steps=0", "run.steps=1", "sampling.redraws=5", "credit.name=grpo"]
    train(short(tiny_folder, *options), tmp_path, console=quiet())
    (line,) = [line for line in figures(tmp_path) if line["stage"] == "rl"]
    assert line["dead_groups"] == 0.0


# the judge


def judged(endpoint, folder, *options):
    given = {"url": endpoint.url, "model": "stub", "parallel": 1, "retries": 1, "outage": 0.0}
    models = [f"credit.models.judge.{name}={value}" for name, value in given.items()]
    options = ["credit.name=has", "credit.model=judge", "credit.options={alpha=0.0}", *models]
    method = make_method(chosen(*options))
    method.begin(tiny(), folder)
    return method


def refusing(policy):
    rollout = play(policy)
    valid = np.arange(len(rollout.turns)) % 2 == 0
    return replace(rollout, turns=replace(rollout.turns, valid=valid, goal=list("abcd")))


@pytest.mark.parametrize("script", [[], [says("I think it went well.")], [fails(500)]])
def test_a_judge_is_asked_until_it_answers(script, endpoint, tmp_path):
    endpoint.script = list(script)
    method = judged(endpoint, tmp_path)
    rollout = refusing(tiny())
    made = method.credit(rollout)
    expected = credit.HAS(alpha=0.0, decomposer=lambda turns: turns.valid.astype(float))
    assert made.advantage.tolist() == expected(rollout.turns).tolist()
    assert len(endpoint.asked) == 4 + len(script)
    method.credit(rollout)
    assert len(endpoint.asked) == 4 + len(script)  # the answers are kept
    assert len(list((tmp_path / "judge").iterdir())) == 4


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (fails(500), EndpointError, "stub at http://127.* trajectory of 'An agent .*: HTTP 500"),
        (says("Good."), JudgeError, "has no JSON list of labels: 'Good.'"),
    ],
)
def test_a_judge_that_does_not_answer_stops_the_run(answer, error, message, endpoint, tmp_path):
    endpoint.script = [answer] * 100
    with pytest.raises(error, match=message):
        judged(endpoint, tmp_path).credit(refusing(tiny()))


# TurnRD's replay and its stage


def filmed(policy, folder, *options):
    given = {"round": 2, "hidden": 16} | dict(option.split("=") for option in options)
    models = [f"credit.models.turnrd.{name}={value}" for name, value in given.items()]
    method = make_method(chosen("credit.name=has", "credit.model=turnrd", "sft.steps=0", *models))
    method.begin(policy, folder)
    return method


def stepped(rollout, step):
    return replace(rollout, step=step, rng=np.random.default_rng(step))


@pytest.mark.long
def test_the_first_round_is_grpo_and_the_second_has_a_model(tmp_path):
    policy = tiny()
    method, rollout = filmed(policy, tmp_path), play(policy)
    whole = credit.GRPO()(rollout.turns).tolist()
    for step in (1, 2):
        made = method.credit(stepped(rollout, step))
        assert made.advantage.tolist() == whole
        assert made.figures == {"alpha": 1.0}
    made = method.credit(stepped(rollout, 3))
    assert made.advantage.tolist() != whole
    assert made.figures["alpha"] == 0.5
    assert made.figures["turnrd_drift"] < 1e-9  # HAS Sec. 3.3: 2e-6
    told = replay.read_manifest(tmp_path, 0)
    assert told["trajectories"] == 8
    assert told["steps"] == [1, 2]
    assert not told["diverged"]
    assert {
        "error",
        "error_of_mean",
        "film_effect",
        "shuffle_effect",
        "shuffle_worse",
        "film_scale",
    } <= told.keys()


def test_hidden_states_are_those_before_the_end_of_each_reply():
    policy = tiny()
    for context in ("history", "turn"):
        rollout = play(policy, context=context)
        states = hidden_states(policy, rollout.turns, rollout.rows, tokens=50)
        for turn in (0, 4):
            episode = rollout.episodes[turn // 3]
            steps = episode.steps[: turn % 3 + 1] if context == "history" else None
            steps = steps or [episode.steps[turn % 3]]
            ids = [i for s in steps for i in (*s.prompt_ids, *s.reply_ids)][:-1]
            with torch.no_grad():
                hidden = policy.model(torch.tensor([ids]), output_hidden_states=True)
            torch.testing.assert_close(states[turn], hidden.hidden_states[-1][0, -1])


def recorded_run(tmp_path, steps=6, *, options=()):
    """A replay whose returns are told by a state, and whose goals matter: (run folder, stage)."""
    method = filmed(tiny(), tmp_path, *options)
    rng = np.random.default_rng(0)
    for step in range(1, steps + 1):
        lengths = rng.integers(2, 5, size=24)
        outcome = (rng.random(24) < 0.5).astype(float)
        turns = turns_of(lengths, outcome)
        turns = replace(turns, progress=outcome[turns.trajectory])
        sign = rng.choice([-1.0, 1.0], 24)
        states = rng.normal(size=(len(turns), 32)) * 0.1
        first = turns.position == 0
        states[first, 0] = ((2 * outcome - 1) * sign)[turns.trajectory[first]]
        goals = np.zeros((24, 32))
        goals[:, 0] = sign
        replay.append(tmp_path, step, turns, torch.tensor(states), torch.tensor(goals))
    return method


@pytest.mark.long
def test_return_prediction_beats_the_mean_and_uses_the_goal(tmp_path):
    stage = recorded_run(tmp_path, options=["learning_rate=5e-3", "epochs=60"]).stage
    for number in range(3):
        told = replay.train_round(tmp_path, number, stage)
    assert told["error"] < 0.8 * told["error_of_mean"]  # on rounds it had not seen
    assert told["film_effect"] > 0.05
    assert told["shuffle_effect"] > 0.05
    assert told["film_scale"] > 0


def test_a_loss_that_explodes_rolls_back_and_leans_on_the_outcome(tmp_path):
    stage = recorded_run(tmp_path).stage
    replay.train_round(tmp_path, 0, stage)
    worse = replace(stage, options=replace(stage.options, learning_rate=1e9))
    told = replay.train_round(tmp_path, 1, worse)
    assert told["diverged"]
    assert 0.5 < told["alpha"] <= 1.0
    assert same(replay.load_weights(tmp_path, 0), replay.load_weights(tmp_path, 1))


def test_recent_rounds_are_drawn_more_often():
    chance = turnrd.weigh_ages([0] * 4 + [4] * 4, half_life=4.0)
    assert chance[0] == pytest.approx(2 * chance[-1])
    assert chance.sum() == pytest.approx(1.0)


def test_a_round_that_was_interrupted_is_trained_again(tmp_path):
    """Its model is written, and its manifest is not."""
    method, rollout = recorded_run(tmp_path, steps=2), play(tiny())
    whole = method.credit(stepped(rollout, 3))
    path = replay.round_path(tmp_path, 0) / replay.MANIFEST
    told = path.read_text()
    path.unlink()
    assert method.credit(stepped(rollout, 3)).advantage.tolist() == whole.advantage.tolist()
    assert path.read_text() == told
