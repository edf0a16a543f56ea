"""Task families of the small world: requests, solutions and what must change."""

from agent_envs.appworld.families import belongings, communication
from agent_envs.appworld.families.plan import Family

FAMILIES: dict[str, Family] = {
    family.name: family for module in (belongings, communication) for family in module.FAMILIES
}

__all__ = ["FAMILIES", "Family"]
