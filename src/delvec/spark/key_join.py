"""Deleting rows by a join with keys: how delete_keys and upsert run on tables without deletes by key.

The keys are computed once and joined to the files whose bounds meet them, as in a MERGE. Null equals null.
All rows with a key are deleted; an upsert adds its new rows, also those whose key the table did not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from delvec import change_plan
from delvec.conflicts import Rerun
from delvec.plan import ScanPlan
from delvec.row_delta import Operation, Request, RowCounts, RowDelta, Verb, all_files
from delvec.spark.change_files import write_changes
from delvec.spark.commit_and_rerun import commit
from delvec.spark.find_rows import find
from delvec.spark.key_columns import KeyFields, key_request
from delvec.spark.last_rows import verify_unique
from delvec.spark.merge import prepared
from delvec.spark.merge_clauses import DELETE, MATCHED, Clause
from delvec.spark.merge_join import KeptSource, MergeJoin
from delvec.spark.merge_probe import MergeProbe
from delvec.spark.merge_request import Merge
from delvec.spark.merge_source import MergeSource
from delvec.spark.new_rows import conformed
from delvec.spark.remove_rows import remove_rows
from delvec.spark.row_checks import checked
from delvec.spark.target import OperationResult, Target, row_size
from delvec.spark.types import quoted
from delvec.spark.write_rows import NOTHING_WRITTEN, WrittenFiles, write_rows

_KEYS, _TARGET = "keys", "target"

_VERBS = {Operation.DELETE_KEYS: Verb.DELETE, Operation.UPSERT: Verb.MERGE}
"""The verb decides conflicts. An upsert must see new rows with its keys, whatever its isolation level is."""


def delete_by_join(
    target: Target, keys: DataFrame, fields: KeyFields, source: MergeSource
) -> OperationResult | Rerun:
    """Delete the rows that have one of the keys; none of them is there twice. ``source`` keeps them for the
    next run.
    """
    return _run(target, keys, fields, source, Operation.DELETE_KEYS)


def upsert_by_join(
    target: Target, rows: DataFrame, fields: KeyFields, source: MergeSource
) -> OperationResult | Rerun:
    """Delete the rows that have the key of a new row, and add the new rows (with the table's columns)."""
    return _run(target, rows, fields, source, Operation.UPSERT)


def key_merge(rows: DataFrame, fields: KeyFields) -> Merge:
    """A merge that deletes the rows with a key of ``rows``."""
    names = [quoted(field.name) for field in fields]
    on = " AND ".join(f"{_TARGET}.{name} <=> {_KEYS}.{name}" for name in names)
    return Merge(rows, on, _KEYS, _TARGET, (Clause(MATCHED, DELETE),))


def _run(
    target: Target, rows: DataFrame, fields: KeyFields, source: MergeSource, operation: Operation
) -> OperationResult | Rerun:
    join = prepared(target, key_merge(rows, fields), source).join
    kept = join.materialised(source)
    if operation is Operation.UPSERT:
        verify_unique(kept.rows, fields)
    plan = target.plan(kept.condition)
    pairs = join.pairs(plan, kept).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        request = key_request(operation, fields)
        return _committed(join, plan, kept, pairs, source=source, request=request)
    finally:
        pairs.unpersist()


def _committed(
    join: MergeJoin,
    plan: ScanPlan,
    kept: KeptSource,
    pairs: DataFrame,
    *,
    source: MergeSource,
    request: Request,
) -> OperationResult | Rerun:
    target, names = join.target, join.names
    found = find(target, plan, pairs, (names.file, names.row))
    new = None if request.operation is Operation.DELETE_KEYS else kept.rows.drop(names.source)
    size = row_size(plan if len(plan.files) else target.plan(None))
    written = NOTHING_WRITTEN if new is None else _write(target, new, size * kept.count)
    counts = RowCounts(kept.count, inserted=written.rows, deleted=found.distinct)
    if not found.count and not written.rows:
        return target.unchanged(request, counts)
    removal = remove_rows(target, plan, found)
    changes: Sequence[tuple[str, DataFrame]] = []
    if target.rules.change_files and removal.written.rows:
        old = conformed(pairs.select(f"{names.old}.*"), target.rules.schema)
        changes = [(change_plan.DELETE, old)]
        changes += [] if new is None else [(change_plan.INSERT, new)]
    verb = _VERBS[request.operation]
    delta = RowDelta(
        base=plan.base,
        request=request,
        read=replace(target.read(None, verb), condition=request.condition),
        verb=verb,
        counts=replace(counts, copied=removal.written.rows),
        added=all_files(written.files, removal.written.files),
        removed=removal.removed,
        rewritten=removal.rewritten,
        vectors=removal.vectors,
        change_files=write_changes(target, changes, size=size * (found.count + kept.count)).files,
        lineage=bool(target.lineage),
    )
    return commit(target, delta, MergeProbe(join, source, plan, kept, pairs))


def _write(target: Target, new: DataFrame, size: int) -> WrittenFiles:
    rows = checked(conformed(new, target.rules.schema), target.rules)
    return write_rows(rows, target.storage, target.rules, size=size)
