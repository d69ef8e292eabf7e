"""DELETE_KEYS: deletes the rows that have one of the keys in the columns ``on``. Null equals null.

key_columns   the columns, verified; the keys in the table's types
key_commit    where the format has deletes by key: the keys are stored (`stored_keys`), no row is read
key_join      elsewhere: the rows are found by a join
"""

from __future__ import annotations

from collections.abc import Sequence

from delvec.conflicts import Rerun
from delvec.spark.commit_and_rerun import StatementProbe
from delvec.spark.key_columns import key_fields, key_rows
from delvec.spark.key_commit import delete_by_key
from delvec.spark.key_join import delete_by_join
from delvec.spark.merge_source import MergeSource
from delvec.spark.target import OperationResult, Target


def delete_keys(target: Target, keys: MergeSource, on: str | Sequence[str]) -> OperationResult | Rerun:
    """Run the statement once. ``keys`` keeps the keys for the next run."""
    target.verify_removable()
    fields = key_fields(target.schema, on, case_sensitive=target.settings.case_sensitive)
    frame = keys.frame()
    rows = key_rows(frame, fields)
    if target.rules.keys is None:
        return delete_by_join(target, rows.distinct(), fields, keys)
    return delete_by_key(target, rows, fields, StatementProbe(target, source=frame, remade=keys.remade))
