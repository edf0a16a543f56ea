"""A world on trial: what it does at a reset, in play, again and when it is forked."""

import copy
import json
import re
import signal
import sys
import warnings

import numpy as np

from agent_envs.foreign.textarena import make
from agent_envs.testing import check_agent_env

SECONDS = 120
"""Most seconds of an id."""
SLOW = {"RushHour-v0"}
"""Games whose resets take seconds: they do not meet the whole kit."""


class OutOfTimeError(BaseException):
    """An id takes too long; no handler of errors in a game catches it."""


def give_up(*_):
    raise OutOfTimeError


def actions(env, rng):
    """An actor that repeats texts in brackets which it read, often with other digits."""
    shown = ["I agree."]

    def act(observation, info):
        shown.extend(re.findall(r"\[[^\[\]\n]+\]", observation))
        text = shown[-int(rng.integers(1, 1 + min(len(shown), 30)))]
        return re.sub(r"\d", lambda _: str(rng.integers(9)), text) if rng.random() < 0.3 else text

    return act


def play(env, script=None, fork=-1):
    """Up to ten turns from one seed; its records, its actions, and a copy made at a turn."""
    act, records, twin = actions(env, np.random.default_rng(0)), [env.reset(seed=3)], None
    done = []
    while len(done) < (10 if script is None else len(script)):
        twin = copy.deepcopy(env) if len(done) == fork else twin
        info = records[-1][-1]
        done.append(act(records[-1][0], info) if script is None else script[len(done)])
        records.append(env.step(done[-1]))
        if records[-1][2] or records[-1][3]:
            break
    return records, done, twin


def try_game(name, kit, **options):
    """Refuse a game whose episodes do not repeat, do not fork, or break the contract."""
    env = make(name, max_turns=12, **options)
    records, done, _ = play(env)
    assert play(env, done)[0] == records, "another episode with the same seed and actions"
    half = len(done) // 2
    twin = play(env, done, fork=half)[2]
    later = [twin.step(action) for action in done[half:]]
    assert later == records[half + 1 :], "a copy continues in another way"
    assert any(record[-1]["invalid_reason"] != "error" for record in records[1:]), (
        f"every move raises: {records[-1][0]}"
    )
    if kit:
        check_agent_env(env, actions=actions)
    return {"anchor": env.unwrapped.anchor, "turns": len(done)}


def say_nothing(text):
    return "I pass."


def try_id(name, kit):
    """What came of an id: how it works, or why it does not."""
    signal.alarm(SECONDS)
    try:
        try:
            return try_game(name, kit) | {"opponent": ""}
        except ValueError as error:
            if "give opponent=" not in str(error):
                raise
            return try_game(name, kit, opponent=say_nothing) | {"opponent": str(error)}
    except OutOfTimeError:
        return {"why": f"more than {SECONDS} s"}
    except Exception as error:  # noqa: BLE001  it is reported
        return {"why": f"{type(error).__name__}: {error}"}
    finally:
        signal.alarm(0)


def main(part, parts):
    """Try all ids of every `parts`-th class of games; the first that works meets the whole kit."""
    from textarena.envs.registration import ENV_REGISTRY

    signal.signal(signal.SIGALRM, give_up)
    groups = {}
    for name, entry in ENV_REGISTRY.items():
        if not name.endswith(("-train", "-raw")):
            groups.setdefault(entry.entry_point, []).append(name)
    for names in list(groups.values())[part::parts]:
        kit = True
        for name in names:
            found = try_id(name, kit and name not in SLOW)
            kit = kit and "why" in found
            print(json.dumps({"id": name} | found), flush=True)  # noqa: T201  to the test


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*map(int, sys.argv[1:]))
