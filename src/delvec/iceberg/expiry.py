"""Which snapshots, branches and tags have expired, by Iceberg's rules.

    main                   never expires
    other branches, tags   expire when their snapshot is older than their own maximum age, or else the table's
    a branch's snapshots   the newest ones are kept: those that are young enough, and at least so many. The
                           first that is neither ends the kept part of the branch
    a snapshot of no ref   is kept while it is young enough

A snapshot's age counts from its commit. What several refs keep is kept once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from delvec.errors import InvalidOperationError
from delvec.iceberg.metadata import BRANCH, MAIN, Ref, TableMetadata
from delvec.iceberg.property_values import flag, whole_number
from delvec.iceberg.refs import ancestors

MAX_SNAPSHOT_AGE = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE = "history.expire.max-ref-age-ms"
GC_ENABLED = "gc.enabled"

MAX_SNAPSHOT_AGE_DEFAULT = 5 * 24 * 3_600_000
_FOREVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Expiry:
    """What expires: names of branches and tags, and ids of snapshots, in the order of the metadata."""

    refs: tuple[str, ...]
    snapshots: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.refs or self.snapshots)


@dataclass(frozen=True, slots=True)
class ExpiryLimits:
    """What the table keeps where a ref has no values of its own.

    older_than_ms   snapshots that were committed before this time expire
    """

    now_ms: int
    older_than_ms: int
    min_snapshots: int
    max_ref_age_ms: int

    @classmethod
    def of(cls, properties: Mapping[str, str], now_ms: int, older_than_ms: int | None = None) -> ExpiryLimits:
        """The limits that the table's properties set.

        ``older_than_ms`` replaces the table's maximum age of snapshots, not that of a branch.
        """
        if older_than_ms is None:
            older_than_ms = now_ms - max_snapshot_age_ms(properties)
        return cls(
            now_ms=now_ms,
            older_than_ms=older_than_ms,
            min_snapshots=whole_number(properties, MIN_SNAPSHOTS, default=1, least=1),
            max_ref_age_ms=whole_number(properties, MAX_REF_AGE, default=_FOREVER),
        )


def max_snapshot_age_ms(properties: Mapping[str, str]) -> int:
    return whole_number(properties, MAX_SNAPSHOT_AGE, default=MAX_SNAPSHOT_AGE_DEFAULT)


def verify_may_expire(metadata: TableMetadata) -> None:
    """Refuse a table whose files may belong to other tables too."""
    if not flag(metadata.properties, GC_ENABLED, default=True):
        raise InvalidOperationError(
            f"property {GC_ENABLED} is false, expected true: other tables may need its files, so "
            f"no snapshot may expire and no file may be deleted: {metadata.location}"
        )


def find_expired(metadata: TableMetadata, limits: ExpiryLimits) -> Expiry:
    """What has expired. Changes nothing."""
    kept_refs = [ref for ref in metadata.refs.values() if _is_kept(metadata, ref, limits)]
    named: set[int] = set()
    kept: set[int] = set()
    for ref in kept_refs:
        kept.add(ref.snapshot_id)
        if ref.kind == BRANCH:
            named.update(ancestors(metadata, ref.snapshot_id))
            kept.update(_kept_of_branch(metadata, ref, limits))
    named |= kept
    for snapshot_id, record in metadata.snapshots.items():
        if snapshot_id not in named and record.timestamp_ms >= limits.older_than_ms:
            kept.add(snapshot_id)
    names = {ref.name for ref in kept_refs}
    return Expiry(
        tuple(name for name in metadata.refs if name not in names),
        tuple(snapshot_id for snapshot_id in metadata.snapshots if snapshot_id not in kept),
    )


def _is_kept(metadata: TableMetadata, ref: Ref, limits: ExpiryLimits) -> bool:
    if ref.name == MAIN:
        return True
    age_ms = limits.now_ms - metadata.snapshots[ref.snapshot_id].timestamp_ms
    return age_ms <= (limits.max_ref_age_ms if ref.max_ref_age_ms is None else ref.max_ref_age_ms)


def _kept_of_branch(metadata: TableMetadata, ref: Ref, limits: ExpiryLimits) -> Iterator[int]:
    """The newest snapshots of a branch, up to the first that is neither young enough nor needed for the
    minimum.
    """
    older_than = limits.older_than_ms
    if ref.max_snapshot_age_ms is not None:
        older_than = limits.now_ms - ref.max_snapshot_age_ms
    least = limits.min_snapshots if ref.min_snapshots is None else ref.min_snapshots
    for count, snapshot_id in enumerate(ancestors(metadata, ref.snapshot_id)):
        if count >= least and metadata.snapshots[snapshot_id].timestamp_ms < older_than:
            return
        yield snapshot_id
