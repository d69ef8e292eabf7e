"""Row ids of files when an older version is restored.

A file has the ids that it had in the older version. If it had none then, it keeps those that it got since.
Row tracking may have been dropped between the two versions, and enabled again: then its ids start from 0
again, so a file's ids of now may be those of other rows then. Such a file gets new ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows, one_chunk
from delvec.delta import row_ids
from delvec.delta.file_actions import live_adds
from delvec.delta.metadata_change import TableState
from delvec.errors import InvalidOperationError

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

_BASE, _VERSION = "base_row_id", "default_row_commit_version"


@dataclass(frozen=True, slots=True)
class RestoredIds:
    """Rows of ``actions.ADDS_SCHEMA``: a row without ids gets new ones.

    restored    the files that become live again
    changed     files that are live in both versions, and have other ids now
    mark        new ids are above it
    """

    restored: tuple[dict[str, Any], ...]
    changed: tuple[dict[str, Any], ...] = ()
    mark: int = row_ids.NO_IDS_YET


def restored_ids(newest: Snapshot, then: Snapshot, state: TableState, current: pa.Array) -> RestoredIds:
    """The ids of the files of ``then`` in the state that is restored.

    ``current``: for each of these files its row in ``newest.adds``; null if it becomes live again.
    """
    is_restored = current.is_null().to_numpy(zero_copy_only=False)
    rows = live_adds(then, np.flatnonzero(is_restored))
    if not row_ids.gives_ids(state):
        return RestoredIds(tuple(rows))
    highest = _highest_id(then)
    changed = live_adds(then, np.flatnonzero(_differs(newest, then, current, highest)))
    mark = max(highest, _highest_id(newest))
    return RestoredIds(tuple(_with_current_ids(rows, newest, highest)), tuple(changed), mark)


def _differs(newest: Snapshot, then: Snapshot, current: pa.Array, highest: int) -> Mask:
    """Whether a file of both versions has other ids now than it must have."""
    old_base, old_version = (one_chunk(then.adds.column(name)) for name in (_BASE, _VERSION))
    base, version = (one_chunk(newest.adds.column(name)).take(current) for name in (_BASE, _VERSION))
    same = pc.and_(
        pc.fill_null(pc.equal(base, old_base), False),  # noqa: FBT003
        pc.fill_null(pc.equal(version, old_version), False),  # noqa: FBT003
    )
    had_ids = old_base.is_valid()
    taken = pc.fill_null(pc.less_equal(base, highest), False)  # noqa: FBT003
    differs = pc.if_else(had_ids, pc.invert(same), taken)
    return np.asarray(pc.and_(differs, current.is_valid()).to_numpy(zero_copy_only=False))


def _with_current_ids(rows: list[dict[str, Any]], newest: Snapshot, highest: int) -> list[dict[str, Any]]:
    """A file without ids keeps those of now, if it is live with another vector and they are above
    ``highest``.
    """
    without = [row for row in rows if row[_BASE] is None]
    if without:
        ids = newest.file_ids(pa.array([row["path"] for row in without], pa.string()))
        current = newest.adds.select((_BASE, _VERSION)).take(ids).to_pylist()
        for row, values in zip(without, current, strict=True):
            if values[_BASE] is not None and values[_BASE] > highest:
                row.update(values)
    return rows


def _highest_id(snapshot: Snapshot) -> int:
    """The highest id of the version: its high-water mark, or else the highest id of its files."""
    if row_ids.DOMAIN in snapshot.domains:
        return row_ids.high_water_mark(snapshot.domains)
    base = one_chunk(snapshot.adds.column(_BASE))
    with_ids: Rows = np.flatnonzero(base.is_valid().to_numpy(zero_copy_only=False))
    if not len(with_ids):
        return row_ids.NO_IDS_YET
    counts = snapshot.facts().at(with_ids).record_count
    if counts.null_count:
        first = int(with_ids[pc.index(counts.is_null(), True).as_py()])
        raise InvalidOperationError(
            f"version {snapshot.version} has file {snapshot.adds.column('path')[first].as_py()} with row ids "
            f"and without a number of rows, and no {row_ids.HIGH_WATER_MARK}, expected one of them: "
            f"{snapshot.location}"
        )
    return int(pc.max(pc.add(base.take(pa.array(with_ids)), pc.subtract(counts, 1))).as_py())
