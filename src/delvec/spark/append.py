"""APPEND, OVERWRITE and CREATE: writes new rows, and removes the rows that they replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame

from delvec import change_plan
from delvec.conflicts import Rerun
from delvec.errors import InvalidOperationError
from delvec.plan import ScanPlan
from delvec.row_delta import (
    DeleteForm,
    MetadataChange,
    Operation,
    Read,
    Request,
    RowCounts,
    RowDelta,
    Txn,
    Verb,
    WriteRules,
    all_files,
)
from delvec.spark import change_files
from delvec.spark.commit_and_rerun import Rows, StatementProbe, commit, source_frame
from delvec.spark.computed_columns import new_rows
from delvec.spark.conditions import expression, verify_condition
from delvec.spark.delete import deleted_rows
from delvec.spark.find_rows import find_matching
from delvec.spark.partition_folders import same_partitions
from delvec.spark.remove_rows import remove_rows
from delvec.spark.reserved_names import verify_new_names
from delvec.spark.row_checks import checked, kept_to
from delvec.spark.target import OperationResult, Target, live_rows, row_size, shown, split_by_match
from delvec.spark.write_rows import WrittenFiles, write_rows

STATIC, DYNAMIC = "static", "dynamic"


def append(target: Target, rows: Rows, *, merge_schema: bool, txn: Txn | None) -> OperationResult | Rerun:
    """Add the rows. ``merge_schema``: add columns that the table lacks.

    ``txn``: changes nothing if the idempotent writer has committed this version before.
    """
    request = Request(Operation.APPEND)
    if txn is not None and target.snapshot.txns.get(txn.app_id, -1) >= txn.version:
        _ = target.rules  # refuses a table that cannot be written
        return target.unchanged(request, RowCounts(inserted=0))
    if not merge_schema:
        _ = target.rules
    frame = source_frame(rows)
    target = target.grown(frame.schema) if merge_schema else target
    written, change = _write(target, frame), target.rules.change
    if not written.rows and change is None and txn is None:
        return target.unchanged(request, RowCounts(inserted=0))
    delta = replace(_delta(target, request, written, Read(blind=True)), verb=Verb.APPEND)
    return commit(target, replace(delta, metadata=change, txn=txn), _probe(target, rows, frame))


def create(target: Target, frame: DataFrame | None) -> OperationResult | Rerun:
    """The first commit on top of a draft, with the rows of ``frame``."""
    verify_new_names(target.rules.schema)
    _verify_constraints(target, target.rules)
    if frame is None:
        delta = RowDelta(target.base, Request(Operation.CREATE), Read(blind=True))
    else:
        request = Request(Operation.CREATE_WITH_ROWS)
        delta = _delta(target, request, _write(target, frame), Read(blind=True))
    return commit(target, replace(delta, verb=Verb.ALTER), StatementProbe(target))


def set_properties(target: Target, properties: Mapping[str, str | None]) -> OperationResult | Rerun:
    """Set properties of the table, and unset those whose value is None."""
    if not properties:
        raise InvalidOperationError("no properties to set, expected at least one")
    rules = target.after(MetadataChange(properties=dict(properties))).rules
    _verify_constraints(target, rules)
    request = Request(Operation.SET_PROPERTIES, properties=dict(properties))
    delta = RowDelta(target.base, request, Read(blind=True), Verb.ALTER, metadata=rules.change)
    return commit(target, delta, StatementProbe(target))


def _verify_constraints(target: Target, rules: WriteRules) -> None:
    """Refuse constraints that are not conditions on the table's columns: no row could be written."""
    for constraint in rules.constraints:
        verify_condition(target.empty(), constraint.condition, f"constraint {constraint.name}:")


def overwrite(
    target: Target, rows: Rows, *, where: str | Column | None, partitions: str
) -> OperationResult | Rerun:
    """Replace all rows, the rows for which ``where`` is true, or (dynamic) partitions that have new rows."""
    target.verify_removable()
    verify_mode(where, partitions)
    if where is not None:
        return _overwrite_where(target, rows, where)
    request = overwrite_request(target, where, partitions)
    frame = source_frame(rows)
    written = _write(target, frame)
    if request.dynamic and not written.rows:
        return target.unchanged(request, RowCounts(inserted=0))

    def replaced(at: Target) -> RowDelta:
        return _replaced(at, request, written)

    delta = replaced(target)
    if not written.rows and not len(delta.removed):
        return target.unchanged(request, RowCounts(inserted=0))
    return commit(target, delta, replace(_probe(target, rows, frame), replan=replaced))


