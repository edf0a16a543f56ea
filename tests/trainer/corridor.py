"""A corridor to walk along: the smallest environment that keeps the whole contract."""

import gymnasium as gym

from agent_envs import AgentEnv, Panel, Turn
from agent_envs.alfworld.prompt import TEMPLATE

PANEL = Panel("train", tuple(f"corridor/{n}" for n in range(1, 6)))
MADE = []


class Corridor(AgentEnv):
    """Walk `n` steps east; walking north is invalid."""

    template = TEMPLATE
    experts = __name__

    def __init__(self, split="train", data="auto", max_turns=50, render_mode=None):
        super().__init__(PANEL, max_turns=max_turns, render_mode=render_mode)
        self.steps = 0
        MADE.append(self)

    def begin(self, task_id):
        self.length, self.at = int(task_id.rpartition("/")[2]), 0
        return f"Walk {self.length} steps.", self._turn()

    def act(self, action):
        self.steps += 1
        self.at += action == "east"
        return self._turn(valid=action == "east")

    def _turn(self, *, valid=True):
        won = self.at == self.length
        return Turn(
            f"You stand at {self.at}.",
            valid=valid,
            invalid_reason="" if valid else "refused",
            progress=self.at / self.length,
            anchor=f"at {self.at}",
            reward=float(won),
            success=won,
            admissible_actions=["east", "north"],
            extra={"strata": {"task_type": "walk"}},
        )


class Unguided(Corridor):
    """The same without an expert."""

    experts = ""


class Silent(Unguided):
    """That without a list of actions, too."""

    def _turn(self, *, valid=True):
        return super()._turn(valid=valid)._replace(admissible_actions=())


class Refusing(Corridor):
    """A corridor that lists only ways that do not exist."""

    def _turn(self, *, valid=True):
        listed = [f"go {word}" for word in ("north", "up", "down", "in", "out")]
        return super()._turn(valid=valid)._replace(admissible_actions=listed)


class Endless(Corridor):
    """A corridor whose end nobody reaches."""

    def begin(self, task_id):
        goal, turn = super().begin(task_id)
        self.length += 1000
        return goal, turn._replace(progress=0.0)


class Settled(Corridor):
    """Corridors that are too long, and such whose end is reached by any way."""

    def act(self, action):
        self.at = self.length - 1 if self.length < 3 else -1
        return super().act("east")


class Paying(Corridor):
    """A corridor that pays 1 to those who do not arrive."""

    def act(self, action):
        turn = super().act(action)
        last = turn.success or self.turn + 1 >= self.max_turns
        return turn._replace(reward=float(last and not turn.success))


class Crowded(Corridor):
    """A corridor with 500 ways, of which one is right."""

    def _turn(self, *, valid=True):
        listed = ["east", *(f"door {number}" for number in range(499))]
        return super()._turn(valid=valid)._replace(admissible_actions=listed)


class Wordy(Corridor):
    """A corridor whose actions have 60 words."""

    ways = tuple(f"{way} {'and on ' * 30}".strip() for way in ("east", "north"))

    def act(self, action):
        return super().act(action.partition(" ")[0])

    def _turn(self, *, valid=True):
        return super()._turn(valid=valid)._replace(admissible_actions=self.ways)


class Lonely(Corridor):
    """A corridor of one task."""

    def __init__(self, **options):
        super().__init__(**options)
        self.panel = PANEL.choose_part(1)


class Toll(Corridor):
    """A corridor that pays each step: the same whichever way comes first."""

    def act(self, action):
        return super().act(action)._replace(reward=0.25 if action == "east" else -0.5)


class Steady:
    """Says the long action of `Wordy`."""

    def __init__(self, env):
        self.env = env

    def think(self):
        return ""

    def act(self):
        return Wordy.ways[0]


class Thinker:
    """Goes east, after a long thought."""

    def __init__(self, env):
        self.env = env

    def think(self):
        return "I go east because " + "the corridor leads there and " * 6

    def act(self):
        return "east"


class Explorer:
    """The expert: always east."""

    def __init__(self, env):
        self.env = env

    def think(self):
        return ""

    def act(self):
        return "east"


def register():
    """Make the corridor known as Corridor-v0."""
    gym.register("Corridor-v0", entry_point=Corridor, order_enforce=False, disable_env_checker=True)
