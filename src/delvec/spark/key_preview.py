"""Dry runs of delete_keys and upsert: what they would do to each file. Writes nothing.

Where keys are stored, no file is read, and any file may lose rows. Elsewhere a join counts the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from delvec.row_delta import Operation, RowCounts
from delvec.spark.dry_run import (
    Preview,
    copied_rows,
    evaluated,
    preview_keys,
    preview_of,
    with_counts,
    with_outcomes,
)
from delvec.spark.key_columns import KeyFields, key_fields, key_request, key_rows
from delvec.spark.key_join import key_merge
from delvec.spark.last_rows import OrderBy, last_rows, verify_unique
from delvec.spark.merge import prepared
from delvec.spark.merge_source import MergeSource
from delvec.spark.new_rows import conformed
from delvec.spark.target import Target


def preview_delete_keys(target: Target, keys: MergeSource, on: str | Sequence[str]) -> Preview:
    """What ``delete_keys`` would do."""
    target.verify_removable()
    fields = key_fields(target.schema, on, case_sensitive=target.settings.case_sensitive)
    rows = key_rows(keys.frame(), fields).distinct()
    return _preview(target, rows, fields, keys, Operation.DELETE_KEYS)


def preview_upsert(target: Target, rows: MergeSource, on: str | Sequence[str], order_by: OrderBy) -> Preview:
    """What ``upsert`` would do. The new rows are computed and checked."""
    target.verify_removable()
    fields = key_fields(target.schema, on, case_sensitive=target.settings.case_sensitive)
    new = last_rows(rows.frame(), target.rules, fields, order_by)
    verify_unique(new, fields)
    return _preview(target, new, fields, rows, Operation.UPSERT)


def _preview(
    target: Target, rows: DataFrame, fields: KeyFields, source: MergeSource, operation: Operation
) -> Preview:
    request, inserted = key_request(operation, fields), None
    if operation is Operation.UPSERT:
        inserted, _ = evaluated(target, conformed(rows, target.rules.schema))
    if target.rules.keys is not None:
        count = rows.count() if inserted is None else inserted
        counts = RowCounts(source=count, inserted=inserted)
        return preview_keys(target, target.plan(None), request, count, counts=counts)
    merged = prepared(target, key_merge(rows, fields), source).counts(lambda _: 0)
    plan, deleted = with_counts(merged.plan, merged.files)
    files = with_outcomes(target, plan, deleted)
    counts = RowCounts(
        source=merged.rows.source,
        inserted=inserted,
        deleted=merged.rows.deleted,
        copied=copied_rows(files),
    )
    result = preview_of(target, request, merged.plan, files=files, counts=counts, read=len(merged.plan.files))
    return replace(result, change_files=target.rules.change_files and bool(counts.copied))
