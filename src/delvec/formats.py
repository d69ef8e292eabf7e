"""The interface of every table format: how the command line, ``verify`` and the engine see a table.

These are protocols: a format has the attributes and does not inherit from them. ``detect.open_table`` finds
the format of the table at a location.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from delvec.commit_retries import CommitRetries
from delvec.errors import InvalidOperationError, UnsupportedFeatureError

if TYPE_CHECKING:
    from delvec.change_plan import ChangePlan
    from delvec.errors import FormatError
    from delvec.findings import Finding
    from delvec.metadata_tree import Node
    from delvec.partition_spec import PartitionField, PartitionSpec
    from delvec.plan import Base, ScanPlan
    from delvec.predicate import Condition
    from delvec.ref_changes import NewRef
    from delvec.retention import Expired, Protected, RetentionRules, Unneeded
    from delvec.row_delta import (
        Execution,
        Isolation,
        MetadataChange,
        Outcome,
        Request,
        RowCounts,
        RowDelta,
        Verb,
        Won,
        WriteRules,
    )
    from delvec.schema import Schema
    from delvec.storage import Storage
    from delvec.version_state import VersionState

HISTORY_SCHEMA = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("operation", pa.string()),
        pa.field("parameters", pa.map_(pa.string(), pa.string())),
        pa.field("metrics", pa.map_(pa.string(), pa.string())),
        pa.field("read_version", pa.int64()),
        pa.field("isolation_level", pa.string()),
        pa.field("is_blind_append", pa.bool_()),
        pa.field("user_name", pa.string()),
        pa.field("engine", pa.string()),
    ]
)
"""Columns of ``Table.history``."""


class Snapshot(Protocol):
    """One version of a table. It never changes: two plans for one condition are equal."""

    @property
    def format(self) -> str: ...

    @property
    def format_version(self) -> int | None:
        """The version of the format, where it has one number."""
        ...

    @property
    def version(self) -> int:
        """The version's number, for users and messages only. Code must not calculate with it."""
        ...

    @property
    def base(self) -> Base:
        """The base of a delta that is made from this version."""
        ...

    @property
    def is_draft(self) -> bool:
        """Whether the table does not exist yet: the first commit on top of this creates it."""
        ...

    @property
    def location(self) -> str: ...

    @property
    def source(self) -> str:
        """Where another process finds this version: `detect.open_table`, then ``Table.snapshot_at``."""
        ...

    @property
    def schema(self) -> Schema: ...

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, by name."""
        ...

    @property
    def spec(self) -> PartitionSpec:
        """The partitioning of files that are written now."""
        ...

    def plan(
        self,
        where: Condition | None = None,
        *,
        time_zone: str = ...,
        among: pa.Array | None = None,
    ) -> ScanPlan:
        """The files that may have a row for which ``where`` is true; all files without it.

        ``where`` is bound to the columns of this snapshot (`predicate.parse`).
        ``time_zone``: the zone of recorded timestamps that name none; UTC if it is not given.
        ``among``: only these files, by their ids.
        """
        ...

    def names(self, file_ids: pa.Array) -> pa.Array:
        """The names of files as the metadata records them, by their ids."""
        ...

    def file_ids(self, names: pa.Array) -> pa.Array:
        """The ids of files by these names; null for a file that is not live in this version."""
        ...

    def isolation(self, verb: Verb) -> Isolation:
        """The isolation level that the table's properties set."""
        ...

    @property
    def txns(self) -> Mapping[str, int]:
        """The last version that each idempotent writer has committed, by its ``app_id``."""
        ...

    def rules(self, verb: Verb, change: MetadataChange | None = None) -> WriteRules:
        """How a statement of this kind must write rows; with ``change``, how after this change of metadata.

        ``WriteRules.change`` is then the change to commit. Raises UnsupportedFeatureError, with the feature's
        name, for a table that delvec cannot write correctly.
        """
        ...

    @property
    def passed_over(self) -> Sequence[FormatError]:
        """Errors of damaged metadata files that were not needed to read the version."""
        ...

    def details(self) -> Mapping[str, Any]:
        """Facts about the version by the format's own names: numbers, texts and lists of texts."""
        ...


