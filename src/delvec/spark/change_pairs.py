"""Rows that a commit removes and adds again: no change if they are the same, else two images of an update.

    with row ids   a row that was removed and a row that was added are one if they have the same id. Their
                   version or their values say whether it changed
    without        pairs of a removed and an added row with the same values are left out, whichever they are.
                   All others are deletes and inserts

Only rows of commits that do both are compared. Spark shuffles them, by commit and id or values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from delvec.change_plan import (
    AFTER,
    BEFORE,
    CHANGE_FIELDS,
    CHANGE_TYPE,
    COMMIT_VERSION,
    DELETE,
    INSERT,
    ChangePlan,
    CommitFiles,
)
from delvec.chunked import Mask
from delvec.schema import Primitive, Schema
from delvec.spark.change_columns import ChangeColumns
from delvec.spark.comparable_values import comparable
from delvec.spark.scan_part import united
from delvec.spark.types import is_readable, quoted


@dataclass(frozen=True, slots=True)
class PairedCommits:
    """The commits that remove rows and add rows, by the rows of ``ChangePlan.commits``.

    by_row_id   those whose rows have ids
    versions    of each commit
    """

    paired: Mask
    by_row_id: Mask
    versions: tuple[int, ...]

    @classmethod
    def of(cls, plan: ChangePlan) -> PairedCommits:
        """The commits of the plan that must be compared."""
        adds, removes = np.zeros((2, len(plan.commits)), np.bool_)
        adds[plan.added.commit] = plan.copies_rows
        removes[plan.removed.commit] = removes[plan.before.commit] = True
        if plan.by_value is not None and len(plan.by_value):
            steps = np.zeros(len(plan.commits) + 1, np.int64)
            np.add.at(steps, plan.by_value.first, 1)
            np.add.at(steps, plan.by_value.end, -1)
            removes |= np.cumsum(steps)[:-1] > 0
        paired = adds & removes
        has_ids = plan.commits.column("has_row_ids").to_numpy()
        return cls(paired, paired & has_ids, tuple(plan.commits.column("version").to_pylist()))

    @property
    def any(self) -> bool:
        """Whether there are such commits."""
        return bool(self.paired.any())

    def others(self, plan: ChangePlan) -> ChangePlan:
        """The plan with the changes of the other commits."""
        return _of_commits(plan, ~self.paired, by_value=not self.any)

    def plan(self, plan: ChangePlan) -> ChangePlan:
        """The plan with the changes of these commits, and with all deletes by value: which commit they belong
        to is known when the rows are read.
        """
        return _of_commits(plan, self.paired, by_value=True)

    def without_copies(self, rows: DataFrame, columns: ChangeColumns) -> DataFrame:
        """The changes among the rows of these commits; ``rows`` have the columns of a feed, and row ids if
        ``columns`` have them.
        """
        feed = [quoted(field.name) for field in (*columns.schema, *CHANGE_FIELDS)]
        if not columns.with_row_id:
            return _by_values(rows, columns).selectExpr(*feed)
        without_ids = [self.versions[number] for number in np.flatnonzero(self.paired & ~self.by_row_id)]
        if not without_ids:
            return _by_row_id(rows, columns).selectExpr(*feed)
        has_no_ids = F.expr(f"{COMMIT_VERSION} IN ({', '.join(map(str, without_ids))})")
        parts = [_by_row_id(rows.where(~has_no_ids), columns), _by_values(rows.where(has_no_ids), columns)]
        return united([part.selectExpr(*feed) for part in parts])


def _of_commits(plan: ChangePlan, commits: Mask, *, by_value: bool) -> ChangePlan:
    def chosen(files: CommitFiles) -> CommitFiles:
        return files.at(np.flatnonzero(commits[files.commit]))

    before = np.flatnonzero(commits[plan.before.commit])
    return replace(
        plan,
        recorded=chosen(plan.recorded),
        added=chosen(plan.added),
        removed=chosen(plan.removed),
        before=plan.before.at(before),
        after=plan.after.at(before),
        by_value=plan.by_value if by_value else None,
    )


def _by_values(rows: DataFrame, columns: ChangeColumns) -> DataFrame:
    """The rows without pairs of a removed and an added row with the same values."""
    own = {name: columns.prefix + name for name in ("place", "deletes", "inserts")}
    values = [F.expr(text) for text in _values(columns.schema)]
    group = Window.partitionBy(COMMIT_VERSION, *values)
    counted = rows.withColumns(
        {
            # "delete" is before "insert"
            own["place"]: F.row_number().over(group.orderBy(CHANGE_TYPE)),
            own["deletes"]: F.count_if(F.col(CHANGE_TYPE) == DELETE).over(group),
            own["inserts"]: F.count_if(F.col(CHANGE_TYPE) == INSERT).over(group),
        }
    )
    place, deletes, inserts = own.values()
    return counted.where(
        f"if({CHANGE_TYPE} = '{DELETE}', {place} <= {deletes} - {inserts}, "
        f"{place} - {deletes} <= {inserts} - {deletes})"
    )


def _by_row_id(rows: DataFrame, columns: ChangeColumns) -> DataFrame:
    """The rows without those that were added again unchanged; others that were added again are updates."""
    own, other = columns.prefix + "image", columns.prefix + "other"
    values = ", ".join(_values(columns.schema))
    is_whole = all(is_readable(field.type) for field in columns.schema)
    image = f"struct({CHANGE_TYPE} AS kind, {columns.row_version} AS version, struct({values}) AS values)"
    if not is_whole:
        image = f"struct({CHANGE_TYPE} AS kind, {columns.row_version} AS version)"
    group = Window.partitionBy(COMMIT_VERSION, columns.row_id).orderBy(CHANGE_TYPE)
    rows = rows.withColumn(own, F.expr(image))
    rows = rows.withColumn(other, F.coalesce(F.lead(own).over(group), F.lag(own).over(group)))
    is_same = f"{own}.version = {other}.version"
    if is_whole:
        is_same = f"coalesce({is_same}, false) OR {own}.values = {other}.values"
    is_pair = f"coalesce({own}.kind <> {other}.kind, false)"
    rows = rows.where(f"NOT ({is_pair} AND coalesce({is_same}, false))")
    kind = f"if({CHANGE_TYPE} = '{DELETE}', '{BEFORE}', '{AFTER}')"
    return rows.withColumn(CHANGE_TYPE, F.expr(f"if({is_pair}, {kind}, {CHANGE_TYPE})"))


def _values(schema: Schema) -> list[str]:
    """Expressions that are equal for rows with the same values."""
    return [comparable(quoted(field.name), field.type) for field in schema if field.type != Primitive("void")]
