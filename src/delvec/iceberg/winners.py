"""Reads the snapshots of other writers as ``Won``, for `delvec.conflicts`.

The snapshots between the base and the newest one are the newest one's parents. If the base is not one of
them, the branch was set to another snapshot, and the statement must run again. A change of properties alone
is no conflict; a change of the columns, the partitioning or the format version is one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.deletes.position_file import read_paths
from delvec.errors import DelvecError, FormatError
from delvec.iceberg import manifest_list
from delvec.iceberg.delete_scopes import referenced_files
from delvec.iceberg.live_entries import LiveEntries
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest import (
    ADDED,
    DATA_FILE,
    DELETED,
    EQUALITY_DELETES,
    POSITION_DELETES,
    read_manifest,
)
from delvec.iceberg.metadata import SnapshotRecord, TableMetadata
from delvec.iceberg.refs import NO_SNAPSHOT
from delvec.iceberg.snapshot_summary import REPLACE
from delvec.iceberg.swaps import verify_same_table
from delvec.iceberg.transactions import txn_versions
from delvec.iceberg.tree.live_tree import LiveTree
from delvec.row_delta import Verb, Won
from delvec.storage import Storage, in_parallel

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot

_COLUMNS = ("status", "content", "file_path", "file_format", "referenced_data_file")


def won(since: Snapshot, until: Snapshot) -> list[Won]:
    """The commits after the snapshot ``since`` up to the snapshot ``until``, oldest first. Refuses snapshots
    of two tables, of which one was dropped.
    """
    verify_same_table(since.metadata, until.metadata.table_uuid, until.location)
    changed = _metadata_change(since.metadata, until.metadata)
    if changed is not None:
        return [Won(until.version, "ALTER TABLE", Verb.ALTER, changed=changed)]
    between = _between(since, until)
    if between is None:
        what = "which snapshot the branch is at"
        return [Won(until.version, "rollback", Verb.ALTER, changed=what)]
    found = in_parallel(lambda record: _read(until, record), between)
    app_ids = _new_app_ids(since, until)
    if not app_ids:
        return found
    last = found.pop() if found else Won(until.version, "APPEND", Verb.APPEND)
    return [*found, replace(last, app_ids=app_ids)]


def _between(since: Snapshot, until: Snapshot) -> list[SnapshotRecord] | None:
    """The snapshots after ``since`` up to ``until``; None if ``until`` does not come from ``since``."""
    found: list[SnapshotRecord] = []
    current: int | None = None if until.version == NO_SNAPSHOT else until.version
    end = None if since.version == NO_SNAPSHOT else since.version
    while current != end:
        record = None if current is None else until.metadata.snapshots.get(current)
        if record is None or record in found:
            return None
        found.append(record)
        current = record.parent_id
    return found[::-1]


def _metadata_change(before: TableMetadata, after: TableMetadata) -> str | None:
    if before.format_version != after.format_version:
        return f"the format version to {after.format_version}"
    if before.schema != after.schema:
        return "the table's columns"
    if before.raw_specs[before.default_spec_id] != after.raw_specs[after.default_spec_id]:
        return "the table's partitioning"
    return None


def _new_app_ids(since: Snapshot, until: Snapshot) -> frozenset[str]:
    before, after = txn_versions(since.properties), txn_versions(until.properties)
    return frozenset(app_id for app_id, version in after.items() if before.get(app_id) != version)


def _read(until: Snapshot, record: SnapshotRecord) -> Won:
    """What the snapshot did. One whose manifests are gone may have changed anything."""
    operation = record.summary.get("operation", "unknown")
    storage, locations = until.storage, until.locations
    try:
        if record.root_manifest is not None:
            entries = _changed_in_tree(until.live_at(record))
        else:
            entries = _changed_entries(storage, locations, record)
        return _won(record, operation, entries, storage, locations)
    except FormatError:
        raise
    except DelvecError:
        return Won(record.snapshot_id, operation, Verb.ALTER, changed="what can no longer be read")


def _changed_in_tree(live: LiveEntries) -> pa.Table:
    """The entries that a snapshot with a root manifest added or removed."""
    assert isinstance(live, LiveTree)
    tables = [
        table for content in (manifest_list.DATA, manifest_list.DELETES) for table in live.changed(content)
    ]
    return pa.concat_tables(tables).select(list(_COLUMNS))


def _changed_entries(storage: Storage, locations: Locations, record: SnapshotRecord) -> pa.Table:
    """The entries that the snapshot added or removed, with the bounds of position files' paths."""
    assert record.manifest_list is not None  # version 1, which is not written
    manifests = manifest_list.read_manifest_list(storage.read(locations.resolve(record.manifest_list)))
    own = manifests.filter(pc.equal(manifests.column("added_snapshot_id"), record.snapshot_id))

    def read(row: dict[str, object]) -> pa.Table:
        place = locations.resolve(str(row["path"]))
        try:
            entries = read_manifest(storage.read(place)).entries
        except FormatError as error:
            raise error.at(place) from None
        referenced = referenced_files(entries)
        position = entries.schema.get_field_index("referenced_data_file")
        entries = entries.set_column(position, "referenced_data_file", referenced)
        owner = pc.coalesce(entries.column("snapshot_id"), pa.scalar(record.snapshot_id, pa.int64()))
        is_change = pc.is_in(entries.column("status"), value_set=pa.array([ADDED, DELETED], pa.int32()))
        changed = entries.filter(pc.and_(is_change, pc.equal(owner, record.snapshot_id)))
        return changed.select(list(_COLUMNS))

    tables = in_parallel(read, own.select(["path"]).to_pylist())
    empty = pa.table({name: pa.array([], kind) for name, kind in zip(_COLUMNS, _TYPES, strict=True)})
    return pa.concat_tables([empty, *tables])


