"""DELETE: whole files from metadata alone, other rows by one scan of the columns that the condition needs."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delvec.plan import ScanPlan
from delvec.row_delta import RowDelta, Verb
from delvec.spark.change_files import DELETE as DELETED
from delvec.spark.change_files import write_changes
from delvec.spark.commit_and_rerun import Looking, commit
from delvec.spark.find_rows import FoundRows
from delvec.spark.remove_rows import Removal, find, remove_rows
from delvec.spark.scan import place_columns
from delvec.spark.target import OperationResult, Target, live_rows, row_size, shown, split_by_match
from delvec.spark.types import quoted

OPERATION = "DELETE"


def delete(target: Target, where: str | Column | None) -> OperationResult:
    """Remove the rows for which ``where`` is true; all rows without it."""
    target.verify_removable()
    if where is None:
        return _delete_all(target)
    whole, rest = split_by_match(target.plan_verified(where))
    found = find_matching(target, rest, where)
    if not found.count and not len(whole.files):
        return target.unchanged(numDeletedRows=0)
    gone = live_rows(whole)
    removal = remove_rows(target, rest, found)
    told = removed_rows(target, removal, whole, rest, where)
    metrics = {} if gone is None else {"numDeletedRows": gone + found.distinct}
    removed = pa.concat_arrays([whole.files.column("file_id").combine_chunks(), removal.removed])
    delta = RowDelta(
        base=rest.base,
        operation=OPERATION,
        parameters={"predicate": shown(where)},
        read=target.read(where, Verb.DELETE),
        verb=Verb.DELETE,
        metrics=metrics | {"numCopiedRows": removal.written.rows},
        added=removal.written.files,
        removed=removed,
        rewritten=removal.rewritten,
        vectors=removal.vectors,
        lineage=bool(target.lineage),
        change_files=write_changes(target, told, size=row_size(rest) * found.count).files,
    )
    return commit(target, delta, Looking(target, where))


def find_matching(target: Target, plan: ScanPlan, where: str | Column) -> FoundRows:
    """The rows of the plan's files for which ``where`` is true. No job runs where there is no file."""
    if not len(plan.files):
        return FoundRows({}, 0)
    return find(target, plan, target.matching(plan, where), place_columns(target.schema))


def removed_rows(
    target: Target, removal: Removal, whole: ScanPlan, rest: ScanPlan, where: str | Column
) -> list[tuple[str, DataFrame]]:
    """The changes that files must tell; none where the data files tell them.

    A file written again would show its copied rows as changes. And a commit that has change files must have
    all changes in them, those of files that leave whole too.
    """
    if not target.rules.change_files or not removal.written.rows:
        return []
    columns = [F.col(quoted(field.name)) for field in target.schema]
    gone = [target.scan(whole), target.matching(rest, where).select(*columns)]
    return [(DELETED, frame) for frame in gone]


def _delete_all(target: Target) -> OperationResult:
    delta = _all_removed(target)
    if not len(delta.removed):
        return target.unchanged(numDeletedRows=0)
    return commit(target, delta, Looking(target, replan=_all_removed))


def _all_removed(target: Target) -> RowDelta:
    plan = target.plan(None)
    gone = live_rows(plan)
    return RowDelta(
        base=plan.base,
        operation=OPERATION,
        parameters={"predicate": ""},
        read=target.read(None, Verb.DELETE),
        verb=Verb.REPLACE,
        metrics={} if gone is None else {"numDeletedRows": gone},
        removed=plan.files.column("file_id").combine_chunks(),
    )
