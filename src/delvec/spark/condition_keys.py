"""DELETE by a condition that is a set of keys: on tables that ask for it, the keys are stored, and no row is
read (`key_commit`).

    keys are stored   the condition is a conjunction of =, IN and IS NULL over literals, on columns that may
                      be keys; combinations of several IN lists are at most `MOST_COMBINED_KEYS`
    rows are found    any other condition
    files are removed   metadata decides for every file whether all of its rows match
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from delvec.plan import ScanPlan
from delvec.predicate.key_sets import key_set
from delvec.spark.key_columns import KeyFields, is_key
from delvec.spark.target import Target

MOST_COMBINED_KEYS = 10_000
"""More keys than this that are combinations of IN lists are not written down one by one."""


@dataclass(frozen=True, slots=True)
class ConditionKeys:
    """The keys that a condition selects: rows of the columns ``fields``."""

    fields: KeyFields
    rows: pa.Table


def keys_to_delete(target: Target, plan: ScanPlan, rest: ScanPlan) -> ConditionKeys | None:
    """The keys to store instead of deleting the rows of ``plan``; None if the rows must be found. ``rest``:
    the files of the plan for which metadata does not decide.
    """
    rules = target.rules.keys
    if rules is None or not rules.automatic or plan.condition is None or not len(rest.files):
        return None
    keys = key_set(plan.condition.tree)
    if not keys or (keys.is_product and len(keys) > MOST_COMBINED_KEYS):
        return None
    fields = tuple(field for name in keys.columns for field in target.schema if field.name == name)
    if len(fields) != len(keys.columns) or not all(map(is_key, fields)):
        return None
    return ConditionKeys(fields, keys.table())
