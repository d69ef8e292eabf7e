"""Deletes by key, committed without reading the table: how delete_keys and upsert run where the format has
deletes by key, and DELETE by a condition that is a set of keys (`condition_keys`).

How many rows are deleted is not known: that metric is None.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame

from delvec.conflicts import Rerun
from delvec.operation_metrics import stored_key_metrics
from delvec.row_delta import Operation, Read, Request, RowCounts, RowDelta, Verb
from delvec.spark.commit_and_rerun import StatementProbe, commit
from delvec.spark.condition_keys import ConditionKeys
from delvec.spark.key_columns import KeyFields, key_request
from delvec.spark.last_rows import verify_unique
from delvec.spark.merge_source import MergeSource
from delvec.spark.new_rows import conformed
from delvec.spark.row_checks import checked
from delvec.spark.scan import own_prefix
from delvec.spark.stored_keys import StoredKeys, store_few_keys, store_keys
from delvec.spark.target import OperationResult, Target, shown
from delvec.spark.types import quoted
from delvec.spark.write_rows import write_rows

_ROWS = "rows"


def delete_by_key(
    target: Target, keys: DataFrame, fields: KeyFields, probe: StatementProbe
) -> OperationResult | Rerun:
    """Delete the rows that have one of the keys, which are the only columns of the frame."""
    request = key_request(Operation.DELETE_KEYS, fields)
    stored = store_keys(target, keys, fields)
    if not stored.count:
        return target.unchanged(request, RowCounts(source=0, deleted=0))
    return _delete_stored(target, stored, request, probe)


def delete_by_condition(
    target: Target, keys: ConditionKeys, where: str | Column, probe: StatementProbe
) -> OperationResult | Rerun:
    """DELETE of the rows for which ``where`` is true: those that have one of the keys."""
    stored = store_few_keys(target, keys.rows, keys.fields)
    return _delete_stored(target, stored, Request(Operation.DELETE, shown(where)), probe)


def _delete_stored(
    target: Target, stored: StoredKeys, request: Request, probe: StatementProbe
) -> OperationResult | Rerun:
    delta = RowDelta(
        base=target.base,
        request=request,
        read=Read(blind=True),
        verb=Verb.DELETE_KEYS,
        counts=RowCounts(source=stored.count),
        added_deletes=stored.deletes,
    )
    return _with_key_metrics(commit(target, delta, probe), stored)


def upsert_by_key(
    target: Target, rows: DataFrame, fields: KeyFields, source: MergeSource, probe: StatementProbe
) -> OperationResult | Rerun:
    """Delete the rows that have the key of a new row, and add the new rows, which have the table's columns.
    ``source`` keeps them for the next run.
    """
    request = key_request(Operation.UPSERT, fields)
    number = own_prefix(target.rules.schema, *rows.columns) + "number"
    kept = source.kept(rows, number, [f"count(1) AS {_ROWS}"])
    if not kept.values[_ROWS]:
        return target.unchanged(request, RowCounts(source=0, inserted=0, deleted=0))
    verify_unique(kept.frame, fields)
    new = conformed(kept.frame.drop(number), target.rules.schema)
    written = write_rows(checked(new, target.rules), target.storage, target.rules)
    stored = store_keys(target, kept.frame.select(*(quoted(field.name) for field in fields)), fields)
    delta = RowDelta(
        base=target.base,
        request=request,
        read=Read(blind=True),
        verb=Verb.UPSERT,
        counts=RowCounts(source=stored.count, inserted=written.rows),
        added=written.files,
        added_deletes=stored.deletes,
    )
    return _with_key_metrics(commit(target, delta, probe), stored)


def _with_key_metrics(result: OperationResult | Rerun, stored: StoredKeys) -> OperationResult | Rerun:
    """The result with how the keys are stored, and why, and without a number of deleted rows."""
    if isinstance(result, Rerun):
        return result
    unknown = stored_key_metrics(stored.count)
    return replace(result, metrics={**result.metrics, **unknown, **stored.result.metrics})
