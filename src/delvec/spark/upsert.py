"""UPSERT: deletes the rows that have the key of a new row, and adds the new rows, in one commit."""

from __future__ import annotations

from collections.abc import Sequence

from delvec.conflicts import Rerun
from delvec.spark.key_columns import key_fields
from delvec.spark.key_join import upsert_by_join
from delvec.spark.last_rows import OrderBy, last_rows
from delvec.spark.merge_source import MergeSource
from delvec.spark.target import OperationResult, Target


def upsert(
    target: Target, rows: MergeSource, on: str | Sequence[str], order_by: OrderBy
) -> OperationResult | Rerun:
    """Run the statement once. ``rows`` keeps the new rows for the next run."""
    target.verify_removable()
    fields = key_fields(target.schema, on, case_sensitive=target.settings.case_sensitive)
    new = last_rows(rows.frame(), target.rules, fields, order_by)
    return upsert_by_join(target, new, fields, rows)
