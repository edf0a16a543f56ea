"""The recipe that the words of a command choose: parts, a TOML file or a run, and options."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from trainer.recipe import Recipe
    from trainer.recipes import Composition

RecipeWords = Annotated[
    list[str],
    typer.Argument(
        metavar="ENVIRONMENT METHOD [MODEL] [KEY=VALUE]...",
        help="Names listed by `agent-envs recipes`, a TOML file or a run folder; then options to "
        "change, e.g. run.seed=1 policy.model=Qwen/Qwen2.5-1.5B-Instruct.",
    ),
]


class Chosen(NamedTuple):
    """What words choose: the folder of a run or a composed recipe, and options to change.

    Attributes:
        run: The run folder among the words; None for a recipe of parts.
        parts: What `trainer.recipe.load` reads.
        options: The words `key=value`.
    """

    run: Path | None
    parts: "Path | Composition"
    options: list[str]

    def load(self) -> "Recipe":
        """The recipe with its options; imports torch.

        Raises:
            RecipeError: An option is unknown, or a value is invalid.
        """
        from trainer import recipe as recipes

        return recipes.load(self.parts, self.options)


def is_run(folder: str | Path) -> bool:
    """Whether a folder holds a run."""
    return os.path.isfile(Path(folder) / "config.toml")


def chosen(words: Sequence[str]) -> Chosen:
    """What words choose, without importing torch, so that unknown words are refused at once.

    Raises:
        RecipeError: A word is unknown, the words are no whole recipe, or there are others beside a
            run folder.
    """
    from trainer.errors import RecipeError
    from trainer.recipes import compose

    options = [word for word in words if "=" in word and not os.path.exists(word)]
    names = [word for word in words if word not in options]
    run = next((Path(name) for name in names if is_run(name)), None)
    if run and len(names) > 1:
        others = ", ".join(repr(name) for name in names if Path(name) != run)
        raise RecipeError(
            f"{run} is a run folder and has its whole recipe, so {others or 'a second one'} cannot "
            "be given beside it; give the folder and options KEY=VALUE, or the parts of a recipe"
        )
    return Chosen(run, run or compose(names), options)
