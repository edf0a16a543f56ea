"""Conversations that are sampled together, with a key-value cache that is kept across their turns.

Each row has its own length: no token is padded or encoded twice, equal openings are encoded once,
and the place of a finished row is used by another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache

from trainer.engine import Decoding, Prompt, Reply, Trie, check_length, make_trie
from trainer.model.logprobs import NEVER

if TYPE_CHECKING:
    from agent_envs.spaces import Picture
    from trainer.model.policy import Policy

# Fewest tokens in common that are worth a forward pass of their own.
LEAST = 32
_CPU_CHUNK = 1024  # most tokens of a forward pass; small chunks pad less and fit the CPU cache
_WIDE = 65536


class Conversations:
    """Conversations of one batch; each stays in the cache until it is dropped."""

    def __init__(self, policy: Policy, rows: int, decoding: Decoding, version: int = 0) -> None:
        self.policy, self.decoding, self.version = policy, decoding, version
        config = policy.model.config.get_text_config()
        self.limit = policy.positions or _WIDE
        self._windows = read_windows(policy)
        self._additive = getattr(config, "_attn_implementation", "sdpa") == "eager"
        self._cache = RaggedCache(rows)
        self._rows = [_Row(number) for number in range(rows)]  # by their places in the cache
        self._front = rows  # the first places, which are encoded together

    def room(self, row: int) -> int:
        """Number of tokens that still fit into the model's positions after the conversation."""
        place = next(place for place, one in enumerate(self._rows) if one.number == row)
        return self.limit - self._cache.lengths[place] - len(self._rows[place].ids)

    @torch.inference_mode()
    def reply(
        self, rows: Sequence[int], prompts: Sequence[Prompt], seeds: Sequence[int | Sequence[int]]
    ) -> list[Reply]:
        """Append prompts to the conversations of `rows` and sample one reply for each.

        All other rows are dropped for good. `seeds` has the seed of each reply.

        Raises:
            ValueError: A conversation is longer than the model's positions.
            FloatingPointError: The model's logits are NaN or infinite.
        """
        self._drop_others(rows)
        by_number = {row.number: row for row in self._rows}
        asked = [by_number[number] for number in rows]
        for row, prompt, seed in zip(asked, prompts, seeds, strict=True):
            trie = make_trie(self.policy.chat, prompt.admissible) if prompt.admissible else None
            row.start(prompt, seed, trie)
            row.reply.version = self.version
        with self.policy.computing():
            while active := [place for place, row in enumerate(self._rows) if not row.done]:
                if 2 * len(active) <= self._front:
                    active = self._move_to_front(active)
                logits = self._encode(active, [self._rows[place].take_feed() for place in active])
                self._draw(logits, [self._rows[place] for place in active])
        for row in asked:
            row.reply.text = self.policy.chat.text(row.reply.ids)
        return [row.reply for row in asked]

    def _drop_others(self, numbers: Sequence[int]) -> None:
        """Drop all other rows, and move the last of those kept to their places."""
        wanted = set(numbers)
        stays = [row.number in wanted for row in self._rows]
        movers = (place for place in range(len(numbers), len(stays)) if stays[place])
        self._move_to_front(
            [place if stays[place] else next(movers) for place in range(len(numbers))]
        )
        del self._rows[self._front :]
        del self._cache.lengths[self._front :]

    def _move_to_front(self, places: list[int]) -> list[int]:
        """Exchange rows so that those at `places` are the first, in order; their new places."""
        for target, place in enumerate(places):
            if target != place:
                self._cache.swap(target, place)
                rows = self._rows
                rows[target], rows[place] = rows[place], rows[target]
        self._front = len(places)
        return list(range(self._front))

    def _encode(self, places: list[int], feeds: list[Feed]) -> Tensor:
        """Encode `feeds` [A]; logits after the last token of each: [A, V]."""
        for place, feed in zip(places, feeds, strict=True):
            check_length(self._cache.lengths[place] + len(feed.ids), self.limit)
        going = [i for i, place in enumerate(places) if self._cache.lengths[place]]
        if len(going) == len(places):
            return self._encode_each(places, feeds)
        self._cache.reserve(max(len(feed.ids) for feed in feeds))  # not level by level
        ends: dict[int, Tensor] = {}
        if going:
            logits = self._encode_each([places[i] for i in going], [feeds[i] for i in going])
            ends.update(zip(going, logits, strict=True))
        for images in {feed.images for feed in feeds}:
            openings = {
                i: feed.ids
                for i, feed in enumerate(feeds)
                if i not in going and feed.images == images
            }
            # with images only equal ones share
            for parts in plan_levels(openings, least=_WIDE if images else LEAST):
                self._encode_parts(parts, places, feeds, ends)
        return torch.stack([ends[i] for i in range(len(places))])

    def _encode_parts(
        self, parts: list[Part], places: list[int], feeds: list[Feed], ends: dict[int, Tensor]
    ) -> None:
        """Encode parts of openings, and note the logits after each in `ends`."""
        for row, source, start, end in parts:
            if source is not None and source != row:
                self._cache.copy(places[source], places[row], start)
                self._rows[places[row]].position = self._rows[places[source]].position
                if end == start:
                    ends[row] = ends[source]
        written = [part for part in parts if part.end > part.start]
        if written:
            rows = [part.row for part in written]
            some = [Feed(feeds[row].ids[start:end], feeds[row].images)
                    for row, _, start, end in written]  # fmt: skip
            logits = self._encode_each([places[row] for row in rows], some)
            ends.update(zip(rows, logits, strict=True))

    def _encode_each(self, places: list[int], feeds: list[Feed]) -> Tensor:
        counts = [len(feed.ids) for feed in feeds]
        if max(counts) == 1 and 2 * len(places) > self._front:
            fed = dict(zip(places, feeds, strict=True))
            # Encoding idle rows, too, costs less than copying the others.
            first = range(self._front)
            logits = self._forward(first, [fed.get(place, Feed((0,), ())) for place in first])
            logits = logits if len(places) == self._front else logits[places]
        else:
            parts = self._divide(counts)
            logits = torch.cat(
                [self._forward([places[i] for i in p], [feeds[i] for i in p]) for p in parts]
            )
            if len(parts) > 1:
                logits = logits[torch.tensor([*chain(*parts)]).argsort()]
        for place, feed in zip(places, feeds, strict=True):
            self._cache.lengths[place] += len(feed.ids)
            if self.policy.vision:
                self._rows[place].position += int(self._compute_offsets(feed).max()) + 1
        return logits

    def _divide(self, counts: list[int]) -> list[list[int]]:
        """Indices of the rows of each forward pass: of similar length, within the token budget."""
        budget = _CPU_CHUNK if self.policy.device.type == "cpu" else _WIDE
        parts: list[list[int]] = [[]]
        for i in sorted(range(len(counts)), key=counts.__getitem__):
            if parts[-1] and (len(parts[-1]) + 1) * counts[i] > budget:
                parts.append([])
            parts[-1].append(i)
        return [sorted(part) for part in parts]

    def _forward(self, places: Sequence[int], feeds: list[Feed]) -> Tensor:
        """Encode one chunk: [A] -> [A, V]."""
        policy = self.policy
        counts = [len(feed.ids) for feed in feeds]
        longest = max(counts)
        columns, causal = self._cache.aim(places, counts, policy.device)
        masks: dict[str, Tensor] = {}
        for kind, window in self._windows.items():
            mask = causal if window is None else hide_before(causal, columns - window)
            if self._additive:
                mask = torch.zeros_like(mask, dtype=torch.float32).masked_fill_(~mask, NEVER)
            masks[kind] = mask
        ids = torch.tensor([[*feed.ids, *[0] * (longest - len(feed.ids))] for feed in feeds])
        ends = torch.arange(longest) == torch.tensor(counts)[:, None] - 1
        ids = ids.to(policy.device)
        inputs = policy.encode_images(ids, [image for feed in feeds for image in feed.images])
        if policy.vision:
            positions = torch.zeros(3, *columns.shape, dtype=torch.long)
            for i, (place, feed) in enumerate(zip(places, feeds, strict=True)):
                start = self._rows[place].position
                positions[:, i, : len(feed.ids)] = self._compute_offsets(feed) + start
            inputs["position_ids"] = positions.to(policy.device)
        return policy.logits(
            ids,
            ends.to(policy.device),
            **({"position_ids": columns} | inputs),
            attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
            cache=self._cache,
            use_cache=True,
        )

    def _compute_offsets(self, feed: Feed) -> Tensor:
        """Positions of a feed for a vision-language model, counted from 0: -> [3, T]."""
        if self.policy.vision and feed.images:
            return self.policy.vision.compute_positions(feed.ids, feed.images)
        return torch.arange(len(feed.ids)).expand(3, -1)

    def _draw(self, logits: Tensor, rows: list[_Row]) -> None:
        """Draw the next token of each row from its logits [A, V]."""
        temperature = self.decoding.temperature
        scores = mask_logits(logits / temperature if temperature not in {0, 1} else logits, rows)
        logprobs = scores.log_softmax(-1)
        p = logprobs.exp()
        entropies = -torch.linalg.vecdot(p, logprobs)
        if not torch.isfinite(entropies).all():
            raise FloatingPointError(
                f"the logits of {self.policy.name!r} are NaN or infinite; delete the run's newest "
                "checkpoint and continue from the one before with --resume"
            )
        if temperature == 0:
            tokens = scores.argmax(-1, keepdim=True)
        else:
            u = torch.tensor([[row.rng.random()] for row in rows], device=p.device)
            total = p.cumsum(-1)
            tokens = torch.searchsorted(total, u.clamp(max=1 - 1e-6) * total[:, -1:], right=True)
        chosen = logprobs.gather(-1, tokens)[:, 0]
        ends, most = self.policy.chat.ends, self.decoding.max_reply_tokens
        columns = tokens[:, 0].tolist(), chosen.tolist(), entropies.tolist()
        for row, token, logprob, entropy in zip(rows, *columns, strict=True):
            row.write(token, logprob, entropy)
            if row.node is None:
                row.done = token in ends or len(row.reply.ids) >= most


