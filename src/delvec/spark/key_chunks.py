"""Integer keys of deleted rows as chunks of bits, a set of chunks for each class of data files.

A class is a scope and a sequence: it loses the keys of its scope with a larger sequence. These are the keys
of the next newer class and some more. So the bits of a scope are set once, from the newest class to the
oldest, and the chunks of each class are copied from them. The work grows with the keys and with the chunks,
not with keys × classes: in a table that a stream writes each commit is a class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from delvec.chunked import Rows
from delvec.spark.vector_chunks import CHUNK_BITS, CHUNK_BYTES, CHUNKS_SCHEMA, WORDS, chunk_batch

CLASS_SHIFT = 44
"""The key of a chunk is ``class << 44 | key >> 12``."""

_BATCH = 1 << 14


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """Keys from 0 on, none of them twice in a scope, with the scope and the largest sequence of each."""

    keys: Rows
    scopes: Rows
    sequences: Rows

    def at(self, rows: Rows) -> DeletedKeys:
        return DeletedKeys(self.keys[rows], self.scopes[rows], self.sequences[rows])


def key_chunks(deleted: DeletedKeys, scopes: Rows, sequences: Rows, *, most_bytes: int) -> pa.Table | None:
    """The chunks of all classes, given the scope and the sequence of each; as ``CHUNKS_SCHEMA``. None if they
    are larger than ``most_bytes``. They are counted before any is made.
    """
    parts = [part for part in _by_scope(deleted, scopes, sequences) if len(part.classes)]
    if sum(int(part.counts.sum()) for part in parts) * CHUNK_BYTES > most_bytes:
        return None
    batches = [chunk_batch(keys, words) for part in parts for keys, words in part.chunks()]
    return pa.Table.from_batches(batches, schema=CHUNKS_SCHEMA)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The keys and the classes of one scope.

    keys      its keys, those with the largest sequence first
    slots     of each key the chunk that it is in, an index into ``numbers``
    numbers   the numbers of the chunks, those with the largest sequence first
    classes   the numbers of the classes that have chunks, those with the largest sequence first
    counts    how many chunks each class has: the first of ``numbers``
    ends      how many keys each class has: the first of ``keys``
    """

    keys: Rows
    slots: Rows
    numbers: Rows
    classes: Rows
    counts: Rows
    ends: Rows

    @classmethod
    def of(cls, deleted: DeletedKeys, classes: Rows, sequences: Rows) -> _Scope:
        ascending = np.argsort(deleted.sequences, kind="stable")
        deleted = deleted.at(ascending[::-1])
        # The first key of a chunk has the largest sequence.
        numbers, first, slots = np.unique(deleted.keys >> CHUNK_BITS, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        newest_first = np.argsort(sequences, kind="stable")[::-1]
        counts = _count_above(deleted.sequences[first[order]], sequences[newest_first])
        newest_first, counts = newest_first[counts > 0], counts[counts > 0]
        ends = _count_above(deleted.sequences, sequences[newest_first])
        return cls(deleted.keys, place[slots], numbers[order], classes[newest_first], counts, ends)

    def chunks(self) -> Iterator[tuple[Rows, np.ndarray[tuple[int, int], np.dtype[np.uint64]]]]:
        """The keys and the words of the chunks, many at a time."""
        words = np.zeros((self.counts[-1], WORDS), np.uint64)
        word = self.slots * WORDS + ((self.keys >> 6) & (WORDS - 1))
        bit = np.left_shift(np.uint64(1), (self.keys & 63).astype(np.uint64))
        done, size = 0, 0
        made_keys, made_words = [], []
        classes = zip(self.classes.tolist(), self.counts.tolist(), self.ends.tolist(), strict=True)
        for number, count, end in classes:
            np.bitwise_or.at(words.reshape(-1), word[done:end], bit[done:end])
            done = end
            made_keys.append((number << CLASS_SHIFT) + self.numbers[:count])
            made_words.append(words[:count].copy())
            size += count
            if size >= _BATCH:
                yield np.concatenate(made_keys), np.concatenate(made_words)
                made_keys, made_words, size = [], [], 0
        if size:
            yield np.concatenate(made_keys), np.concatenate(made_words)


def _count_above(descending: Rows, values: Rows) -> Rows:
    """For each of the values how many of the numbers are above it."""
    counts: Rows = len(descending) - np.searchsorted(descending[::-1], values, side="right")
    return counts


def _by_scope(deleted: DeletedKeys, scopes: Rows, sequences: Rows) -> Iterator[_Scope]:
    if not len(deleted.keys):
        return
    order = np.argsort(deleted.scopes, kind="stable")
    found, starts = np.unique(deleted.scopes[order], return_index=True)
    by_class = np.argsort(scopes, kind="stable")
    first, last = (np.searchsorted(scopes[by_class], found, side=side) for side in ("left", "right"))
    for rows, begin, end in zip(np.split(order, starts[1:]), first.tolist(), last.tolist(), strict=True):
        classes = by_class[begin:end]
        yield _Scope.of(deleted.at(rows), classes, sequences[classes])
