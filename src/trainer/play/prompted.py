"""A prompted model behind an OpenAI-compatible endpoint, evaluated on the panel of a recipe.

Forms of the prompt: "" is the recipe's own, as a trained policy reads it; "react" (Yao et al. 2023)
requests a thought before each action and sends the whole conversation, thoughts included;
"reflexion" (Shinn et al. 2023) is "react" with up to `TRIALS` trials of a task, before which the
model reads its own reflections on the failed ones. Needs no torch. Left out: images in the last two
forms, examples in the prompt, worker processes, a policy as partner.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic.dataclasses import dataclass

from agent_envs import evaluation
from agent_envs.cli.options import parse_assignment
from agent_envs.machine import append_line, write_text
from agent_envs.net.endpoint import Endpoint, EndpointError, Messages
from agent_envs.prompt import IMAGE
from agent_envs.replies import split_thoughts
from agent_envs.vector import call_env, call_in_thread, run_coroutine
from trainer import recipes
from trainer.errors import RecipeError
from trainer.options import STRICT, Share, make_options
from trainer.play import failures
from trainer.play.environments import Env, Eval, PromptOptions, make_env
from trainer.play.episode import TextEpisode
from trainer.play.failures import EpisodeError, Failure, lose_episode
from trainer.play.records import Episode, Step, Task

if TYPE_CHECKING:
    from agent_envs.panels import Panel
    from agent_envs.spaces import Picture

TRIALS = 3
"""Trials of a task with "reflexion"; the task counts as solved if one of them solves it."""
AT_ONCE = 16
"""Episodes that are played at the same time."""
READ = ("env", "prompt", "eval", "endpoint", "sampling.failures")
"""Sections and options that are read; `endpoint` has the options of `agent_envs.net.endpoint`."""
_UNREAD = {"env": "split games processes step_seconds", "eval": "every", "endpoint": "model url"}
_THINK = (
    "In every reply first write a thought: what the last observation shows, what is done and what "
    "is left, and which step comes next. Then act once."
)
_REFLECT = (
    "The trial is over and the task is not solved. In a few sentences, write what went wrong and "
    "what you will do differently in the next trial of the same task."
)


@dataclass(frozen=True, config=STRICT)
class Player:
    """A prompted model, the form of its prompt, and what it plays.

    Attributes:
        endpoint: The model.
        form: "", "react" or "reflexion".
        env, prompt, eval: Sections of the recipe.
        failures: Share of the tasks that may be lost because their environment failed.
    """

    endpoint: Endpoint
    form: Literal["", "react", "reflexion"]
    env: Env
    prompt: PromptOptions
    eval: Eval
    failures: Share

    @property
    def decoding(self) -> str:
        """Model, temperature and form."""
        temperature = self.endpoint.temperature
        drawn = f"temperature {temperature:g}" if temperature >= 0 else "default temperature"
        trials = f" (solved in any of {TRIALS} trials)" if self.form == "reflexion" else ""
        return f"{self.endpoint.model}, {drawn}, {self.form or 'prompt of the recipe'}{trials}"

    async def ask(self, messages: Messages, about: str) -> str:
        """The model's reply; other episodes go on meanwhile."""
        ask = partial(self.endpoint.ask, messages, about=about)
        return await asyncio.wrap_future(call_in_thread(ask))

    async def play_task(self, env: Any, task: Task) -> Episode:
        """The episode of a task; with "reflexion" the one that solved it, or the last.

        Raises:
            EpisodeError: The environment failed.
            EndpointError: The endpoint gave no reply.
        """
        notes: list[str] = []
        while True:
            episode, messages = await self.play_trial(env, task, notes)
            if episode.success or self.form != "reflexion" or len(notes) == TRIALS - 1:
                return episode
            said = await self.ask(messages, f"task {task.task_id!r}, reflection")
            notes.append(split_thoughts(said).said.strip() or said)

    async def play_trial(self, env: Any, task: Task, notes: list[str]) -> tuple[Episode, Messages]:
        """One episode after notes on failed ones; its conversation, with a request for a note."""
        reset = partial(env.reset, seed=task.seed, options={"task_id": task.task_id})
        with lose_episode(task):
            now = TextEpisode(env, await call_env(env, reset), self.prompt)
        strata = {name: str(value) for name, value in now.info.get("strata", {}).items()}
        opening = f"{_THINK}\n\n" if self.form else ""
        for number, one in enumerate(notes, start=1):
            opening += f"Trial {number} of this task failed. You wrote: {one}\n\n"
        history, past, world = self.prompt.context == "history", Messages(), env.unwrapped
        while not now.done:
            if now.images and self.form:
                raise RecipeError(
                    f"{self.env.id} shows images, which the form {self.form!r} leaves out; leave "
                    "--form away for the prompt of the recipe"
                )
            about = f"task {task.task_id!r}, turn {len(now.steps) + 1}"
            said = _say(opening + now.message, now.images)
            reply = await self.ask([*past, said], about)
            if history or self.form:
                shown = said if history else _say(opening + world.transcript[-1][1])
                past += [shown, {"role": "assistant", "content": reply}]
                opening = ""
            with lose_episode(task, now.steps, (now.observation, reply)):
                now.take(reply, await call_env(env, partial(env.step, reply))).images = []
        played = Episode(now.task_id, now.goal, task.group, task.seed, now.context, now.steps)
        played.success, played.outcome = now.success, now.outcome
        played.strata, played.measures = strata, now.measures
        return played, [*past, _say(f"{world.transcript[-1][1]}\n\n{_REFLECT}")]


