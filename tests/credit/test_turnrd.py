"""TurnRD: FiLM, padding, order, decomposer, losses, probes."""

import math

import numpy as np
import pytest
import torch

from credit.methods import turnrd
from credit.methods.has import HAS
from credit.methods.turnrd import TurnRD, TurnRDDecomposer, TurnRDLoss, TurnRDOutput
from tests.credit.batches import batch

torch.set_num_threads(1)


def model(goal_width=0, **options):
    torch.manual_seed(0)
    made = TurnRD(6, goal_width, max_turns=8, hidden=16, heads=4, **options)
    return made.eval()


def given(lengths=(5, 3, 1), width=6):
    torch.manual_seed(1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.randn(len(lengths), max(lengths), width), mask


def test_film_starts_without_effect():
    states, mask = given()
    plain, aware = model()(states, mask), model(goal_width=3)(states, mask, torch.randn(3, 3))
    for one, other in zip(plain, aware, strict=True):
        assert torch.equal(one, other)
    assert turnrd.film_effect(model(3), states, mask, torch.randn(3, 3)) == 0


def test_film_by_hand():  # with a bias of 1 only, h becomes (1 + 1) h + 0: V - bias is doubled
    states, mask = given()
    aware = model(goal_width=3)
    torch.nn.init.ones_(aware.film.bias[:16])
    plain = model()(states, mask).values - aware.value.bias * mask
    doubled = aware(states, mask, torch.zeros(3, 3)).values - aware.value.bias * mask
    assert torch.allclose(doubled, 2 * plain, atol=1e-6)
    assert turnrd.film_effect(aware, states, mask, torch.zeros(3, 3)) > 0.1


def test_output():
    states, mask = given()
    output = model()(states, mask)
    assert output.weights.sum(-1).tolist() == pytest.approx([1, 1, 1])
    assert (output.weights[~mask] == 0).all()
    assert (output.values[~mask] == 0).all()
    assert output.weights[2, 0].item() == pytest.approx(1)
    assert output.predicted[2].item() == pytest.approx(output.values[2, 0].item())


def test_padding_and_order_do_not_matter():
    states, mask = given()
    output = model()(states, mask)
    wide = torch.cat([states, torch.full((3, 3, 6), torch.nan)], 1)
    more = model()(wide, torch.cat([mask, torch.zeros(3, 3, dtype=torch.bool)], 1))
    assert torch.allclose(more.values[:, :5], output.values, atol=1e-6)
    flipped = model()(states.flip(0), mask.flip(0))
    assert torch.allclose(flipped.predicted.flip(0), output.predicted, atol=1e-6)
    alone = model()(states[1:2, :3], mask[1:2, :3])
    assert torch.allclose(alone.values[0], output.values[1, :3], atol=1e-6)


def test_attention_is_not_causal():  # the first value depends on the last state
    states, mask = given((3,))
    changed = states.clone()
    changed[0, 2] += 1.0
    first = [model()(x, mask).values[0, 0].item() for x in (states, changed)]
    assert first[0] != pytest.approx(first[1], abs=1e-4)


def test_positions_matter():  # the same states in another order have other values
    states, mask = given((3,))
    before, after = model()(states, mask).values, model()(states.flip(1), mask).values.flip(1)
    assert not torch.allclose(before, after, atol=1e-3)


def test_half_precision_states():
    states, mask = given()
    half = model()(states.bfloat16(), mask)
    assert half.values.dtype == torch.float32
    assert torch.allclose(half.values, model()(states.bfloat16().float(), mask).values)


def test_decomposer_sums_to_the_outcome_and_feeds_has():
    turns = batch([3, 1, 2], [1.0, 0.0, 0.5], [0, 0, 0])
    states = torch.randn(6, 6)
    credit_of_turns = TurnRDDecomposer(model(3), states, torch.randn(3, 3))(turns)
    assert np.bincount(turns.trajectory, credit_of_turns) == pytest.approx(turns.outcome, abs=1e-6)
    assert HAS(decomposer=TurnRDDecomposer(model(), states))(turns).shape == (6,)
    assert TurnRDDecomposer(model(), np.zeros((0, 6)))(batch([], [], [])).shape == (0,)


@pytest.mark.parametrize(("goal_width", "length"), [(0, 2), (3, 2), (0, 9)])
def test_a_model_is_made_for_its_turns_and_goals(goal_width, length):
    states, mask = given((length,))
    goal = None if goal_width else torch.randn(1, 3)
    with pytest.raises(ValueError, match=f"max_turns=8 and goal_width={goal_width}, got {length}"):
        model(goal_width)(states, mask, goal if length == 2 else None)


def test_prediction_and_ranking_loss():
    # predicted 0.5, 0.2, 0.2, returns 1, 0, 0: squared errors 0.25, 0.04, 0.04, mean 0.11. Two
    # pairs with difference 0.3, above the margin 0.1: 0
    predicted, returns = torch.tensor([0.5, 0.2, 0.2]), torch.tensor([1.0, 0.0, 0.0])
    assert turnrd.prediction_loss(predicted, returns).item() == pytest.approx(0.11)
    assert turnrd.ranking_loss(predicted, returns).item() == pytest.approx(0)
    # margin 0.5: 0.5 - 0.3 in both pairs
    assert turnrd.ranking_loss(predicted, returns, margin=0.5).item() == pytest.approx(0.2)
    # reversed: 0.1 + 0.3 in both pairs
    assert turnrd.ranking_loss(-predicted, returns).item() == pytest.approx(0.4)
    assert turnrd.ranking_loss(predicted, torch.ones(3)).item() == 0


def test_progress_prior_loss():
    # changes 0.1 and 0.3: p = 1/4, 3/4; w = 1/2 each: log 2. The other trajectory has no change
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    progress = torch.tensor([[0.1, 0.4, 9.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    loss = turnrd.progress_prior_loss(weights, progress, mask)
    assert loss.item() == pytest.approx(math.log(2))
    # only the first turn, with w = 1/4, changed it: -log 1/4
    sharp = turnrd.progress_prior_loss(
        torch.tensor([[0.25, 0.75]]), torch.tensor([[0.4, 0.4]]), torch.ones(1, 2)
    )
    assert sharp.item() == pytest.approx(math.log(4))
    # a decrease is a change too: p = 1/2 each, (log 4 + log 4/3) / 2
    back = turnrd.progress_prior_loss(
        torch.tensor([[0.25, 0.75]]), torch.tensor([[0.4, 0.0]]), torch.ones(1, 2)
    )
    assert back.item() == pytest.approx((math.log(4) + math.log(4 / 3)) / 2)
    none = turnrd.progress_prior_loss(weights[1:], progress[1:], mask[1:])
    assert none.item() == 0


def test_dense_value_loss():  # errors 1 and 3 over two turns: (1 + 9) / 2
    values, dense = torch.tensor([[1.0, 3.0, 0.0]]), torch.tensor([[0.0, 0.0, torch.nan]])
    loss = turnrd.dense_value_loss(values, dense, torch.tensor([[1, 1, 0]]))
    assert loss.item() == pytest.approx(5)


def test_total_loss():
    # prediction (2 - 1)^2 = 1, ranking without pairs 0, progress prior log 2, dense (1 + 9) / 2 = 5
    output = TurnRDOutput(
        torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 3.0]]), torch.tensor([2.0])
    )
    mask, returns = torch.ones(1, 2), torch.tensor([1.0])
    moved, dense = torch.tensor([[0.5, 1.0]]), torch.zeros(1, 2)
    loss = TurnRDLoss(value=2.0)(output, returns, mask, progress=moved, dense=dense)
    assert loss.item() == pytest.approx(1 + 0.01 * math.log(2) + 2 * 5)
    assert TurnRDLoss()(output, returns, mask).item() == pytest.approx(1)


def test_it_learns():  # the return is the sign of the first number of the first state
    torch.manual_seed(0)
    states = torch.randn(64, 4, 6)
    mask, returns = torch.ones(64, 4, dtype=torch.bool), torch.sign(states[:, 0, 0])
    learner = TurnRD(6, max_turns=4, hidden=16, heads=2, layers=1, dropout=0.0)
    optimizer = torch.optim.AdamW(learner.parameters(), lr=5e-3)
    before = TurnRDLoss()(learner(states, mask), returns, mask).item()
    for _ in range(60):
        optimizer.zero_grad()
        loss = TurnRDLoss()(learner(states, mask), returns, mask)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.3 * before


def test_gradients_of_the_losses():
    torch.manual_seed(0)
    values = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    scores = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[1, 2:] = False
    returns = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64)
    progress = torch.rand(3, 4, dtype=torch.float64).cumsum(-1) / 4

    def total(values, scores):
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        kept = values.masked_fill(~mask, 0.0)
        output = TurnRDOutput(weights, kept, (weights * kept).sum(-1))
        return TurnRDLoss()(output, returns, mask, progress=progress, dense=progress)

    assert torch.autograd.gradcheck(total, (values, scores))
    small = TurnRD(2, 2, max_turns=4, hidden=4, layers=1, heads=1).double().eval()
    torch.nn.init.normal_(small.film.weight)
    goal = torch.randn(3, 2, dtype=torch.float64)
    states = torch.randn(3, 4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: small(x, mask, goal).predicted, states)


def test_shuffled_goals_hurt_a_model_that_uses_them():
    states, mask = given((2, 2))
    aware = model(goal_width=1)
    with torch.no_grad():
        aware.film.weight[16:] = 1.0  # the shift equals the goal
    goal = torch.tensor([[1.0], [-1.0]])
    dense = aware(states, mask, goal).values + 0.1
    assert turnrd.shuffle_effect(aware, states, mask, goal, dense)[0] > 1
    # groups of a goal stand together: all of them get the other goal
    many = [part.repeat_interleave(4, 0) for part in (states, mask, goal, dense)]
    assert turnrd.shuffle_effect(aware, *many)[1] == 1
    same = turnrd.shuffle_effect(aware, states, mask, torch.ones(2, 1), dense)
    assert same == (0, 0)
