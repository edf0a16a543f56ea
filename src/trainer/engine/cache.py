"""A key-value cache whose rows have different lengths.

Token i of a row is in column i, so no padding is kept: what a chunk of unequal lengths writes past
the end of a row is overwritten by the next tokens of that row. Buffers grow by half. The place of a
dropped row is given to the last one.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from transformers.cache_utils import Cache

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


class RaggedCache(Cache):
    """Keys and values of every layer, each [rows, heads, capacity, width of a head].

    Attributes:
        lengths: Encoded tokens of each row.
    """

    def __init__(self, rows: int) -> None:
        super().__init__(layers=[])
        self.lengths = [0] * rows
        self._held: list[list[Tensor]] = []  # keys and values of each layer
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

    def advance(self, rows: Sequence[int], counts: Sequence[int]) -> None:
        """Add the tokens written last to the lengths of the rows."""
        for row, count in zip(rows, counts, strict=True):
            self.lengths[row] += count

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only `rows`, in this order; a row may only move towards the front."""
        for place, row in enumerate(rows):
            if place != row:
                self.copy(row, place, self.lengths[row])
        del self.lengths[len(rows) :]

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one row to another."""
        self.lengths[target] = length
        for held in chain(*self._held):
            held[target, :, :length] = held[source, :, :length]

    def swap(self, one: int, other: int) -> None:
        """Exchange two rows."""
        length = max(self.lengths[one], self.lengths[other])
        for held in chain(*self._held):
            first, second = held[one, :, :length], held[other, :, :length]
            kept = first.clone()
            first.copy_(second)
            second.copy_(kept)
        self.lengths[one], self.lengths[other] = self.lengths[other], self.lengths[one]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write [A, H, T, D] to the places set by `aim`: -> all columns attended to, [A, H, S, D].

        Keys are stored in the dtype of the values, which mixed precision multiplies them in anyway.
        """
        key_states = key_states.to(value_states.dtype)
        if layer_idx == len(self._held):
            heads, size = key_states.shape[1], key_states.shape[3]
            shape = [len(self.lengths), heads, self._capacity, size]
            self._held.append([key_states.new_zeros(shape), value_states.new_zeros(shape)])
        keys, values = self._held[layer_idx]
        return self._put(keys, key_states), self._put(values, value_states)

    def _put(self, held: Tensor, states: Tensor) -> Tensor:
        row, column = self._into
        held[row, :, column] = states.transpose(1, 2).flatten(0, 1)
        if self._rows is None:
            return held[: len(states), :, : self._width]
        return held[:, :, : self._width].index_select(0, self._rows)

    def reserve(self, columns: int) -> None:
        """Make room for so many tokens in each row; less at a time is slower."""
        if columns <= self._capacity:
            return
        self._capacity = max(columns, self._capacity * 3 // 2)
        for layer in self._held:
            for i, old in enumerate(layer):
                heads, held, size = old.shape[1:]
                layer[i] = old.new_empty(len(self.lengths), heads, self._capacity, size)
                layer[i][:, :, :held] = old[: len(self.lengths)]
                layer[i][:, :, held:] = 0

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Columns that rows attend to."""
        del layer_idx
        return self._width

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """Columns that rows attend to, and the first of them."""
        del query_length, layer_idx
        return self._width, 0
