"""Environments of OpenEnv servers, named as `openenv:http://HOST:PORT`: one session for each.

Left out: images, MCP sessions, and starting a server or its container.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from agent_envs.imports import message_of
from agent_envs.net.sessions import Connection, LostError, RefusedError
from agent_envs.panels import nearest
from agent_envs.signals import Hook, Signals

_BASE = ("done", "reward", "metadata")  # fields of every observation


class Session(Signals):
    """An environment of an OpenEnv server, played over a session of its own.

    Description:
        The server's. It also describes the fields of its actions and observations.

    Observation:
        One field of the server's observation, or all of them as JSON. The goal is the field "goal",
        else the first observation, with the fields of an action unless it is one text.

    Action:
        The content of the action's only text field, or JSON.

    Validity:
        "format" for an action that the server does not understand, which has no effect, and "error"
        for one that fails there. A server of agent-envs reports its own.

    Progress:
        The field "progress" if there is one, else 0 until success.

    Anchor:
        Digest of all actions so far: no state is met again.

    Reward:
        The server's. With `reward="success"` 1 for success, else 0.

    Ends:
        The server ends the episode, a success by its field "success" or by `success_reward`.

    Tasks and splits:
        `seed-N` is the server's reset with seed N, and the splits are those of `Signals`. Whether
        a seed repeats an episode is the server's.

    Data:
        None.

    Source:
        OpenEnv, https://github.com/huggingface/OpenEnv.

    Args:
        url: address of the server; `$AGENT_ENVS_TOKEN` has its token if it requires one.
        field: field of the action that receives the agent's text; "" for the only text field, and
            if there are several fields, the agent writes a JSON object of them.
        text: field of the observation that the agent reads; "" for "text" or the only text field,
            and else it reads all fields as JSON.
        reset_options: further arguments of the server's `reset`, such as {"split": "test"}.
        timeout: seconds to wait for an answer.
        signals: options of `Signals`. Fields of an observation are keys of `info`.

    Raises:
        ImportError: websockets is not installed.
        ServerError: there is no server, or it is not of OpenEnv.
        ValueError: no such field, or no hook says what a success is.
    """

    def __init__(
        self,
        url: str,
        *,
        field: str = "",
        text: str = "",
        reset_options: Mapping[str, Any] | None = None,
        timeout: float = 60.0,
        goal: str | Hook = "task",
        valid: bool | str | Hook = "mistake",
        success: str | Hook = "",
        success_reward: float | None = None,
        progress: float | str | Hook = "",
        **signals: Any,
    ) -> None:
        world = _World(url, field, text, dict(reset_options or {}), timeout)
        told = world.told if "record" not in world.told else {*world.told, "progress"}
        super().__init__(
            world,
            goal=goal,
            valid=valid,
            success=success or "success" * ("success" in told and success_reward is None),
            success_reward=success_reward,
            progress=progress or "progress" * ("progress" in told),
            **signals,
        )


make = Session


class _World:
    """The server's environment, with the fields of its observations in `info`."""

    waits = True

    def __init__(
        self, url: str, field: str, text: str, options: dict[str, Any], timeout: float
    ) -> None:
        self._arguments = url, os.environ.get("AGENT_ENVS_TOKEN", ""), timeout
        self.connection = Connection(*self._arguments)
        self.spec = SimpleNamespace(id=f"openenv:{self.connection.url}")
        self.options, self.info = options, dict[str, Any]()
        schema = self.connection.read_page("/schema")
        fields, self.told = (_list_fields(schema[name]) for name in ("action", "observation"))
        for name, known in ((field, fields), (text, self.told)):
            if name and name not in known:
                has = ", ".join(known)
                raise ValueError(f"{url} has no field {name!r}{nearest(name, known)}; it has {has}")
        self.field = field or _choose_text(fields, schema["action"].get("required", ()))
        if len(fields) == 1:
            (self.field,) = fields
        self.is_text = fields.get(self.field) == "string"
        named = ", ".join(f"{name} ({kind})" for name, kind in fields.items())
        self.form = "" if self.is_text else f"\n\nAn action is JSON: {named}."
        self.text = text or ("text" if "text" in self.told else _choose_text(self.told, ()))

    def __deepcopy__(self, memo: dict[int, Any]) -> _World:
        raise TypeError("the state of a server cannot be copied")

    def reset(self, *, seed: int) -> tuple[str, dict[str, Any]]:
        options = {"seed": seed, **self.options}
        try:
            given = self.connection.send("reset", options)
        except LostError:  # such as one that was idle for long
            self.connection = Connection(*self._arguments)
            given = self.connection.send("reset", options)
        text, *_ = self._read(given)
        return text, {**self.info, "task": f"{self.info.get('goal', text)}{self.form}"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        try:
            return self._read(self.connection.send("step", self._make_action(action)))
        except (json.JSONDecodeError, RefusedError) as error:
            said, code = message_of(error), "VALIDATION_ERROR"
            if isinstance(error, RefusedError):
                said, code = error.said, error.code
            if code == "EXECUTION_ERROR":
                raise RuntimeError(said) from error
            if code != "VALIDATION_ERROR":
                raise
            told = f"The action was not understood: {said}{self.form}"
            return told, 0.0, False, False, {**self.info, "mistake": "format"}

    def close(self) -> None:
        self.connection.close()

    def _make_action(self, action: str) -> Any:
        given = action if self.is_text else json.loads(action)
        return {self.field: given} if self.field else given

    def _read(self, given: dict[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """The turn of an answer."""
        seen = given["observation"]
        record = seen.get("record") or {}  # of a server of agent-envs
        self.info = {**seen, **record, "mistake": record.get("invalid_reason", "")}
        text = str(seen.get(self.text) or "") if self.text else json.dumps(seen, ensure_ascii=False)
        ended, cut = bool(given["done"]), bool(seen.get("truncated"))
        return text, float(given["reward"] or 0), ended and not cut, cut, self.info


def _choose_text(fields: dict[str, str], required: Sequence[str]) -> str:
    """The text field if there is one, and the others are optional numbers or truth values."""
    texts = [name for name, kind in fields.items() if kind == "string"]
    rest = [name for name, kind in fields.items() if kind not in ("integer", "number", "boolean")]
    return texts[0] if len(texts) == 1 and rest == texts and not {*required} - {*texts} else ""


def _list_fields(schema: dict[str, Any]) -> dict[str, str]:
    """The kind of each field of a JSON schema, without those of every observation."""
    fields = {}
    for name, one in schema.get("properties", {}).items():
        found = schema.get("$defs", {}).get(str(one.get("$ref")).rpartition("/")[2], one)
        kinds = [part.get("type", "") for part in found.get("anyOf", [found])]
        if name not in _BASE and "const" not in found:
            fields[name] = "string" if "string" in kinds else kinds[0]
    return fields
