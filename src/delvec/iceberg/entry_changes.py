"""The manifest entries that a ``RowDelta`` adds and removes. Stores its deletes.

Rows of a data file are deleted by one vector (version 3) or one position file (version 2), which has the rows
that were deleted before, too, and replaces the file's own deletes. A data file that loses all rows is removed
instead. A removed data file takes its own deletes along; deletes that other data files share stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec import blob
from delvec.chunked import Rows, one_chunk, rows_of
from delvec.iceberg.live_entries import FILE_ID, SPEC_ID, LiveEntries, manifests_of
from delvec.iceberg.manifest import DELETED, POSITION
from delvec.iceberg.manifest_changes import Removals
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.new_entries import data_entries, delete_entries
from delvec.iceberg.position_delete_file import store_position_deletes
from delvec.iceberg.stats_writer import entry_statistics
from delvec.iceberg.stored_deletes import removed_delete_entries, stored_delete_entries
from delvec.iceberg.tree.entries import CONTENT_STATS
from delvec.iceberg.tree.mark import TREE_VERSION
from delvec.iceberg.tree.measured_columns import of_metadata
from delvec.iceberg.tree.new_stats import new_file_stats
from delvec.iceberg.vector_file import DATA_FOLDER, write_vectors
from delvec.row_delta import RowDelta
from delvec.schema import Schema
from delvec.storage import Storage, in_parallel

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot

VECTORS_SINCE = 3
"""The format version from which deletes are vectors."""


class Attempt(Protocol):
    """A commit in the making."""

    @property
    def snapshot_id(self) -> int: ...

    @property
    def stored(self) -> list[str]:
        """The files that nothing needs if the commit fails."""
        ...


@dataclass(frozen=True, slots=True)
class EntryChanges:
    """added      new entries, a table for each partition spec and content
    removals   entries of the parent's manifests that are no longer live
    entries    both as one table, with their status and without statistics of trees: what the snapshot's
               summary counts
    """

    added: tuple[pa.Table, ...]
    removals: Removals
    entries: pa.Table


def entry_changes(
    storage: Storage, base: Snapshot, after: TableMetadata, delta: RowDelta, attempt: Attempt
) -> EntryChanges:
    """The entries that a delta with measured files adds and removes. ``after``: the metadata with the delta's
    own changes.
    """
    live = base.files.live
    changed, emptied = _changed_files(live, delta)
    removed = np.unique(np.concatenate([np.asarray(delta.removed, dtype=np.int64), emptied]))
    added = []
    if len(delta.added):
        statistics = _statistics(base, after, delta)
        schema = _with_types(live.schema, statistics)
        added.append(
            data_entries(
                schema, delta, base.spec, base.locations, statistics, snapshot_id=attempt.snapshot_id
            )
        )
    if len(changed):
        added += _by_spec(_new_deletes(storage, base, changed, attempt))
    added += stored_delete_entries(storage, base, after, delta, snapshot_id=attempt.snapshot_id)
    removals = Removals.of_files(removed).and_others(_own_deletes(base, delta, removed, changed))
    gone = [_removed_entries(live, removals, attempt.snapshot_id)] if len(removals.positions) else []
    counted = [name for name in live.schema.names if name != CONTENT_STATS]
    tables = [table.select(counted) for table in (live.schema.empty_table(), *added, *gone)]
    return EntryChanges(tuple(added), removals, pa.concat_tables(tables))


def _statistics(base: Snapshot, after: TableMetadata, delta: RowDelta) -> dict[str, pa.Array]:
    """The columns with statistics of new data files: maps, or typed ones where the table has trees."""
    if after.format_version >= TREE_VERSION:
        return {CONTENT_STATS: new_file_stats(delta.added, of_metadata(after), base.spec.spec_id)}
    schema = _schema(base, delta)
    return dict(entry_statistics(delta.added, schema=schema, properties=base.properties))


def _with_types(schema: pa.Schema, columns: Mapping[str, pa.Array]) -> pa.Schema:
    """The schema with the types that these columns have: a commit may add columns with statistics."""
    return pa.schema(
        [
            field.with_type(columns[field.name].type) if field.name == CONTENT_STATS else field
            for field in schema
        ]
    )


def _schema(base: Snapshot, delta: RowDelta) -> Schema:
    change = delta.metadata
    return base.schema if change is None or change.schema is None else change.schema


def _changed_files(live: LiveEntries, delta: RowDelta) -> tuple[pa.Table, Rows]:
    """The files that lose rows and keep others, as ``RowDelta.vectors`` in ascending order; and the ids of
    files that lose all rows.
    """
    vectors = delta.vectors.sort_by("file_id")
    if not len(vectors):
        return vectors, np.array([], np.int64)
    data = entries_of(live, vectors.column("file_id").to_numpy())
    is_emptied = np.asarray(pc.equal(vectors.column("cardinality"), data.column("record_count")))
    return vectors.filter(pa.array(~is_emptied)), vectors.column("file_id").to_numpy()[is_emptied]


def entries_of(live: LiveEntries, file_ids: Rows) -> pa.Table:
    """The live entries of data files by their ascending ids."""
    entries = live.entries(manifests_of(file_ids))
    return rows_of(entries, np.searchsorted(one_chunk(entries.column(FILE_ID)).to_numpy(), file_ids))


def _new_deletes(storage: Storage, base: Snapshot, changed: pa.Table, attempt: Attempt) -> pa.Table:
    """Store the deleted rows of the files, and return the entries of what was stored."""
    data = entries_of(base.files.live, changed.column("file_id").to_numpy())
    store = _stored_vectors if base.format_version >= VECTORS_SINCE else _stored_positions
    deletes = store(storage, changed, data, attempt)
    return delete_entries(data, deletes, base.locations, snapshot_id=attempt.snapshot_id)


def _stored_vectors(storage: Storage, changed: pa.Table, data: pa.Table, attempt: Attempt) -> pa.Table:
    """Vectors that the executors have not stored already go to one Puffin file."""
    rows = changed.select(["rows", "location", "offset", "length"]).to_pylist()
    names = data.column("file_path").to_pylist()
    places = [(row["location"], row["offset"], row["length"]) for row in rows]
    here = [at for at, row in enumerate(rows) if row["location"] is None]
    sizes = {}
    if here:
        blobs, named = [rows[at]["rows"] for at in here], [names[at] for at in here]
        file = write_vectors(storage, blobs, named, folder=DATA_FOLDER)
        attempt.stored.append(file.location)
        sizes[file.location] = file.size
        for at, place in zip(here, file.places, strict=True):
            places[at] = (file.location, *place)
    elsewhere = sorted({place for place, _, _ in places} - sizes.keys())
    sizes |= dict(in_parallel(lambda place: (place, storage.head(place).size), elsewhere))
    return pa.table(
        {
            "location": pa.array([place for place, _, _ in places], pa.string()),
            "file_size": pa.array([sizes[place] for place, _, _ in places], pa.int64()),
            "content_offset": pa.array([offset for _, offset, _ in places], pa.int64()),
            "content_size": pa.array([length for _, _, length in places], pa.int64()),
            "record_count": changed.column("cardinality"),
        }
    )


def _stored_positions(storage: Storage, changed: pa.Table, data: pa.Table, attempt: Attempt) -> pa.Table:
    """A position file for each data file."""
    bitmaps = [blob.decode(rows) for rows in changed.column("rows").to_pylist()]
    names = data.column("file_path").to_pylist()
    stored = store_position_deletes(storage, names, bitmaps, folder=DATA_FOLDER)
    attempt.stored.extend(stored.column("location").to_pylist())
    return stored


def _own_deletes(base: Snapshot, delta: RowDelta, removed: Rows, changed: pa.Table) -> Removals:
    """The live vectors and position files that are about only one of these data files, and the deletes that
    the delta itself removes.
    """
    live = base.files.live
    ids = np.union1d(removed, changed.column("file_id").to_numpy())
    found = removed_delete_entries(base, delta.removed_deletes)
    if not len(ids) or not len(live.delete_manifests):
        return found
    plan = base.plan(among=pa.array(ids))
    groups = plan.files.column("own_deletes").drop_null().to_pylist()
    rows = {row for group in groups for row in plan.delete_groups[group]}
    rows |= set(plan.files.column("vector").drop_null().to_pylist())
    entries = one_chunk(plan.deletes.column("entry")).take(pa.array(sorted(rows), pa.int64()))
    return found.and_others(Removals.of_entries(live, entries))


def _removed_entries(live: LiveEntries, removals: Removals, snapshot_id: int) -> pa.Table:
    """The entries that are removed, as DELETED."""
    tables = []
    for number, positions in removals.by_manifest():
        entries = live.entries(np.array([number], np.int64))
        chosen = pc.is_in(entries.column(POSITION), value_set=pa.array(positions, pa.int64()))
        tables.append(entries.filter(chosen))
    table = pa.concat_tables(tables)
    for name, value in (("status", DELETED), ("snapshot_id", snapshot_id)):
        at = table.schema.get_field_index(name)
        field = table.schema.field(at)
        table = table.set_column(at, field, pa.repeat(pa.scalar(value, field.type), len(table)))
    return table


def _by_spec(entries: pa.Table) -> list[pa.Table]:
    """A table for each partition spec."""
    specs = entries.column(SPEC_ID)
    return [entries.filter(pc.equal(specs, spec_id)) for spec_id in specs.unique().to_pylist()]
