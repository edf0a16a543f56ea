"""Several worlds in one run: one environment that plays the world that a task's id names.

A task's id is `WORLD/ID`. Groups are of one task, so advantages never compare worlds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from agent_envs.panels import Panel, draw_numbers
from agent_envs.spaces import FreeText

if TYPE_CHECKING:
    Stepped = tuple[Any, Any, bool, bool, dict[str, Any]]


class MixedPanel(Panel):
    """The tasks of several worlds, from which each is drawn by its weight."""

    panels: dict[str, Panel]
    weights: dict[str, float]

    def __init__(self, panels: Mapping[str, Panel], weights: Mapping[str, float]) -> None:
        vars(self).update(panels=dict(panels), weights=dict(weights))  # a Panel is frozen
        splits = dict.fromkeys(panel.split for panel in panels.values())
        super().__init__(
            "+".join(splits),
            tuple(f"{name}/{one}" for name, panel in panels.items() for one in panel.task_ids),
            "+".join(f"{name}={panel.source}" for name, panel in panels.items()),
            {
                f"{name}/{one}": origin
                for name, panel in panels.items()
                for one, origin in panel.origins.items()
            },
        )

    def draw_rows(self, count: int, rng: np.random.Generator) -> list[int]:
        """As many tasks of each world as its weight is of all, in turn."""
        starts = np.cumsum([0, *map(len, self.panels.values())])
        parts = zip(self.panels.values(), self._share(count, rng), starts, strict=False)
        return [
            int(start) + row
            for panel, part, start in parts
            for row in draw_numbers(len(panel), part, rng)
        ]

    def choose_part(self, count: int) -> MixedPanel:
        """The panel with so many tasks, of each world by its weight."""
        shares = self._share(count, np.random.default_rng(0))
        pairs = zip(self.panels.items(), shares, strict=True)
        parts = {name: panel.choose_part(share) for (name, panel), share in pairs if share}
        return MixedPanel(parts, self.weights)

    def _share(self, count: int, rng: np.random.Generator) -> list[int]:
        """`count` divided by weight; what is left over goes to random worlds."""
        weights = np.array([self.weights[name] for name in self.panels])
        exact = count * weights / weights.sum()
        whole = np.floor(exact + 1e-9).astype(int)
        left = count - int(whole.sum())
        if left:
            rest = np.maximum(exact - whole, 0)
            for world in rng.choice(len(whole), left, replace=False, p=rest / rest.sum()):
                whole[world] += 1
        return [int(share) for share in whole]


class Mixture(gym.Env[Any, str]):
    """Plays in one of several worlds, each with its wrappers; `unwrapped` is that of the last task.

    Args:
        worlds: The environments by name.
        weights: Shares of the tasks that are drawn of each.
    """

    def __init__(
        self, worlds: Mapping[str, gym.Env[Any, str]], weights: Mapping[str, float]
    ) -> None:
        self.worlds = dict(worlds)
        panels = {name: _read_panel(world) for name, world in worlds.items()}
        self.panel = MixedPanel(panels, weights)
        self.world = next(iter(self.worlds.values()))
        self.name = next(iter(self.worlds))
        self.action_space = self.observation_space = FreeText()

    @property
    def unwrapped(self) -> gym.Env[Any, str]:
        """The environment of the running episode, without wrappers."""
        return self.world.unwrapped

    @property
    def max_turns(self) -> int:
        """The largest turn limit of the worlds."""
        return max(int(world.get_wrapper_attr("max_turns")) for world in self.worlds.values())

    @property
    def images(self) -> Any:
        """What the wrapper `Prompt` of the world keeps of its observation, None without one."""
        return getattr(self.world, "images", None)

    def blind(self, what: str) -> str:
        """The blind prompt of the world."""
        blind: Any = self.world.get_wrapper_attr("blind")
        return str(blind(what))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start the task of `options`, by default the first one."""
        chosen = self.panel.find((options or {}).get("task_id", self.panel.task_ids[0]))
        self.name, _, task_id = chosen.partition("/")
        self.world = self.worlds[self.name]
        observation, info = self.world.reset(seed=seed, options={"task_id": task_id})
        return observation, self._name_world(info)

    def step(self, action: str) -> Stepped:
        """Step the world of the running episode."""
        observation, reward, terminated, truncated, info = self.world.step(action)
        return observation, reward, terminated, truncated, self._name_world(info)

    def close(self) -> None:
        """Close all worlds."""
        for world in self.worlds.values():
            world.close()

    def _name_world(self, info: dict[str, Any]) -> dict[str, Any]:
        """`info` with the whole id of the task, and the world as its first kind."""
        strata = {"world": self.name, **info.get("strata", {})}
        return {**info, "task_id": f"{self.name}/{info['task_id']}", "strata": strata}


def _read_panel(world: gym.Env[Any, str]) -> Panel:
    panel: Panel = world.get_wrapper_attr("panel")
    return panel
