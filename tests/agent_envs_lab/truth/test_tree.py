"""The tree and its draws against exact values in a world that can be enumerated."""

from functools import cache
from itertools import product
from math import log

import numpy as np
import pytest

from agent_envs_lab.truth import draws
from agent_envs_lab.truth.draws import HALVES, Group, Round
from agent_envs_lab.truth.tree import NotReproducible, Tree, ways_out
from trainer.engine import Begun
from trainer.play.records import Episode, Step

TOKENS, LENGTH, TURNS = 3, 2, 3
REPLIES = [*product(range(TOKENS), repeat=LENGTH)]


class World:
    """Three turns of two tokens each; next tokens depend on all before, the outcome on the sum."""

    def __init__(self, seed):
        self.seed = seed

    @cache  # noqa: B019 - a few hundred states
    def next_token(self, said):
        rng = np.random.default_rng([self.seed, *said, 99])
        return rng.dirichlet(np.full(TOKENS, 0.5))

    def logprobs(self, path, reply):
        said = tuple(token for one in path for token in one)
        return [log(self.next_token((*said, *reply[:k]))[reply[k]]) for k in range(LENGTH)]

    def p(self, path, reply):
        return np.exp(sum(self.logprobs(path, reply)))

    def outcome(self, path):
        return float(sum(map(sum, path)) % 3 == 0)

    @cache  # noqa: B019
    def value(self, path):
        if len(path) == TURNS:
            return self.outcome(path)
        return sum(self.p(path, reply) * self.value((*path, reply)) for reply in REPLIES)

    def sample(self, path, rng, forbidden=()):
        """Outcome of one rollout whose first reply is none of these."""
        while len(path) < TURNS:
            p = np.array([self.p(path, r) * (r not in forbidden) for r in REPLIES])
            path, forbidden = (*path, REPLIES[rng.choice(len(REPLIES), p=p / p.sum())]), ()
        return self.outcome(path)

    def episodes(self, count, rng):
        made = []
        for _ in range(count):
            path = ()
            while len(path) < TURNS:
                p = np.array([self.p(path, r) for r in REPLIES])
                path = (*path, REPLIES[rng.choice(len(REPLIES), p=p / p.sum())])
            made.append(self.episode(path))
        return made

    def episode(self, path):
        steps = [
            Step(str(t), str(r), str(r), [t], list(r), logprobs=self.logprobs(path[:t], r))
            for t, r in enumerate(path)
        ]
        return Episode("task", "goal", 0, 0, "history", steps, outcome=self.outcome(path))


def path_of(tree, at):
    found = []
    while at:
        found.append(tuple(tree.step(tree.nodes[at]).reply_ids))
        at = tree.nodes[at].parent
    return tuple(reversed(found))


def given(tree, at):
    return [tuple(tree.step(tree.nodes[child]).reply_ids) for child in tree.nodes[at].children]


def exact_leaving(world, tree):
    """Value of giving another reply at each node."""
    found = np.zeros(len(tree.nodes))
    for at, node in enumerate(tree.nodes):
        if node.outcome is None:
            path, known = path_of(tree, at), given(tree, at)
            others = [reply for reply in REPLIES if reply not in known]
            p = np.array([world.p(path, reply) for reply in others])
            values = np.array([world.value((*path, reply)) for reply in others])
            found[at] = p @ values / max(p.sum(), 1e-300)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_values_are_exact_where_the_value_of_leaving_is(seed):
    world = World(seed)
    tree = Tree(world.episodes(6, np.random.default_rng(seed)))
    weights, known = tree.values()
    values = weights @ exact_leaving(world, tree) + known
    exact = [world.value(path_of(tree, at)) for at in range(len(tree.nodes))]
    np.testing.assert_allclose(values, exact, atol=1e-5)  # ways below 1e-6 are left out
    assert len(tree.nodes) < 1 + 6 * TURNS  # some turns share their conversation


