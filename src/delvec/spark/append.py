"""Append and overwrite: new rows by the names of their columns, and what they replace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame

from delvec.errors import InvalidOperationError
from delvec.plan import ScanPlan
from delvec.row_delta import MetadataChange, Read, RowDelta, Txn, Verb, WriteRules, all_files
from delvec.spark import change_files
from delvec.spark.commit_and_rerun import Looking, Rows, commit, made
from delvec.spark.computed_columns import new_rows
from delvec.spark.conditions import expression, verify_condition
from delvec.spark.delete import find_matching, removed_rows
from delvec.spark.partition_folders import same_partitions
from delvec.spark.remove_rows import remove_rows
from delvec.spark.reserved_names import verify_new_names
from delvec.spark.row_checks import checked, kept_to
from delvec.spark.target import OperationResult, Target, live_rows, row_size, shown, split_by_match
from delvec.spark.write_rows import WrittenFiles, write_rows

OPERATION = "WRITE"
STATIC, DYNAMIC = "static", "dynamic"


def append(target: Target, rows: Rows, *, merge_schema: bool, txn: Txn | None) -> OperationResult:
    """Add the rows; ``merge_schema``: columns that the table lacks are added to it.

    ``txn``: an idempotent writer that has written this version before changes nothing.
    """
    if txn is not None and target.snapshot.txns.get(txn.app_id, -1) >= txn.version:
        return target.unchanged(numOutputRows=0)
    frame = made(rows)
    target, change = target.grown(frame.schema) if merge_schema else (target, None)
    written = _write(target, frame)
    if not written.rows and change is None and txn is None:
        return target.unchanged(numOutputRows=0)
    delta = replace(_delta(target, written, "Append", Read(blind=True)), verb=Verb.APPEND)
    return commit(target, replace(delta, metadata=change, txn=txn), _looking(target, rows, frame))


def create(target: Target, frame: DataFrame | None) -> OperationResult:
    """The first commit of a table that is drafted, with the rows of ``frame``."""
    verify_new_names(target.rules.schema)
    _verify_constraints(target, target.rules)
    if frame is None:
        delta = RowDelta(target.base, "CREATE TABLE", {}, Read(blind=True), Verb.ALTER)
        return commit(target, delta, Looking(target))
    delta = replace(_delta(target, _write(target, frame), "", Read(blind=True)), verb=Verb.ALTER)
    delta = replace(delta, operation="CREATE TABLE AS SELECT", parameters={})
    return commit(target, delta, Looking(target))


def set_properties(target: Target, properties: Mapping[str, str | None]) -> OperationResult:
    """Set properties of the table, and unset those whose value is None."""
    if not properties:
        raise InvalidOperationError("no properties to set, expected at least one")
    change = MetadataChange(properties=dict(properties))
    _verify_constraints(target, target.snapshot.rules(change, new_rows=False))
    unset = all(value is None for value in properties.values())
    operation = "UNSET TBLPROPERTIES" if unset else "SET TBLPROPERTIES"
    parameters = {"properties": json.dumps(dict(properties))}
    delta = RowDelta(target.base, operation, parameters, Read(blind=True), Verb.ALTER, metadata=change)
    return commit(target, delta, Looking(target))


def _verify_constraints(target: Target, rules: WriteRules) -> None:
    """Refuse what is no condition on the table's rows: no row could ever be written."""
    for constraint in rules.constraints:
        verify_condition(target.empty(), constraint.condition, f"constraint {constraint.name}:")


def overwrite(target: Target, rows: Rows, *, where: str | Column | None, partitions: str) -> OperationResult:
    """Put the rows in the place of all rows, of those ``where`` is true for, or (dynamic) of those in
    partitions that there are new rows for.
    """
    target.verify_removable()
    verify_mode(where, partitions)
    if where is not None:
        return _overwrite_where(target, rows, where)
    dynamic = partitions == DYNAMIC and bool(target.rules.spec.fields)
    frame = made(rows)
    written = _write(target, frame)
    if dynamic and not written.rows:
        return target.unchanged(numOutputRows=0)

    def replaced(at: Target) -> RowDelta:
        return _replaced(at, written, dynamic=dynamic)

    delta = replaced(target)
    if not written.rows and not len(delta.removed):
        return target.unchanged(numOutputRows=0)
    return commit(target, delta, replace(_looking(target, rows, frame), replan=replaced))


