"""Which snapshot a request means: a branch, a tag, an id, a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from delvec.errors import FormatError, InvalidOperationError
from delvec.iceberg.metadata import BRANCH, MAIN, Ref, TableMetadata
from delvec.instants import as_datetime, is_future, millis_of

NO_SNAPSHOT = -1
"""The version of a table that has no snapshot yet."""


def find_ref(metadata: TableMetadata, name: str) -> Ref:
    """The branch or tag with this name."""
    ref = metadata.refs.get(name)
    if ref is None:
        names = ", ".join(sorted(metadata.refs))
        expected = f"expected one of {names}" if names else "the table has no snapshot yet, so it has none"
        raise InvalidOperationError(f"branch or tag {name!r} does not exist, {expected}: {metadata.location}")
    return ref


def verify_kind(metadata: TableMetadata, name: str, kind: str | None) -> Ref:
    """The branch or tag with this name; refused if it is not of this kind."""
    ref = find_ref(metadata, name)
    if kind is not None and ref.kind != kind:
        raise InvalidOperationError(f"{name!r} is a {ref.kind}, expected a {kind}: {metadata.location}")
    return ref


def verify_branch(metadata: TableMetadata, name: str) -> None:
    """Refuse a tag, and a branch that does not exist; main need not exist."""
    if name != MAIN or name in metadata.refs:
        verify_kind(metadata, name, BRANCH)


def verify_snapshot(metadata: TableMetadata, snapshot_id: int) -> int:
    """The id, if the table has such a snapshot."""
    if snapshot_id in metadata.snapshots:
        return snapshot_id
    ids = sorted(metadata.snapshots, key=lambda key: metadata.snapshots[key].timestamp_ms)
    known = ", ".join(map(str, ids[-5:])) or "none"
    more = f"the last of {len(ids)} snapshots: " if len(ids) > 5 else ""
    raise InvalidOperationError(
        f"snapshot {snapshot_id} does not exist or has expired, expected {more}{known}: {metadata.location}"
    )


def snapshot_at_time(metadata: TableMetadata, timestamp: dt.datetime, ref: str | None = None) -> int:
    """The snapshot that was the current one at ``timestamp``; refuses a time in the future.

    The main branch has a log of its snapshots, which also shows rollbacks. On another branch, and without a
    log, the ancestors of the newest snapshot count. Clocks of writers differ: of the changes up to
    ``timestamp`` the last one in the log counts, as in Iceberg's own library, so that now is always the
    newest snapshot.
    """
    on_main = ref is None or ref == MAIN
    log = metadata.snapshot_log if on_main else ()
    entries = list(log) or _ancestor_times(metadata, ref)
    millis = millis_of(timestamp)
    position = next((at for at in reversed(range(len(entries))) if entries[at][0] <= millis), None)
    if position is None:
        raise _out_of_range(metadata, entries, timestamp, "before the first")
    if position == len(entries) - 1 and is_future(timestamp):
        raise _out_of_range(metadata, entries, timestamp, "in the future, after the last")
    snapshot_id = entries[position][1]
    if snapshot_id not in metadata.snapshots:
        raise InvalidOperationError(
            f"snapshot {snapshot_id} was the current one at {timestamp.isoformat()} but has expired: "
            f"{metadata.location}"
        )
    return snapshot_id


def ancestors(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[int]:
    """The snapshot and those it was made from, newest first, as far as the metadata still has them."""
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id in metadata.snapshots:
        if snapshot_id in seen:
            raise FormatError(f"snapshot {snapshot_id} is its own ancestor", path=metadata.location)
        seen.add(snapshot_id)
        yield snapshot_id
        snapshot_id = metadata.snapshots[snapshot_id].parent_id


def _ancestor_times(metadata: TableMetadata, ref: str | None) -> list[tuple[int, int]]:
    head = metadata.current_snapshot_id if ref is None else find_ref(metadata, ref).snapshot_id
    oldest_first = reversed(list(ancestors(metadata, head)))
    return [(metadata.snapshots[number].timestamp_ms, number) for number in oldest_first]


def _out_of_range(
    metadata: TableMetadata, entries: list[tuple[int, int]], timestamp: dt.datetime, where: str
) -> InvalidOperationError:
    if not entries:
        return InvalidOperationError(f"the table has no snapshot yet: {metadata.location}")
    first, last = (
        f"{as_datetime(at).isoformat()} (snapshot {number})" for at, number in (entries[0], entries[-1])
    )
    return InvalidOperationError(
        f"timestamp {timestamp.isoformat()} is {where} snapshot, expected {first} to {last}: "
        f"{metadata.location}"
    )
