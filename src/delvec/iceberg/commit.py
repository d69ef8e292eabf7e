"""Commits: a ``RowDelta`` becomes a snapshot, and the snapshot a part of the newest metadata file.

    data/….puffin, data/….parquet       vectors, or position-delete files of version 2
    metadata/<uuid>-m<n>.avro           the manifests that are new or rewritten
    metadata/snap-<id>-1-<uuid>.avro    the manifest list; in version 4 a root manifest instead (`tree`)
    the pointer's swap                  makes the snapshot part of the table, or another was first

Files are stored before the swap, so that metadata never refers to a file that is not there. If another writer
was first, those that only this attempt needs are deleted; `delvec.conflicts` decides what happens next.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from delvec.errors import DelvecError, InvalidOperationError, StorageError
from delvec.footers.statistics import measure
from delvec.iceberg.delete_partitions import global_spec_updates
from delvec.iceberg.entry_changes import EntryChanges, entry_changes
from delvec.iceberg.manifest_changes import ManifestPlanner, manifests_table
from delvec.iceberg.manifest_list_writer import with_row_ids, write_manifest_list
from delvec.iceberg.manifest_properties import ManifestProperties
from delvec.iceberg.metadata import MAIN, TableMetadata
from delvec.iceberg.metadata_change import updates_of
from delvec.iceberg.metadata_updates import Update, add_snapshot, set_properties, set_snapshot_ref
from delvec.iceberg.operations import commit_metrics
from delvec.iceberg.snapshot_ids import new_snapshot_id
from delvec.iceberg.snapshot_summary import ENGINE, operation_of, summary
from delvec.iceberg.stats_writer import measured_columns
from delvec.iceberg.swaps import BaseFile, Swap, Swapped, SwapUnknown, Taken, metadata_folder
from delvec.iceberg.transactions import txn_properties
from delvec.iceberg.tree.mark import TREE_VERSION
from delvec.iceberg.tree.measured_columns import of_metadata
from delvec.iceberg.tree.snapshot_root import next_snapshot
from delvec.iceberg.tree.stored_tree import NewTreeFiles
from delvec.iceberg.tree.upgrade import first_roots, gets_trees, verify_alone
from delvec.iceberg.updated_metadata import apply_updates, parsed
from delvec.row_delta import Committed, Outcome, RowDelta, Unknown, VersionTaken, with_statistics
from delvec.storage import Storage, in_parallel

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot

Clock = Callable[[], int]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class _Attempt:
    """One attempt to commit. ``stored``: the files that nothing needs if it fails."""

    storage: Storage
    base: Snapshot
    delta: RowDelta
    now_ms: int
    snapshot_id: int
    stored: list[str]

    def put(self, recorded: str, data: bytes) -> None:
        """Store a file at a location as the metadata records it."""
        place = self.base.locations.resolve(recorded)
        self.stored.append(place)
        self.storage.put(place, data)


def commit(
    swap: Swap, storage: Storage, base: Snapshot, delta: RowDelta, *, clock: Clock = now_ms
) -> Outcome:
    """Commit ``delta``, which was made from ``base``, unless the table's metadata is another now.

    Raises StorageError if the store or the catalog failed and nothing was committed.
    """
    _verify_delta(base, delta)
    base = base.to_commit_to()
    metadata = base.metadata
    attempt = _Attempt(storage, base, delta, clock(), new_snapshot_id(metadata), [])
    updates = _metadata_updates(base, delta)
    try:
        after = _after(metadata, updates, attempt.now_ms)
        changes = entry_changes(storage, base, after, _measured(storage, delta, after), attempt)
        verify_alone(metadata, updates, has_files=len(changes.entries) > 0)
        if len(changes.entries):
            updates += _snapshot_updates(attempt, after, changes)
        elif gets_trees(metadata, updates):
            updates += first_roots(
                metadata,
                updates,
                storage=storage,
                locations=base.locations,
                put=attempt.put,
                now_ms=attempt.now_ms,
            )
        if not updates and not base.is_draft:
            return Committed(base.version, commit_metrics(delta, changes.entries))
    except DelvecError:
        _discard(attempt)
        raise
    old = None if base.is_draft else BaseFile(base.opened.metadata_path, metadata)
    try:
        outcome = swap.commit(storage, old, [*base.opened.creation, *updates])
    except DelvecError:
        _discard(attempt)
        raise
    version = attempt.snapshot_id if len(changes.entries) else _head(base, after, updates)
    match outcome:
        case Swapped():
            return Committed(version, commit_metrics(delta, changes.entries))
        case SwapUnknown(reason):
            return Unknown(version, reason)
        case Taken():
            _discard(attempt)
            return VersionTaken(version)


def _head(base: Snapshot, after: TableMetadata, updates: Sequence[Update]) -> int:
    """The snapshot that the branch is at: another one after a restore, or an upgrade to version 4."""
    branch = base.opened.ref or MAIN
    for update in reversed(updates):
        if update["action"] == "set-snapshot-ref" and update["ref-name"] == branch:
            return int(update["snapshot-id"])
    ref = after.refs.get(branch)
    return base.version if ref is None else ref.snapshot_id


def _verify_delta(base: Snapshot, delta: RowDelta) -> None:
    if delta.base != base.base:
        raise InvalidOperationError(
            f"delta was made from {delta.base}, expected {base.base}: {base.location}"
        )
    if delta.txn is not None and delta.txn.version <= base.txns.get(delta.txn.app_id, -1):
        raise InvalidOperationError(
            f"version {delta.txn.version} of application {delta.txn.app_id!r} is committed already, "
            f"expected one above {base.txns[delta.txn.app_id]}: {base.location}"
        )


def _metadata_updates(base: Snapshot, delta: RowDelta) -> list[Update]:
    """The changes of the metadata other than a new snapshot."""
    updates: list[Update] = []
    adds_files = len(delta.added) > 0
    if delta.metadata is not None or adds_files:
        updates += updates_of(base.metadata, delta.metadata, adds_files=adds_files)
    if delta.txn is not None:
        updates.append(set_properties(txn_properties(delta.txn)))
    if delta.carry is not None:
        assert isinstance(delta.carry, tuple)
        updates += delta.carry
    return updates + global_spec_updates(base.metadata, delta)


def _after(metadata: TableMetadata, updates: Sequence[Update], now: int) -> TableMetadata:
    """The metadata after the updates."""
    if not updates:
        return metadata
    return parsed(apply_updates(metadata, updates, now_ms=now, file=None), metadata.location)


def _measured(storage: Storage, delta: RowDelta, after: TableMetadata) -> RowDelta:
    """The delta with the statistics of its new files. Reads their footers unless they are measured."""
    if not delta.added.column("record_count").null_count:
        return delta
    columns = measured_columns(after.schema, after.properties)
    statistics = measure(storage, delta.added.column("location").to_pylist(), columns)
    return replace(delta, added=with_statistics(delta.added, statistics))


@dataclass(frozen=True, slots=True)
class _Stored:
    """What was stored for a snapshot: ``place``, as the snapshot names it, how the summary counts manifests,
    and the next row id of the table.
    """

    place: Mapping[str, str]
    counts: Mapping[str, int]
    next_row_id: int | None


def _snapshot_updates(attempt: _Attempt, after: TableMetadata, changes: EntryChanges) -> Sequence[Update]:
    """Write the manifests of the new snapshot; the updates that add it to the table."""
    base, sequence = attempt.base, after.last_sequence_number + 1
    has_tree = after.format_version >= TREE_VERSION
    stored = (_stored_tree if has_tree else _stored_list)(attempt, after, changes, sequence)
    parent = base.record
    snapshot: dict[str, Any] = {
        "snapshot-id": attempt.snapshot_id,
        "sequence-number": sequence,
        "timestamp-ms": max(attempt.now_ms, 0 if parent is None else parent.timestamp_ms),
        **stored.place,
        "summary": {
            "operation": operation_of(changes.entries, data_change=attempt.delta.data_change),
            **summary(changes.entries, None if parent is None else parent.summary),
            **{name: str(count) for name, count in stored.counts.items()},
            **ENGINE,
        },
        "schema-id": after.current_schema_id,
    }
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent.snapshot_id
    if after.format_version >= 3 and stored.next_row_id is not None:
        first_row_id = after.next_row_id or 0
        snapshot |= {"first-row-id": first_row_id, "added-rows": stored.next_row_id - first_row_id}
    branch = base.opened.ref or MAIN
    retention = _retention(after, branch)
    return [add_snapshot(snapshot), set_snapshot_ref(branch, attempt.snapshot_id, retention=retention)]


def _stored_tree(attempt: _Attempt, after: TableMetadata, changes: EntryChanges, sequence: int) -> _Stored:
    """Store a root manifest, with the leaves and manifest vectors that it needs."""
    columns = of_metadata(after)
    files = NewTreeFiles(
        attempt.storage,
        attempt.base.locations,
        columns,
        folder=metadata_folder(after),
        put=attempt.put,
    )
    tree = next_snapshot(
        attempt.base.files.live,
        changes.added,
        changes.removals,
        after=after,
        columns=columns,
        files=files,
        snapshot_id=attempt.snapshot_id,
    )
    place = files.store_root(tree.root, snapshot_id=attempt.snapshot_id, sequence_number=sequence)
    counts = {
        "manifests-created": tree.new_leaves + 1,
        "manifests-replaced": tree.dropped_leaves,
        "entries-processed": len(tree.root),
    }
    return _Stored({"root-manifest": place}, counts, tree.next_row_id)


def _stored_list(attempt: _Attempt, after: TableMetadata, changes: EntryChanges, sequence: int) -> _Stored:
    """Store a manifest list and its new manifests."""
    base, live = attempt.base, attempt.base.files.live
    specs = {**after.specs, **base.specs}
    planner = ManifestPlanner(
        live, after, specs, attempt.snapshot_id, ManifestProperties.of(after.properties)
    )
    manifests = planner.changes(changes.added, changes.removals)
    folder = metadata_folder(after)
    paths = [f"{folder}/{uuid.uuid4()}-m{number}.avro" for number in range(len(manifests.new))]
    in_parallel(lambda at: attempt.put(paths[at], manifests.new[at].data), range(len(paths)))
    table = manifests_table(
        manifests,
        live,
        specs,
        paths,
        snapshot_id=attempt.snapshot_id,
        sequence_number=sequence,
    )
    first_row_id, next_row_id = after.next_row_id, after.next_row_id
    if after.format_version >= 3:
        first_row_id = first_row_id or 0
        table, next_row_id = with_row_ids(table, first_row_id)
    list_path = f"{folder}/snap-{attempt.snapshot_id}-1-{uuid.uuid4()}.avro"
    attempt.put(
        list_path,
        write_manifest_list(
            table,
            snapshot_id=attempt.snapshot_id,
            parent_id=None if base.record is None else base.record.snapshot_id,
            sequence_number=sequence,
            first_row_id=first_row_id,
            format_version=after.format_version,
        ),
    )
    counts = {
        "manifests-created": len(manifests.new),
        "manifests-kept": len(manifests.kept),
        "manifests-replaced": manifests.replaced,
        "entries-processed": manifests.processed_entries,
    }
    return _Stored({"manifest-list": list_path}, counts, next_row_id)


def _retention(metadata: TableMetadata, branch: str) -> dict[str, int]:
    """The branch's own rules about which snapshots are kept."""
    recorded = (metadata.raw.get("refs") or {}).get(branch) or {}
    return {name: value for name, value in recorded.items() if name not in ("snapshot-id", "type")}


def _discard(attempt: _Attempt) -> None:
    """Delete the files of an attempt that was not committed. VACUUM deletes those that remain."""
    with suppress(StorageError):
        attempt.storage.delete(attempt.stored)
