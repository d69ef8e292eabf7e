"""Deletion vectors as a small table that Spark joins: one row for each 4,096 rows that lose any.

    key     identifies the file in its scan, and the chunk of 4,096 rows in the file
    words   64 longs; bit ``row & 63`` of word ``(row >> 6) & 63`` says that the row is deleted

What is shipped grows with the chunks that hold a deleted row, not with the rows of the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.bitmap import Bitmap
from delvec.chunked import Rows

CHUNK_BITS = 12
CHUNK_ROWS = 1 << CHUNK_BITS
FILE_SHIFT = 31  # of a key's 63 bits, 32 are the file's number and 31 the chunk's
WORDS = CHUNK_ROWS // 64
CHUNK_BYTES = 8 * WORDS + 16
_MOST = 1 << 40  # where a number is not recorded
# Positions are expanded to bits this many chunks at a time: 64 MiB of bits as bytes.
_CHUNKS_AT_ONCE = 1 << 14
_POSITIONS_AT_ONCE = 1 << 20

CHUNKS_SCHEMA = pa.schema(
    [pa.field("key", pa.int64(), nullable=False), pa.field("words", pa.list_(pa.int64()), nullable=False)]
)


@dataclass(frozen=True, slots=True)
class VectorFiles:
    """Vectors to expand: rows of ``ScanPlan.deletes``, and for each the key of its file's first chunk.

    A key is the file's number in its scan, shifted left, and the number of the chunk.
    """

    deletes: pa.Table
    first_keys: Rows
    record_counts: pa.ChunkedArray

    @classmethod
    def of(cls, files: pa.Table, deletes: pa.Table, numbers: Rows) -> VectorFiles:
        """The vectors of ``files``, each of which has one, under these file numbers."""
        rows = files.column("vector").combine_chunks()
        return cls(deletes.take(rows), numbers.astype(np.int64) << FILE_SHIFT, files.column("record_count"))


def chunk_estimate(vectors: VectorFiles) -> int:
    """Bytes of the chunks, at most: one for each deleted row, or for each 4,096 rows of a file."""
    deleted = pc.fill_null(vectors.deletes.column("cardinality"), _MOST)
    chunks = pc.add(pc.shift_right(pc.fill_null(vectors.record_counts, _MOST), CHUNK_BITS), 1)
    return int(pc.sum(pc.min_element_wise(deleted, chunks)).as_py() or 0) * CHUNK_BYTES


def chunks_of(loaded: Mapping[int, Bitmap], vectors: VectorFiles) -> pa.Table:
    """The chunks of all vectors, as the loader gave them."""
    batches = [
        batch
        for lot in _lots(loaded)
        for batch in chunk_batches([(int(vectors.first_keys[row]), loaded[row]) for row in lot])
    ]
    return pa.Table.from_batches(batches, schema=CHUNKS_SCHEMA)


def _lots(vectors: Mapping[int, Bitmap]) -> Iterator[list[int]]:
    """The rows in lots, to be expanded together: many small vectors, or a large one."""
    lot: list[int] = []
    held = 0
    for row, vector in vectors.items():
        if lot and held + vector.cardinality > _POSITIONS_AT_ONCE:
            yield lot
            lot, held = [], 0
        lot.append(row)
        held += vector.cardinality
    if lot:
        yield lot


def chunk_batches(vectors: Sequence[tuple[int, Bitmap]]) -> Iterator[pa.RecordBatch]:
    """The chunks of vectors, each with a key: chunk ``n`` of its file has that key plus ``n``."""
    of_files = [vector.to_numpy() for _, vector in vectors]
    positions = np.concatenate(of_files)
    keys = np.concatenate(
        [key + (rows >> CHUNK_BITS) for (key, _), rows in zip(vectors, of_files, strict=True)]
    )
    # Where the key changes a chunk starts: positions are in order, and no two files share a key.
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    ends = np.append(starts[1:], len(positions))
    for at in range(0, len(starts), _CHUNKS_AT_ONCE):
        first, last = starts[at : at + _CHUNKS_AT_ONCE], ends[at : at + _CHUNKS_AT_ONCE]
        some = positions[first[0] : last[-1]]
        yield _batch(keys[first], _words(some, last - first))


def _words(positions: Rows, counts: Rows) -> Rows:
    """The words of chunks that hold so many of the positions each."""
    bits = np.zeros(len(counts) * CHUNK_ROWS, np.uint8)
    chunk = np.repeat(np.arange(len(counts)), counts)
    bits[chunk * CHUNK_ROWS + (positions & (CHUNK_ROWS - 1))] = 1
    return np.packbits(bits, bitorder="little").view(np.int64)


def _batch(keys: Rows, words: Rows) -> pa.RecordBatch:
    offsets = np.arange(0, len(words) + 1, WORDS, dtype=np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(words))
    return pa.record_batch([pa.array(keys, pa.int64()), lists], schema=CHUNKS_SCHEMA)
