"""One run of a MERGE: finds the rows to change, writes the new rows, and commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delvec import change_plan
from delvec.conflicts import Rerun
from delvec.plan import ScanPlan
from delvec.row_delta import RowCounts, RowDelta, Verb, all_files
from delvec.spark import change_files
from delvec.spark.commit_and_rerun import commit
from delvec.spark.computed_columns import with_generated
from delvec.spark.find_rows import FEW_REPEATED_ROWS, find, has_few_rows
from delvec.spark.merge_clauses import DELETE, NOT_MATCHED, UPDATE, Clause, may_repeat, number_of
from delvec.spark.merge_join import KeptSource, MergeJoin
from delvec.spark.merge_probe import MergeProbe
from delvec.spark.merge_request import Merge, MergeNames, all_values, merge_request
from delvec.spark.merge_source import MergeSource
from delvec.spark.new_rows import conformed
from delvec.spark.remove_rows import remove_rows
from delvec.spark.row_bitmaps import FoundRows
from delvec.spark.row_checks import checked
from delvec.spark.row_lineage import moved, with_null_lineage
from delvec.spark.set_clause import assigned_paths
from delvec.spark.small_statements import has_query, not_adaptive
from delvec.spark.target import OperationResult, Target, row_size
from delvec.spark.text_lengths import with_padding
from delvec.spark.write_rows import NOTHING_WRITTEN, WrittenFiles, write_rows


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """What a merge would do. ``files``: Spark's path of each file, and how many of its rows would change."""

    plan: ScanPlan
    files: pa.Table
    rows: RowCounts


