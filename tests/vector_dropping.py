"""Dropping the deletion vectors of a small table without Spark: its file is rewritten in plain Python."""

from __future__ import annotations

from typing import Any

from delta_writer import append_delta, committed, numbers
from delvec.delta.table import DeltaTable
from delvec.row_delta import MetadataChange, Operation, Read, Request, RowDelta, Verb
from delvec.spark.drop_vectors import VectorsDropped, drop_vectors


def set_properties(table: DeltaTable, properties: Any) -> None:
    snapshot = table.snapshot()
    request = Request(Operation.SET_PROPERTIES, properties=properties)
    change = MetadataChange(properties=properties)
    delta = RowDelta(snapshot.base, request, Read(blind=True), Verb.ALTER, metadata=change)
    committed(table.commit(snapshot, delta))


def purge(table: DeltaTable) -> None:
    """Rewrite the only file without its deleted rows."""
    snapshot = table.snapshot()
    kept = [0, *range(4, 10)]
    rows = numbers(0, 10).take(kept)
    files = append_delta(snapshot, rows)
    plan = snapshot.plan()
    delta = RowDelta(
        snapshot.base,
        Request(Operation.COMPACT),
        Read(),
        Verb.COMPACT,
        added=files.added,
        removed=plan.files.column("file_id").combine_chunks(),
        data_change=False,
    )
    committed(table.commit(snapshot, delta))


def dropped(table: DeltaTable, *, truncate_history: bool = False) -> VectorsDropped:
    return drop_vectors(
        table,
        lambda change: set_properties(table, change),
        lambda: purge(table),
        truncate_history=truncate_history,
    )
