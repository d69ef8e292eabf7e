"""DELETE_KEYS: deletes the rows that have one of the keys in the columns ``on``. Null equals null."""

from __future__ import annotations

from collections.abc import Sequence

from delvec.conflicts import Rerun
from delvec.spark.key_columns import key_fields, key_rows
from delvec.spark.key_join import delete_by_join
from delvec.spark.merge_source import MergeSource
from delvec.spark.target import OperationResult, Target


def delete_keys(target: Target, keys: MergeSource, on: str | Sequence[str]) -> OperationResult | Rerun:
    """Run the statement once. ``keys`` keeps the keys for the next run."""
    target.verify_removable()
    fields = key_fields(target.schema, on, case_sensitive=target.settings.case_sensitive)
    rows = key_rows(keys.frame(), fields).distinct()
    return delete_by_join(target, rows, fields, keys)
