"""UPSERT: deletes the rows that have the key of a new row, and adds the new rows, in one commit.

The new rows are computed once (`merge_source`), of each key only the last (`last_rows`). Rows are deleted as
by `delete_keys`.
"""

from __future__ import annotations

from collections.abc import Sequence

from delvec.conflicts import Rerun
from delvec.spark.commit_and_rerun import StatementProbe
from delvec.spark.key_columns import key_fields
from delvec.spark.key_commit import upsert_by_key
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
    frame = rows.frame()
    new = last_rows(frame, target.rules, fields, order_by)
    if target.rules.keys is None:
        return upsert_by_join(target, new, fields, rows)
    probe = StatementProbe(target, source=frame, remade=rows.remade)
    return upsert_by_key(target, new, fields, rows, probe)
