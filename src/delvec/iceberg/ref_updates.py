"""Updates of the metadata that make, move and drop branches and tags."""

from __future__ import annotations

from collections.abc import Callable

from delvec.errors import InvalidOperationError
from delvec.iceberg.metadata import BRANCH, MAIN, Ref, TableMetadata
from delvec.iceberg.metadata_updates import Update, remove_snapshot_ref, set_snapshot_ref
from delvec.iceberg.refs import find_ref, verify_kind, verify_snapshot
from delvec.ref_changes import IfExists, NewRef, RefRetention


def created_ref(
    metadata: TableMetadata, new: NewRef, at: str = MAIN, *, empty_snapshot: Callable[[], Update]
) -> list[Update]:
    """The updates that make a branch or tag; none if it is there already as it must be.

    ``at``: the branch or tag whose snapshot it gets if ``new`` names none. In a table without snapshots a
    branch gets an ``empty_snapshot``: the update that adds one.
    """
    existing = metadata.refs.get(new.name)
    if existing is not None and new.if_exists is IfExists.KEEP:
        return []
    _verify_expected(metadata, existing, new)
    is_first = existing is None and at == MAIN and MAIN not in metadata.refs
    if is_first and new.kind == BRANCH and new.version is None:
        added = empty_snapshot()
        first = added["snapshot"]["snapshot-id"]
        return [added, set_snapshot_ref(new.name, first, retention=_json(new.retention))]
    snapshot_id = _snapshot_id(metadata, new, at)
    old = RefRetention() if existing is None else _retention_of(existing)
    retention = _merged(old, new.retention)
    if existing is not None and (existing.snapshot_id, old) == (snapshot_id, retention):
        return []
    return [set_snapshot_ref(new.name, snapshot_id, kind=new.kind, retention=_json(retention))]


def dropped_ref(metadata: TableMetadata, name: str, kind: str | None, *, if_exists: bool) -> list[Update]:
    """The updates that drop a branch or tag. ``kind``: what it must be."""
    if name not in metadata.refs and if_exists:
        return []
    verify_kind(metadata, name, kind)
    if name == MAIN:
        raise InvalidOperationError(
            f"branch {MAIN} cannot be dropped, expected another branch or a tag: {metadata.location}"
        )
    return [remove_snapshot_ref(name)]


def moved_branch(metadata: TableMetadata, name: str, snapshot_id: int) -> Update:
    """The update that sets a branch to a snapshot of the table. The branch keeps its retention."""
    ref = metadata.refs.get(name)
    retention = RefRetention() if ref is None else _retention_of(ref)
    verify_snapshot(metadata, snapshot_id)
    return set_snapshot_ref(name, snapshot_id, kind=BRANCH, retention=_json(retention))


def _verify_expected(metadata: TableMetadata, existing: Ref | None, new: NewRef) -> None:
    if existing is None:
        if new.if_exists is IfExists.MUST_REPLACE:
            find_ref(metadata, new.name)
        return
    if new.if_exists is IfExists.REFUSE:
        raise InvalidOperationError(
            f"{existing.kind} {new.name!r} exists already, at snapshot {existing.snapshot_id}: "
            f"{metadata.location}"
        )
    verify_kind(metadata, new.name, new.kind)


def _snapshot_id(metadata: TableMetadata, new: NewRef, at: str) -> int:
    if new.version is not None:
        return verify_snapshot(metadata, new.version)
    if at == MAIN and MAIN not in metadata.refs:
        raise InvalidOperationError(
            f"the table has no snapshot yet, so {new.kind} {new.name!r} has none to be at: "
            f"{metadata.location}"
        )
    return find_ref(metadata, at).snapshot_id


def _retention_of(ref: Ref) -> RefRetention:
    return RefRetention(ref.max_ref_age_ms, ref.max_snapshot_age_ms, ref.min_snapshots)


def _merged(old: RefRetention, new: RefRetention) -> RefRetention:
    """The new values, and the old ones where there are none."""

    def value(before: int | None, after: int | None) -> int | None:
        return before if after is None else after

    return RefRetention(
        value(old.max_ref_age_ms, new.max_ref_age_ms),
        value(old.max_version_age_ms, new.max_version_age_ms),
        value(old.min_versions, new.min_versions),
    )


def _json(retention: RefRetention) -> dict[str, int]:
    values = {
        "min-snapshots-to-keep": retention.min_versions,
        "max-snapshot-age-ms": retention.max_version_age_ms,
        "max-ref-age-ms": retention.max_ref_age_ms,
    }
    return {name: value for name, value in values.items() if value is not None}