def verify_mode(where: str | Column | None, partitions: str) -> None:
    if partitions not in (STATIC, DYNAMIC):
        raise InvalidOperationError(f"partitions is {partitions!r}, expected {STATIC} or {DYNAMIC}")
    if where is not None and partitions == DYNAMIC:
        raise InvalidOperationError(f"where and partitions={DYNAMIC!r} exclude each other")


def rows_within(target: Target, frame: DataFrame, where: str | Column) -> DataFrame:
    """The new rows under the table's columns; the job fails at one that is outside of the condition."""
    message = f"a new row is outside of the condition {shown(where)!r}, expected all rows within"
    return kept_to(new_rows(frame, target.rules), expression(where), message)


def _overwrite_where(target: Target, given: Rows, where: str | Column) -> OperationResult:
    plan = target.plan_verified(where)
    frame = made(given)
    looking = replace(_looking(target, given, frame), where=where)
    rows = rows_within(target, frame, where)
    told_again = target.rules.change_files and (not target.rules.vectors or target.rules.rewrite_share)
    if not told_again:
        return _replaced_where(plan, rows, looking)
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)  # change files will tell the rows once more
    try:
        return _replaced_where(plan, rows, looking)
    finally:
        rows.unpersist()


def _replaced_where(plan: ScanPlan, rows: DataFrame, looking: Looking) -> OperationResult:
    target, where = looking.target, looking.where
    assert where is not None
    whole, rest = split_by_match(plan)
    written = _write(target, rows)
    old = find_matching(target, rest, where)
    if not written.rows and not len(whole.files) and not old.count:
        return target.unchanged(numOutputRows=0)
    removal = remove_rows(target, rest, old)
    told = removed_rows(target, removal, whole, rest, where)
    if told:
        told.append((change_files.INSERT, rows))
    delta = _delta(target, written, "Overwrite", target.read(where, Verb.DELETE))
    gone = live_rows(whole)
    metrics = {} if gone is None else {"numDeletedRows": gone + old.distinct}
    delta = replace(
        delta,
        verb=Verb.DELETE,
        parameters=dict(delta.parameters) | {"predicate": shown(where)},
        metrics=dict(delta.metrics) | metrics | {"numCopiedRows": removal.written.rows},
        added=all_files(written.files, removal.written.files),
        removed=pa.concat_arrays([whole.files.column("file_id").combine_chunks(), removal.removed]),
        rewritten=removal.rewritten,
        vectors=removal.vectors,
        change_files=change_files.write_changes(target, told, size=row_size(rest) * old.count).files,
        lineage=bool(target.lineage),
    )
    return commit(target, delta, looking)


def _replaced(target: Target, written: WrittenFiles, *, dynamic: bool) -> RowDelta:
    """All files of the version go, or those of the partitions that have new rows."""
    old = target.plan(None)
    if dynamic:
        old = old.at(same_partitions(old, target.rules.spec, written.files.column("partition")))
    delta = _delta(target, written, "Overwrite", target.read(None, Verb.DELETE))
    gone = live_rows(old)
    return replace(
        delta,
        verb=Verb.REPLACE,
        parameters=dict(delta.parameters) | ({"partitionOverwriteMode": DYNAMIC} if dynamic else {}),
        removed=old.files.column("file_id").combine_chunks(),
        metrics=dict(delta.metrics) | ({} if gone is None else {"numDeletedRows": gone}),
    )


def _looking(target: Target, rows: Rows, frame: DataFrame) -> Looking:
    return Looking(target, source=frame, remade=not isinstance(rows, DataFrame))


def _delta(target: Target, written: WrittenFiles, mode: str, read: Read) -> RowDelta:
    return RowDelta(
        base=target.base,
        operation=OPERATION,
        parameters={"mode": mode},
        read=read,
        metrics={"numOutputRows": written.rows},
        added=written.files,
    )


def _write(target: Target, frame: DataFrame) -> WrittenFiles:
    rows = checked(new_rows(frame, target.rules), target.rules)
    return write_rows(rows, target.storage, target.rules)