def overwrite_request(target: Target, where: str | Column | None, partitions: str) -> Request:
    condition = None if where is None else shown(where)
    dynamic = partitions == DYNAMIC and bool(target.rules.spec.fields)
    return Request(Operation.OVERWRITE, condition, dynamic)


def verify_mode(where: str | Column | None, partitions: str) -> None:
    if partitions not in (STATIC, DYNAMIC):
        raise InvalidOperationError(f"partitions is {partitions!r}, expected {STATIC} or {DYNAMIC}")
    if where is not None and partitions == DYNAMIC:
        raise InvalidOperationError(f"where and partitions={DYNAMIC!r} exclude each other")


def rows_within(target: Target, frame: DataFrame, where: str | Column) -> DataFrame:
    """The new rows with the table's columns. The job fails at a row that does not satisfy the condition."""
    message = f"a new row is outside of the condition {shown(where)!r}, expected all rows within"
    return kept_to(new_rows(frame, target.rules), expression(where), message)


def _overwrite_where(target: Target, source: Rows, where: str | Column) -> OperationResult | Rerun:
    plan = target.plan_verified(where)
    frame = source_frame(source)
    probe = replace(_probe(target, source, frame), where=where)
    rows, rules = rows_within(target, frame, where), target.rules
    may_rewrite = rules.deletes is DeleteForm.REWRITE or bool(rules.rewrite_share)
    if not (rules.change_files and may_rewrite):
        return _replaced_where(plan, rows, probe)
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)  # they are also written to change files
    try:
        return _replaced_where(plan, rows, probe)
    finally:
        rows.unpersist()


def _replaced_where(plan: ScanPlan, rows: DataFrame, probe: StatementProbe) -> OperationResult | Rerun:
    target, where = probe.target, probe.where
    assert where is not None
    request = overwrite_request(target, where, STATIC)
    full_matches, rest = split_by_match(plan)
    written = _write(target, rows)
    old = find_matching(target, rest, where)
    if not written.rows and not len(full_matches.files) and not old.count:
        return target.unchanged(request, RowCounts(inserted=0))
    removal = remove_rows(target, rest, old)
    changes = deleted_rows(target, removal, full_matches, rest, where)
    if changes:
        changes.append((change_plan.INSERT, rows))
    delta = _delta(target, request, written, target.read(where, Verb.DELETE))
    full_match_rows = live_rows(full_matches)
    deleted = None if full_match_rows is None else full_match_rows + old.distinct
    delta = replace(
        delta,
        verb=Verb.DELETE,
        counts=replace(delta.counts, deleted=deleted, copied=removal.written.rows),
        added=all_files(written.files, removal.written.files),
        removed=pa.concat_arrays([full_matches.files.column("file_id").combine_chunks(), removal.removed]),
        rewritten=removal.rewritten,
        vectors=removal.vectors,
        change_files=change_files.write_changes(target, changes, size=row_size(rest) * old.count).files,
        lineage=bool(target.lineage),
    )
    return commit(target, delta, probe)


def _replaced(target: Target, request: Request, written: WrittenFiles) -> RowDelta:
    """Removes all files of the version, or those of the partitions that have new rows."""
    old = target.plan(None)
    if request.dynamic:
        old = old.at(same_partitions(old, target.rules.spec, written.files.column("partition")))
    delta = _delta(target, request, written, target.read(None, Verb.DELETE))
    return replace(
        delta,
        verb=Verb.REPLACE,
        removed=old.files.column("file_id").combine_chunks(),
        counts=replace(delta.counts, deleted=live_rows(old)),
    )


def _probe(target: Target, rows: Rows, frame: DataFrame) -> StatementProbe:
    return StatementProbe(target, source=frame, remade=not isinstance(rows, DataFrame))


def _delta(target: Target, request: Request, written: WrittenFiles, read: Read) -> RowDelta:
    counts = RowCounts(inserted=written.rows)
    return RowDelta(target.base, request, read, counts=counts, added=written.files)


def _write(target: Target, frame: DataFrame) -> WrittenFiles:
    rows = checked(new_rows(frame, target.rules), target.rules)
    return write_rows(rows, target.storage, target.rules)