class Table(Protocol):
    """A table at a location."""

    @property
    def format(self) -> str: ...

    @property
    def location(self) -> str: ...

    @property
    def storage(self) -> Storage: ...

    def snapshot(self, version: int | None = None, timestamp: dt.datetime | str | None = None) -> Snapshot:
        """The newest version; or the version with this number, or that was the newest at this time."""
        ...

    def snapshot_at(self, base: Base) -> Snapshot:
        """The version that has this base, as another process made it."""
        ...

    def draft(
        self,
        schema: Schema,
        *,
        partition_by: Sequence[PartitionField] = (),
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
    ) -> Snapshot:
        """A table that does not exist yet. The first commit on top of the draft creates it.

        A partitioning that the format does not have is refused by the name of the transform, and so is a
        ``format_version`` that it cannot write. None: the format's default.
        """
        ...

    def commit(self, snapshot: Any, delta: RowDelta) -> Outcome:
        """Commit ``delta``, which was made from ``snapshot``, as the next version of this table.

        Commits nothing if the table has another next version already.
        """
        ...

    def won(self, since: Any, until: Any) -> Sequence[Won]:
        """The commits after the snapshot ``since`` up to the snapshot ``until``, in order."""
        ...

    def operation_name(self, request: Request) -> str:
        """The operation's name in the table's history."""
        ...

    def metrics(
        self, request: Request, counts: RowCounts, execution: Execution | None = None
    ) -> Mapping[str, int]:
        """The counts under the names of the table's history, without counts of files."""
        ...

    def total_metrics(self, metrics: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
        """The metrics of several commits of one operation, together."""
        ...

    def created_at(self) -> dt.datetime | None:
        """When the table was created; None if that is no longer recorded."""
        ...

    def committed_at(self, version: int) -> dt.datetime | None:
        """When the version was committed; None if that is no longer recorded."""
        ...

    def history(self, limit: int | None = None) -> pa.Table:
        """The recorded commits, newest first, as ``HISTORY_SCHEMA``."""
        ...


@runtime_checkable
class WithRefs(Protocol):
    """A table that has branches and tags: names for versions. A statement on a branch commits to it."""

    def create_ref(self, new: NewRef) -> None:
        """Make a branch or tag, at the newest version (of the ref that the table was opened at)."""
        ...

    def drop_ref(self, name: str, kind: str | None = None, *, if_exists: bool = False) -> None:
        """Drop a branch or tag. ``kind``: refuse one of the other kind."""
        ...

    def on_ref(self, ref: str, kind: str | None = None) -> Table:
        """The same table, whose newest version is that of the branch or tag. InvalidOperationError if there
        is no such ref. ``kind``: refuse one of the other kind.
        """
        ...


@runtime_checkable
class WithCredentials(Protocol):
    """A table of a catalog that gives the credentials of the store, which Spark's file system lacks."""

    @property
    def credentials(self) -> tuple[str, ...]:
        """The Hadoop settings of which one gives Spark's file system credentials too; empty: none needed."""
        ...


@runtime_checkable
class Relocatable(Protocol):
    """A table whose metadata records absolute locations of files."""

    def relocated(self) -> Table:
        """The same table, whose files are taken from where the table is now."""
        ...


@runtime_checkable
class Upgradable(Protocol):
    """A table whose format has versions."""

    def upgrade(self, format_version: int) -> None:
        """Give the table a later format version; one that it has already changes nothing."""
        ...


@runtime_checkable
class Exportable(Protocol):
    """A table whose newest version can be described in an older form of its metadata."""

    def export(self, place: str | None = None, *, format_version: int = ...) -> str:
        """Write metadata of this format version for the same data files at another place, which is returned.
        Refuses a place that has a table.
        """
        ...


def on_ref(table: Table, ref: str | None, kind: str | None = None) -> Table:
    """The table at a branch or tag; without one, as it is. Refuses a format that has neither."""
    return table if ref is None else with_refs(table, ref).on_ref(ref, kind)


def with_refs(table: Table, ref: str) -> WithRefs:
    """The table, if its format has branches and tags. ``ref``: the name in the request."""
    if not isinstance(table, WithRefs):
        raise InvalidOperationError(
            f"ref is {ref!r}, but {table.format} tables have no branches and tags: {table.location}"
        )
    return table


def upgradable(table: Table) -> Upgradable:
    """The table, if its format has versions."""
    if not isinstance(table, Upgradable):
        raise UnsupportedFeatureError(
            f"{table.format} tables have no format version to upgrade: {table.location}", feature="upgrade"
        )
    return table


def upgrade(table: Table, format_version: int) -> None:
    """Give the table a later version of its format; one that it has already changes nothing."""
    changed = upgradable(table)
    if isinstance(format_version, bool) or not isinstance(format_version, int):
        raise InvalidOperationError(f"format_version is {format_version!r}, expected a whole number")
    changed.upgrade(format_version)


def snapshot_of(
    table: Table,
    version: int | None = None,
    timestamp: dt.datetime | str | None = None,
    ref: str | None = None,
) -> Snapshot:
    """A version of the table by its number, by a time, or by a branch or tag; by default the newest."""
    if ref is not None and (version is not None or timestamp is not None):
        other = f"version {version}" if version is not None else f"timestamp {timestamp}"
        raise InvalidOperationError(f"both ref {ref!r} and {other} are given, expected one of them")
    return on_ref(table, ref).snapshot(version, timestamp)


@runtime_checkable
class VectorsDroppable(Protocol):
    """A table that can become one without vectors, for readers that do not know them."""

    def vectors_off(self) -> Mapping[str, str | None] | None:
        """The change of properties that ends new vectors, empty if there are none now; None: the table never
        allowed vectors, or has dropped them.
        """
        ...

    def vector_removal(self, *, truncate_history: bool) -> Iterator[tuple[Any, RowDelta]]:
        """The commits that follow when no file has a vector, each with the version that it is made from. Each
        must be committed before the next is taken.

        ``truncate_history``: versions with vectors are removed first; refused while they must be kept.
        """
        ...


@runtime_checkable
class DeletesListed(Protocol):
    """A snapshot of a format whose deletes can outlive the data files that they apply to."""

    def live_deletes(self) -> pa.Table:
        """All live deletes as rows of ``ScanPlan.deletes``, also those that apply to no live data file."""
        ...


@runtime_checkable
class Restorable(Protocol):
    """A table that can have the state of an older version again."""

    def state_at(self, newest: Any, version: Any, request: Request) -> VersionState:
        """The step from the snapshot ``newest`` to the state of the snapshot ``version``, by file and
        deletes. Nothing that must never fall goes back, such as the ids that rows have had.
        """
        ...


@runtime_checkable
class Vacuumable(Protocol):
    """A table that says which of its files are still needed."""

    def retention_rules(self) -> RetentionRules:
        """How vacuum treats the table. Refuses a table with a feature that delvec does not know, by name."""
        ...

    def protected(
        self, cutoff_ms: int, *, after: Protected | None = None, expired: Expired | None = None
    ) -> Protected:
        """The files that the newest version and other retained versions need, and those that were removed at
        ``cutoff_ms`` or later.

        ``after``: an earlier answer. Files that it has may be left out. ``expired``: the answer of
        `Expiring.expire`; after a dry run, these versions do not count.
        """
        ...

    def unneeded(self) -> Unneeded:
        """The removed files that the metadata still records."""
        ...


@runtime_checkable
class RetryingCommits(Protocol):
    """A snapshot of a table that says itself how often commits are tried again."""

    def commit_retries(self) -> CommitRetries: ...


@runtime_checkable
class Expiring(Protocol):
    """A table that keeps its versions until they expire. Vacuum removes these before it deletes files."""

    def expire(self, older_than_ms: int | None, *, dry_run: bool) -> Expired:
        """Remove the versions that were committed before a time; without one, those that the table's
        properties no longer retain. A dry run removes nothing.
        """
        ...


@runtime_checkable
class AloneInLocation(Protocol):
    """A table below whose location no other table may have its metadata, or vacuum would not know whose the
    files are.
    """

    @property
    def metadata_files(self) -> str:
        """A regular expression for paths of metadata files below any table's location."""
        ...

    def verify_alone(self, metadata_files: pa.Array, table_folders: Sequence[str]) -> pa.Array:
        """Refuse the location if a metadata file is of another table, or if ``table_folders``, the folders
        with tables of other formats, is not empty. Returns the metadata files that must stay.
        """
        ...


@runtime_checkable
class Browsable(Protocol):
    """A table that shows how its versions are stored."""

    def tree(self, snapshot: Any) -> Node:
        """The snapshot as the root of a tree: its metadata files, their live data files, the deletes."""
        ...


@runtime_checkable
class SelfChecking(Protocol):
    """A table that checks its own records: what `delvec.verify` cannot see in a plan."""

    def findings(self, snapshot: Any) -> Iterable[Finding]:
        """The problems of the snapshot's metadata files. Reads every one of them."""
        ...


@runtime_checkable
class Checkpointed(Protocol):
    """A table whose metadata can be summarised."""

    def checkpoint(self) -> int:
        """Write a summary of the newest version's metadata, so that readers are faster. Returns the
        version.
        """
        ...


@runtime_checkable
class ChangeFeed(Protocol):
    """A table whose format records which rows a commit changed."""

    def change_plan(
        self, first: int | dt.datetime, last: int | dt.datetime | None = None, *, time_zone: str = ...
    ) -> ChangePlan:
        """The changes of the commits ``first`` to ``last``, by default to the newest.

        A time as ``first`` means the first version at or after it; as ``last``, the newest version at it.
        Refuses a range in which a version has no change feed, or whose rows no one schema can show.
        """
        ...


OptionsFor = Callable[[str], Mapping[str, str]]
"""The storage options for a location."""


@runtime_checkable
class WithManifests(Protocol):
    """A table that can list its files for readers that do not read its metadata."""

    def generate_manifest(self) -> None:
        """Write the lists of the newest version's files. Refuses a version with deleted rows in a file."""
        ...


@runtime_checkable
class Catalog(Protocol):
    """Finds tables by name."""

    def open_table(self, identifier: Sequence[str], options_for: OptionsFor) -> Table:
        """The table with this identifier, such as ``("db", "orders")``; TableNotFoundError if none has it."""
        ...


@runtime_checkable
class CreatingCatalog(Catalog, Protocol):
    """A catalog that creates and drops tables."""

    @property
    def name(self) -> str: ...

    @property
    def format(self) -> str:
        """The format of its tables."""
        ...

    def draft_table(
        self,
        identifier: Sequence[str],
        schema: Schema,
        options_for: OptionsFor,
        *,
        partition_by: Sequence[PartitionField] = (),
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
        place: str | None = None,
    ) -> tuple[Table, Snapshot]:
        """A table of the catalog that does not exist yet, and its draft: the first commit creates it.

        ``place``: its location; by default the catalog chooses one. Refuses an identifier that exists.
        """
        ...

    def drop_table(self, identifier: Sequence[str]) -> None:
        """Remove the table from the catalog; TableNotFoundError if it has none. Files stay."""
        ...
