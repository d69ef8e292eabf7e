"""Deletion vectors of a few files as an array of words: a scalar subquery hands it to every task.

    words   of all files, one file after the other, as many of each; bit ``row & 63`` of a file's word
            ``row >> 6`` says that the row is deleted. A file's last word has no bit set: rows beyond its
            words are looked up there
    slots   some bits of a file's number (`files.number_of`) are a slot, which no two files share; it holds
            the place of the file's first word. They are few, and a literal

A row's bit is looked up in the scan's own filter: no key is made and no join is run, which takes about half
of what the join takes (`vectors.py`). It pays where most chunks hold a deleted row, as the rows between them
are shipped too. With Spark's tasks, that is: so there is a limit.

The filter is an expression of one size, whatever the number of files: a comparison with each of them would
grow the method that Spark generates beyond what the JVM compiles, and a row would take a microsecond.
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
from delvec.spark.vector_join import CHUNK_BYTES, CHUNK_ROWS, WORDS

FEW_FILES = 32
"""The slots of more files would be too many for an expression."""

MOST_BYTES = 8 << 20
"""Each task is sent the words: more are broadcast and joined."""

SMALL_BYTES = 64 << 10
"""So few words are worth no join, however few rows they say are deleted."""

# The words may be so many times what the chunks with a deleted row are.
_SPARSE = 2
_NUMBER_BITS = 32
_MOST_SLOT_BITS = 10
_NO_FILE = -1 << 30  # of a slot: so far before the first word that no row reaches one


@dataclass(frozen=True, slots=True)
class Words:
    """The words, ``each`` of a file; and the slots, of the bits of a file's number from ``shift`` on."""

    words: Rows
    each: int
    slots: Rows
    shift: int


def gathered(vectors: Sequence[Bitmap], numbers: Rows) -> Words | None:
    """The words of files with these vectors and numbers; None where chunks are better."""
    if len(vectors) > FEW_FILES:
        return None
    rows = [0 if (last := vector.max()) is None else (last | (CHUNK_ROWS - 1)) + 1 for vector in vectors]
    each = max(rows) // 64 + 1
    size = 8 * each * len(vectors)
    most = sum(min(v.cardinality, count // CHUNK_ROWS) for v, count in zip(vectors, rows, strict=True))
    if size > MOST_BYTES or _is_sparse(size, most):  # seen before any word is made
        return None
    words = np.zeros((len(vectors), each), np.int64)
    for held, vector, count in zip(words, vectors, rows, strict=True):
        held[: count // 64] = np.packbits(vector.to_mask(count), bitorder="little").view(np.int64)
    if _is_sparse(size, int(np.count_nonzero(words[:, :-1].reshape(-1, WORDS).any(axis=1)))):
        return None
    found = _slots(numbers, each)
    if found is None:
        return None
    slots, shift = found
    return Words(words.reshape(-1), each, slots, shift)


def _is_sparse(size: int, chunks: int) -> bool:
    """Whether so many chunks are much smaller than so many bytes of words."""
    return size > max(SMALL_BYTES, _SPARSE * chunks * CHUNK_BYTES)


def _slots(numbers: Rows, each: int) -> tuple[Rows, int] | None:
    """The slots of files with so many words each, and the first of the bits that are the slot."""
    for bits in range((len(numbers) - 1).bit_length(), _MOST_SLOT_BITS + 1):
        for shift in range(_NUMBER_BITS - bits + 1):
            slots = (numbers >> shift) & ((1 << bits) - 1)
            if len(np.unique(slots)) == len(numbers):
                places = np.full(1 << bits, _NO_FILE)
                places[slots] = np.arange(len(numbers)) * each
                return places, shift
    return None


def is_live(spark: SparkSession, words: Words, *, number: str, row: str, lost: str) -> Column:
    """That a row is not deleted, by the expressions ``number`` of its file and ``row`` of its position.

    ``lost`` is what comes of a row without a position, or of a file that has no slot: it should raise.
    """
    slot = f"CAST(shiftright({number}, {words.shift}) & {len(words.slots) - 1}L AS INT)"
    first = f"get(array({', '.join(f'{place}L' for place in words.slots)}), {slot})"
    place = F.expr(f"CAST({first} + least(shiftright({row}, 6), {words.each - 1}L) AS INT)")
    word = F.get(_array(spark, words.words), place)
    bit = F.call_function("shiftright", word, F.expr(f"CAST({row} & 63 AS INT)"))
    return F.coalesce(bit.bitwiseAND(F.lit(1)), F.expr(f"CAST({lost} AS BIGINT)")) == 0


def _array(spark: SparkSession, numbers: Rows) -> Column:
    """The numbers as one value, which Spark sends to the tasks."""
    kind = ArrayType(LongType(), containsNull=False)
    table = pa.table({"words": pa.array([numbers], pa.list_(pa.int64()))})
    return spark.createDataFrame(table, StructType([StructField("words", kind, nullable=False)])).scalar()
