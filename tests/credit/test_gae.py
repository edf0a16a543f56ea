"""GAE, padded and ragged."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from credit import gae

torch.set_num_threads(1)


def test_by_hand():
    # gamma = lambda = 0.5: errors 1 + 0.5 * 4 - 2 = 1 and 3 - 4 = -1
    # advantages 1 + 0.5 * 0.5 * -1 = 0.75 and -1
    rewards, values = torch.tensor([[1.0, 3.0]]), torch.tensor([[2.0, 4.0]])
    advantage = gae.compute_padded(rewards, values, torch.ones(1, 2), gamma=0.5, lam=0.5)
    assert advantage.tolist()[0] == pytest.approx([0.75, -1])
    errors = gae.compute_padded(rewards, values, torch.ones(1, 2), gamma=0.5, lam=0.0)
    assert errors.tolist()[0] == pytest.approx([1, -1])


def test_without_critic_it_is_the_return_to_go():  # 1 + 2 + 4, 2 + 4, 4 | 8
    rewards = torch.tensor([1.0, 2.0, 4.0, 8.0])
    advantage = gae.compute_ragged(rewards, torch.zeros(4), torch.tensor([0, 0, 0, 1]), lam=1.0)
    assert advantage.tolist() == pytest.approx([7, 6, 4, 8])


@given(st.lists(st.integers(1, 8), min_size=1, max_size=6), st.floats(0, 1), st.floats(0, 1))
def test_ragged_is_padded(lengths, gamma, lam):
    torch.manual_seed(sum(lengths))
    rewards, values = torch.randn(sum(lengths)), torch.randn(sum(lengths))
    segment = torch.repeat_interleave(torch.arange(len(lengths)) * 3, torch.tensor(lengths))
    advantage = gae.compute_ragged(rewards, values, segment, gamma=gamma, lam=lam)
    start = 0
    for length in lengths:
        rows = slice(start, start + length)
        alone = torch.ones(1, length)
        one = gae.compute_padded(
            rewards[None, rows], values[None, rows], alone, gamma=gamma, lam=lam
        )
        assert advantage[rows].tolist() == pytest.approx(one[0].tolist(), abs=1e-5)
        start += length


def test_gaps_and_padding_do_not_matter():
    # values at tokens of the environment are not read, here NaN
    rewards, values = torch.tensor([[1.0, 3.0]]), torch.tensor([[2.0, 4.0]])
    plain = gae.compute_padded(rewards, values, torch.ones(1, 2), gamma=0.5, lam=0.5)
    nan = torch.nan
    wide = gae.compute_padded(
        torch.tensor([[nan, 1.0, nan, 3.0, nan]]),
        torch.tensor([[nan, 2.0, nan, 4.0, nan]]),
        torch.tensor([[0, 1, 0, 1, 0]]),
        gamma=0.5,
        lam=0.5,
    )
    assert wide[0, [1, 3]].tolist() == pytest.approx(plain[0].tolist())
    assert wide[0, [0, 2, 4]].tolist() == [0, 0, 0]


def test_gradients():
    # gamma 0.9, lambda 0.8: A_1 = r_1 + 0.9 V_2 - V_1 + 0.72 (r_2 - V_2), so that the derivative by
    # V_1 is -1 and that by V_2 is 0.9 - 0.72 = 0.18
    critic = torch.zeros(1, 2, requires_grad=True)
    gae.compute_padded(torch.ones(1, 2), critic, torch.ones(1, 2), gamma=0.9, lam=0.8)[
        0, 0
    ].backward()
    assert critic.grad[0].tolist() == pytest.approx([-1, 0.18])
    values = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    rewards, mask = torch.randn(2, 4, dtype=torch.float64), torch.ones(2, 4)
    mask[1, 2:] = 0
    assert torch.autograd.gradcheck(
        lambda v: gae.compute_padded(rewards, v, mask, gamma=0.9, lam=0.8), values
    )


def test_half_precision_accumulates_in_single():
    rewards = torch.full((1, 600), 1.0, dtype=torch.bfloat16)  # a sum in bfloat16 stays at 256
    mask = torch.ones(1, 600)
    advantage = gae.compute_padded(rewards, torch.zeros_like(rewards), mask, lam=1.0)
    assert advantage[0, 0].item() == pytest.approx(600)


def test_empty():
    none = torch.zeros(0)
    assert gae.compute_ragged(none, none, none.long()).shape == (0,)
    assert gae.compute_padded(torch.zeros(2, 0), torch.zeros(2, 0), torch.zeros(2, 0)).shape == (
        2,
        0,
    )
