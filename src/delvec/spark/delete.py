"""DELETE: whole files from metadata alone, other rows by one scan of the columns that the condition needs."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column

from delvec.row_delta import Read, RowDelta
from delvec.spark.conditions import expression
from delvec.spark.find import find_rows
from delvec.spark.removal import remove_rows
from delvec.spark.scan import place_columns
from delvec.spark.target import OperationResult, Target, live_rows, shown, split_by_match

OPERATION = "DELETE"


def delete(target: Target, where: str | Column | None) -> OperationResult:
    """Remove the rows for which ``where`` is true; all rows without it."""
    target.verify_removable()
    if where is None:
        return _delete_all(target)
    whole, rest = split_by_match(target.plan_verified(where))
    frame = target.scan(rest, located=True).where(expression(where))
    found = find_rows(frame, *place_columns(target.schema))
    if not found.files and not len(whole.files):
        return target.unchanged(numDeletedRows=0)
    gone = live_rows(whole)
    removal = remove_rows(target, rest, found.files)
    metrics = {} if gone is None else {"numDeletedRows": gone + found.distinct}
    removed = pa.concat_arrays([whole.files.column("file_id").combine_chunks(), removal.removed])
    delta = RowDelta(
        base=rest.base,
        operation=OPERATION,
        parameters={"predicate": shown(where)},
        read=Read(condition=where if isinstance(where, str) else None, files=rest.files.column("file_id")),
        metrics=metrics | {"numCopiedRows": removal.written.rows},
        added=removal.written.files,
        removed=removed,
        vectors=removal.vectors,
    )
    return target.commit(delta)


def _delete_all(target: Target) -> OperationResult:
    plan = target.plan(None)
    if not len(plan.files):
        return target.unchanged(numDeletedRows=0)
    gone = live_rows(plan)
    delta = RowDelta(
        base=plan.base,
        operation=OPERATION,
        parameters={"predicate": ""},
        read=Read(),
        metrics={} if gone is None else {"numDeletedRows": gone},
        removed=plan.files.column("file_id").combine_chunks(),
    )
    return target.commit(delta)
