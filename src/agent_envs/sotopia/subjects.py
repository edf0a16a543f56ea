"""Subjects of generated scenes, from `subjects.toml`: by family, then by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.assets import table

if TYPE_CHECKING:
    from typing import Any

TEXTS: dict[str, dict[str, Any]] = table("sotopia/subjects.toml")