@pytest.mark.parametrize("seed", range(5))
def test_ways_out_draw_every_other_reply_with_its_probability(seed):
    world = World(seed)
    tree = Tree(world.episodes(6, np.random.default_rng(seed)))
    for at, node in enumerate(tree.nodes):
        if node.outcome is not None:
            assert not node.leaving
            continue
        path = path_of(tree, at)
        for reply in REPLIES:
            p = 0.0
            for begun, way in node.leaving:
                size = len(begun.ids)
                if reply[:size] != begun.ids or reply[size] in begun.without:
                    continue
                logprobs = world.logprobs(path, reply)
                allowed = 1 - sum(
                    np.exp(world.logprobs(path, (*begun.ids, token, *[0] * LENGTH))[size])
                    for token in begun.without
                )
                p += way * np.exp(sum(logprobs[size:])) / allowed
            assert p == pytest.approx(
                0 if reply in given(tree, at) else world.p(path, reply), abs=1e-5
            )


def measured(world, groups, rng, scale_of):
    """Both rounds of both halves, drawn from the world."""

    def play(plans):
        for half in HALVES:
            for group, expected in zip(groups, plans[half], strict=True):
                outcomes = []
                for at, count in enumerate(draws.draw_counts(expected, rng)):
                    path, known = path_of(group.tree, at), given(group.tree, at)
                    outcomes.append([world.sample(path, rng, known) for _ in range(count)])
                group.rounds[half].append(Round(expected, outcomes))

    for group in groups:
        group.rounds = ([], [])
    play([draws.plan_pilot(groups, 20)] * 2)
    play([draws.plan_round(groups, half, scale_of) for half in HALVES])


@pytest.mark.long
def test_advantages_have_no_bias_and_the_error_that_is_said():
    world, rng = World(3), np.random.default_rng(0)
    groups = [Group(Tree(world.episodes(5, rng))) for _ in range(3)]
    exact = []
    for group in groups:
        before, after = group.tree.turns()
        value = [world.value(path_of(group.tree, at)) for at in range(len(group.tree.nodes))]
        exact += [value[b] - value[a] for a, b in zip(before, after, strict=True)]
    found, said, halves = [], [], []
    for _ in range(250):
        measured(world, groups, rng, scale_of=2.0)
        found.append(draws.mean(groups))
        halves.append([np.concatenate([g.advantage(half) for g in groups]) for half in HALVES])
        said.append(draws.errors(groups)[0])
    apart = np.array(found) - exact
    assert np.abs(apart.mean(0)).max() < 4.5 * (apart.std(0) / np.sqrt(len(found))).max()
    assert np.mean(said) == pytest.approx(np.mean(apart**2), rel=0.1)
    one, other = (np.array([pair[half] for pair in halves]) - exact for half in HALVES)
    assert abs(np.mean(one * other)) < 0.05 * np.mean(one**2)  # the halves' errors are independent


def test_what_was_drawn_last_does_not_say_where_to_draw_next():
    """Else successes bring more rollouts than failures, and the means are too low."""
    world, rng = World(3), np.random.default_rng(0)
    groups = [Group(Tree(world.episodes(5, rng))) for _ in range(3)]
    measured(world, groups, rng, scale_of=2.0)
    shares = [draws.find_shares(groups, half) for half in HALVES]
    for group in groups:
        for half in HALVES:
            group.rounds[half][1].outcomes = [
                [1.0 - x for x in one] for one in group.rounds[half][1].outcomes
            ]
    again = [draws.find_shares(groups, half) for half in HALVES]
    for one, other in zip(shares, again, strict=True):
        for before, after in zip(one, other, strict=True):
            np.testing.assert_array_equal(before, after)
    first = groups[0].rounds[0][0]
    first.outcomes = [[1.0 - x for x in one] for one in first.outcomes]
    np.testing.assert_array_equal(draws.find_shares(groups, 0)[0], shares[0][0])
    assert not np.array_equal(draws.find_shares(groups, 1)[0], shares[1][0])


def test_advantages_sum_to_the_outcome_minus_the_value_of_the_start():
    world, rng = World(1), np.random.default_rng(1)
    group = Group(Tree(world.episodes(4, rng)))
    measured(world, [group], rng, scale_of=1.0)
    advantage = draws.mean([group]).reshape(4, TURNS)
    start = (group.value(0)[0] + group.value(1)[0]) / 2
    outcomes = [episode.outcome for episode in group.tree.episodes]
    np.testing.assert_allclose(advantage.sum(1), np.array(outcomes) - start, atol=1e-12)


