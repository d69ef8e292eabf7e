"""Deleted rows of a few files as an array of words, which a scalar subquery sends to every task.

    words   the words of all files, one file after the other, the same number for each file. Bit ``row & 63``
            of a file's word ``row >> 6`` is set if the row is deleted. The last word of a file has no bit
            set: rows after the words are looked up there
    slots   some bits of a file's number (`file_paths.number_of`) are its slot; no two files have the same
            slot. The slot contains the index of the file's first word. The table of slots is small and is
            passed as a literal

The filter of the scan looks up the row's bit. It computes no join key and runs no join, so it takes about
half the time of the join (`vector_chunks`). It pays off if most chunks have a deleted row, because the array
also has the bits of the chunks between them. The array is sent with the tasks, so its size is limited.

The size of the filter expression does not depend on the number of files. A comparison with each file would
make the method that Spark generates too large for the JVM's compiler, and a row would take a microsecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from delvec.bitmap import Bitmap
from delvec.chunked import Rows
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.vector_chunks import CHUNK_BYTES, CHUNK_ROWS, WORDS

FEW_FILES = 32
"""More files would need too many slots for an expression."""

MOST_BYTES = 8 << 20
"""The words are sent with each task. Larger ones are broadcast and joined instead."""

SMALL_BYTES = 64 << 10
"""Up to this size words are better than a join, even if very few rows are deleted."""

# The words may be this many times as large as the chunks with a deleted row.
_SPARSE = 2
_NUMBER_BITS = 32
_MOST_SLOT_BITS = 10
_NO_FILE = -1 << 30  # in a slot without a file: so far before the first word that no row reaches a word


@dataclass(frozen=True, slots=True)
class Words:
    """``each`` is the number of words of a file; the slot of a file is its number shifted right by ``shift``,
    modulo the number of slots.
    """

    words: Rows
    each: int
    slots: Rows
    shift: int


def words_of(vectors: Sequence[Bitmap], numbers: Rows) -> Words | None:
    """The words of files, given the deleted rows and the number of each; None if chunks are better."""
    if len(vectors) > FEW_FILES:
        return None
    rows = [0 if (last := vector.max()) is None else (last | (CHUNK_ROWS - 1)) + 1 for vector in vectors]
    each = max(rows) // 64 + 1
    size = 8 * each * len(vectors)
    most = sum(min(v.cardinality, count // CHUNK_ROWS) for v, count in zip(vectors, rows, strict=True))
    if size > MOST_BYTES or _is_sparse(size, most):  # before any word is allocated
        return None
    words = np.zeros((len(vectors), each), np.int64)
    for file_words, vector, count in zip(words, vectors, rows, strict=True):
        file_words[: count // 64] = np.packbits(vector.to_mask(count), bitorder="little").view(np.int64)
    if _is_sparse(size, int(np.count_nonzero(words[:, :-1].reshape(-1, WORDS).any(axis=1)))):
        return None
    slots = _slots(numbers, each)
    return None if slots is None else Words(words.reshape(-1), each, *slots)


def _is_sparse(size: int, chunks: int) -> bool:
    """Whether ``size`` bytes of words are much larger than this number of chunks."""
    return size > max(SMALL_BYTES, _SPARSE * chunks * CHUNK_BYTES)


def _slots(numbers: Rows, each: int) -> tuple[Rows, int] | None:
    """The slots of files that have ``each`` words, and the shift; None if no bits distinguish the files."""
    for bits in range((len(numbers) - 1).bit_length(), _MOST_SLOT_BITS + 1):
        for shift in range(_NUMBER_BITS - bits + 1):
            slots = (numbers >> shift) & ((1 << bits) - 1)
            if len(np.unique(slots)) == len(numbers):
                places = np.full(1 << bits, _NO_FILE)
                places[slots] = np.arange(len(numbers)) * each
                return places, shift
    return None


def is_live(spark: SparkSession, words: Words, *, number: str, row: str, lost: str) -> Column:
    """The condition that a row is not deleted; ``number`` and ``row`` are expressions for the number of its
    file and its position.

    ``lost`` is evaluated for a row without a position or of a file that has no slot: it should raise an
    error.
    """
    slot = f"CAST(shiftright({number}, {words.shift}) & {len(words.slots) - 1}L AS INT)"
    first = f"get(array({', '.join(f'{place}L' for place in words.slots)}), {slot})"
    place = F.expr(f"CAST({first} + least(shiftright({row}, 6), {words.each - 1}L) AS INT)")
    word = F.get(_array(spark, words.words), place)
    bit = F.call_function("shiftright", word, F.expr(f"CAST({row} & 63 AS INT)"))
    return F.coalesce(bit.bitwiseAND(F.lit(1)), F.expr(f"CAST({lost} AS BIGINT)")) == 0


def _array(spark: SparkSession, numbers: Rows) -> Column:
    """The numbers as one value, which Spark sends with the tasks."""
    kind = ArrayType(LongType(), containsNull=False)
    table = pa.table({"words": pa.array([numbers], pa.list_(pa.int64()))})
    return frame_of_table(spark, table, StructType([StructField("words", kind, nullable=False)])).scalar()