def read_windows(policy: Policy) -> dict[str, int | None]:
    """How many tokens each kind of layer of a model attends to, None for all before a token."""
    config = policy.model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    only = "full_attention" if window is None else "sliding_attention"
    kinds = sorted(set(getattr(config, "layer_types", None) or [only]))
    return {kind: window if kind == "sliding_attention" else None for kind in kinds}


def hide_before(mask: Tensor, last: Tensor) -> Tensor:
    """A mask [A, 1, T, S] without the columns up to the last one that a token [A, T] forgets."""
    columns = torch.arange(mask.shape[-1], device=mask.device)
    return mask & (columns > last[:, None, :, None])


class Feed(NamedTuple):
    """Tokens to encode next, and their images."""

    ids: tuple[int, ...]
    images: tuple[Picture, ...]


class _Row:
    """One conversation: its tokens that are not encoded yet, and the reply being sampled.

    With constrained decoding the replies with its actions are a trie of tokens, and the reply is a
    path through it.

    Attributes:
        number: Of the conversation.
        position: Of the next token for a vision-language model; an image has fewer than tokens.
    """

    def __init__(self, number: int) -> None:
        self.number, self.position = number, 0
        self.ids: list[int] = []
        self.images: tuple[Picture, ...] = ()
        self.reply = Reply()
        self.rng = np.random.default_rng()
        self.node: Trie | None = None
        self.without: tuple[int, ...] = ()  # tokens that the next one cannot be
        self.done = False

    def start(self, prompt: Prompt, seed: int | Sequence[int], trie: Trie | None) -> None:
        """Begin a reply to a prompt."""
        self.ids += prompt.ids
        self.images += tuple(prompt.images)
        self.reply = Reply(allowed=None if trie is None else [])
        self.rng = np.random.default_rng(seed)
        self.node = trie
        self.without = ()
        for token in prompt.begun.ids:
            self._append(token, 0.0, 0.0, [token])
        self.without = prompt.begun.without
        self.done = False
        self._append_forced()

    @property
    def allowed(self) -> list[int]:
        """The tokens that the next one can be with constrained decoding."""
        return [token for token in self.node or () if token not in self.without]

    def take_feed(self) -> Feed:
        """The tokens and images to encode now."""
        feed = Feed(tuple(self.ids), self.images)
        self.ids, self.images = [], ()
        return feed

    def write(self, token: int, logprob: float, entropy: float) -> None:
        """Append a drawn token."""
        self._append(token, logprob, entropy, self.allowed)
        self._append_forced()

    def _append(self, token: int, logprob: float, entropy: float, allowed: list[int]) -> None:
        self.ids.append(token)
        self.reply.ids.append(token)
        self.reply.logprobs.append(logprob)
        self.reply.entropies.append(entropy)
        self.without = ()
        if self.node is not None and self.reply.allowed is not None:
            self.reply.allowed.append(allowed)
            self.node = self.node[token]

    def _append_forced(self) -> None:
        """Append tokens while only one is allowed; they are encoded together."""
        while self.node and len(allowed := self.allowed) == 1:
            self._append(allowed[0], 0.0, 0.0, allowed)
        self.done = self.node is not None and not self.node


