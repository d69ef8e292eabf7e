"""An Iceberg table, at a path or in a catalog: finds its snapshots, and commits new ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from delvec import location
from delvec.change_plan import ChangePlan
from delvec.errors import DelvecError, FormatError, InvalidOperationError, StorageError
from delvec.findings import Finding
from delvec.iceberg import changes, history, old_metadata, refs, restore, retention
from delvec.iceberg.change_range import Bound, find_range
from delvec.iceberg.checks import check_snapshot
from delvec.iceberg.commit import commit
from delvec.iceberg.creation import creation_updates, draft
from delvec.iceberg.empty_snapshot import store_empty_snapshot
from delvec.iceberg.locations import Locations
from delvec.iceberg.metadata import MAIN, TAG, TableMetadata
from delvec.iceberg.metadata_change import FORMAT_VERSION, updates_of
from delvec.iceberg.metadata_commits import MakeUpdates, commit_updates
from delvec.iceberg.metadata_files import FOLDER
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.newest_metadata import NewestMetadata
from delvec.iceberg.operations import operation_name
from delvec.iceberg.pointers import FilePointer, FolderPointer, Pointer
from delvec.iceberg.ref_updates import created_ref, dropped_ref
from delvec.iceberg.refs import NO_SNAPSHOT
from delvec.iceberg.snapshot import Opened, Snapshot
from delvec.iceberg.swaps import clock_ms, discard
from delvec.iceberg.tree.export import EXPORT_VERSION, export
from delvec.iceberg.tree.stored_tree import Put
from delvec.iceberg.tree.upgrade import first_roots, gets_trees
from delvec.iceberg.tree_nodes import snapshot_tree
from delvec.iceberg.version_features import verify_writable_version
from delvec.iceberg.winners import won
from delvec.instants import as_datetime, parse_instant
from delvec.metadata_tree import Node
from delvec.operation_metrics import metrics_without_files, total_metrics
from delvec.partition_spec import PartitionField
from delvec.plan import Base
from delvec.ref_changes import NewRef
from delvec.retention import Expired, Protected, RetentionRules, Unneeded
from delvec.row_delta import Execution, MetadataChange, Outcome, Request, RowCounts, RowDelta, Won
from delvec.schema import Schema
from delvec.storage import Storage, open_storage
from delvec.version_state import VersionState


class IcebergTable:
    """A table at the storage's root. ``pointer`` knows its newest metadata file, by default its folder.

    ``credentials``: if a catalog gave the credentials of the store, the Hadoop settings of which one gives
    Spark's file system credentials too.
    """

    format = "iceberg"

    def __init__(
        self,
        storage: Storage,
        pointer: Pointer | None = None,
        *,
        credentials: tuple[str, ...] = (),
    ) -> None:
        self.credentials = credentials
        self._newest = NewestMetadata(storage, pointer or FolderPointer())
        self._ref: str | None = None
        self._relocate = False

    @classmethod
    def of_file(cls, path: str, options: Mapping[str, str] | None = None) -> IcebergTable:
        """The table as one metadata file describes it, by the file's path."""
        place = location.normalize(path)
        folder, _, name = place.rpartition("/")
        root, _, last = folder.rpartition("/")
        if last != FOLDER:
            return cls(open_storage(folder or "/", options), FilePointer(name))
        return cls(open_storage(root or "/", options), FilePointer(f"{FOLDER}/{name}"))

    def on_ref(self, ref: str, kind: str | None = None) -> IcebergTable:
        """The same table at a branch or tag; ``kind``: refuse one of the other kind."""
        refs.verify_kind(self._newest.read()[1], ref, kind)
        return self._copy(ref=ref, relocate=self._relocate)

    def relocated(self) -> IcebergTable:
        """The same table, with all files below its recorded location taken from where it is now."""
        return self._copy(ref=self._ref, relocate=True)

    @property
    def storage(self) -> Storage:
        return self._newest.storage

    @property
    def location(self) -> str:
        return self.storage.root

    def snapshot(self, version: int | None = None, timestamp: dt.datetime | str | None = None) -> Snapshot:
        """The newest snapshot; or that with this id, or that was the current one at this time."""
        if version is not None and timestamp is not None:
            raise InvalidOperationError(
                f"both version {version} and timestamp {timestamp} are given, expected one of them"
            )
        opened = self._opened()
        if timestamp is not None:
            instant = parse_instant(timestamp)
            version = refs.snapshot_at_time(opened.metadata, instant, self._branch(opened.metadata))
        if version is not None:
            return _snapshot(opened, version)
        return self._newest.kept(
            self._ref, relocate=self._relocate, make=lambda: self._newest_snapshot(opened)
        )

    def snapshot_at(self, base: Base) -> Snapshot:
        """The snapshot with the schema that the base has."""
        return _snapshot(self._opened(), base.version, base.schema_id)

    def draft(
        self,
        schema: Schema,
        *,
        partition_by: Sequence[PartitionField] = (),
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
    ) -> Snapshot:
        """The table before its first commit, which creates it. Format version 3 unless 2 is requested."""
        updates = creation_updates(
            schema,
            partition_by=partition_by,
            properties=properties,
            format_version=format_version,
            location=self.location,
        )
        return draft(self.storage, updates, now_ms=clock_ms())

    def commit(self, snapshot: Snapshot, delta: RowDelta) -> Outcome:
        """Commit ``delta``, which was made from ``snapshot``, unless the table has newer metadata."""
        return commit(self._newest.pointer, self.storage, snapshot, delta)

    def won(self, since: Snapshot, until: Snapshot) -> Sequence[Won]:
        """The snapshots after ``since`` up to ``until``, in order."""
        return won(since, until)

    def operation_name(self, request: Request) -> str:
        """The operation as messages name it."""
        return operation_name(request)

    def metrics(
        self, request: Request, counts: RowCounts, execution: Execution | None = None
    ) -> Mapping[str, int]:
        """The counts under the names of all formats, without counts of files."""
        return metrics_without_files(request, counts, execution or Execution())

    def total_metrics(self, metrics: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
        """The metrics of several commits of one operation, together."""
        return total_metrics(metrics)

    def created_at(self) -> dt.datetime | None:
        """When the first metadata file was written; None if that is no longer recorded."""
        path, metadata = self._newest.read()
        return history.created_at(metadata, path)

    def committed_at(self, version: int) -> dt.datetime | None:
        """When the snapshot was committed; None if the table no longer has it."""
        record = self._newest.read()[1].snapshots.get(version)
        return None if record is None else as_datetime(record.timestamp_ms)

    def history(self, limit: int | None = None) -> pa.Table:
        """All snapshots that the table keeps, newest first, as ``formats.HISTORY_SCHEMA``."""
        metadata = self._newest.read()[1]
        head = metadata.current_snapshot_id
        if self._ref is not None:
            head = refs.find_ref(metadata, self._ref).snapshot_id
        return history.list_snapshots(metadata, head, limit=limit)

    def change_plan(
        self,
        first: Bound,
        last: Bound | None = None,
        *,
        time_zone: str = "UTC",  # noqa: ARG002 - recorded timestamps have no other zone than UTC
    ) -> ChangePlan:
        """The changes of the snapshots ``first`` to ``last``, as ``formats.ChangeFeed``.

        The columns are those of the last snapshot: by default as the newest one is shown.
        """
        opened = self._opened()
        newest = self._newest_snapshot(opened)
        found = find_range(opened.metadata, newest.version, self._branch(opened.metadata), first, last)
        shown = newest
        if last is not None and found.snapshots:
            shown = _snapshot(opened, found.snapshots[-1].snapshot_id)
        return changes.change_plan(shown, found)

    def tree(self, snapshot: Snapshot) -> Node:
        """The manifests of the snapshot, their live files and deletes."""
        return snapshot_tree(snapshot)

    def state_at(self, newest: Snapshot, version: Snapshot, request: Request) -> VersionState:
        """The step that sets the branch to the snapshot ``version``."""
        return restore.state_at(newest, version, request)

    def create_ref(self, new: NewRef) -> None:
        """Make a branch or tag, by default at the newest snapshot of the ref that this table is at."""
        at = self._ref or MAIN

        def make_updates(metadata: TableMetadata, put: Put) -> Sequence[Update]:
            def empty_snapshot() -> Update:
                verify_writable_version(metadata.format_version, self.location)
                return store_empty_snapshot(metadata, put, clock_ms())

            return created_ref(metadata, new, at, empty_snapshot=empty_snapshot)

        self._commit_stored(f"create {new.kind}", make_updates)

    def drop_ref(self, name: str, kind: str | None = None, *, if_exists: bool = False) -> None:
        """Drop a branch or tag; ``kind``: refuse one of the other kind."""
        self._commit_updates(
            f"drop {kind or 'ref'}", lambda metadata: dropped_ref(metadata, name, kind, if_exists=if_exists)
        )

    def upgrade(self, format_version: int) -> None:
        """Give the table a later format version; one that it has already changes nothing."""
        change = MetadataChange(properties={FORMAT_VERSION: str(format_version)})

        def make_updates(metadata: TableMetadata, put: Put) -> Sequence[Update]:
            updates = updates_of(metadata, change)
            if not gets_trees(metadata, updates):
                return updates
            roots = first_roots(
                metadata,
                updates,
                storage=self.storage,
                locations=self._locations(metadata),
                put=put,
                now_ms=clock_ms(),
            )
            return [*updates, *roots]

        self._commit_stored("upgrade", make_updates)

    def export(self, place: str | None = None, *, format_version: int = EXPORT_VERSION) -> str:
        """Write metadata of version 3 for the newest snapshot's files at another place, which is returned."""
        return export(self.snapshot(), place, format_version=format_version)

    def retention_rules(self) -> RetentionRules:
        """How vacuum treats the table."""
        return retention.retention_rules(self._newest)

    def expire(self, older_than_ms: int | None, *, dry_run: bool) -> Expired:
        """Remove expired snapshots, branches and tags from the metadata."""
        return retention.expire(self._newest, clock_ms(), older_than_ms, dry_run=dry_run)

    def protected(
        self,
        cutoff_ms: int,  # noqa: ARG002 - files are needed by snapshots, not by their age
        *,
        after: Protected | None = None,
        expired: Expired | None = None,
    ) -> Protected:
        """The files of all snapshots that the table keeps."""
        return retention.protected(self._newest, after, expired)

    def unneeded(self) -> Unneeded:
        """How many snapshots have expired."""
        return retention.unneeded(self._newest, clock_ms())

    metadata_files = old_metadata.PATTERN

    def verify_alone(self, metadata_files: pa.Array, table_folders: Sequence[str]) -> pa.Array:
        """Refuse a location with another table's metadata, as ``formats.AloneInLocation``."""
        path, metadata = self._newest.read()
        return old_metadata.verify_alone(self.storage, path, metadata, metadata_files, table_folders)

    def _locations(self, metadata: TableMetadata) -> Locations:
        return Locations(metadata.location, self.storage.root if self._relocate else None)

    def _commit_stored(
        self, operation: str, make_updates: Callable[[TableMetadata, Put], Sequence[Update]]
    ) -> None:
        """Commit updates that refer to new files, which are deleted if they are not committed."""
        stored: list[str] = []

        def attempt(metadata: TableMetadata) -> Sequence[Update]:
            discard(self.storage, stored)  # of an attempt that another writer was faster than
            stored.clear()
            locations = self._locations(metadata)

            def put(recorded: str, data: bytes) -> None:
                place = locations.resolve(recorded)
                stored.append(place)
                self.storage.put(place, data)

            return make_updates(metadata, put)

        try:
            self._commit_updates(operation, attempt)
        except StorageError:
            raise  # it may be committed
        except DelvecError:
            discard(self.storage, stored)
            raise

    def _commit_updates(self, operation: str, make_updates: MakeUpdates) -> None:
        commit_updates(self._newest, make_updates, operation=operation)

    def findings(self, snapshot: Snapshot) -> Iterable[Finding]:
        """Problems of the snapshot's manifests, summary, Puffin files and delete files."""
        return check_snapshot(snapshot)

    def _copy(self, *, ref: str | None, relocate: bool) -> IcebergTable:
        copy = object.__new__(IcebergTable)
        copy._newest, copy.credentials = self._newest, self.credentials
        copy._ref, copy._relocate = ref, relocate
        return copy

    def _opened(self) -> Opened:
        path, metadata = self._newest.read()
        is_absolute = location.is_absolute(path)
        file = path if is_absolute else location.join(self.storage.root, path)
        return Opened(
            storage=self.storage,
            metadata=metadata,
            metadata_path=path,
            source=self.storage.root if self._newest.is_in_folder else file,
            locations=self._locations(metadata),
            ref=self._ref,
            pointer=self._newest.pointer,
        )

    def _newest_snapshot(self, opened: Opened) -> Snapshot:
        """The newest snapshot, in the table's current schema; of a tag, in the snapshot's own."""
        metadata = opened.metadata
        if self._ref is None:
            current = metadata.current_snapshot_id
            record = None if current is None else metadata.snapshots[current]
            return Snapshot(opened, record, metadata.current_schema_id)
        ref = refs.find_ref(metadata, self._ref)
        if ref.kind == TAG:
            return _snapshot(opened, ref.snapshot_id)
        return Snapshot(opened, metadata.snapshots[ref.snapshot_id], metadata.current_schema_id)

    def _branch(self, metadata: TableMetadata) -> str | None:
        """The branch whose past counts. A tag has none: the table's past counts."""
        if self._ref is None or refs.find_ref(metadata, self._ref).kind == TAG:
            return None
        return self._ref


def _snapshot(opened: Opened, version: int, schema_id: int | None = None) -> Snapshot:
    """The snapshot with this id, by default in the schema that the table had then."""
    metadata = opened.metadata
    record = None
    if version != NO_SNAPSHOT:
        record = metadata.snapshots[refs.verify_snapshot(metadata, version)]
    if schema_id is None:
        recorded = None if record is None else record.schema_id  # version 1 may not record it
        schema_id = metadata.current_schema_id if recorded is None else recorded
    if schema_id not in metadata.schemas:
        raise FormatError(
            f"schema of snapshot {version} is {schema_id}, expected one of the table's schemas",
            path=opened.metadata_path,
        )
    return Snapshot(opened, record, schema_id)