def test_the_scale_reaches_the_reliability_or_the_cost():
    world, rng = World(5), np.random.default_rng(2)
    groups = [Group(Tree(world.episodes(6, rng))) for _ in range(6)]
    measured(world, groups, rng, scale_of=0.0)
    dear = draws.find_scale(groups, 0.99, most=100.0)
    assert draws.cost(groups, draws.plan_round(groups, 0, dear)) <= 130.0
    cheap = draws.find_scale(groups, 0.02, most=1e6)
    assert draws.cost(groups, draws.plan_round(groups, 0, cheap)) < 100.0
    measured(world, groups, rng, draws.find_scale(groups, 0.9, most=1e5))
    assert draws.reliability(groups) > 0.8


def test_a_round_grows_within_its_limits_and_leaves_a_part_of_what_seems_missing():
    world, rng = World(5), np.random.default_rng(2)
    groups = [Group(Tree(world.episodes(6, rng))) for _ in range(6)]
    measured(world, groups, rng, scale_of=20.0)
    spent = draws.find_scale_cost(groups, 0.0)  # what is expected so far

    def turns(reliability, most):
        plans = draws.plan_next_round(groups, reliability, spent, most)
        return [draws.cost(groups, plan) for plan in plans]

    assert max(turns(0.999, 1e6)) <= 1.1 * draws.GROWTH * spent  # halves differ in spread
    a_little = draws.LEAST_GROWTH * spent
    assert np.mean(turns(0.02, 1e6)) == pytest.approx(a_little, rel=0.1)  # it was reached
    needed = draws.find_scale_cost(groups, draws.find_scale(groups, 0.95, 1e6))
    assert spent < needed < (1 + draws.GROWTH) * spent
    for one in turns(0.95, 1e6):
        assert one == pytest.approx(draws.CAUTION * (needed - spent), rel=0.15)
    assert np.mean(turns(0.999, 1.5 * spent)) <= 1.1 * 0.5 * spent  # likewise


def test_without_a_tree_every_turn_has_a_node_and_all_replies_are_drawn():
    world = World(0)
    episodes = [world.episode(((0, 0), (0, 1), (1, 1)))] * 2
    shared, plain = Tree(episodes), Tree(episodes, plain=True)
    assert (len(shared.nodes), len(plain.nodes)) == (4, 7)
    assert shared.off[0] < 1
    np.testing.assert_array_equal(plain.off, [1, 1, 1, 0, 1, 1, 0])
    weights, known = plain.values()
    np.testing.assert_array_equal(np.diag(weights), plain.off)
    np.testing.assert_array_equal(known[[3, 6]], [episodes[0].outcome] * 2)


def test_equal_replies_with_different_results_are_refused_with_the_first_difference():
    world = World(0)
    one, other = (world.episode(((0, 0), (0, 1), (1, 1))) for _ in range(2))
    other.steps[1].progress = 0.5
    with pytest.raises(NotReproducible, match=r"turn 1, but progress was 0\.0 and 0\.5.*--plain"):
        Tree([one, other])
    other.steps[1].progress, other.steps[2].prompt_ids = 0.0, [7]
    with pytest.raises(NotReproducible, match="turn 1, but the next prompt"):
        Tree([one, other])
    other.steps[2].prompt_ids, other.outcome = [2], one.outcome + 1
    with pytest.raises(NotReproducible, match="turn 2, but the outcome was"):
        Tree([one, other])


def test_a_reply_that_was_certain_leaves_nothing_to_draw():
    step = Step("", "", "", [1], [4, 5], logprobs=[0.0, 0.0])
    assert ways_out([step]) == []


def test_where_all_that_is_allowed_was_given_rounding_is_no_way_out():
    """Rollouts that are encoded with others record a probability with other rounding."""
    replies = [
        Step("", "", "", [1], [token, 9], logprobs=[np.log(p), 0.0], allowed=[[4, 5], [9]])
        for token, p in ((4, 0.6), (5, 0.3999))
    ]
    assert ways_out(replies) == []
    (way,) = ways_out(replies[:1])
    assert way.begun == Begun((), (4,))
    assert way.probability == pytest.approx(0.4)
