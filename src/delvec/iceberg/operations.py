"""The names of operations in results and messages, and the metrics of a commit."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from delvec.iceberg.delete_scopes import PUFFIN
from delvec.iceberg.manifest import ADDED, DATA_FILE, DELETED, POSITION_DELETES
from delvec.operation_metrics import FileCounts, metrics_of
from delvec.row_delta import Operation, Request, RowDelta

_NAMES = {
    Operation.CREATE: "CREATE TABLE",
    Operation.CREATE_WITH_ROWS: "CREATE TABLE AS SELECT",
    Operation.APPEND: "APPEND",
    Operation.COMPACT: "OPTIMIZE",
}


def operation_name(request: Request) -> str:
    """The operation as messages name it."""
    return _NAMES.get(request.operation, request.operation.value.upper())


def commit_metrics(delta: RowDelta, entries: pa.Table) -> Mapping[str, int]:
    """The counts of a commit with these new and removed manifest entries, by the names of all formats."""
    data = entries.filter(pc.equal(entries.column("content"), DATA_FILE))
    added, removed = (data.filter(pc.equal(data.column("status"), s)) for s in (ADDED, DELETED))
    is_vector = pc.and_(
        pc.equal(entries.column("content"), POSITION_DELETES), pc.equal(entries.column("file_format"), PUFFIN)
    )
    vectors = entries.filter(is_vector)
    new, old = (
        vectors.filter(pc.equal(vectors.column("status"), s)).column("referenced_data_file")
        for s in (ADDED, DELETED)
    )
    counts = FileCounts(
        added=len(added),
        added_bytes=_sum(added, "file_size"),
        added_rows=_sum(added, "record_count"),
        removed=len(removed),
        removed_bytes=_sum(removed, "file_size"),
        vectors_added=len(new),
        vectors_updated=_sum_of(pc.is_in(new, value_set=old.combine_chunks())),
        vectors_removed=len(old),
        change_files=0,
        added_sizes=sorted(added.column("file_size").to_pylist()),
    )
    return metrics_of(delta.request, counts, delta.counts, delta.execution)


def _sum(table: pa.Table, name: str) -> int:
    return _sum_of(table.column(name))


def _sum_of(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)
