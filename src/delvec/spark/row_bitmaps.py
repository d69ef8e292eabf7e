"""Finding rows: from a frame with the places of rows to a bitmap for each file, aggregated in the JVM.

    group   the file, and the row's chunk of 32,768 rows
    bits    4 KiB: Spark's bitmap aggregate over the positions in the chunk

The driver gets at most 4 KiB for each chunk in which a row was found, however many rows were found. For files
with few rows it collects the file and position of each row as one number instead, which needs no shuffle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delvec.bitmap import Bitmap
from delvec.errors import FormatError
from delvec.spark.file_paths import number_of
from delvec.spark.progress import ROWS_FOUND, tell

CHUNK_BITS = 15
CHUNK_BYTES = (1 << CHUNK_BITS) // 8
_ROW_BITS = 31  # the low bits of a 63-bit key; the high bits are the number of the file


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows that were found.

    files     the rows of each file, by the path that Spark returns
    count     number of rows in the frame; a row that the frame has twice counts twice
    flagged   number of rows for which the flag was true
    stored    new vectors of the files, if executors made and stored them (`store_on_executors`): then
              ``files`` is empty
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


def collect_bitmaps(frame: DataFrame, path: str, row: str, flag: Column | None = None) -> FoundRows:
    """The rows whose places are in the columns ``path`` and ``row`` of the frame."""
    files: dict[str, list[tuple[int, bytes]]] = {}
    result = row_bits(frame, path, row, flag).toArrow()
    paths, chunks, bits, counts, flagged = (column.to_pylist() for column in result.columns)
    for name, chunk, chunk_bits in zip(paths, chunks, bits, strict=True):
        files.setdefault(name, []).append((chunk, chunk_bits))
    tell(ROWS_FOUND, sum(counts))
    bitmaps = {name: Bitmap.from_numpy(positions(parts)) for name, parts in files.items()}
    return FoundRows(bitmaps, sum(counts), sum(flagged))


def collect_positions(
    frame: DataFrame, path: str, row: str, paths: Mapping[int, str], flag: Column | None = None
) -> FoundRows:
    """The same for files with few rows; ``paths`` by the numbers of the files (`file_paths.number_of`)."""
    error = f"raise_error(concat('a row is too far from the first of its file: ', {path}))"
    key = f"shiftleft({number_of(path)}, {_ROW_BITS}) | {row}"
    result = frame.select(
        F.expr(f"CASE WHEN {row} < {1 << _ROW_BITS}L THEN {key} ELSE CAST({error} AS BIGINT) END"),
        *(() if flag is None else (_flagged(flag),)),
    ).toArrow()
    tell(ROWS_FOUND, len(result))
    flagged = 0 if flag is None else pc.sum(result.column(1)).as_py() or 0
    return FoundRows(_by_file(result.column(0).to_numpy(), paths), len(result), flagged)


def _by_file(keys: np.ndarray, paths: Mapping[int, str]) -> dict[str, Bitmap]:
    """The rows of each file, from keys that contain the file's number and the row; keys may repeat."""
    keys = np.sort(keys, kind="stable")  # quick: the keys of each task are in order
    files = keys >> _ROW_BITS
    starts = np.flatnonzero(np.diff(files, prepend=-1))
    bitmaps = {}
    for start, end in zip(starts, [*starts[1:], len(keys)], strict=False):
        number, rows = int(files[start]), keys[start:end] & ((1 << _ROW_BITS) - 1)
        if number not in paths:
            raise FormatError(
                f"a scan found rows in a file that is not in its plan: its path's CRC-32 is {number}, "
                f"expected that of one of {len(paths)} paths, as {next(iter(paths.values()))}"
            )
        bitmaps[paths[number]] = Bitmap.from_numpy(rows[np.diff(rows, prepend=-1) > 0])
    return bitmaps


def row_bits(frame: DataFrame, path: str, row: str, flag: Column | None = None) -> DataFrame:
    """A row for each chunk: file, chunk, bits, number of rows, number of rows for which the flag is true."""
    bits = F.expr(f"bitmap_construct_agg(bitmap_bit_position({row} + 1))")
    groups = frame.groupBy(F.col(path), F.expr(f"shiftright({row}, {CHUNK_BITS})"))
    return groups.agg(bits, F.expr("count(1)"), F.sum(_flagged(flag)))


def _flagged(flag: Column | None) -> Column:
    return F.lit(0) if flag is None else F.when(flag, F.lit(1)).otherwise(F.lit(0))


def positions(chunks: Sequence[tuple[int, bytes]]) -> np.ndarray:
    """The positions in the file of the bits that are set, in order; ``chunks`` are (number, bits)."""
    numbers, bits = zip(*sorted(chunks), strict=True)
    octets = np.frombuffer(b"".join(bits), np.uint8)
    nonzero = np.flatnonzero(octets)  # usually few
    octet, bit = np.nonzero(np.unpackbits(octets[nonzero, np.newaxis], axis=1, bitorder="little"))
    octet_index = nonzero[octet]
    chunk_starts = np.array(numbers, np.int64) << CHUNK_BITS
    return chunk_starts[octet_index // CHUNK_BYTES] + (octet_index % CHUNK_BYTES) * 8 + bit
