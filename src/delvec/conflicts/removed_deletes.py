"""Deletes that a delta removes, on top of other commits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from delvec.deletes.deletes_of_files import applied_deletes
from delvec.formats import DeletesListed, Snapshot
from delvec.row_delta import REMOVED_DELETES_SCHEMA

_PLACE = ("location", "offset")


def still_live(removed: pa.Table, newest: Snapshot) -> pa.Table:
    """The deletes of ``RowDelta.removed_deletes`` that the newest version has, with their entries there.

    Another commit may have removed the others: then there is nothing left to do.
    """
    if not len(removed):
        return removed
    assert isinstance(newest, DeletesListed)
    live = newest.live_deletes()
    chosen = same_place(live, removed)
    return live.filter(pa.array(chosen)).select(REMOVED_DELETES_SCHEMA.names).cast(REMOVED_DELETES_SCHEMA)


def applying_to(removed: pa.Table, newest: Snapshot, file_ids: pa.Array) -> int | None:
    """One of these files of the newest version to which a removed delete applies; None if there is none."""
    plan = newest.plan(among=file_ids)
    is_removed = same_place(plan.deletes, removed)
    if not (applied_deletes(plan) & is_removed).any():
        return None
    for row, file_id in enumerate(plan.files.column("file_id").to_pylist()):
        if (applied_deletes(plan.at(np.array([row]))) & is_removed).any():
            return int(file_id)
    return None


def same_place(deletes: pa.Table, others: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of the deletes are stored where one of the others is."""
    places = set(zip(*(others.column(name).to_pylist() for name in _PLACE), strict=True))
    rows = zip(*(deletes.column(name).to_pylist() for name in _PLACE), strict=True)
    return np.fromiter((row in places for row in rows), np.bool_, len(deletes))