def load_player(model: str, url: str, form: str, recipe: str, options: Sequence[str]) -> Player:
    """The player of a command, with `key=value` for the sections of `READ`.

    Raises:
        ValueError: An unknown form or option, or a value that is not allowed.
    """
    tree = recipes.compose([recipe] if Path(recipe).is_file() else recipe.split()).tree()
    for key, value in map(parse_assignment, options):
        section, _, name = key.partition(".")
        if not {section, key}.intersection(READ) or name in _UNREAD.get(section, "").split():
            read = f"{', '.join(READ)}, written as SECTION.KEY, and eval.split for env.split"
            raise RecipeError(f"a prompted model does not read {key}; it reads {read}")
        recipes.set_option(tree, tuple(key.split(".")), value)
    if tree.get("partner", {}).get("model"):
        raise RecipeError(
            "a policy as partner needs torch; take partner.model out of the recipe, and set "
            "env.options.partner to an endpoint"
        )
    given = {section: tree.get(section, {}) for section in READ[:4]}
    drawn = {"temperature": given["eval"].get("temperature", 0.0), **given["endpoint"]}
    share = tree.get("sampling", {}).get("failures", 0.05)  # as trainer.engine.Sampling has it
    endpoint = {**drawn, "model": model, "url": url}
    return make_options(Player, {**given, "endpoint": endpoint, "form": form, "failures": share})


def evaluate_player(player: Player, out: Path | None) -> evaluation.Evaluation:
    """Evaluate on the panel; episodes are kept in a file beside `out`, and not played again.

    Raises:
        EndpointError: The endpoint failed; the message says how many tasks are kept.
        LimitError: The environment failed in more tasks than `sampling.failures` allows.
        ValueError: The file has episodes of other settings.
    """
    env = replace(player.env, data=player.eval.data or player.env.data)
    make = partial(make_env, env, player.prompt, split=player.eval.split)
    first: Any = make()
    panel = evaluation.draw_panel(first.unwrapped.panel, player.eval.tasks)
    file = None if out is None else out.with_suffix(".episodes.jsonl")
    played = _read_episodes(file, player, panel) if file else {}
    todo = [Task(one, n, 0) for n, one in enumerate(panel.task_ids) if one not in played]
    left, failed = iter(todo), dict[str, Failure]()
    envs = [first, *(make() for _ in todo[1:AT_ONCE])]

    async def work(env: Any) -> None:
        for task in left:
            try:
                played[task.task_id] = episode = await player.play_task(env, task)
                if file:
                    append_line(file, json.dumps(asdict(episode)))
            except EpisodeError as error:
                failed[task.task_id], env = error.failure, make()

    async def work_all() -> list[BaseException | None]:
        return await asyncio.gather(*map(work, envs), return_exceptions=True)

    errors = [one for one in run_coroutine(work_all()) if one]  # after the others have played
    for error in errors[:1]:
        if not isinstance(error, EndpointError):
            raise error
        kept = (
            f"are in {file}; the same command plays the others" if file else "need --out to be kept"
        )
        raise EndpointError(f"{error}. {len(played)} played tasks {kept}") from None
    tasks = [one for one in panel.task_ids if one in failed]
    failures.warn_of_lost([failed[one] for one in tasks], len(panel.task_ids), player.failures)
    episodes = [played[one] for one in panel.task_ids if one in played]
    return evaluation.summarize(panel, episodes, decoding=player.decoding, failed=tasks)


def _read_episodes(file: Path, player: Player, panel: Panel) -> dict[str, Episode]:
    """Episodes by task that earlier calls with the same settings kept; starts the file."""
    sections = [asdict(one) for one in (player.env, player.prompt, player.eval)]
    head = json.dumps([panel.hash, player.decoding, player.endpoint.max_tokens, *sections])
    text = file.read_text(encoding="utf-8") if file.is_file() else f"{head}\n"
    first, *lines = text.split("\n")[:-1]  # the last may be cut
    if first != head:
        raise ValueError(f"{file} has episodes of other settings; delete it, or give another --out")
    write_text(file, "".join(f"{line}\n" for line in (first, *lines)))
    found = {}
    for line in map(json.loads, lines):
        line["steps"] = [Step(**one) for one in line["steps"]]
        found[line["task_id"]] = Episode(**line)
    return found


def _say(text: str, images: Sequence[Picture] = ()) -> dict[str, Any]:
    """A message with each image in the place of its mark."""
    if not images:
        return {"role": "user", "content": text}
    before, *texts = text.split(IMAGE)
    parts: list[dict[str, Any]] = [{"type": "text", "text": before}]
    for image, after in zip(images, texts, strict=True):
        parts.append({"type": "image_url", "image_url": {"url": image.data_url}})
        parts.append({"type": "text", "text": after})
    kept = [part for part in parts if part.get("text", True)]
    return {"role": "user", "content": kept}
