"""The update: numbers by hand, the same gradient however it is split, and a stop at NaN."""

import math

import numpy as np
import pytest
import torch

from credit import losses
from trainer.learn.batch import collate
from trainer.learn.learner import NotFiniteError
from trainer.learn.rows import credit_rows, make_rows
from trainer.learn.update import Update, token_logprobs, token_logprobs_and_entropies
from trainer.model.weights import FULL, LoRA

from .conftest import gradient, learner, rollouts, tiny


@pytest.mark.parametrize("context", ["history", "turn"])
@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.7}, {"decode": "admissible"}], ids=["free", "cool", "held"]
)
@pytest.mark.parametrize("lora", [FULL, LoRA(rank=2)], ids=["full", "lora"])
def test_recomputed_logprobs_are_the_sampled_ones(context, options, lora, tmp_path):
    policy = tiny(lora=lora)
    rows = make_rows(rollouts(policy, context=context, **options))
    taught = learner(policy, tmp_path, tokens=100)
    figures = Update()(
        taught,
        credit_rows(rows, np.ones(12)),
        rng=np.random.default_rng(0),
        temperature=options.get("temperature", 1.0),
    )
    assert figures["logprob_gap"] < 1e-4
    assert figures["clip_fraction"] == 0.0
    assert figures["approx_kl"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("aggregate", ["token-mean", "sequence-mean"])
@pytest.mark.parametrize("ratio", ["token", "turn", "sequence"])
def test_gradient_does_not_depend_on_the_split(aggregate, ratio, tmp_path):
    policy = tiny()
    rows = make_rows(rollouts(policy))
    nudged = [r.logprobs for r in rows]
    for values in nudged:
        values[:] = [v + 0.1 * math.sin(i) for i, v in enumerate(values)]
    advantage = np.linspace(-1, 2, 12)
    policy.keep_reference()
    with torch.no_grad():
        policy.parameters()[0].mul_(1.02)
    update = Update(aggregate=aggregate, ratio=ratio, kl="k3", entropy=0.01, clip_high=0.05)

    def split(tokens):
        return gradient(policy, credit_rows(rows, advantage), update, tmp_path, tokens=tokens)

    whole = split(100_000)
    for tokens in (1, 150):
        for one, other in zip(whole, split(tokens), strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("ratio", ["token", "turn", "sequence"])
def test_at_ratio_one_the_gradient_is_the_policy_gradient(ratio, tmp_path):
    """-(1 / tokens) sum A grad log p, whatever the ratio is taken over, for one A a sequence."""
    policy = tiny()
    rows = make_rows(rollouts(policy))
    advantage = np.repeat([1.0, -0.5, 2.0, 0.25], 3)
    clipped = gradient(policy, credit_rows(rows, advantage), Update(ratio=ratio), tmp_path)
    policy.model.zero_grad()
    batch = collate(rows)
    logprobs = token_logprobs(policy, batch)
    (-(torch.tensor(advantage)[batch.turn] * logprobs).mean()).float().backward()
    for one, parameter in zip(clipped, policy.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, atol=1e-5, rtol=1e-3)


def test_sequence_mean_weighs_rows_equally(tmp_path):
    """Two rows of unequal length: the loss is the mean of the two rows' own losses."""
    policy = tiny()
    played = rollouts(policy, episodes=2)
    played[1].steps = played[1].steps[:1]
    update = Update(aggregate="sequence-mean")
    both = gradient(policy, credit_rows(make_rows(played), np.ones(4)), update, tmp_path)
    each = [
        gradient(policy, credit_rows(make_rows([p]), np.ones(3)), update, tmp_path) for p in played
    ]
    for whole, one, other in zip(both, *each, strict=True):
        torch.testing.assert_close(whole, (one + other) / 2, atol=1e-6, rtol=1e-4)


def test_entropy_bonus_raises_entropy_and_kl_holds_back(tmp_path):
    def after(**options):
        policy = tiny()
        policy.keep_reference()
        rows = make_rows(rollouts(policy))
        coefficient = 20.0 if "kl" in options else 0.0
        figures = Update(epochs=8, **options)(
            learner(policy, tmp_path, learning_rate=3e-3),
            credit_rows(rows, np.repeat([1.0, -1.0, 1.0, -1.0], 3)),
            rng=np.random.default_rng(0),
            kl_coefficient=coefficient,
        )
        assert figures["logprob_gap"] < 1e-4  # of the first step only
        assert figures["approx_kl"] > 0
        batch = collate(rows)
        with torch.no_grad():
            logprobs, entropies = token_logprobs_and_entropies(policy, batch)
            with policy.as_reference():
                reference = token_logprobs(policy, batch)
        return entropies.mean().item(), losses.k3(logprobs, reference).mean().item()

    plain = after()
    assert after(entropy=1.0)[0] > plain[0] + 0.05
    assert after(kl="k3")[1] < plain[1] / 2


def test_kl_is_zero_at_the_reference_and_its_coefficient_adapts(tmp_path):
    policy = tiny(lora=LoRA(rank=2))
    rows = make_rows(rollouts(policy))
    update = Update(kl="k3", kl_target=0.04, kl_coefficient=1.0)
    figures = update(
        learner(policy, tmp_path),
        credit_rows(rows, np.ones(12)),
        rng=np.random.default_rng(0),
        kl_coefficient=1,
    )
    assert figures["kl"] == pytest.approx(0.0, abs=1e-6)
    assert figures["kl_coefficient"] == 0.5  # 0 < 0.04 / 1.5


def test_warm_up_is_linear(tmp_path):
    policy = tiny()
    rows = make_rows(rollouts(policy, turns=1))
    taught = learner(policy, tmp_path, warmup=4, learning_rate=0.4)
    rates = []
    for _ in range(6):
        figures = Update()(taught, credit_rows(rows, np.ones(4)), rng=np.random.default_rng(0))
        rates.append(figures["learning_rate"])
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_nothing_to_train_on_changes_nothing(tmp_path):
    policy = tiny()
    taught = learner(policy, tmp_path)
    assert Update()(taught, [], rng=np.random.default_rng(0)) == {"kl_coefficient": 0.0}
    assert taught.steps == 0


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_value_that_is_not_finite_stops_with_its_batch(what, tmp_path):
    policy = tiny()
    rows = make_rows(rollouts(policy))
    if what == "loss":
        rows[1].logprobs[0] = math.nan
    else:
        policy.parameters()[-1].register_hook(lambda g: g * math.inf)
    before = [p.detach().clone() for p in policy.parameters()]
    taught = learner(policy, tmp_path / "run")
    with pytest.raises(NotFiniteError, match=rf"the {what} of optimiser step 0 is .*") as error:
        Update()(taught, credit_rows(rows, np.ones(12)), rng=np.random.default_rng(0))
    file = tmp_path / "run" / "not_finite_step_0.pt"
    assert str(file) in str(error.value)
    saved = torch.load(file)
    assert saved["what"] == what
    assert len(saved["rows"]) == 4
    assert set(saved["rows"][0]["advantage"]) == {1.0}
    assert all(torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))
    assert taught.steps == 0


def test_advantages_and_targets_that_cannot_be_are_refused():
    rows = make_rows(rollouts(tiny(), turns=1))
    for call, message in (
        (lambda: credit_rows(rows, [0.0, 1.0, math.nan, 1.0]), "advantage row 2 is nan"),
        (lambda: credit_rows(rows, [0.0, 1.0]), "has 2 rows, but tokens are of turn 3"),
        (lambda: Update(kl="k3", kl_target=0.04), "kl_target=0.04 is not read with kl_coe"),
        (lambda: Update(kl_coefficient=0.5), "kl_coefficient=0.5 is not read with kl=none"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
