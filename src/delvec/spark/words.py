"""Deletion vectors of a few files as one array of words: a scalar subquery hands it to every task.

    words   of all files, one file after the other; bit ``row & 63`` of a file's word ``row >> 6`` says that
            the row is deleted

A row's bit is looked up in the scan's own filter: no key is made and no join is run, which takes about half
of what the join takes (`vectors.py`). It pays where most chunks hold a deleted row, as the rows between them
are shipped too. With Spark's tasks, that is: so there is a limit.

Files are told apart by their sizes, for one comparison of numbers a row. Files of one size are told apart by
the beginnings of their names, and a file whose size is none of the recorded ones (a store may count its own
bytes) by its whole name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from delvec.bitmap import Bitmap
from delvec.chunked import Rows
from delvec.spark.vectors import CHUNK_BYTES, CHUNK_ROWS, WORDS

FEW_FILES = 32
"""More files are not told apart by comparing one after the other."""

MOST_BYTES = 8 << 20
"""Each task is sent the words: more are broadcast and joined."""

SMALL_BYTES = 64 << 10
"""So few words are worth no join, however few rows they say are deleted."""

# The words may be so many times what the chunks with a deleted row are.
_SPARSE = 2


@dataclass(frozen=True, slots=True)
class Words:
    """The words; of each file the first one, and how many rows have words: no later one is deleted."""

    words: Rows
    first: tuple[int, ...]
    rows: tuple[int, ...]


def gathered(vectors: Sequence[Bitmap]) -> Words | None:
    """The words of files with these vectors; None where chunks are better."""
    if len(vectors) > FEW_FILES:
        return None
    rows = [0 if (last := vector.max()) is None else (last | (CHUNK_ROWS - 1)) + 1 for vector in vectors]
    size = sum(rows) // 8
    most = sum(min(v.cardinality, count // CHUNK_ROWS) for v, count in zip(vectors, rows, strict=True))
    if size > MOST_BYTES or _is_sparse(size, most):  # seen before any word is made
        return None
    words = np.concatenate([_words(vector, count) for vector, count in zip(vectors, rows, strict=True)])
    if _is_sparse(size, int(np.count_nonzero(words.reshape(-1, WORDS).any(axis=1)))):
        return None
    first = np.cumsum([0, *rows[:-1]]) // 64
    return Words(words, tuple(first.tolist()), tuple(rows))


def _is_sparse(size: int, chunks: int) -> bool:
    """Whether so many chunks are much smaller than so many bytes of words."""
    return size > max(SMALL_BYTES, _SPARSE * chunks * CHUNK_BYTES)


def _words(vector: Bitmap, rows: int) -> Rows:
    return np.packbits(vector.to_mask(rows), bitorder="little").view(np.int64)


@dataclass(frozen=True, slots=True)
class ShownFiles:
    """The columns in which a scan shows each row's file and position, and what they show of each file."""

    name_column: str
    size_column: str
    row_column: str
    names: Sequence[str]
    sizes: Sequence[int]
    unknown: str  # what to do about a file that is none of these: an expression that raises


def is_live(spark: SparkSession, words: Words, files: ShownFiles) -> Column:
    """That a row of the files is not deleted."""
    kind = ArrayType(LongType(), containsNull=False)
    table = pa.table({"words": pa.array([words.words], pa.list_(pa.int64()))})
    array = spark.createDataFrame(table, StructType([StructField("words", kind, nullable=False)])).scalar()
    word = F.get(array, F.expr(f"CAST({_place(words, files)} AS INT)"))
    bit = F.getbit(word, F.expr(f"CAST({files.row_column} & 63 AS INT)"))
    return F.coalesce(bit, F.lit(0)) == 0


def _place(words: Words, files: ShownFiles) -> str:
    """The number of a row's word, as an expression; null where its file has none for it."""
    row = files.row_column

    def leaf(file: int) -> str:
        return f"CASE WHEN {row} < {words.rows[file]}L THEN {words.first[file]}L + shiftright({row}, 6) END"

    of_size: dict[int, list[int]] = {}
    for file, size in enumerate(files.sizes):
        of_size.setdefault(size, []).append(file)

    def by_name(some: Sequence[int]) -> str:
        """The leaf of one of these files, in the order of their names: half of them at each step."""
        if len(some) == 1:
            return leaf(some[0])
        half = len(some) // 2
        first = _beginning(files.names[some[half]], files.names[some[half - 1]])
        return (
            f"CASE WHEN {files.name_column} < '{first}' THEN {by_name(some[:half])} "
            f"ELSE {by_name(some[half:])} END"
        )

    sizes = " ".join(
        f"WHEN {size}L THEN {by_name(sorted(some, key=files.names.__getitem__))}"
        for size, some in of_size.items()
    )
    names = " ".join(f"WHEN '{name}' THEN {leaf(file)}" for file, name in enumerate(files.names))
    other = f"CASE {files.name_column} {names} ELSE CAST({files.unknown} AS BIGINT) END"
    return f"CASE {files.size_column} {sizes} ELSE {other} END"


def _beginning(name: str, before: str) -> str:
    """As much of ``name`` as comes after ``before``: Spark compares that faster than the whole."""
    return next(name[:end] for end in range(1, len(name) + 1) if name[:end] > before)
