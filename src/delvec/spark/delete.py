"""DELETE: removes files whose rows all match without reading them, and finds other rows with one scan. Where
the table asks for it, a condition that is a set of keys is stored as keys, and no row is read.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delvec.change_plan import DELETE as DELETED
from delvec.conflicts import Rerun
from delvec.plan import ScanPlan
from delvec.row_delta import Operation, Request, RowCounts, RowDelta, Verb
from delvec.spark.change_files import write_changes
from delvec.spark.commit_and_rerun import StatementProbe, commit
from delvec.spark.condition_keys import keys_to_delete
from delvec.spark.find_rows import find_matching
from delvec.spark.key_commit import delete_by_condition
from delvec.spark.remove_rows import Removal, remove_rows
from delvec.spark.target import OperationResult, Target, live_rows, row_size, shown, split_by_match
from delvec.spark.types import quoted


def delete_request(where: str | Column | None) -> Request:
    return Request(Operation.DELETE, None if where is None else shown(where))


def delete(target: Target, where: str | Column | None) -> OperationResult | Rerun:
    """Delete the rows for which ``where`` is true; without it, all rows."""
    target.verify_removable()
    if where is None:
        return _delete_all(target)
    plan = target.plan_verified(where)
    full_matches, rest = split_by_match(plan)
    keys = keys_to_delete(target, plan, rest)
    if keys is not None:
        return delete_by_condition(target, keys, where, StatementProbe(target))
    rows_found = find_matching(target, rest, where)
    if not rows_found.count and not len(full_matches.files):
        return target.unchanged(delete_request(where), RowCounts(deleted=0))
    full_match_rows = live_rows(full_matches)
    removal = remove_rows(target, rest, rows_found)
    changes = deleted_rows(target, removal, full_matches, rest, where)
    deleted = None if full_match_rows is None else full_match_rows + rows_found.distinct
    removed = pa.concat_arrays([full_matches.files.column("file_id").combine_chunks(), removal.removed])
    delta = RowDelta(
        base=rest.base,
        request=delete_request(where),
        read=target.read(where, Verb.DELETE),
        verb=Verb.DELETE,
        counts=RowCounts(deleted=deleted, copied=removal.written.rows),
        added=removal.written.files,
        removed=removed,
        rewritten=removal.rewritten,
        vectors=removal.vectors,
        lineage=bool(target.lineage),
        change_files=write_changes(target, changes, size=row_size(rest) * rows_found.count).files,
    )
    return commit(target, delta, StatementProbe(target, where))


def deleted_rows(
    target: Target, removal: Removal, full_matches: ScanPlan, rest: ScanPlan, where: str | Column
) -> list[tuple[str, DataFrame]]:
    """The deleted rows for the change files; none if no change files are needed.

    They are needed if files are rewritten: readers would treat the copied rows as changes. A commit with
    change files must have all its changes in them, those of removed files too.
    """
    if not target.rules.change_files or not removal.written.rows:
        return []
    columns = [F.col(quoted(field.name)) for field in target.schema]
    frames = [target.scan(full_matches), target.matching(rest, where).select(*columns)]
    return [(DELETED, frame) for frame in frames]


def _delete_all(target: Target) -> OperationResult | Rerun:
    delta = _all_removed(target)
    if not len(delta.removed):
        return target.unchanged(delta.request, RowCounts(deleted=0))
    return commit(target, delta, StatementProbe(target, replan=_all_removed))


def _all_removed(target: Target) -> RowDelta:
    plan = target.plan(None)
    return RowDelta(
        base=plan.base,
        request=delete_request(None),
        read=target.read(None, Verb.DELETE),
        verb=Verb.REPLACE,
        counts=RowCounts(deleted=live_rows(plan)),
        removed=plan.files.column("file_id").combine_chunks(),
    )
