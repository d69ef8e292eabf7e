"""Plans by the text of a condition."""

from __future__ import annotations

from delvec import predicate
from delvec.formats import Snapshot
from delvec.plan import ScanPlan
from delvec.predicate import SPARK_DEFAULTS, SqlSettings


def plan_where(snapshot: Snapshot, text: str, settings: SqlSettings = SPARK_DEFAULTS) -> ScanPlan:
    """The files of the snapshot that may have a matching row."""
    condition = predicate.parse(text, snapshot.schema, settings)
    return snapshot.plan(condition, time_zone=settings.time_zone)
