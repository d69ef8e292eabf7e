"""A Delta table at a location: finds its versions, and commits new ones."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from delvec.change_plan import ChangePlan
from delvec.delta import changes, commit, commit_info, creation, downgrade, restore, retention
from delvec.delta.change_range import Bound, read_range
from delvec.delta.checkpoint_writer import write_checkpoint
from delvec.delta.extra_actions import extra_actions
from delvec.delta.history import CommitTimes, list_commits
from delvec.delta.log_cleanup import clean_up_log
from delvec.delta.log_files import Listing, list_log, tail
from delvec.delta.log_reader import extend
from delvec.delta.manifests import write_manifests
from delvec.delta.properties import (
    CHECKPOINT_INTERVAL,
    DEFAULT_CHECKPOINT_INTERVAL,
    SYMLINK_MANIFEST,
    count,
    is_on,
)
from delvec.delta.recovery import load_version
from delvec.delta.snapshot import Snapshot
from delvec.delta.tree_nodes import version_tree
from delvec.delta.winners import read_winner
from delvec.delta.writer_features import verify_writable
from delvec.errors import CommitConflictError, FormatError, InvalidOperationError, StorageError
from delvec.instants import as_datetime, parse_instant
from delvec.metadata_tree import Node
from delvec.operation_metrics import metrics_without_files, total_metrics
from delvec.partition_spec import PartitionField, identity_fields
from delvec.plan import Base
from delvec.retention import Expired, Protected, RetentionRules, Unneeded
from delvec.row_delta import (
    Committed,
    Execution,
    Operation,
    Outcome,
    Read,
    Request,
    RowCounts,
    RowDelta,
    Unknown,
    Verb,
    VersionTaken,
    Won,
)
from delvec.schema import Schema
from delvec.storage import Entry, Storage, in_parallel, open_storage
from delvec.version_state import VersionState

_LOGGER = logging.getLogger(__name__)


class DeltaTable:
    """Reads and writes the log. Keeps the newest snapshot, and reads only later commits."""

    format = "delta"

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._latest: Snapshot | None = None
        self._tip: Entry | None = None

    @classmethod
    def open(cls, location: str, options: Mapping[str, str] | None = None) -> DeltaTable:
        """The table at ``location``. Nothing is read yet."""
        return cls(open_storage(location, options))

    @classmethod
    def create(
        cls,
        location: str,
        schema: Schema,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Create a table without rows, as version 0. Refuses a location where a table exists.

        To have rows in version 0, commit a delta on top of a `draft`.
        """
        table = cls.open(location, options)
        fields = identity_fields(schema, partition_by)
        draft = table.draft(schema, partition_by=fields, properties=properties)
        delta = RowDelta(draft.base, Request(Operation.CREATE), Read(blind=True), Verb.ALTER)
        match table.commit(draft, delta):
            case VersionTaken():
                raise CommitConflictError(f"another writer created a table there first: {table.location}")
            case Unknown(reason=reason):
                raise StorageError(
                    f"cannot tell whether the table was created: {reason}", path=table.location
                )
        return table

    def draft(
        self,
        schema: Schema,
        *,
        partition_by: Sequence[PartitionField] = (),
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
    ) -> Snapshot:
        """The table before its first commit. The commit on top of the draft is version 0.

        Deletion vectors are on unless ``properties`` switch them off. Refuses a location where a table
        exists, and a format version: Delta has none.
        """
        if format_version is not None:
            raise InvalidOperationError(f"format_version is {format_version}, expected none for delta")
        return creation.draft(
            self.storage,
            schema,
            partition_by=partition_by,
            table_properties=properties,
            now_ms=commit.now_ms(),
        )

    @property
    def location(self) -> str:
        return self.storage.root

    def snapshot(self, version: int | None = None, timestamp: dt.datetime | str | None = None) -> Snapshot:
        """The newest version; or the version with this number, or that was the newest at this time."""
        if version is not None and timestamp is not None:
            raise InvalidOperationError(
                f"both version {version} and timestamp {timestamp} are given, expected one of them"
            )
        if timestamp is not None:
            version = self.version_at(timestamp)
        return self._newest() if version is None else self._at(version)

    def snapshot_at(self, base: Base) -> Snapshot:
        """The version that has this base."""
        return self._at(base.version)

    def version_at(self, timestamp: dt.datetime | str) -> int:
        """The version that was the newest one at ``timestamp``; a time without a zone is UTC."""
        return self._commit_times().version_at(parse_instant(timestamp))

    def committed_at(self, version: int) -> dt.datetime | None:
        """When the version was committed; None if its commit is no longer in the log."""
        times = self._commit_times()
        return as_datetime(times.millis(version)) if version in times.versions else None

    def created_at(self) -> dt.datetime | None:
        """When the table was created; None if version 0 is no longer in the log."""
        return self.committed_at(0)

    def operation_name(self, request: Request) -> str:
        """The operation's name in the table's history."""
        return commit_info.operation_name(request)

    def metrics(
        self, request: Request, counts: RowCounts, execution: Execution | None = None
    ) -> Mapping[str, int]:
        """The counts under the names of the table's history, without counts of files."""
        return metrics_without_files(request, counts, execution or Execution())

    def total_metrics(self, metrics: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
        """The metrics of several commits of one operation, together."""
        return total_metrics(metrics)

    def history(self, limit: int | None = None) -> pa.Table:
        """The commits still in the log, newest first, as ``formats.HISTORY_SCHEMA``."""
        return list_commits(self._commit_times(), limit=limit)

    def tree(self, snapshot: Snapshot) -> Node:
        """The checkpoint and the commits of the version, their live files and vectors."""
        return version_tree(self.storage, snapshot.version)

    def retention_rules(self) -> RetentionRules:
        """How vacuum treats the table."""
        return retention.retention_rules(self._newest())

    def protected(
        self, cutoff_ms: int, *, after: Protected | None = None, expired: Expired | None = None
    ) -> Protected:
        """The files that the newest version needs, and those of tombstones since ``cutoff_ms``."""
        del expired  # versions expire with the log
        return retention.protected(self.storage, self._newest(), cutoff_ms, after=after)

    def unneeded(self) -> Unneeded:
        """The removed files that the log still records."""
        return retention.unneeded(self.storage, self._newest(), now_ms=commit.now_ms())

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest version, unless it has one. Returns the version."""
        snapshot = self._newest()
        verify_writable(snapshot, rows=False)  # a feature that delvec does not know may have its own actions
        write_checkpoint(self.storage, snapshot, now_ms=commit.now_ms())
        self._clean_up(snapshot)
        return snapshot.version

    def change_plan(self, first: Bound, last: Bound | None = None, *, time_zone: str = "UTC") -> ChangePlan:
        """The changes of the commits ``first`` to ``last``, as ``formats.ChangeFeed``."""
        newest = self._newest()
        listing = list_log(self.storage)
        times = CommitTimes(self.storage, listing, newest.properties)
        found = read_range(listing, times, newest, first, last)
        return changes.change_plan(self.storage, found, times, time_zone=time_zone)

    def commit(self, snapshot: Snapshot, delta: RowDelta) -> Outcome:
        """Commit ``delta``, which was made from ``snapshot``, as the next version, unless that version
        exists.
        """
        outcome = commit.commit(self.storage, snapshot, delta)
        if isinstance(outcome, Committed):
            self._update_manifests(snapshot, delta)
            self._checkpoint(outcome.version, snapshot.properties)
        return outcome

    def generate_manifest(self) -> None:
        """Write the symlink manifests of the newest version."""
        write_manifests(self.storage, self._newest())

    def _update_manifests(self, base: Snapshot, delta: RowDelta) -> None:
        """Write the manifests that the commit changed, if the table keeps them. A failure is only logged: the
        commit stands.
        """
        after = extra_actions(delta).state or base.state_after(delta.metadata)
        if not is_on(after.metadata.configuration, SYMLINK_MANIFEST):
            return
        since = base if is_on(base.properties, SYMLINK_MANIFEST) and not base.is_draft else None
        try:
            write_manifests(self.storage, self._newest(), since=since)
        except Exception:
            _LOGGER.warning("symlink manifests were not updated: %s", self.location, exc_info=True)

    def won(self, since: Snapshot, until: Snapshot) -> Sequence[Won]:
        """The commits after ``since`` up to ``until``, in order."""
        if until.version <= since.version:
            raise FormatError(
                f"version {since.version + 1} exists but is not in the listing: {self.location}"
            )
        versions = range(since.version + 1, until.version + 1)
        return in_parallel(lambda version: read_winner(self.storage, version), versions)

    def state_at(self, newest: Snapshot, version: Snapshot, request: Request) -> VersionState:
        """The step from ``newest`` to the state of the snapshot ``version``."""
        return restore.state_at(newest, version, request)

    def vectors_off(self) -> Mapping[str, str | None] | None:
        """The change of properties that ends new vectors; None: the protocol does not have the feature."""
        snapshot = self._newest()
        return downgrade.switched_off(snapshot) if downgrade.has_feature(snapshot) else None

    def vector_removal(self, *, truncate_history: bool) -> Iterator[tuple[Snapshot, RowDelta]]:
        """The commits that drop the feature when no file has a vector, each with its base."""
        return downgrade.removal_steps(self, truncate_history=truncate_history)

    def _checkpoint(self, version: int, properties: Mapping[str, str]) -> None:
        """Write a checkpoint if one is due. A failure is only logged: checkpoints just save readers time."""
        try:
            if version == 0 or version % count(properties, CHECKPOINT_INTERVAL, DEFAULT_CHECKPOINT_INTERVAL):
                return
            latest = self._newest()
            snapshot = latest if latest.version == version else self._at(version)
            write_checkpoint(self.storage, snapshot, now_ms=commit.now_ms())
        except Exception:
            _LOGGER.warning(
                "checkpoint of version %d was not written: %s", version, self.location, exc_info=True
            )
            return
        self._clean_up(snapshot)

    def _clean_up(self, snapshot: Snapshot) -> None:
        """Remove expired files of the log. A failure is only logged: they are removed the next time."""
        try:
            clean_up_log(self.storage, snapshot, now_ms=commit.now_ms())
        except Exception:
            _LOGGER.warning("expired log files were not removed: %s", self.location, exc_info=True)

    def _commit_times(self) -> CommitTimes:
        latest = self._newest()
        listing = list_log(self.storage)
        return CommitTimes(self.storage, listing, latest.properties)

    def _newest(self) -> Snapshot:
        started = time.monotonic()
        if self._latest is None or not self._advanced():
            state, listing = load_version(self.storage)
            self._keep(Snapshot(self.storage, state), listing)
        assert self._latest is not None
        self._latest.saw_newest(started)
        return self._latest

    def _advanced(self) -> bool:
        """Update the kept snapshot. False: the whole log must be read again."""
        assert self._latest is not None
        old_version = self._latest.version
        listing = list_log(self.storage, since=old_version)
        if listing.commits.get(old_version) != self._tip or listing.latest < old_version:
            return False  # the log was cleaned up, or another table replaced this one
        if listing.latest > old_version:
            try:
                later = tail(listing, old_version + 1, listing.latest)
            except FormatError:
                return False
            state = extend(self.storage, self._latest.state, listing.latest, later)
            self._keep(Snapshot(self.storage, state), listing)
        return True

    def _keep(self, snapshot: Snapshot, listing: Listing) -> None:
        self._latest = snapshot
        self._tip = listing.commits.get(snapshot.version)

    def _at(self, version: int) -> Snapshot:
        latest = self._latest
        # Another table may have replaced this one.
        if latest is not None and latest.version == version and self._advanced():
            return latest
        state, _ = load_version(self.storage, version)
        return Snapshot(self.storage, state)
