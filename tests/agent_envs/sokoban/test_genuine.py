"""gym-sokoban 0.0.6 itself beside our rules; runs where it is installed, see .ci/gym_sokoban."""

import importlib.util
import random

import numpy as np
import pytest

from agent_envs.sokoban.env import ACTIONS, Sokoban
from agent_envs.sokoban.levels import parse_level

installed = importlib.util.find_spec("gym_sokoban") is not None
XSB = {"_": " ", "O": ".", "√": "*", "X": "$", "P": "@", "#": "#"}


class OneRoom(Sokoban):
    """Plays a room that is put in."""

    room_put_in = None

    def begin(self, task_id):
        self.source = type("Source", (), {"load": staticmethod(lambda _: self.room_put_in)})
        return super().begin(task_id)


def write_public(room):
    """The compact text of a room of gym-sokoban."""
    fixed, state = room.room_fixed.astype(int), room.room_state.astype(int)
    letters = np.array(list("#_O√XP"))[state]
    letters[(fixed == 2) & (state == 5)] = "S"  # the player on a target
    return "\n".join("".join(row) for row in letters)


@pytest.mark.genuine
@pytest.mark.skipif(not installed, reason="needs gym-sokoban 0.0.6; see .ci/gym_sokoban")
@pytest.mark.filterwarnings("ignore")
def test_200_rooms_of_gym_sokoban_for_50_steps_each():
    from gym_sokoban.envs.sokoban_env import SokobanEnv

    rng = np.random.default_rng(0)
    random.seed(0)  # the genuine generator draws from the global ones
    np.random.seed(0)  # noqa: NPY002
    env, words, solved = (
        OneRoom(action_space="discrete9", max_turns=50),
        list(ACTIONS["discrete9"]),
        0,
    )
    for number in range(200):
        size, boxes = ((6, 6), 1) if number % 2 else ((7, 7), 2)
        public = SokobanEnv(dim_room=size, num_boxes=boxes, max_steps=1000, reset=False)
        public.reset(render_mode="tiny_rgb_array")
        board = write_public(public)
        rows = board.translate(str.maketrans(XSB)).split("\n")
        env.room_put_in = parse_level(rows, "gym-sokoban")
        observation, _ = env.reset(seed=number)
        assert observation == board
        plan = env.solver.plan(env.state) if number % 4 == 0 else []
        for _ in range(50):
            action = 1 + plan.pop(0) if plan else int(rng.integers(len(words)))
            _, reward, done, _ = public.step(action, observation_mode="tiny_rgb_array")
            observation, ours, terminated, _, _ = env.step(action)
            assert ours == reward
            assert terminated == done
            assert observation == write_public(public)
            if done:
                solved += 1
                break
    assert solved >= 50
