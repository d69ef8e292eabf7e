"""Finding rows: from a located frame to a bitmap for each file, aggregated in the JVM.

    group   the file, and the row's chunk of 32,768 rows
    bits    4 KiB: Spark's own bitmap aggregate over the rows' positions in the chunk

What reaches the driver is at most 4 KiB for each chunk that holds a row, however many rows were found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it

from delvec.bitmap import Bitmap

CHUNK_BITS = 15
CHUNK_BYTES = (1 << CHUNK_BITS) // 8


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows of each file, by the path that Spark shows.

    ``count`` is the number of rows in the frame: more than the distinct ones where a row was there twice.
    ``flagged`` is the number of those for which the flag was true. ``stored``: the files' new vectors, where
    executors made and stored them (`store`); then there is nothing in ``files``.
    """

    files: Mapping[str, Bitmap]
    count: int
    flagged: int = 0
    stored: pa.Table | None = None

    @property
    def distinct(self) -> int:
        if self.stored is not None:
            return sum(self.stored.column("deleted").to_pylist())
        return sum(rows.cardinality for rows in self.files.values())


def find_rows(frame: DataFrame, path: str, row: str, flag: Column | None = None) -> FoundRows:
    """The rows that the frame's columns ``path`` and ``row`` name."""
    return collected(row_bits(frame, path, row, flag).toArrow())


def row_bits(frame: DataFrame, path: str, row: str, flag: Column | None = None) -> DataFrame:
    """A row for each chunk: the file, the chunk, its bits, the count of rows and of those with the flag."""
    position = F.bitmap_bit_position(F.col(row) + 1)
    flagged = F.lit(0) if flag is None else F.when(flag, F.lit(1)).otherwise(F.lit(0))
    return frame.groupBy(F.col(path), F.shiftright(F.col(row), CHUNK_BITS)).agg(
        F.bitmap_construct_agg(position), F.count(F.lit(1)), F.sum(flagged)
    )


def collected(chunks: pa.Table) -> FoundRows:
    """The bitmaps of all files in the rows of ``row_bits``."""
    files: dict[str, list[np.ndarray]] = {}
    paths, numbers, bits, counts, flagged = (column.to_pylist() for column in chunks.columns)
    for path, chunk, inside in zip(paths, numbers, bits, strict=True):
        files.setdefault(path, []).append(positions(chunk, inside))
    bitmaps = {path: Bitmap.from_numpy(np.concatenate(parts)) for path, parts in files.items()}
    return FoundRows(bitmaps, sum(counts), sum(flagged))


def united(found: Bitmap, old: Bitmap | None) -> tuple[Bitmap, int]:
    """A file's new vector, which includes the old one, and how many rows of it are new."""
    if old is None:
        return found, found.cardinality
    both = old | found
    return both, both.cardinality - old.cardinality


def positions(chunk: int, bits: bytes) -> np.ndarray:
    """The positions in the file of the bits that are set."""
    inside = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))
    return inside + (chunk << CHUNK_BITS)
