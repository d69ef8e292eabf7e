"""The snapshots of a change feed: a snapshot and those that it was made from, back to the start of the range.

A rollback makes an older snapshot the current one again. What was undone is in no range of later snapshots,
and a range cannot start there.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from delvec.errors import InvalidOperationError
from delvec.iceberg.metadata import MAIN, SnapshotRecord, TableMetadata
from delvec.iceberg.refs import NO_SNAPSHOT, ancestors, snapshot_at_time, verify_snapshot
from delvec.instants import as_datetime, millis_of

Bound = int | dt.datetime
"""A snapshot id; or a time: the first snapshot at or after it, the current snapshot at it."""

_APPEND, _REPLACE = "append", "replace"
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """The snapshots of a range, oldest first; none if there is none between two times.

    base          the parent of the first one; None: the table was empty, or ``base_is_lost``
    base_is_lost  the parent has expired; the first snapshot only added files
    """

    snapshots: Sequence[SnapshotRecord]
    base: SnapshotRecord | None = None
    base_is_lost: bool = False


def moves_rows(record: SnapshotRecord) -> bool:
    """Whether the snapshot only stores the same rows in other files."""
    return record.summary.get("operation") == _REPLACE


def find_range(
    metadata: TableMetadata, head: int, branch: str | None, first: Bound, last: Bound | None
) -> ChangeRange:
    """The snapshots from ``first`` to ``last``, by default to ``head``. Refuses a range that crosses a
    rollback, and one of which a snapshot has expired.

    ``branch``: None is the main one.
    """
    end = _end(metadata, head, branch, last)
    if isinstance(first, int):
        found = _from_snapshot(metadata, verify_snapshot(metadata, first), end)
    else:
        found = _from_time(metadata, first, end, branch)
        if not found and not isinstance(last, dt.datetime):
            raise _empty(metadata, first, end)
    return _with_base(metadata, found[::-1])


def _end(metadata: TableMetadata, head: int, branch: str | None, last: Bound | None) -> int:
    if isinstance(last, dt.datetime):
        return snapshot_at_time(metadata, last, branch)
    return head if last is None else verify_snapshot(metadata, last)


def _from_snapshot(metadata: TableMetadata, first: int, end: int) -> Sequence[int]:
    """The ids from ``end`` back to ``first``."""
    chain = _chain(metadata, end)
    if first in chain:
        return chain[: chain.index(first) + 1]
    if not chain:
        raise _no_snapshot(metadata)
    if end in ancestors(metadata, first):
        raise InvalidOperationError(
            f"changes end at snapshot {end}, expected their start at snapshot {first} or a later one: "
            f"{metadata.location}"
        )
    expired = metadata.snapshots[chain[-1]].parent_id
    if expired is not None and _is_older(metadata, first, chain[-1]):
        raise _expired(metadata, expired, chain[-1])
    raise InvalidOperationError(
        f"snapshot {first} is not an ancestor of snapshot {end}: the table was rolled back, or the snapshots "
        f"are of different branches, expected a start in the history of snapshot {end}: {metadata.location}"
    )


def _chain(metadata: TableMetadata, end: int) -> Sequence[int]:
    """The snapshot and its ancestors, newest first."""
    return list(ancestors(metadata, None if end == NO_SNAPSHOT else end))


def _from_time(metadata: TableMetadata, first: dt.datetime, end: int, branch: str | None) -> Sequence[int]:
    """The ids from ``end`` back to the first snapshot at or after the time."""
    millis = _first_millis(first)
    chain = _chain(metadata, end)
    _verify_not_rolled_back(metadata, first, chain, branch)
    # Clocks of writers differ a little: a parent may have a later time than its child.
    is_inside = [metadata.snapshots[number].timestamp_ms >= millis for number in chain]
    count = max((at + 1 for at, inside in enumerate(is_inside) if inside), default=0)
    if count == len(chain) and chain:
        expired = metadata.snapshots[chain[-1]].parent_id
        if expired is not None:
            raise _expired(metadata, expired, chain[-1])
    return chain[:count]


def _verify_not_rolled_back(
    metadata: TableMetadata, first: dt.datetime, chain: Sequence[int], branch: str | None
) -> None:
    """Refuse a start at a time when the current snapshot was one that was undone later."""
    if branch not in (None, MAIN):
        return  # only the main branch has a log
    millis = _first_millis(first)
    before = [number for time, number in metadata.snapshot_log if time < millis]
    current = before[-1] if before else NO_SNAPSHOT
    if not chain or current not in metadata.snapshots or current in chain:
        return
    if metadata.snapshots[chain[-1]].parent_id is None or not _is_older(metadata, current, chain[-1]):
        raise InvalidOperationError(
            f"changes start at {first.isoformat()}, when snapshot {current} was the current one, expected an "
            f"ancestor of snapshot {chain[0]}: the table was rolled back: {metadata.location}"
        )


def _first_millis(first: dt.datetime) -> int:
    """The first whole millisecond at or after the time."""
    return millis_of(first - _MICROSECOND) + 1


def _with_base(metadata: TableMetadata, found: Sequence[int]) -> ChangeRange:
    records = [metadata.snapshots[number] for number in found]
    if not records or records[0].parent_id is None:
        return ChangeRange(records)
    first = records[0]
    base = metadata.snapshots.get(records[0].parent_id or NO_SNAPSHOT)
    if base is None and first.summary.get("operation") != _APPEND and not moves_rows(first):
        raise _expired(metadata, first.parent_id, first.snapshot_id)
    return ChangeRange(records, base, base_is_lost=base is None)


def _is_older(metadata: TableMetadata, number: int, other: int) -> bool:
    first, second = metadata.snapshots[number], metadata.snapshots[other]
    return (first.sequence_number, first.timestamp_ms) < (second.sequence_number, second.timestamp_ms)


def _expired(metadata: TableMetadata, expired: int | None, child: int) -> InvalidOperationError:
    return InvalidOperationError(
        f"changes of snapshot {child} can no longer be read: snapshot {expired}, which it was made from, has "
        f"expired: {metadata.location}"
    )


def _empty(metadata: TableMetadata, first: dt.datetime, end: int) -> InvalidOperationError:
    if end == NO_SNAPSHOT:
        return _no_snapshot(metadata)
    newest = as_datetime(metadata.snapshots[end].timestamp_ms)
    return InvalidOperationError(
        f"timestamp {first.isoformat()} is after the last snapshot, expected one up to {newest.isoformat()} "
        f"(snapshot {end}): {metadata.location}"
    )


def _no_snapshot(metadata: TableMetadata) -> InvalidOperationError:
    return InvalidOperationError(f"the table has no snapshot yet: {metadata.location}")
