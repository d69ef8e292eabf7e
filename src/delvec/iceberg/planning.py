"""From a snapshot and a condition to a ``ScanPlan``.

manifests   those whose partition summaries allow a matching row (`manifest_facts`)
files       those whose partition values and statistics allow one (`stats`)
deletes     those that belong to these files (`delete_scopes`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import rows_of
from delvec.iceberg.plan_tables import columns_of_files, deletes_table, files_table
from delvec.iceberg.read_schema import dropped_columns, lineage_columns
from delvec.plan import ScanPlan
from delvec.predicate import Condition

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot


def plan(
    snapshot: Snapshot,
    condition: Condition | None,
    *,
    time_zone: str = "UTC",  # noqa: ARG001 - recorded timestamps have no other zone than UTC
    among: pa.Array | None = None,
) -> ScanPlan:
    """The files of ``snapshot`` that may have a matching row; ``among``: only of these files, by id."""
    files, locations = snapshot.files, snapshot.locations
    candidates = files.candidates(condition, among)
    chosen, only = np.arange(candidates.facts.count), np.zeros(candidates.facts.count, np.bool_)
    if condition is not None:
        matches = condition.match(candidates.facts)
        chosen = np.flatnonzero(matches.may)
        only = matches.only[chosen]
    rows = candidates.rows[chosen]
    scopes, deletes = files.deletes_of(candidates, rows)
    entries = rows_of(columns_of_files(candidates.entries), rows)
    compared = pc.list_flatten(deletes.column("equality_ids")).unique().to_pylist()
    return ScanPlan(
        location=snapshot.location,
        base=snapshot.base,
        schema=snapshot.schema,
        specs=snapshot.specs,
        read_schemas=snapshot.read_schemas.both,
        condition=condition,
        files=files_table(
            files.live,
            locations,
            entries,
            scopes=scopes,
            only=only,
            read_schema=snapshot.read_schemas.of_files(candidates.entries, rows),
        ),
        facts=candidates.facts.at(chosen),
        deletes=deletes_table(files.live, locations, deletes, schema=snapshot.schema, specs=snapshot.specs),
        delete_groups=scopes.groups,
        carry=pa.table({}),
        skipped=candidates.skipped + candidates.facts.count - len(chosen),
        dropped=dropped_columns(snapshot.metadata, snapshot.schema, compared),
        lineage=lineage_columns(snapshot.metadata),
    )


def live_deletes(snapshot: Snapshot) -> pa.Table:
    """All live deletes, as ``ScanPlan.deletes``."""
    live = snapshot.files.live
    return deletes_table(
        live, snapshot.locations, live.deletes(), schema=snapshot.schema, specs=snapshot.specs
    )


def names(snapshot: Snapshot, file_ids: pa.Array) -> pa.Array:
    """The recorded locations of files by their ids."""
    return snapshot.files.live.names(file_ids)


def file_ids(snapshot: Snapshot, names: pa.Array) -> pa.Array:
    """The ids of files by their recorded locations; null for a file that is not live."""
    return snapshot.files.live.file_ids(names)