@dataclass(frozen=True, slots=True)
class MergeRun:
    """A MERGE that is verified. ``rows`` keeps the source's rows for the next run."""

    join: MergeJoin
    rows: MergeSource

    @property
    def target(self) -> Target:
        return self.join.target

    @property
    def merge(self) -> Merge:
        return self.join.merge

    @property
    def names(self) -> MergeNames:
        return self.join.names

    def result(self) -> OperationResult | Rerun:
        target, names = self.target, self.names
        source = self.join.materialised(self.rows)
        plan = target.plan(source.condition)
        plain = self._is_plain(plan, source)
        with not_adaptive(target.spark, when=plain):
            pairs = self.join.pairs(plan, source).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            changed = pairs.where(f"{names.clause} IS NOT NULL")
            flag = self.join.is_one_of(self.merge.numbers(UPDATE))
            with not_adaptive(target.spark, when=plain):
                rows_found = find(target, plan, changed, (names.file, names.row), flag, repeated=True)
            if rows_found.count != rows_found.distinct and not may_repeat(self.merge.clauses):
                raise self.join.repeated_error(plan, pairs)
            return self._committed(plan, source, pairs, rows_found)
        finally:
            pairs.unpersist()

    def counts(self, evaluated: Callable[[DataFrame], int]) -> MergeCounts:
        """What the merge would do. Writes nothing. ``evaluated`` computes rows and counts them."""
        names = self.names
        source = self.join.materialised(self.rows)
        plan = self.target.plan(source.condition)
        pairs = self.join.pairs(plan, source).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            changed = pairs.where(F.col(names.clause).isNotNull()).groupBy(names.file)
            rows = F.countDistinct(F.col(names.row))
            updates = F.count(F.when(F.col(names.clause).isin(self.merge.numbers(UPDATE)), F.lit(1)))
            files = changed.agg(rows, F.count(F.lit(1)), updates).toArrow()
            distinct, count, updated = (sum(column.to_pylist()) for column in files.columns[1:])
            if count != distinct and not may_repeat(self.merge.clauses):
                raise self.join.repeated_error(plan, pairs)
            new = self._written_rows(*self._updated_and_inserted(source, pairs, updated))
            new_count = 0 if new is None else evaluated(new)
        finally:
            pairs.unpersist()
        counts = self._counts(distinct, updated, new_count, source.count)
        return MergeCounts(plan, files.select([0, 1]), counts)

    def _is_plain(self, plan: ScanPlan, source: KeptSource) -> bool:
        """Whether Spark only scans few rows and broadcasts few rows, and ON cannot fail: PySpark does not
        recognise the error of a broadcast without adaptive execution.
        """
        conditions = [clause.condition for clause in self.merge.clauses]
        conditions += [value for clause in self.merge.clauses for value in (clause.values or {}).values()]
        few = source.count <= FEW_REPEATED_ROWS and has_few_rows(plan, repeated=True)
        return few and source.cannot_fail and not any(map(has_query, conditions))

    def _committed(
        self, plan: ScanPlan, source: KeptSource, pairs: DataFrame, rows_found: FoundRows
    ) -> OperationResult | Rerun:
        target, count, change = self.target, source.count, self.target.rules.change
        size = row_size(plan if len(plan.files) else target.plan(None))
        updated, inserted = self._updated_and_inserted(source, pairs, rows_found.flagged)
        with not_adaptive(target.spark, when=self._is_plain(plan, source)):
            written = self._write(updated, inserted, size * (rows_found.flagged + count))
        request = merge_request(self.merge)
        counts = self._counts(rows_found.distinct, rows_found.flagged, written.rows, count)
        if not rows_found.count and not written.rows and change is None:
            return target.unchanged(request, counts)
        removal = remove_rows(target, plan, rows_found)
        changes = NOTHING_WRITTEN
        if target.rules.change_files:
            changes = self._changes(pairs, updated, inserted, size=size * (2 * rows_found.count + count))
        delta = RowDelta(
            base=plan.base,
            request=request,
            read=replace(target.read(None, Verb.MERGE), condition=request.condition),
            verb=Verb.MERGE,
            counts=replace(counts, copied=removal.written.rows),
            added=all_files(written.files, removal.written.files),
            removed=removal.removed,
            rewritten=removal.rewritten,
            vectors=removal.vectors,
            change_files=changes.files,
            metadata=change,
            moved=rows_found.flagged > 0,
            lineage=bool(target.lineage),
        )
        return commit(target, delta, MergeProbe(self.join, self.rows, plan, source, pairs))

    def _counts(self, changed: int, updated: int, written: int, source: int) -> RowCounts:
        return RowCounts(source, inserted=written - updated, updated=updated, deleted=changed - updated)

    def _updated_and_inserted(
        self, source: KeptSource, pairs: DataFrame, updates: int
    ) -> tuple[DataFrame | None, DataFrame | None]:
        """The rows to write; None if there are certainly none."""
        updated = self._updated(pairs) if updates else None
        return updated, self._inserted(source.rows, pairs) if self.merge.inserts else None

    def _updated(self, pairs: DataFrame) -> DataFrame:
        names = self.names
        rows = pairs.where(self.join.is_one_of(self.merge.numbers(UPDATE)))
        return self._completed(moved(rows, self.target.lineage, names.new, names.clause), self.merge.updates)

    def _inserted(self, source: DataFrame, pairs: DataFrame) -> DataFrame:
        """The source rows that matched no target row, as rows of the table."""
        names, clauses = self.names, self.merge.inserts
        matched = pairs.where(f"{names.source} IS NOT NULL").selectExpr(f"{names.source} AS {names.row}")
        unmatched = source.join(matched, F.expr(f"{names.source} = {names.row}"), "left_anti")
        numbered = unmatched.withColumn(names.clause, number_of(clauses, {NOT_MATCHED: "true"}))
        numbered = numbered.where(f"{names.clause} IS NOT NULL")
        rows = numbered.select(names.clause, self.join.new_rows(clauses, old=False))
        rows = self._completed(rows.select(f"{names.new}.*", names.clause), clauses)
        return with_null_lineage(rows, self.target.lineage)

    def _completed(self, rows: DataFrame, clauses: Sequence[tuple[int, Clause]]) -> DataFrame:
        """New rows without the number of their clause. Computes generated columns in the rows of clauses that
        do not assign them, and pads ``char`` columns.
        """
        number, rules = F.col(self.names.clause), self.target.rules
        rows = with_padding(rows, rules.schema)
        if not rules.generated:
            return rows.drop(self.names.clause)
        assigning: dict[str, list[int]] = {name: [] for name in rules.generated}
        for n, clause in clauses:
            for name in self._assigned(clause) & assigning.keys():
                assigning[name].append(n)
        conditions = {name: number.isin(numbers) for name, numbers in assigning.items() if numbers}
        rows = with_generated(rows, rules, list(assigning), conditions=conditions)
        return rows.drop(self.names.clause)

    def _assigned(self, clause: Clause) -> set[str]:
        """The top-level columns that the clause assigns."""
        values = all_values(self.target, self.merge, clause) if clause.values is None else clause.values
        case_sensitive = self.target.settings.case_sensitive
        paths = assigned_paths(values, self.target.rules.schema, str(clause), case_sensitive=case_sensitive)
        return {path[0] for path in paths}

    def _written_rows(self, updated: DataFrame | None, inserted: DataFrame | None) -> DataFrame | None:
        frames = [frame for frame in (updated, inserted) if frame is not None]
        return reduce(DataFrame.unionByName, frames) if frames else None

    def _write(self, updated: DataFrame | None, inserted: DataFrame | None, size: int) -> WrittenFiles:
        rows, target = self._written_rows(updated, inserted), self.target
        if rows is None:
            return NOTHING_WRITTEN
        return write_rows(
            checked(rows, target.rules), target.storage, target.rules, size=size, extra=target.lineage
        )

    def _changes(
        self, pairs: DataFrame, updated: DataFrame | None, inserted: DataFrame | None, *, size: int
    ) -> WrittenFiles:
        """All changes, written to change files."""
        lineage = self.target.lineage
        kinds = [(change_plan.DELETE, self._before(pairs, DELETE))]
        if updated is not None:
            kinds += [
                (change_plan.BEFORE, self._before(pairs, UPDATE)),
                (change_plan.AFTER, updated.drop(*lineage)),
            ]
        if inserted is not None:
            kinds.append((change_plan.INSERT, inserted.drop(*lineage)))
        return change_files.write_changes(self.target, kinds, size=size)

    def _before(self, pairs: DataFrame, action: str) -> DataFrame:
        """The target rows that clauses of this action change, with their old values."""
        names = self.names
        rows = pairs.where(self.join.is_one_of(self.merge.numbers(action)))
        rows = rows.dropDuplicates([names.file, names.row]).select(f"{names.old}.*")
        return conformed(rows, self.target.rules.schema)