def mask_logits(logits: Tensor, rows: Sequence[_Row]) -> Tensor:
    """Logits [A, V] with the tokens masked that a row cannot have next."""
    if chosen := [i for i, row in enumerate(rows) if row.node is not None]:
        pairs = [(i, token) for i in chosen for token in rows[i].allowed]
        places = tuple(torch.tensor(pairs, device=logits.device).T)
        kept = logits[places]
        logits = logits.index_fill(0, torch.tensor(chosen, device=logits.device), NEVER)
        logits = logits.index_put(places, kept)
    free = [i for i, row in enumerate(rows) if row.node is None]
    if pairs := [(i, token) for i in free for token in rows[i].without]:
        places = tuple(torch.tensor(pairs, device=logits.device).T)
        return logits.index_put(places, logits.new_tensor(NEVER))
    return logits


class Part(NamedTuple):
    """Tokens `start` to `end` of one opening; those before are copied from `source`, if any."""

    row: int
    source: int | None
    start: int
    end: int


def plan_levels(
    openings: Mapping[int, Sequence[int]], *, least: int = LEAST
) -> Iterator[list[Part]]:
    """The parts of openings to encode at the same time, one level after another.

    What openings have in common at their beginning is encoded once and copied. A part continues
    what its source has encoded in the levels before. The last part of an opening ends where the
    opening does; it is empty if the source has encoded all of it.

    Args:
        openings: Tokens of each row's opening, at least one.
        least: Fewest tokens in common that are encoded once.
    """
    order = sorted(openings, key=lambda row: tuple(openings[row]))
    groups: list[tuple[list[int], int | None, int]] = [(order, None, 0)] if order else []
    while groups:
        parts: list[Part] = []
        later: list[tuple[list[int], int | None, int]] = []
        while groups:
            rows, source, start = groups.pop()
            leader, first, last = rows[0], openings[rows[0]], openings[rows[-1]]
            pairs = enumerate(zip(first[start:], last[start:], strict=False), start)
            end = next((i for i, (a, b) in pairs if a != b), min(len(first), len(last)))
            split = [
                list(some)
                for _, some in groupby(rows, key=lambda row: openings[row][end : end + 1])
            ]
            if len(rows) > 1 and end < len(last) and end - start < least:
                groups += [(some, source, start) for some in split]
                continue
            parts.append(Part(leader, source, start, end))
            for some in split:
                if len(openings[some[0]]) == end:  # they are encoded
                    later += [([row], leader, end) for row in some if row != leader]
                else:
                    later.append((some, leader, end))
        yield parts
        groups = later