_TYPES = (pa.int32(), pa.int32(), pa.string(), pa.string(), pa.string())


def _won(
    record: SnapshotRecord, operation: str, entries: pa.Table, storage: Storage, locations: Locations
) -> Won:
    added, removed = _paths(entries, ADDED, DATA_FILE), _paths(entries, DELETED, DATA_FILE)
    has_keys = len(_paths(entries, ADDED, EQUALITY_DELETES)) > 0
    vectors = _files_with_deletes(entries, storage, locations)
    vectors = vectors.filter(pc.invert(pc.is_in(vectors, value_set=pa.concat_arrays([added, removed]))))
    nothing = pa.array([], pa.string())
    is_replace = operation == REPLACE
    return Won(
        record.snapshot_id,
        operation,
        _verb(is_replace, has_keys, added, removed, vectors),
        added=nothing if is_replace else added,
        removed=removed,
        rearranged=removed if is_replace else nothing,
        carried=added if is_replace else nothing,
        vectors=nothing if is_replace else vectors,
        stored_again=vectors if is_replace else nothing,
    )


def _verb(is_replace: bool, has_keys: bool, added: pa.Array, removed: pa.Array, vectors: pa.Array) -> Verb:  # noqa: FBT001
    """The kind of the commit, by what it changed: engines differ in the names of operations."""
    if is_replace:
        return Verb.COMPACT if len(removed) else Verb.REWRITE_DELETES
    if has_keys:  # an UPSERT may also have changed rows of older files: it conflicts with more
        return Verb.UPSERT if len(added) or len(removed) or len(vectors) else Verb.DELETE_KEYS
    if len(removed) or len(vectors):
        return Verb.UPDATE if len(added) else Verb.DELETE
    return Verb.APPEND


def _paths(entries: pa.Table, status: int, content: int) -> pa.Array:
    mask = pc.and_(pc.equal(entries.column("status"), status), pc.equal(entries.column("content"), content))
    return one_chunk(entries.column("file_path").filter(mask))


def _files_with_deletes(entries: pa.Table, storage: Storage, locations: Locations) -> pa.Array:
    """The data files of which the snapshot's new vectors and position files delete rows. A position file of
    several data files is read.
    """
    mask = pc.and_(
        pc.equal(entries.column("status"), ADDED), pc.equal(entries.column("content"), POSITION_DELETES)
    )
    deletes = entries.filter(mask)
    named = one_chunk(deletes.column("referenced_data_file").drop_null())
    unnamed = deletes.filter(pc.is_null(deletes.column("referenced_data_file"))).column("file_path")
    read = [read_paths(storage, locations.resolve(path)) for path in unnamed.to_pylist()]
    return pa.concat_arrays([named, *read]).unique()
