"""Published preferences as recorded episodes: pairs of conversations of SDPO (Kong et al. 2025).

A file is a JSON list of `{"conversations": [{"from": "human" or "gpt", "value": text}, ...]}`; the
worse and the better conversation of a pair follow each other. Left out: SDPO's loss on segments.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_envs.assets import BadAsset, Reading
from agent_envs.replies import FORM
from trainer.model.chat import Chat
from trainer.model.pretrained import open_model
from trainer.play.episode_files import write_episodes
from trainer.play.records import Episode, Step


def import_pairs(source: str, model: str, folder: str) -> int:
    """Write the pairs of the file `source` as episodes in `folder`, for `sampling.recorded`.

    The better conversation of a pair has outcome 1, the other 0. The tokens are those of `model`,
    by its chat template; each reply is the action of a reply in this project's form.

    Returns:
        The number of pairs. Bad ones are left out with a warning.

    Raises:
        FileNotFoundError: There is no such file or model.
        BadAsset: All pairs are bad.
    """
    path, chat, reading = Path(source), Chat(open_model(model).tokenizer), Reading()
    rows, episodes = list(reading.read_rows(path)), list[Episode]()
    for number, pair in enumerate(zip(rows[::2], rows[1::2], strict=False)):
        with reading.record(path, pair[0][0]):
            worse, better = (_read_turns(row) for _, row in pair)
            if worse[0][0] != better[0][0]:
                raise BadAsset("the conversations of a pair must begin alike")
            name = f"{path.stem}/{number}"
            episodes += [
                _make_episode(chat, name, number, *one) for one in enumerate((worse, better))
            ]
    reading.report(strict=False)
    write_episodes(Path(folder) / f"{path.stem}.parquet", episodes)
    return len(episodes) // 2


def _read_turns(row: Any) -> list[tuple[str, str]]:
    """What is said to the agent, and its reply, turn by turn."""
    said = row.get("conversations") if isinstance(row, dict) else None
    if not isinstance(said, list) or not said or len(said) % 2:
        raise BadAsset(f"`conversations` must be pairs of human and gpt, got {row!r:.60}")
    for place, one in enumerate(said):
        who = ("human", "gpt")[place % 2]
        if not isinstance(one, dict) or one.get("from") != who or not one.get("value"):
            raise BadAsset(f"message {place} must be a text from {who!r}, got {one!r:.60}")
    texts = [str(one["value"]) for one in said]
    return list(zip(texts[::2], texts[1::2], strict=True))


def _make_episode(
    chat: Chat, task_id: str, group: int, better: int, turns: list[tuple[str, str]]
) -> Episode:
    steps: list[Step] = []
    for heard, action in turns:
        reply = FORM.write(action)
        first = chat.opening(f"{FORM.instruction}\n\n{heard}")
        prompt = chat.after(steps[-1].reply_ids, heard) if steps else list(first)
        steps.append(Step(heard, reply, action, prompt, list(chat.reply(reply))))
    won = bool(better)
    return Episode(task_id, "", group, 0, "history", steps, success=won, outcome=float(won))
