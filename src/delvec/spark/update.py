"""UPDATE: one pass finds the rows and computes their new values. Deletes the old rows, and writes the new
rows to new files.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delvec import change_plan
from delvec.conflicts import Rerun
from delvec.plan import ScanPlan
from delvec.row_delta import Operation, Request, RowCounts, RowDelta, Verb, all_files
from delvec.schema import Schema
from delvec.spark import change_files
from delvec.spark.commit_and_rerun import StatementProbe, commit
from delvec.spark.computed_columns import with_generated
from delvec.spark.find_rows import find, has_few_rows
from delvec.spark.remove_rows import remove_rows
from delvec.spark.row_bitmaps import FoundRows
from delvec.spark.row_checks import checked
from delvec.spark.row_lineage import moved
from delvec.spark.scan import own_prefix, place_columns
from delvec.spark.set_clause import Assignments, new_column, resolve
from delvec.spark.small_statements import has_query, not_adaptive
from delvec.spark.target import OperationResult, Target, row_size, shown
from delvec.spark.text_lengths import with_padding
from delvec.spark.types import quoted
from delvec.spark.write_rows import NOTHING_WRITTEN, write_rows


def update_request(where: str | Column | None) -> Request:
    return Request(Operation.UPDATE, None if where is None else shown(where))


def update(target: Target, assignments: Assignments, where: str | Column | None) -> OperationResult | Rerun:
    """Set columns in the rows for which ``where`` is true; without it, in all rows."""
    target.verify_removable()
    case_sensitive = target.settings.case_sensitive
    # Analysing against an empty frame is cheaper than against the scan, and possible before the plan.
    targets = resolve(assignments, target.schema, target.empty(), "set", case_sensitive=case_sensitive)
    plan = target.plan(None) if where is None else target.plan_verified(where)
    frame = target.matching(plan, where, lineage=True)
    new = {
        field.name: new_column(field, targets, F.col(quoted(field.name)))
        for field in target.schema
        if field.name in targets
    }
    plain = has_few_rows(plan) and not any(map(has_query, (where, *assignments.values())))
    with not_adaptive(target.spark, when=plain):
        old_and_new = _old_and_new(frame, new, target).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with not_adaptive(target.spark, when=plain):
            rows_found = find(target, plan, old_and_new, place_columns(target.schema))
        if not rows_found.count:
            return target.unchanged(update_request(where), RowCounts(updated=0))
        return _committed(target, plan, old_and_new, rows_found, where)
    finally:
        old_and_new.unpersist()


def _old_and_new(frame: DataFrame, new: Mapping[str, Column], target: Target) -> DataFrame:
    """The file and position of each row, the new row, and the old row if change files need it.

    Everything except the new values is passed to Spark as text: a Column would cost several calls into the
    JVM.
    """
    values = {name: f"{_new(target)}_{number}" for number, name in enumerate(new)}
    columns = [quoted(name) for name in (*place_columns(target.schema), *target.lineage)]
    old = [_struct(target.schema, {}, _old(target))] if target.rules.change_files else []
    frame = frame.withColumns({values[name]: new[name] for name in new})
    generated = [name for name in target.rules.generated if name not in new]
    if not generated:
        return frame.selectExpr(*columns, _struct(target.schema, values, _new(target)), *old)
    # Generated columns are computed from the new row, under the names of the table's columns.
    rows = frame.selectExpr(*columns, *old, *_columns(target.schema, values))
    rows = with_generated(with_padding(rows, target.schema), target.rules, generated)
    old_column = [quoted(_old(target))] if old else []
    return rows.selectExpr(*columns, *old_column, _struct(target.schema, {}, _new(target)))


def _struct(schema: Schema, values: Mapping[str, str], name: str) -> str:
    """The table's columns as one struct, some of them replaced by ``values``."""
    return f"struct({', '.join(_columns(schema, values))}) AS {name}"


def _columns(schema: Schema, values: Mapping[str, str]) -> list[str]:
    """The table's columns under their names. ``values`` names the columns that have the new values."""
    return [f"{values.get(f.name, quoted(f.name))} AS {quoted(f.name)}" for f in schema]


def _committed(
    target: Target, plan: ScanPlan, old_and_new: DataFrame, rows_found: FoundRows, where: str | Column | None
) -> OperationResult | Rerun:
    size = row_size(plan) * rows_found.count
    after = with_padding(moved(old_and_new, target.lineage, _new(target)), target.schema)
    after = checked(after, target.rules)
    written = write_rows(after, target.storage, target.rules, size=size, extra=target.lineage)
    removal = remove_rows(target, plan, rows_found)
    changes = NOTHING_WRITTEN
    if target.rules.change_files:
        before, now = old_and_new.select(f"{_old(target)}.*"), after.drop(*target.lineage)
        images = [(change_plan.BEFORE, before), (change_plan.AFTER, now)]
        changes = change_files.write_changes(target, images, size=2 * size)
    delta = RowDelta(
        base=plan.base,
        request=update_request(where),
        read=target.read(where, Verb.UPDATE),
        verb=Verb.UPDATE,
        counts=RowCounts(updated=rows_found.distinct, copied=removal.written.rows),
        added=all_files(written.files, removal.written.files),
        removed=removal.removed,
        rewritten=removal.rewritten,
        vectors=removal.vectors,
        change_files=changes.files,
        moved=True,
        lineage=bool(target.lineage),
    )
    return commit(target, delta, StatementProbe(target, where))


def _new(target: Target) -> str:
    return own_prefix(target.schema) + "new"


def _old(target: Target) -> str:
    return own_prefix(target.schema) + "old"
