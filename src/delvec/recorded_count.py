"""The number of live rows of a plan's files, from the metadata alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from delvec import predicate
from delvec.deletes.supported_kinds import verify_applied
from delvec.errors import InvalidOperationError
from delvec.formats import Snapshot
from delvec.plan import MATCH_ALL, ScanPlan
from delvec.predicate import SqlSettings
from delvec.predicate.tree import is_decided


@dataclass(frozen=True, slots=True)
class RecordedCount:
    """``rows``: the matching rows of the files that the metadata decides. ``undecided``: the files whose rows
    must be read.
    """

    rows: int
    undecided: ScanPlan


def recorded_rows(snapshot: Snapshot, where: object, settings: SqlSettings) -> RecordedCount | None:
    """The rows that the metadata counts; None if only Spark can tell for which rows ``where`` is true: it
    is no text, or has a part that delvec does not understand. Such a part could also fail for a row.
    """
    condition = None
    if where is not None:
        if not isinstance(where, str):
            return None
        try:
            condition = predicate.parse(where, snapshot.schema, settings)
        except InvalidOperationError:  # only Spark may understand the text
            return None
        if not is_decided(condition.tree):
            return None
    return recorded_count(snapshot.plan(condition, time_zone=settings.time_zone))


def recorded_count(plan: ScanPlan) -> RecordedCount:
    """Count the live rows for which the plan's condition is true.

    A file is decided if all of its rows match, and the metadata records how many rows it has and how many of
    them are deleted.
    """
    verify_applied(plan)
    live = pc.subtract(plan.files.column("record_count"), plan.deleted_rows)
    # More deleted rows than rows: the metadata is wrong, and reading the file will say so.
    decided = pc.and_kleene(pc.greater_equal(live, 0), pc.is_valid(live))
    if plan.condition is not None:
        decided = pc.and_(decided, pc.equal(plan.files.column("match"), MATCH_ALL))
    rows = pc.sum(live.filter(decided)).as_py() or 0
    undecided = np.flatnonzero(~decided.to_numpy())
    return RecordedCount(int(rows), plan.at(undecided))
