"""Deleted rows as a small table that Spark joins: one row for each chunk of 4,096 rows that has deleted rows.

    key     the number of the file in its scan, and the number of the chunk in the file
    words   64 longs; bit ``row & 63`` of word ``(row >> 6) & 63`` is set if the row is deleted

The table grows with the chunks that have a deleted row, not with the rows of the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.bitmap import Bitmap
from delvec.chunked import Rows
from delvec.deletes.sets import DeleteSets

CHUNK_BITS = 12
CHUNK_ROWS = 1 << CHUNK_BITS
FILE_SHIFT = 31  # a key has 63 bits: 32 for the number of the file, 31 for the number of the chunk
WORDS = CHUNK_ROWS // 64
CHUNK_BYTES = 8 * WORDS + 16
_UNKNOWN_COUNT = 1 << 40
# Positions are expanded to bits this many chunks at a time: 64 MiB of bits as bytes.
_CHUNKS_AT_ONCE = 1 << 14
_POSITIONS_AT_ONCE = 1 << 20

CHUNKS_SCHEMA = pa.schema(
    [pa.field("key", pa.int64(), nullable=False), pa.field("words", pa.list_(pa.int64()), nullable=False)]
)


def first_chunk_keys(file_numbers: Rows) -> Rows:
    """The key of each file's first chunk."""
    keys: Rows = file_numbers.astype(np.int64) << FILE_SHIFT
    return keys


def chunk_estimate(sets: DeleteSets, record_counts: pa.ChunkedArray) -> int:
    """An upper bound of the chunks' bytes: a chunk for each deleted row, or for each 4,096 rows of a file."""
    deleted = pc.fill_null(sets.most_deleted, _UNKNOWN_COUNT)
    chunks = pc.add(pc.shift_right(pc.fill_null(record_counts, _UNKNOWN_COUNT), CHUNK_BITS), 1)
    return int(pc.sum(pc.min_element_wise(deleted, chunks)).as_py() or 0) * CHUNK_BYTES


def chunks_of(bitmaps: Sequence[Bitmap], first_keys: Rows) -> pa.Table:
    """The chunks of all files, given the deleted rows and the key of the first chunk of each."""
    batches = [
        batch
        for group in _file_groups(bitmaps)
        for batch in chunk_batches([(int(first_keys[file]), bitmaps[file]) for file in group])
    ]
    return pa.Table.from_batches(batches, schema=CHUNKS_SCHEMA)


def _file_groups(bitmaps: Sequence[Bitmap]) -> Iterator[list[int]]:
    """The files in groups that are expanded together: many with few deleted rows, or one with many."""
    group: list[int] = []
    positions = 0
    for file, bitmap in enumerate(bitmaps):
        if group and positions + bitmap.cardinality > _POSITIONS_AT_ONCE:
            yield group
            group, positions = [], 0
        group.append(file)
        positions += bitmap.cardinality
    if group:
        yield group


def chunk_batches(vectors: Sequence[tuple[int, Bitmap]]) -> Iterator[pa.RecordBatch]:
    """The chunks of vectors, each given with a key: the key of chunk ``n`` is that key plus ``n``."""
    positions_by_file = [vector.to_numpy() for _, vector in vectors]
    positions = np.concatenate(positions_by_file)
    keys = np.concatenate(
        [key + (rows >> CHUNK_BITS) for (key, _), rows in zip(vectors, positions_by_file, strict=True)]
    )
    # A chunk starts where the key changes: positions are in order, and no two files share a key.
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    ends = np.append(starts[1:], len(positions))
    for at in range(0, len(starts), _CHUNKS_AT_ONCE):
        first, last = starts[at : at + _CHUNKS_AT_ONCE], ends[at : at + _CHUNKS_AT_ONCE]
        chunk_positions = positions[first[0] : last[-1]]
        yield chunk_batch(keys[first], _words(chunk_positions, last - first))


def _words(positions: Rows, counts: Rows) -> Rows:
    """The words of chunks; ``counts`` says how many of the positions are in each chunk."""
    bits = np.zeros(len(counts) * CHUNK_ROWS, np.uint8)
    chunk = np.repeat(np.arange(len(counts)), counts)
    bits[chunk * CHUNK_ROWS + (positions & (CHUNK_ROWS - 1))] = 1
    return np.packbits(bits, bitorder="little").view(np.int64)


def chunk_batch(keys: Rows, words: np.ndarray[Any, Any]) -> pa.RecordBatch:
    """Chunks as ``CHUNKS_SCHEMA``, given the 64 words of each, one after the other."""
    words = words.reshape(-1).view(np.int64)
    offsets = np.arange(0, len(words) + 1, WORDS, dtype=np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(words))
    return pa.record_batch([pa.array(keys, pa.int64()), lists], schema=CHUNKS_SCHEMA)
