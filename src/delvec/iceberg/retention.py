"""What an Iceberg table still needs, and what expires: the answers for vacuum.

Needed are the files of all snapshots in the metadata, statistics, and metadata files: the newest one, those
of its log and the logs before it, and earlier ones of a table at a path. What only expired snapshots needed
is deleted as Iceberg's own procedures do it: whatever its age, and outside of the table's location too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg.expiry import Expiry, ExpiryLimits, find_expired, verify_may_expire
from delvec.iceberg.locations import Locations
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.metadata_commits import commit_updates
from delvec.iceberg.metadata_updates import Update, remove_snapshot_ref, remove_snapshots
from delvec.iceberg.needed_files import (
    DATA,
    EQUALITY,
    MANIFEST,
    MANIFEST_LIST,
    POSITIONS,
    STATISTICS,
    SnapshotFiles,
    statistics_files,
    united,
    without,
)
from delvec.iceberg.newest_metadata import NewestMetadata
from delvec.iceberg.old_metadata import old_metadata_files
from delvec.iceberg.refs import NO_SNAPSHOT
from delvec.iceberg.swaps import BaseFile
from delvec.iceberg.version_features import verify_writable_version
from delvec.retention import EXPIRED_SCHEMA, Expired, HiddenNames, Protected, RetentionRules, Unneeded
from delvec.storage import Storage

ORPHAN_AGE_MS = 3 * 24 * 3_600_000
"""How old a file must be that no snapshot has: a younger one may belong to a commit that is not done yet."""

_METRICS = {
    DATA: "numDeletedDataFiles",
    POSITIONS: "numDeletedPositionDeleteFiles",
    EQUALITY: "numDeletedEqualityDeleteFiles",
    MANIFEST: "numDeletedManifests",
    MANIFEST_LIST: "numDeletedManifestLists",
    STATISTICS: "numDeletedStatisticsFiles",
}
_ORPHANS, _SNAPSHOTS, _REFS = "numDeletedOrphanFiles", "numExpiredSnapshots", "numExpiredRefs"


@dataclass(frozen=True, slots=True)
class _Answer:
    """What answers of ``protected`` had so far: the snapshots and the locations of their manifests.
    ``metadata``: the newest.
    """

    metadata: TableMetadata | None
    snapshots: frozenset[int]
    manifests: pa.ChunkedArray


_NO_ANSWER = _Answer(None, frozenset(), pa.chunked_array([], pa.large_string()))


def retention_rules(newest: NewestMetadata) -> RetentionRules:
    """How vacuum treats the table. Refuses a table whose files may be needed elsewhere, or whose newest
    metadata is not certain.
    """
    path, metadata = newest.read()
    storage = newest.storage
    verify_may_expire(metadata)
    newest.pointer.verify_writable(storage, BaseFile(path, metadata))
    verify_writable_version(metadata.format_version, storage.root)
    if Locations(metadata.location).home != storage.root:
        raise InvalidOperationError(
            f"the table's recorded location is {metadata.location}, expected the path where it is: the files "
            f"of a copied table may be those of the original: {storage.root}"
        )
    folders = {f"{field.name}=" for spec in metadata.specs.values() for field in spec.fields}
    return RetentionRules(
        default_ms=ORPHAN_AGE_MS,
        property="the least age of files that no snapshot has",
        hidden=HiddenNames((".", "_"), tuple(sorted(folders))),
        table_folders=frozenset(),
        records=False,
    )


def expire(newest: NewestMetadata, now_ms: int, older_than_ms: int | None, *, dry_run: bool) -> Expired:
    """Remove the expired snapshots, branches and tags from the metadata."""
    found: list[tuple[TableMetadata, Expiry]] = []

    def updates(metadata: TableMetadata) -> list[Update]:
        verify_may_expire(metadata)
        limits = ExpiryLimits.of(metadata.properties, now_ms, older_than_ms)
        found[:] = [(metadata, find_expired(metadata, limits))]
        return [] if dry_run else _updates(found[0][1])

    commit_updates(newest, updates, operation="expire snapshots")
    metadata, expiry = found[0]
    counts = dict.fromkeys((*_METRICS.values(), _ORPHANS), 0)
    return Expired(
        versions=len(expiry.snapshots),
        refs=expiry.refs,
        files=_files_of(newest.storage, metadata, expiry),
        metrics={_SNAPSHOTS: len(expiry.snapshots), _REFS: len(expiry.refs), **counts},
        orphan_metric=_ORPHANS,
        state=frozenset(expiry.snapshots) if dry_run else frozenset(),
    )


def _updates(expiry: Expiry) -> list[Update]:
    updates = [remove_snapshot_ref(name) for name in expiry.refs]
    return [*updates, remove_snapshots(expiry.snapshots)] if expiry.snapshots else updates


def _files_of(storage: Storage, metadata: TableMetadata, expiry: Expiry) -> pa.Table:
    """The files of expired snapshots, without those of manifests that other snapshots have too."""
    locations, gone = Locations(metadata.location), frozenset(expiry.snapshots)
    if not gone:
        return EXPIRED_SCHEMA.empty_table()
    records = metadata.snapshots
    expired = SnapshotFiles(storage, locations, skip_unreadable=True)
    kept = SnapshotFiles(storage, locations).metadata_files(records[i] for i in records if i not in gone)
    all_old = expired.metadata_files(records[i] for i in records if i in gone)
    old = all_old.without(kept)
    listing = pa.concat_tables([old.manifests, all_old.masked_by(kept)])
    statistics = statistics_files(metadata, locations)
    other_statistics = statistics_files(metadata, locations, gone).column("location")
    files = united([
        *expired.live_files(listing, old.masks), old.contents, old.manifests, old.lists,
        without(statistics, other_statistics),
    ])  # fmt: skip
    kinds = files.column("kind")
    names = pa.array(list(_METRICS.values())).take(
        pc.index_in(kinds, value_set=pa.array(list(_METRICS), kinds.type))
    )
    return pa.table([files.column("location"), names], schema=EXPIRED_SCHEMA)


def protected(newest: NewestMetadata, after: Protected | None, expired: Expired | None) -> Protected:
    """The files of all snapshots in the newest metadata; of none that a dry run lets expire."""
    path, metadata = newest.read()
    old = after.state if after is not None and isinstance(after.state, _Answer) else _NO_ANSWER
    version = NO_SNAPSHOT if metadata.current_snapshot_id is None else metadata.current_snapshot_id
    if old.metadata is metadata:
        return Protected(version, (), old)
    gone = expired.state if expired is not None and isinstance(expired.state, frozenset) else frozenset()
    kept = frozenset(metadata.snapshots) - gone
    locations = Locations(metadata.location)
    files = SnapshotFiles(newest.storage, locations)
    found = files.metadata_files(metadata.snapshots[number] for number in kept - old.snapshots)
    new = without(found.manifests, old.manifests)
    known = pa.chunked_array([*old.manifests.chunks, *new.column("location").chunks], pa.large_string())

    def parts() -> Iterator[pa.ChunkedArray]:
        yield pa.chunked_array([old_metadata_files(newest.storage, path, metadata)])
        named = (found.lists, found.manifests, found.contents)
        for table in (statistics_files(metadata, locations, gone), *named):
            yield table.column("location")
        for table in files.live_files(new, found.masks):
            yield table.column("location")

    return Protected(version, parts(), _Answer(metadata, kept | old.snapshots, known))


def unneeded(newest: NewestMetadata, now_ms: int) -> Unneeded:
    """How many snapshots a vacuum would let expire, by the metadata alone; none where vacuum is refused."""
    try:
        retention_rules(newest)
        metadata = newest.read()[1]
        expiry = find_expired(metadata, ExpiryLimits.of(metadata.properties, now_ms))
    except (InvalidOperationError, UnsupportedFeatureError):  # vacuum says what is wrong
        return Unneeded()
    return Unneeded(expired_versions=len(expiry.snapshots))