class RaggedCache(Cache):
    """Keys and values of every layer, each [rows, heads, capacity, width of a head].

    Token i of a row is in column i, so no padding is kept: what a chunk of unequal lengths writes
    past the end of a row is overwritten by the next tokens of that row. Buffers grow by half.

    Attributes:
        lengths: Encoded tokens of each row.
    """

    def __init__(self, rows: int) -> None:
        super().__init__(layers=[])
        self.lengths = [0] * rows
        self._buffers: list[list[Tensor]] = []  # keys and values of each layer
        self._capacity = 0
        self._width = 0
        self._rows: Tensor | None = None
        self._into = torch.zeros(2, 0, dtype=torch.long)  # row and column of each token written

    def aim(
        self, rows: Sequence[int], counts: Sequence[int], device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Set which rows write how many tokens next: -> columns [A, T] and mask [A, 1, T, S].

        T is the largest count. A token attends to the columns up to its own.
        """
        longest = max(counts)
        self.reserve(max(self.lengths) + longest)
        row = torch.tensor(rows)
        starts = torch.tensor([self.lengths[r] for r in rows])
        columns = starts[:, None] + torch.arange(longest)
        self._width = int((starts + torch.tensor(counts)).max())
        self._into = torch.stack([row[:, None].expand_as(columns), columns]).flatten(1).to(device)
        self._rows = None if list(rows) == list(range(len(rows))) else row.to(device)
        mask = torch.arange(self._width) <= columns[:, None, :, None]
        return columns.to(device), mask.to(device)

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one row to another."""
        self.lengths[target] = length
        for buffer in chain(*self._buffers):
            buffer[target, :, :length] = buffer[source, :, :length]

    def swap(self, one: int, other: int) -> None:
        """Exchange two rows."""
        length = max(self.lengths[one], self.lengths[other])
        for buffer in chain(*self._buffers):
            first, second = buffer[one, :, :length], buffer[other, :, :length]
            copy = first.clone()
            first.copy_(second)
            second.copy_(copy)
        self.lengths[one], self.lengths[other] = self.lengths[other], self.lengths[one]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write [A, H, T, D] to the places set by `aim`: -> all columns attended to, [A, H, S, D].

        Keys are stored in the dtype of the values, which mixed precision multiplies them in anyway.
        """
        states = key_states.to(value_states.dtype), value_states
        if layer_idx == len(self._buffers):
            shape = [len(self.lengths), key_states.shape[1], self._capacity, key_states.shape[3]]
            self._buffers.append([new.new_zeros(shape) for new in states])
        row, column = self._into
        for buffer, new in zip(self._buffers[layer_idx], states, strict=True):
            buffer[row, :, column] = new.transpose(1, 2).flatten(0, 1)
        keys, values = (
            buffer[: len(key_states), :, : self._width]
            if self._rows is None
            else buffer[:, :, : self._width].index_select(0, self._rows)
            for buffer in self._buffers[layer_idx]
        )
        return keys, values

    def reserve(self, columns: int) -> None:
        """Make room for so many tokens in each row; less at a time is slower."""
        if columns <= self._capacity:
            return
        self._capacity = max(columns, self._capacity * 3 // 2)
        for layer in self._buffers:
            for i, old in enumerate(layer):
                heads, width, size = old.shape[1:]
                layer[i] = old.new_empty(len(self.lengths), heads, self._capacity, size)
                layer[i][:, :, :width] = old[: len(self.lengths)]
                layer[i][:, :, width:] = 0

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002
        """Columns that rows attend to."""
        return self._width
