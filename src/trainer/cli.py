"""The console command `agent-envs`: mistakes of the user are answered in a line, not a traceback.

Importing this module needs only the standard library, so that an installation without the extra
[train] can say what is missing. The commands are in `commands`.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

NEEDED = (
    "jinja2",
    "matplotlib",
    "peft",
    "pyarrow",
    "pydantic",
    "rich",
    "safetensors",
    "scipy",
    "tensorboard",
    "tomli_w",
    "torch",
    "transformers",
    "typer",
)
"""What the extra [train] installs."""
TRACEBACK = "AGENT_ENVS_TRACEBACK"
"""Set this variable to see where an error comes from."""


def missing() -> list[str]:
    """Packages of the extra [train] that are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def main() -> None:
    """Run the command line; exits with 0, 1 after an error, or 2 after a wrong call."""
    if absent := missing():
        sys.exit(
            f"agent-envs: the trainer's packages are not installed ({', '.join(absent)}). "
            "Install them: pip install 'agent-envs[train]', or pip install '.[train]' in a clone. "
            "The environments and the credit methods work without them."
        )
    from gymnasium.error import Error as GymError

    from agent_envs.web import ServerError
    from trainer.commands import app

    if (here := str(Path.cwd())) not in sys.path:  # for environments of a user's own
        sys.path.append(here)
    try:
        app()
    except (ValueError, OSError, ImportError, GymError, FloatingPointError, ServerError) as error:
        if os.environ.get(TRACEBACK):
            raise
        sys.exit(f"agent-envs: {error}\n({TRACEBACK}=1 shows where this comes from)")
