"""Conversations that are sampled together, with a key-value cache that is kept across their turns.

Each row has its own length (`trainer.engine.cache`): no token is padded or encoded twice, equal
openings are encoded once, and the place of a finished row is used by another.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trainer.engine import UNBEGUN, Begun, Reply
from trainer.engine.cache import RaggedCache
from trainer.engine.prefixes import LEAST, levels
from trainer.engine.sampling import FORM, Decoding
from trainer.engine.writer import Feed, Trie, Writer, draw, trie
from trainer.model.logprobs import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from trainer.engine.prefixes import Part
    from trainer.model.policy import Policy
    from trainer.model.vision import Picture

_CHUNK = {"cpu": 1024}  # most tokens of a forward pass; small chunks pad less and fit the CPU cache
_WIDE = 65536


class Conversations:
    """Conversations of one batch; each stays in the cache until it is dropped."""

    def __init__(self, policy: Policy, rows: int, decoding: Decoding, version: int = 0) -> None:
        self.policy, self.decoding, self.version = policy, decoding, version
        config = policy.model.config.get_text_config()
        self.limit = int(getattr(config, "max_position_embeddings", 0)) or _WIDE
        self._additive = getattr(config, "_attn_implementation", "sdpa") == "eager"
        self._cache = RaggedCache(rows)
        self._next = [0] * rows  # position of the next token; an image has fewer than tokens
        self._rows = list(range(rows))  # conversation in each place of the cache
        self._pending: list[list[int]] = [[] for _ in range(rows)]  # sampled, not yet encoded
        self._front = rows  # the first places, which are encoded together

    def room(self, row: int) -> int:
        """Number of tokens that still fit into the model's positions after the conversation."""
        place = self._rows.index(row)
        return self.limit - self._cache.lengths[place] - len(self._pending[place])

    @torch.inference_mode()
    def reply(
        self,
        rows: Sequence[int],
        new_ids: Sequence[Sequence[int]],
        seeds: Sequence[int | Sequence[int]],
        admissible: Sequence[Sequence[str]] | None = None,
        images: Sequence[Sequence[Picture]] = (),
        *,
        begun: Sequence[Begun] = (),
    ) -> list[Reply]:
        """Append `new_ids` to the conversations of `rows` and sample one reply for each.

        All other rows are dropped for good. `seeds` has the seed of each reply, `admissible` the
        actions of each row for constrained decoding, `images` the images in its new tokens, `begun`
        how its reply begins.

        Raises:
            ValueError: Lengths differ, a row was dropped or has no new token, a conversation is
                longer than the model's positions, constrained decoding has no actions, or a reply
                begins with too many tokens, as no admissible action does, or forbids all.
            FloatingPointError: The model's logits are NaN or infinite.
        """
        self._check(rows, new_ids, admissible)
        self._check_begun(begun)
        tries = [
            None if admissible is None else self._trie(admissible[i]) for i in range(len(rows))
        ]
        places = self._retain(rows)
        at: dict[int, Writer] = {}
        for i, place in enumerate(places):
            feed = [*self._pending[place], *new_ids[i]]
            pictures = tuple(images[i]) if images else ()
            first = begun[i] if begun else UNBEGUN
            at[place] = Writer(feed, np.random.default_rng(seeds[i]), tries[i], pictures, first)
            at[place].reply.version = self.version
        writers = [at[place] for place in range(len(places))]
        asked = [at[place] for place in places]
        self._front = len(writers)
        with self.policy.computing():
            while active := [place for place, writer in enumerate(writers) if not writer.done]:
                if 2 * len(active) <= self._front:
                    active = self._to_front(active, writers)
                logits = self._encode(active, [writers[place].taken() for place in active])
                self._draw(logits, [writers[place] for place in active])
        for place, writer in enumerate(writers):
            self._pending[place] = writer.feed
            writer.reply.text = self.policy.chat.text(writer.reply.ids)
        return [writer.reply for writer in asked]

    def _check(
        self,
        rows: Sequence[int],
        new_ids: Sequence[Sequence[int]],
        admissible: Sequence[Sequence[str]] | None,
    ) -> None:
        if len(rows) != len(new_ids) or (admissible is not None and len(admissible) != len(rows)):
            raise ValueError(f"{len(rows)} rows need one token list each, got {len(new_ids)}")
        if gone := set(rows) - set(self._rows):
            raise ValueError(f"rows {sorted(gone)} were dropped; start a new session for them")
        if len(set(rows)) != len(rows):
            raise ValueError(f"each row may occur once, got {list(rows)}")
        if empty := [row for row, ids in zip(rows, new_ids, strict=True) if not ids]:
            raise ValueError(f"rows {empty} got no new token; give each at least one")
        if (self.decoding.decode == "admissible") != (admissible is not None):
            raise ValueError(
                'admissible actions are needed with decode="admissible" and only there, got '
                f"{'some' if admissible is not None else 'none'} with "
                f"decode={self.decoding.decode!r}"
            )

    def _check_begun(self, begun: Sequence[Begun]) -> None:
        most = self.decoding.max_reply_tokens
        for one in begun:
            if self.decoding.decode == "free" and len(one.ids) >= most:
                raise ValueError(
                    f"a reply begins with {len(one.ids)} tokens, but has {most} at most; give less "
                    "or raise sampling.max_reply_tokens"
                )

    def _trie(self, actions: Sequence[str]) -> Trie:
        if not actions:
            raise ValueError(
                'decode="admissible" needs actions, the environment lists none; use decode="free"'
            )
        replies = (FORM.format(thought="", action=action) for action in actions)
        return trie(map(self.policy.chat.reply, replies))

    def _retain(self, rows: Sequence[int]) -> list[int]:
        """Drop all other rows and move the last kept ones to their places; the places of `rows`."""
        kept = set(rows)
        order = [place for place, row in enumerate(self._rows) if row in kept]
        head = list(range(len(rows)))
        movers = iter(place for place in order if place >= len(rows))
        order = [place if self._rows[place] in kept else next(movers) for place in head]
        if len(rows) < len(self._rows):
            self._cache.keep(order)
            self._rows = [self._rows[place] for place in order]
            self._next = [self._next[place] for place in order]
            self._pending = [self._pending[place] for place in order]
        place_of = {row: place for place, row in enumerate(self._rows)}
        return [place_of[row] for row in rows]

    def _to_front(self, active: list[int], writers: list[Writer]) -> list[int]:
        """Exchange places so that the active ones are the first, in order; their new places."""
        for place, row in enumerate(active):
            if place != row:
                self._cache.swap(place, row)
                for held in (self._rows, self._next, self._pending, writers):
                    _swap(held, place, row)
        self._front = len(active)
        return list(range(self._front))

    def _encode(self, places: list[int], feeds: list[Feed]) -> Tensor:
        """Encode `feeds` [A]; logits after the last token of each: [A, V]."""
        counts = [len(feed.ids) for feed in feeds]
        for place, count in zip(places, counts, strict=True):
            length = self._cache.lengths[place] + count
            if length > self.limit:
                raise ValueError(
                    f"a conversation of {length} tokens is longer than the model's {self.limit} "
                    "positions; lower max_turns or use context='turn'"
                )
        begins = [self._cache.lengths[place] == 0 for place in places]
        if not any(begins):
            return self._encode_each(places, feeds)
        self._cache.reserve(max(len(feed.ids) for feed in feeds))  # not level by level
        ends: dict[int, Tensor] = {}
        if going := [i for i, begin in enumerate(begins) if not begin]:
            found = self._encode_each([places[i] for i in going], [feeds[i] for i in going])
            ends.update(zip(going, found, strict=True))
        for images in {feed.images for feed in feeds}:
            rows = [i for i, begin in enumerate(begins) if begin and feeds[i].images == images]
            least = _WIDE if images else LEAST  # with images only equal ones share
            openings = {i: feeds[i].ids for i in rows}
            for parts in levels(openings, least=least):
                self._encode_parts(parts, places, feeds, ends)
        return torch.stack([ends[i] for i in range(len(places))])

    def _encode_parts(
        self, parts: list[Part], places: list[int], feeds: list[Feed], ends: dict[int, Tensor]
    ) -> None:
        """Encode parts of openings, and note the logits after each in `ends`."""
        for row, source, start, end in parts:
            if source is not None and source != row:
                self._cache.copy(places[source], places[row], start)
                self._next[places[row]] = self._next[places[source]]
                if end == start:
                    ends[row] = ends[source]
        written = [part for part in parts if part.end > part.start]
        if written:
            some = [
                Feed(feeds[row].ids[start:end], feeds[row].images) for row, _, start, end in written
            ]
            logits = self._encode_each([places[part.row] for part in written], some)
            ends.update(zip([part.row for part in written], logits, strict=True))

    def _encode_each(self, places: list[int], feeds: list[Feed]) -> Tensor:
        counts = [len(feed.ids) for feed in feeds]
        if max(counts) == 1 and 2 * len(places) > self._front:
            fed = dict(zip(places, feeds, strict=True))
            # Encoding idle rows, too, costs less than copying the others.
            idle = Feed((0,), ())
            first = list(range(self._front))
            logits = self._forward(first, [fed.get(i, idle) for i in first])
            logits = logits if len(places) == self._front else logits[places]
        else:
            parts = self._chunks(counts)
            logits = torch.cat(
                [self._forward([places[i] for i in p], [feeds[i] for i in p]) for p in parts]
            )
            if len(parts) > 1:
                logits = logits[torch.tensor([*chain(*parts)]).argsort()]
        self._cache.advance(places, counts)
        for place, feed in zip(places, feeds, strict=True):
            self._next[place] += self._spread(feed)
        return logits

    def _chunks(self, counts: list[int]) -> list[list[int]]:
        """Indices of the rows of each forward pass: of similar length, within the token budget."""
        budget = _CHUNK.get(self.policy.device.type, _WIDE)
        parts: list[list[int]] = [[]]
        for i in sorted(range(len(counts)), key=counts.__getitem__):
            if parts[-1] and (len(parts[-1]) + 1) * counts[i] > budget:
                parts.append([])
            parts[-1].append(i)
        return [sorted(part) for part in parts]

    def _forward(self, places: list[int], feeds: list[Feed]) -> Tensor:
        """Encode one chunk: [A] -> [A, V]."""
        policy = self.policy
        counts = [len(feed.ids) for feed in feeds]
        longest = max(counts)
        columns, mask = self._cache.aim(places, counts, policy.device)
        if self._additive:
            mask = torch.zeros_like(mask, dtype=torch.float32).masked_fill_(~mask, NEVER)
        ids = torch.tensor([[*feed.ids, *[0] * (longest - len(feed.ids))] for feed in feeds])
        keep = torch.arange(longest) == torch.tensor(counts)[:, None] - 1
        pictures = [image for feed in feeds for image in feed.images]
        seen = policy.seen(ids.to(policy.device), pictures)
        if policy.vision:
            seen["position_ids"] = self._positions(places, feeds, longest).to(policy.device)
        return policy.logits(
            ids.to(policy.device),
            keep.to(policy.device),
            **({"position_ids": columns} | seen),
            attention_mask=mask,
            cache=self._cache,
            use_cache=True,
        )

    def _positions(self, places: list[int], feeds: list[Feed], longest: int) -> Tensor:
        """Positions of feeds for a vision-language model: -> [3, A, T]."""
        positions = torch.zeros(3, len(feeds), longest, dtype=torch.long)
        for row, (place, feed) in enumerate(zip(places, feeds, strict=True)):
            positions[:, row, : len(feed.ids)] = self._placed(feed) + self._next[place]
        return positions

    def _placed(self, feed: Feed) -> Tensor:
        """Positions of a feed, counted from 0: -> [3, T]."""
        vision = self.policy.vision
        if vision is not None and feed.images:
            return vision.places(feed.ids, feed.images)
        return torch.arange(len(feed.ids)).expand(3, -1)

    def _spread(self, feed: Feed) -> int:
        """Number of positions of a feed."""
        return int(self._placed(feed).max()) + 1 if feed.images else len(feed.ids)

    def _draw(self, logits: Tensor, writers: list[Writer]) -> None:
        """Draw the next token of each writer from its logits [A, V]."""
        drawn = draw(logits, writers, self.decoding.temperature, model=self.policy.name)
        ends, most = self.policy.chat.ends, self.decoding.max_reply_tokens
        for writer, token, logprob, entropy in zip(writers, *drawn, strict=True):
            writer.write(token, logprob, entropy)
            if writer.node is None:
                writer.done = token in ends or len(writer.reply.ids) >= most


def _swap(held: list[Any], one: int, other: int) -> None:
    held[one], held[other] = held[other], held[one]
