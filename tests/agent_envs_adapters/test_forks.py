"""A fork of an episode continues as the original would."""

import pytest
from gymnasium.error import ResetNeeded

from agent_envs_adapters.episodes import Episodes

LOOK, BAG = (f"<think></think><action>{one}</action>" for one in ("look", "inventory"))


@pytest.mark.parametrize("context", ["history", "turn"])
@pytest.mark.parametrize("env", ["AlfWorld-v0", "AppWorld-v1", "Sokoban-v0", "VisualSokoban-v0"])
def test_a_fork_continues_and_neither_changes_the_other(env, context):
    source = Episodes(env, context=context, max_turns=4)
    played, alone = source.start(seed=3), source.start(seed=3)
    played.step(LOOK)
    alone.step(LOOK)
    copied = played.fork()
    for reply in (BAG, "nonsense", LOOK):
        copied.step(reply)
    assert copied.done
    assert len(played.records) == 1
    for reply in (BAG, "nonsense", LOOK):
        assert played.step(reply) == alone.step(reply)
    assert copied.records == played.records == alone.records
    assert (copied.message, copied.images, copied.info) == (
        played.message,
        played.images,
        played.info,
    )


def test_an_ended_episode_has_no_fork():
    source = Episodes("EZPoints-v0")
    played = source.start(seed=1)
    played.stop()
    with pytest.raises(ResetNeeded, match="has ended; start another one"):
        played.fork()
