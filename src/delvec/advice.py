"""Which maintenance a table would gain from, by its metadata alone: nothing is listed or read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.formats import Snapshot, Table, Vacuumable
from delvec.piled_up import piled_up
from delvec.plan import ScanPlan
from delvec.retention import Unneeded
from delvec.row_delta import Verb

TARGET_FILE_SIZE = 128 << 20
DELETED_SHARE = 0.05
"""A file with a larger share of deleted rows is rewritten by ``optimize``, whatever its size."""

FEWER_FILES = 10
"""By how many files a table must shrink to gain from ``optimize``."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A verb of ``Table`` that would help, why, and the numbers by name."""

    verb: str
    reason: str
    numbers: Mapping[str, int]


def advice(table: Table, snapshot: Snapshot, plan: ScanPlan) -> list[Advice]:
    """The advice for the newest version, whose files ``plan`` has; none for an older version."""
    if snapshot.version != table.snapshot().version:
        return []
    found = [*_optimize(plan)] if _is_writable(snapshot) else []
    many = piled_up(snapshot, plan)
    if many is not None:
        found.append(Advice("rewrite_deletes", many.reason, many.numbers))
    if isinstance(table, Vacuumable):
        found += _vacuum(table.unneeded())
    return found


def _is_writable(snapshot: Snapshot) -> bool:
    """Whether delvec can rewrite the table's files."""
    try:
        snapshot.rules(Verb.COMPACT)
    except (InvalidOperationError, UnsupportedFeatureError):
        return False
    return True


def _optimize(plan: ScanPlan) -> Iterator[Advice]:
    deleted, rows = plan.deleted_rows, plan.files.column("record_count")
    share = pc.divide(pc.cast(pc.fill_null(deleted, 0), pa.float64()), pc.cast(rows, pa.float64()))
    sparse = pc.fill_null(pc.greater(share, DELETED_SHARE), False)  # noqa: FBT003
    sparse_files = int(pc.sum(sparse).as_py() or 0)
    if sparse_files:
        deleted_rows = int(pc.sum(deleted.filter(sparse)).as_py())
        yield Advice(
            "optimize",
            f"{_files(sparse_files)} with more than {DELETED_SHARE:.0%} deleted rows ({deleted_rows:,} rows)",
            {"files": sparse_files, "deleted_rows": deleted_rows},
        )
    small, combined = _small_files(plan)
    if small - combined >= FEWER_FILES:
        yield Advice(
            "optimize",
            f"{_files(small)} below {TARGET_FILE_SIZE >> 20} MiB fit in {combined:,}",
            {"small_files": small, "combined_files": combined},
        )


def _small_files(plan: ScanPlan) -> tuple[int, int]:
    """The small files of partitions that have several, and how many files could hold their rows."""
    files = plan.files.filter(pc.less(plan.files.column("size"), TARGET_FILE_SIZE))
    columns = {"size": files.column("size")}
    partition = files.column("partition").combine_chunks()
    for number in range(partition.type.num_fields):
        columns[f"p{number}"] = pc.struct_field(partition, [number])
    groups = pa.table(columns).group_by([name for name in columns if name != "size"])
    sums = groups.aggregate([("size", "sum"), ("size", "count")])
    sums = sums.filter(pc.greater(sums.column("size_count"), 1))
    needed = pc.add(pc.divide(pc.subtract(sums.column("size_sum"), 1), TARGET_FILE_SIZE), 1)
    return int(pc.sum(sums.column("size_count")).as_py() or 0), int(pc.sum(needed).as_py() or 0)


def _vacuum(unneeded: Unneeded) -> Iterator[Advice]:
    if unneeded.expired_versions:
        versions = (
            "1 version" if unneeded.expired_versions == 1 else f"{unneeded.expired_versions:,} versions"
        )
        yield Advice(
            "vacuum",
            f"{versions} that the table's properties no longer retain",
            {"versions": unneeded.expired_versions},
        )
    if unneeded.expired_files:
        yield Advice(
            "vacuum",
            f"{_files(unneeded.expired_files)} ({unneeded.expired_bytes:,} bytes) that were removed longer "
            "ago than the table's retention",
            {"files": unneeded.expired_files, "bytes": unneeded.expired_bytes},
        )


def _files(count: int) -> str:
    return f"{count:,} file" if count == 1 else f"{count:,} files"
