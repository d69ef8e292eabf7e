"""What a compaction is asked for, and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column

from delvec.errors import InvalidOperationError
from delvec.row_delta import Operation, Request
from delvec.spark.target import OperationResult, shown


@dataclass(frozen=True, slots=True)
class Compaction:
    """What to rewrite.

    where                    a condition on partition columns
    target_file_size         in bytes; None: the table's
    max_deleted_rows_ratio   files with a larger share of deleted rows are rewritten whatever their size
    zorder_by                columns; with them, all files are rewritten
    bytes_per_commit         a commit for each group of files, or for groups that have so many bytes
    purge                    rewrite the files that have deleted rows, and only these
    """

    where: str | Column | None = None
    target_file_size: int | None = None
    max_deleted_rows_ratio: float = 0.05
    zorder_by: tuple[str, ...] = ()
    bytes_per_commit: int | None = None
    purge: bool = False

    @property
    def request(self) -> Request:
        condition = None if self.where is None else shown(self.where)
        return Request(
            Operation.PURGE if self.purge else Operation.COMPACT, condition, zorder_by=self.zorder_by
        )

    def verify(self) -> None:
        _verify_bytes("target_file_size", self.target_file_size)
        _verify_bytes("bytes_per_commit", self.bytes_per_commit)
        ratio = self.max_deleted_rows_ratio
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio <= 1:
            raise InvalidOperationError(f"max_deleted_rows_ratio is {ratio!r}, expected a number from 0 to 1")


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Sizes of some files, in bytes."""

    count: int = 0
    total: int = 0
    smallest: int | None = None
    largest: int | None = None

    @classmethod
    def of(cls, sizes: pa.ChunkedArray | pa.Array) -> FileSizes:
        extremes = pc.min_max(sizes)
        return cls(len(sizes), pc.sum(sizes).as_py() or 0, extremes["min"].as_py(), extremes["max"].as_py())

    def __add__(self, other: FileSizes) -> FileSizes:
        bounds = [
            [b for b in pair if b is not None]
            for pair in ((self.smallest, other.smallest), (self.largest, other.largest))
        ]
        return FileSizes(
            self.count + other.count,
            self.total + other.total,
            min(bounds[0], default=None),
            max(bounds[1], default=None),
        )


@dataclass(frozen=True, slots=True)
class CompactionResult(OperationResult):
    """What a compaction did; with ``dry_run``, what it would do.

    versions      the versions that it committed, in order
    added, removed   the files that it wrote and removed
    deleted_rows  the deleted rows that were in the removed files; ``vectors``: the files that had such rows
    groups, partitions   the groups of files that were rewritten, and in how many partitions
    considered    the files that match ``where``
    dropped       the groups that were not committed, because another writer changed their files
    clustered_by  the columns by which another engine clusters the table. The new files are not clustered
    dry_run       nothing was changed: ``added`` is what would be written, with estimated sizes
    """

    versions: tuple[int, ...] = ()
    added: FileSizes = FileSizes()
    removed: FileSizes = FileSizes()
    deleted_rows: int = 0
    vectors: int = 0
    groups: int = 0
    partitions: int = 0
    considered: int = 0
    dropped: int = 0
    clustered_by: tuple[str, ...] = ()
    dry_run: bool = False
    files: pa.Table | None = field(default=None, repr=False)


def _verify_bytes(name: str, value: int | None) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise InvalidOperationError(f"{name} is {value!r}, expected a number of bytes above 0")
