"""From a snapshot and a condition to a ``ScanPlan``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from delvec import location
from delvec.chunked import Mask, Rows, rows_of
from delvec.delta.descriptor import deletes_of
from delvec.delta.partition_values import SPEC_ID
from delvec.delta.stats.facts import SnapshotFacts
from delvec.file_facts import ConstantColumn, FileFacts, SelectableFacts
from delvec.plan import (
    FILES_SCHEMA,
    MATCH_ALL,
    MATCH_SOME,
    ReadSchema,
    ScanPlan,
)
from delvec.predicate import Condition

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot


def plan(
    snapshot: Snapshot, condition: Condition | None, facts: SnapshotFacts, *, among: Rows | None = None
) -> ScanPlan:
    """The files of ``snapshot`` that may have a matching row; ``among``: only of these rows of ``adds``."""
    selected: SelectableFacts = facts
    rows, adds = np.arange(facts.count), snapshot.adds
    if among is not None:
        rows, adds, selected = among, rows_of(adds, among), facts.at(among)
    candidates = len(rows)
    only = np.zeros(candidates, dtype=bool)
    if condition is not None:
        if among is None:  # parse the columns for all files, once for all plans
            facts.prepare(condition.columns)
        matches = condition.match(selected)
        may = np.flatnonzero(matches.may)
        rows, adds, selected, only = rows[may], rows_of(adds, may), selected.at(may), matches.only[may]
    return _plan(
        snapshot, rows, selected, adds=adds, only=only, condition=condition, skipped=candidates - len(rows)
    )


def plan_actions(snapshot: Snapshot, adds: pa.Table, *, time_zone: str = "UTC") -> ScanPlan:
    """The plan of any files, live in ``snapshot`` or not. It has the columns that ``snapshot`` has.

    ``adds`` are the files as ``actions.ADDS_SCHEMA``.
    """
    facts = SnapshotFacts(adds, snapshot.schema, snapshot.partition_columns, time_zone=time_zone)
    rows, only = np.arange(len(adds)), np.zeros(len(adds), dtype=bool)
    return _plan(snapshot, rows, facts, adds=adds, only=only, condition=None, skipped=0)


def _plan(
    snapshot: Snapshot,
    rows: Rows,
    facts: SelectableFacts,
    *,
    adds: pa.Table,
    only: Mask,
    condition: Condition | None,
    skipped: int,
) -> ScanPlan:
    locations = location.resolve_many(snapshot.location, adds.column("path"))
    vector, deletes = deletes_of(snapshot.location, adds, locations)
    return ScanPlan(
        location=snapshot.location,
        base=snapshot.base,
        schema=snapshot.schema,
        specs={SPEC_ID: snapshot.spec},
        read_schemas=(
            ReadSchema(snapshot.schema, by_id=snapshot.by_id, constants=snapshot.partition_columns),
        ),
        condition=condition,
        files=_files(snapshot, rows, facts, adds=adds, locations=locations, vector=vector, only=only),
        facts=facts,
        deletes=deletes,
        delete_groups=(),
        carry=adds,
        skipped=skipped,
    )


def _files(
    snapshot: Snapshot,
    rows: Rows,
    facts: FileFacts,
    *,
    adds: pa.Table,
    locations: pa.Array,
    vector: pa.Array,
    only: Mask,
) -> pa.Table:
    count = len(rows)
    columns = {
        "file_id": pa.array(rows, pa.int64()),
        "location": locations,
        "raw_location": adds.column("path"),
        "file_format": pa.repeat(pa.scalar("parquet"), count),
        "size": adds.column("size"),
        "record_count": facts.record_count,
        "spec_id": pa.repeat(pa.scalar(SPEC_ID, pa.int32()), count),
        "read_schema": pa.repeat(pa.scalar(0, pa.int32()), count),
        "first_row_id": adds.column("base_row_id"),
        "row_version": adds.column("default_row_commit_version"),
        "vector": vector,
        "match": pa.array(np.where(only, MATCH_ALL, MATCH_SOME), pa.string()),
        "carry": pa.array(np.arange(count), pa.int64()),
    }
    arrays = [columns.get(f.name, pa.nulls(count, f.type)) for f in FILES_SCHEMA]
    table = pa.table(arrays, schema=FILES_SCHEMA)
    return table.append_column("partition", _partition(snapshot, facts, count))


def _partition(snapshot: Snapshot, facts: FileFacts, count: int) -> pa.Array:
    names = snapshot.partition_columns
    if not names:
        return pa.StructArray.from_buffers(pa.struct([]), count, [None])
    values = []
    for name in names:
        column = facts.column((name,))
        assert isinstance(column, ConstantColumn)
        values.append(column.values)
    return pa.StructArray.from_arrays(values, names=list(names))
