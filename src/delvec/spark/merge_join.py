"""The join of a MERGE: target rows with their matching source rows, and the rows that clauses compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delvec.errors import InvalidOperationError
from delvec.plan import ScanPlan
from delvec.schema import Field
from delvec.spark.computed_columns import default_values
from delvec.spark.conditions import expression
from delvec.spark.merge_clauses import DELETE, MATCHED, NOT_MATCHED_BY_SOURCE, Clause, number_of
from delvec.spark.merge_keys import ROWS, Matching, Sides, source_schema
from delvec.spark.merge_request import Merge, MergeNames
from delvec.spark.merge_source import MergeSource
from delvec.spark.scan_part import PlaceNames, ScanPart, united
from delvec.spark.set_clause import Targets, new_column
from delvec.spark.store_assignment import assigned
from delvec.spark.target import Target
from delvec.spark.types import quoted, spark_type

# A source is broadcast if it takes no more than this, at an estimated number of bytes per value.
_BROADCAST_BYTES, _VALUE_BYTES = 256 << 20, 32


@dataclass(frozen=True, slots=True)
class KeptSource:
    """The source's rows, materialised, each with a number.

    condition     every target row that can match satisfies it; None: all rows may matter
    cannot_fail   ON raises an error for no pair of rows
    """

    rows: DataFrame
    count: int
    condition: str | None
    cannot_fail: bool


@dataclass(frozen=True, slots=True)
class MergeJoin:
    """``values``: the values that each clause assigns, by the clause's number."""

    target: Target
    merge: Merge
    names: MergeNames
    values: Mapping[int, Targets]

    def materialised(self, rows: MergeSource) -> KeptSource:
        """The source with its rows numbered, and which target rows they can match."""
        matching = self._matching()
        source = rows.kept(self.merge.source, self.names.source, matching.observed())
        condition = None if self.merge.by_source else matching.condition(source.values)
        frame, count = source.frame.alias(self.merge.source_alias), int(source.values[ROWS])
        return KeptSource(frame, count, condition, matching.cannot_fail)

    def _matching(self) -> Matching:
        merge = self.merge
        if not isinstance(merge.on, str) or merge.by_source:
            return Matching()
        sides = Sides(
            target=self.target.schema,
            target_alias=merge.target_alias,
            source=source_schema(merge.source.schema),
            source_alias=merge.source_alias,
            settings=self.target.settings,
        )
        return sides.matching(merge.on)

    def _target_parts(self, plan: ScanPlan) -> list[ScanPart]:
        """The target's rows with their file and position, under names that the source does not have."""
        prefix = self.names.file
        names = PlaceNames(prefix, self.names.row, f"{prefix}_number", f"{prefix}_index")
        parts = (part.renamed(names) for part in self.target.parts(plan))
        return [replace(part, frame=part.frame.alias(self.merge.target_alias)) for part in parts]

    def joined(self, plan: ScanPlan, source: KeptSource) -> list[DataFrame]:
        """The pairs of rows for which ON is true, for each part of the target."""
        small = source.count * len(source.rows.columns) * _VALUE_BYTES <= _BROADCAST_BYTES
        how = "left" if self.merge.by_source else "inner"
        right, on = F.broadcast(source.rows) if small else source.rows, expression(self.merge.on)
        after = self.names.source if source.cannot_fail else None
        return [part.join(right, on, how, safe_after=after) for part in self._target_parts(plan)]

    def pairs(self, plan: ScanPlan, source: KeptSource) -> DataFrame:
        """The target rows that a clause changes and, if there are INSERT clauses, all that a source row
        matches.
        """
        clauses = self.merge.matched
        number = number_of(clauses, {MATCHED: f"{self.names.source} IS NOT NULL"})
        new = self.new_rows(clauses, old=True)
        return united([self._pairs_of(rows, number, new) for rows in self.joined(plan, source)])

    def _pairs_of(self, rows: DataFrame, number: Column, new: Column) -> DataFrame:
        """Pairs of rows with the ``number`` of the clause that applies, and the ``new`` row."""
        names, matched = self.names, f"{self.names.source} IS NOT NULL"
        rows = rows.withColumn(names.clause, number)
        rows = rows.select(f"{quoted(self.merge.target_alias)}.*", names.source, names.clause, new)
        if self.merge.by_source:
            rows = self._unmatched(rows)
        has_clause = f"{names.clause} IS NOT NULL"
        rows = rows.where(f"{has_clause} OR {matched}" if self.merge.inserts else has_clause)
        columns = [names.file, names.row, names.source, names.clause, names.new]
        columns += map(quoted, self.target.lineage)
        if self.target.rules.change_files:
            old = ", ".join(f"{self._old_name(f)} AS {quoted(f.name)}" for f in self.target.schema)
            columns.append(f"struct({old}) AS {names.old}")
        return rows.selectExpr(*columns)

    def _unmatched(self, rows: DataFrame) -> DataFrame:
        """Applies clauses to target rows without a match. These clauses see only the target's columns."""
        names, clauses = self.names, self.merge.by_source
        number = number_of(clauses, {NOT_MATCHED_BY_SOURCE: f"{names.source} IS NULL"})
        rows = rows.withColumn(names.clause, F.coalesce(F.col(names.clause), number))
        new = self.new_rows(clauses, old=True, other=F.col(names.new))
        other_columns = [F.col(quoted(name)) for name in rows.columns if name != names.new]
        return rows.select(*other_columns, new)

    def new_rows(
        self, clauses: Sequence[tuple[int, Clause]], *, old: bool, other: Column | None = None
    ) -> Column:
        """The new row that the clause of a row computes; ``other``, or null, if none of these clauses
        applies.
        """
        row = F.lit(None) if other is None else other
        for number, clause in clauses:
            if clause.action != DELETE:
                values = F.struct(*self._values(self.values[number], old=old))
                row = F.when(F.expr(f"{self.names.clause} = {number}"), values).otherwise(row)
        return row.alias(self.names.new)

    def _values(self, targets: Targets, *, old: bool) -> list[Column]:
        """The columns of the rows that a clause writes. ``old``: it updates target rows, else it inserts
        rows.
        """
        schema = self.target.rules.schema
        assigned_columns = {
            name for name, values in targets.items() if not any(value.path for value in values)
        }
        if old:
            old_fields = [field for field in self.target.schema if field.name not in assigned_columns]
            unassigned = {f.name: self._old_value(f, schema.find(f.name)[0]) for f in old_fields}
        else:
            names = [field.name for field in schema if field.name not in targets]
            unassigned = default_values(self.target.spark, self.target.rules, names)
        return [new_column(field, targets, unassigned.get(field.name)).alias(field.name) for field in schema]

    def _old_value(self, old_field: Field, field: Field) -> Column:
        """The old value, in the type that the column has after this merge."""
        return assigned(self._old(old_field), spark_type(old_field.type), spark_type(field.type), field.name)

    def _old(self, field: Field) -> Column:
        return F.col(self._old_name(field))

    def _old_name(self, field: Field) -> str:
        return f"{quoted(self.merge.target_alias)}.{quoted(field.name)}"

    def is_one_of(self, clauses: Sequence[int]) -> Column:
        """Whether a row's clause is one of these."""
        numbers = ", ".join(map(str, clauses)) or "NULL"
        return F.expr(f"{self.names.clause} IN ({numbers})")

    def repeated_error(self, plan: ScanPlan, pairs: DataFrame) -> InvalidOperationError:
        """The error for target rows that several source rows would change, with an example."""
        names = self.names
        counts = pairs.where(F.col(names.clause).isNotNull()).groupBy(names.file, names.row).count()
        repeated = counts.where("count > 1")
        total, most = repeated.agg(F.count(F.lit(1)), F.max("count")).collect()[0]
        row = F.to_json(F.struct(*map(self._old, self.target.schema)))
        first = repeated.limit(1).withColumnsRenamed({names.file: names.new, names.row: names.old})
        example = (
            united([part.live() for part in self._target_parts(plan)])
            .alias(self.merge.target_alias)
            .join(
                F.broadcast(first),
                (F.col(names.file) == F.col(names.new)) & (F.col(names.row) == F.col(names.old)),
            )
            .select(row)
            .collect()
        )
        return InvalidOperationError(
            f"{total} target rows are matched by more than one source row (up to {most}), expected one each; "
            f"for example {example[0][0]}"
        )
