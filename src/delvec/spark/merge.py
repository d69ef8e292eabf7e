"""MERGE: one pass over the target, joined to the source, finds the rows and computes the new ones.

    source     materialised once, each row with a number: nothing that runs later can see other rows
    plan       the files that may hold a row with one of the source's keys (`merge_keys`)
    pairs      target rows that a clause changes, and the numbers of source rows that matched (kept in Spark)
    vectors    of the target rows in ``pairs``
    new rows   those that ``pairs`` computed, and the source rows whose number is not in ``pairs``

The join is inner (or left outer, where clauses ask for unmatched target rows), so that a small source is
broadcast and the target is neither shuffled nor read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delvec.bitmap import Bitmap
from delvec.conflicts import Rerun
from delvec.errors import InvalidOperationError
from delvec.formats import Snapshot
from delvec.plan import ScanPlan
from delvec.row_delta import Operation, Request, RowCounts, RowDelta, Verb, WriteRules, all_files
from delvec.schema import Field
from delvec.spark import change_files
from delvec.spark.commit_and_rerun import commit, file_with_rows, first_file_id, is_nondeterministic, reads
from delvec.spark.computed_columns import default_values, with_generated
from delvec.spark.conditions import expression, verify_condition
from delvec.spark.file_paths import location_of
from delvec.spark.find_rows import FoundRows, find_rows
from delvec.spark.merge_clauses import (
    DELETE,
    INSERT,
    MATCHED,
    NOT_MATCHED,
    NOT_MATCHED_BY_SOURCE,
    UPDATE,
    Clause,
    may_repeat,
    number_of,
    verify_clauses,
)
from delvec.spark.merge_keys import ROWS, Matching, Sides, source_schema
from delvec.spark.merge_schema import assigned_columns
from delvec.spark.merge_source import MergeSource
from delvec.spark.new_rows import conformed
from delvec.spark.remove_rows import FEW_REPEATED_ROWS, find, has_few_rows, remove_rows
from delvec.spark.row_checks import checked
from delvec.spark.row_lineage import moved, with_null_lineage
from delvec.spark.scan import own_prefix
from delvec.spark.scan_part import PlaceNames, ScanPart, united
from delvec.spark.set_clause import Targets, assigned_paths, new_column, resolve
from delvec.spark.small_statements import has_query, not_adaptive
from delvec.spark.store_assignment import assigned
from delvec.spark.target import OperationResult, Target, row_size, shown
from delvec.spark.text_lengths import with_padding
from delvec.spark.types import quoted, spark_type
from delvec.spark.write_rows import NOTHING_WRITTEN, WrittenFiles, write_rows

# A source that takes no more than this, at a guess of so many bytes per value, is broadcast.
_BROADCAST_BYTES, _VALUE_BYTES = 256 << 20, 32


@dataclass(frozen=True, slots=True)
class Merge:
    """A MERGE, as asked for."""

    source: DataFrame
    on: str | Column
    source_alias: str
    target_alias: str
    clauses: tuple[Clause, ...]
    merge_schema: bool = False


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """What a merge would do. ``files``: Spark's path of each file, and how many of its rows would change."""

    plan: ScanPlan
    files: pa.Table
    rows: RowCounts


def merge_request(asked: Merge) -> Request:
    return Request(Operation.MERGE, shown(asked.on))


def merge(target: Target, asked: Merge, rows: MergeSource) -> OperationResult | Rerun:
    """Run what is asked once; ``rows`` keeps those of its source for the next run."""
    return prepared(target, asked, rows).result()


def prepared(target: Target, asked: Merge, rows: MergeSource) -> MergeRun:
    """The merge, verified as far as it can be before it reads a row."""
    verify_clauses(asked.clauses)
    if any(clause.kind != NOT_MATCHED for clause in asked.clauses):
        target.verify_removable()
    if asked.merge_schema:
        target = target.grown(assigned_columns(asked.clauses, target.schema, asked.source.schema))
    return MergeRun(target, asked, _names(target, asked), rows, _verified(target, asked))


@dataclass(frozen=True, slots=True)
class _Names:
    """Columns of our own, which neither side has."""

    file: str
    row: str
    source: str
    clause: str
    new: str
    old: str


@dataclass(frozen=True, slots=True)
class _Source:
    """The source's rows, kept. ``condition``: which target rows can matter; None: all. ``cannot_fail``: ON
    raises an error for no pair of rows.
    """

    rows: DataFrame
    count: int
    condition: str | None
    cannot_fail: bool


@dataclass(frozen=True, slots=True)
class MergeRun:
    """One run of a merge. ``values``: what each clause that writes rows, by its number, gives the columns."""

    target: Target
    asked: Merge
    names: _Names
    rows: MergeSource
    values: Mapping[int, Targets]

    def result(self) -> OperationResult | Rerun:
        target, names = self.target, self.names
        source = self._materialised()
        plan = target.plan(source.condition)
        plain = self._is_plain(plan, source)
        with not_adaptive(target.spark, when=plain):
            pairs = self._pairs(plan, source).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            changed = pairs.where(f"{names.clause} IS NOT NULL")
            flag = self._is_one_of(self._numbers(UPDATE))
            with not_adaptive(target.spark, when=plain):
                found = find(target, plan, changed, (names.file, names.row), flag, repeated=True)
            if found.count != found.distinct and not may_repeat(self.asked.clauses):
                raise self._repeated(plan, pairs)
            return self._committed(plan, source, pairs, found)
        finally:
            pairs.unpersist()

    def _is_plain(self, plan: ScanPlan, source: _Source) -> bool:
        """Whether a scan of few rows and broadcasts of few are all that Spark runs.

        And ON cannot fail: PySpark does not recognise an error of a broadcast that is not adaptive.
        """
        given = [clause.condition for clause in self.asked.clauses]
        given += [value for clause in self.asked.clauses for value in (clause.values or {}).values()]
        few = source.count <= FEW_REPEATED_ROWS and has_few_rows(plan, repeated=True)
        return few and source.cannot_fail and not any(map(has_query, given))

    def _is_one_of(self, clauses: Sequence[int]) -> Column:
        """That a row's clause is one of these."""
        numbers = ", ".join(map(str, clauses)) or "NULL"
        return F.expr(f"{self.names.clause} IN ({numbers})")

    def counts(self, evaluated: Callable[[DataFrame], int]) -> MergeCounts:
        """What the merge would do; nothing is written. ``evaluated`` computes rows and counts them."""
        names = self.names
        source = self._materialised()
        plan = self.target.plan(source.condition)
        pairs = self._pairs(plan, source).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            changed = pairs.where(F.col(names.clause).isNotNull()).groupBy(names.file)
            rows = F.countDistinct(F.col(names.row))
            updates = F.count(F.when(F.col(names.clause).isin(self._numbers(UPDATE)), F.lit(1)))
            files = changed.agg(rows, F.count(F.lit(1)), updates).toArrow()
            distinct, count, updated = (sum(column.to_pylist()) for column in files.columns[1:])
            if count != distinct and not may_repeat(self.asked.clauses):
                raise self._repeated(plan, pairs)
            new = self._written_rows(*self._updated_and_inserted(source, pairs, updated))
            written = 0 if new is None else evaluated(new)
        finally:
            pairs.unpersist()
        counts = self._counts(distinct, updated, written, source.count)
        return MergeCounts(plan, files.select([0, 1]), counts)

    def _materialised(self) -> _Source:
        """The source with its rows numbered, and which target rows they can match."""
        matching = self._matching()
        kept = self.rows.kept(self.asked.source, self.names.source, matching.observed())
        all_rows = bool(self.by_source)
        condition = None if all_rows else matching.condition(kept.values)
        rows, count = kept.frame.alias(self.asked.source_alias), int(kept.values[ROWS])
        return _Source(rows, count, condition, matching.cannot_fail)

    def _matching(self) -> Matching:
        asked = self.asked
        if not isinstance(asked.on, str) or self.by_source:
            return Matching()
        sides = Sides(
            target=self.target.schema,
            target_alias=asked.target_alias,
            source=source_schema(asked.source.schema),
            source_alias=asked.source_alias,
            settings=self.target.settings,
        )
        return sides.matching(asked.on)

    def _target_parts(self, plan: ScanPlan) -> list[ScanPart]:
        """The target's rows with their places, under names that the source does not have either."""
        prefix = self.names.file
        names = PlaceNames(prefix, self.names.row, f"{prefix}_number", f"{prefix}_index")
        parts = (part.renamed(names) for part in self.target.parts(plan))
        return [replace(part, frame=part.frame.alias(self.asked.target_alias)) for part in parts]

    def joined(self, plan: ScanPlan, source: _Source) -> list[DataFrame]:
        """The pairs of rows for which ON is true, for each part of the target."""
        small = source.count * len(source.rows.columns) * _VALUE_BYTES <= _BROADCAST_BYTES
        how = "left" if self.by_source else "inner"
        right, on = F.broadcast(source.rows) if small else source.rows, expression(self.asked.on)
        after = self.names.source if source.cannot_fail else None
        return [part.join(right, on, how, safe_after=after) for part in self._target_parts(plan)]

    def _pairs(self, plan: ScanPlan, source: _Source) -> DataFrame:
        clauses = self._of(MATCHED)
        number = number_of(clauses, {MATCHED: f"{self.names.source} IS NOT NULL"})
        new = self._new_rows(clauses, old=True)
        return united([self._pairs_of(rows, number, new) for rows in self.joined(plan, source)])

    def _pairs_of(self, rows: DataFrame, number: Column, new: Column) -> DataFrame:
        """What is kept of pairs of rows: ``number`` of the clause that applies, and the ``new`` row."""
        names, matched = self.names, f"{self.names.source} IS NOT NULL"
        rows = rows.withColumn(names.clause, number)
        rows = rows.select(f"{quoted(self.asked.target_alias)}.*", names.source, names.clause, new)
        if self.by_source:
            rows = self._unmatched(rows)
        kept = f"{names.clause} IS NOT NULL"
        rows = rows.where(f"{kept} OR {matched}" if self.inserts else kept)
        columns = [names.file, names.row, names.source, names.clause, names.new]
        columns += map(quoted, self.target.lineage)
        if self.target.rules.change_files:
            old = ", ".join(f"{self._old_name(f)} AS {quoted(f.name)}" for f in self.target.schema)
            columns.append(f"struct({old}) AS {names.old}")
        return rows.selectExpr(*columns)

    def _unmatched(self, rows: DataFrame) -> DataFrame:
        """The rows with what clauses make of those without a match. They see the target's columns alone."""
        names, clauses = self.names, self.by_source
        number = number_of(clauses, {NOT_MATCHED_BY_SOURCE: f"{names.source} IS NULL"})
        rows = rows.withColumn(names.clause, F.coalesce(F.col(names.clause), number))
        new = self._new_rows(clauses, old=True, other=F.col(names.new))
        others = [F.col(quoted(name)) for name in rows.columns if name != names.new]
        return rows.select(*others, new)

    def _new_rows(
        self, clauses: Sequence[tuple[int, Clause]], *, old: bool, other: Column | None = None
    ) -> Column:
        """The row that the clause of each row makes of it; ``other``, or null, where none of these does."""
        row = F.lit(None) if other is None else other
        for number, clause in clauses:
            if clause.action != DELETE:
                values = F.struct(*self._values(self.values[number], old=old))
                row = F.when(F.expr(f"{self.names.clause} = {number}"), values).otherwise(row)
        return row.alias(self.names.new)

    def _values(self, targets: Targets, *, old: bool) -> list[Column]:
        """The columns of the rows that a clause makes of old rows, or as new ones."""
        schema = self.target.rules.schema
        whole = {name for name, values in targets.items() if not any(value.path for value in values)}
        if old:
            held = [field for field in self.target.schema if field.name not in whole]
            unassigned = {f.name: self._kept(f, schema.find(f.name)[0]) for f in held}
        else:
            names = [field.name for field in schema if field.name not in targets]
            unassigned = default_values(self.target.spark, self.target.rules, names)
        return [new_column(field, targets, unassigned.get(field.name)).alias(field.name) for field in schema]

    def _kept(self, held: Field, field: Field) -> Column:
        """The old value, in the type that the column has after this merge."""
        return assigned(self._old(held), spark_type(held.type), spark_type(field.type), field.name)

    def _old(self, field: Field) -> Column:
        return F.col(self._old_name(field))

    def _old_name(self, field: Field) -> str:
        return f"{quoted(self.asked.target_alias)}.{quoted(field.name)}"

    def _inserted(self, source: DataFrame, pairs: DataFrame) -> DataFrame:
        """The source rows that matched no target row, as rows of the table."""
        names, clauses = self.names, self.inserts
        matched = pairs.where(f"{names.source} IS NOT NULL").selectExpr(f"{names.source} AS {names.row}")
        alone = source.join(matched, F.expr(f"{names.source} = {names.row}"), "left_anti")
        chosen = alone.withColumn(names.clause, number_of(clauses, {NOT_MATCHED: "true"}))
        chosen = chosen.where(f"{names.clause} IS NOT NULL")
        rows = chosen.select(names.clause, self._new_rows(clauses, old=False))
        rows = self._completed(rows.select(f"{names.new}.*", names.clause), clauses)
        return with_null_lineage(rows, self.target.lineage)

    def _committed(
        self, plan: ScanPlan, source: _Source, pairs: DataFrame, found: FoundRows
    ) -> OperationResult | Rerun:
        target, count, change = self.target, source.count, self.target.rules.change
        size = row_size(plan if len(plan.files) else target.plan(None))
        updated, inserted = self._updated_and_inserted(source, pairs, found.flagged)
        with not_adaptive(target.spark, when=self._is_plain(plan, source)):
            written = self._write(updated, inserted, size * (found.flagged + count))
        request = merge_request(self.asked)
        counts = self._counts(found.distinct, found.flagged, written.rows, count)
        if not found.count and not written.rows and change is None:
            return target.unchanged(request, counts)
        removal = remove_rows(target, plan, found)
        changes = NOTHING_WRITTEN
        if target.rules.change_files:
            changes = self._changes(pairs, updated, inserted, size=size * (2 * found.count + count))
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
            moved=found.flagged > 0,
            lineage=bool(target.lineage),
        )
        return commit(target, delta, _MergeProbe(self, plan, source, pairs))

    def _write(self, updated: DataFrame | None, inserted: DataFrame | None, size: int) -> WrittenFiles:
        rows, target = self._written_rows(updated, inserted), self.target
        if rows is None:
            return NOTHING_WRITTEN
        return write_rows(
            checked(rows, target.rules), target.storage, target.rules, size=size, extra=target.lineage
        )

    def _written_rows(self, updated: DataFrame | None, inserted: DataFrame | None) -> DataFrame | None:
        frames = [frame for frame in (updated, inserted) if frame is not None]
        return reduce(DataFrame.unionByName, frames) if frames else None

    def _updated_and_inserted(
        self, source: _Source, pairs: DataFrame, updates: int
    ) -> tuple[DataFrame | None, DataFrame | None]:
        """The rows to be written; None where there are none for sure."""
        updated = self._updated(pairs) if updates else None
        return updated, self._inserted(source.rows, pairs) if self.inserts else None

    def _updated(self, pairs: DataFrame) -> DataFrame:
        names = self.names
        rows = pairs.where(self._is_one_of(self._numbers(UPDATE)))
        updates = [(n, clause) for n, clause in enumerate(self.asked.clauses) if clause.action == UPDATE]
        return self._completed(moved(rows, self.target.lineage, names.new, names.clause), updates)

    def _completed(self, rows: DataFrame, clauses: Sequence[tuple[int, Clause]]) -> DataFrame:
        """New rows, each with the number of its clause, which goes: generated columns are computed in the
        rows of those clauses that give them no value, and ``char`` columns are padded.
        """
        number, rules = F.col(self.names.clause), self.target.rules
        rows = with_padding(rows, rules.schema)
        if not rules.generated:
            return rows.drop(self.names.clause)
        given: dict[str, list[int]] = {name: [] for name in rules.generated}
        for n, clause in clauses:
            for name in self._assigned(clause) & given.keys():
                given[name].append(n)
        conditions = {name: number.isin(numbers) for name, numbers in given.items() if numbers}
        rows = with_generated(rows, rules, list(given), given=conditions)
        return rows.drop(self.names.clause)

    def _assigned(self, clause: Clause) -> set[str]:
        """The top-level columns that the clause gives a value."""
        values = _all_values(self.target, self.asked, clause) if clause.values is None else clause.values
        case_sensitive = self.target.settings.case_sensitive
        paths = assigned_paths(values, self.target.rules.schema, str(clause), case_sensitive=case_sensitive)
        return {path[0] for path in paths}

    def _changes(
        self, pairs: DataFrame, updated: DataFrame | None, inserted: DataFrame | None, *, size: int
    ) -> WrittenFiles:
        """All changes, written to change files."""
        lineage = self.target.lineage
        kinds = [(change_files.DELETE, self._before(pairs, DELETE))]
        if updated is not None:
            kinds += [
                (change_files.BEFORE, self._before(pairs, UPDATE)),
                (change_files.AFTER, updated.drop(*lineage)),
            ]
        if inserted is not None:
            kinds.append((change_files.INSERT, inserted.drop(*lineage)))
        return change_files.write_changes(self.target, kinds, size=size)

    def _before(self, pairs: DataFrame, action: str) -> DataFrame:
        """The target rows that clauses of this action change, as they were."""
        names = self.names
        rows = pairs.where(self._is_one_of(self._numbers(action)))
        rows = rows.dropDuplicates([names.file, names.row]).select(f"{names.old}.*")
        return conformed(rows, self.target.rules.schema)

    def _counts(self, changed: int, updated: int, written: int, source: int) -> RowCounts:
        return RowCounts(source, inserted=written - updated, updated=updated, deleted=changed - updated)

    def _repeated(self, plan: ScanPlan, pairs: DataFrame) -> InvalidOperationError:
        """The error for target rows that several source rows would change, with one of them."""
        names = self.names
        counts = pairs.where(F.col(names.clause).isNotNull()).groupBy(names.file, names.row).count()
        several = counts.where("count > 1")
        total, most = several.agg(F.count(F.lit(1)), F.max("count")).collect()[0]
        row = F.to_json(F.struct(*map(self._old, self.target.schema)))
        first = several.limit(1).withColumnsRenamed({names.file: names.new, names.row: names.old})
        example = (
            united([part.live() for part in self._target_parts(plan)])
            .alias(self.asked.target_alias)
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

    @property
    def by_source(self) -> list[tuple[int, Clause]]:
        return self._of(NOT_MATCHED_BY_SOURCE)

    @property
    def inserts(self) -> list[tuple[int, Clause]]:
        return self._of(NOT_MATCHED)

    def _of(self, *kinds: str) -> list[tuple[int, Clause]]:
        return [(n, clause) for n, clause in enumerate(self.asked.clauses) if clause.kind in kinds]

    def _numbers(self, action: str) -> list[int]:
        return [n for n, clause in enumerate(self.asked.clauses) if clause.action == action]


@dataclass(frozen=True, slots=True)
class _MergeProbe:
    """The answers of a MERGE to conflict checks. ``pairs`` must still be persisted."""

    run: MergeRun
    plan: ScanPlan
    source: _Source
    pairs: DataFrame

    def reads_target(self) -> bool:
        return reads(self.run.asked.source, self.run.target.table.location)

    def new_match(self, newest: Snapshot, file_ids: pa.Array) -> int | None:
        """A file with a new row that a source row matches, or, if clauses apply to unmatched rows, any new
        row.
        """
        run = replace(self.run, target=self.run.target.at(newest))
        plan = run.target.plan(self.source.condition, among=file_ids)
        if not len(plan.files):
            return None
        if run.by_source or is_nondeterministic(run.asked.on):
            return first_file_id(plan)
        return file_with_rows(run.joined(plan, self.source), run.names.file, plan)

    def rows_read(self) -> dict[int, Bitmap]:
        """The rows that a source row matched and no clause changed. Without them, the merge would insert the
        source row.
        """
        if not self.run.inserts:
            return {}
        names = self.run.names
        left = self.pairs.where(F.col(names.clause).isNull() & F.col(names.source).isNotNull())
        found = find_rows(left, names.file, names.row).files
        columns = (self.plan.files.column(name).to_pylist() for name in ("location", "file_id"))
        ids = dict(zip(*columns, strict=True))
        return {ids[location_of(path)]: rows for path, rows in found.items()}

    def replanned(self, newest: Snapshot) -> RowDelta:
        raise AssertionError(f"MERGE does not replace whole files: version {newest.version}")

    @property
    def repeatable(self) -> bool:
        return self.run.rows.remade or not self.reads_target()


def _all_values(target: Target, asked: Merge, clause: Clause) -> dict[str, str | Column]:
    """Each column of the table from the source's of that name."""
    given = {name.lower(): name for name in asked.source.columns}
    values: dict[str, str | Column] = {}
    for field in target.rules.schema:
        if field.name.lower() in given:
            name = given[field.name.lower()]
            values[quoted(field.name)] = f"{quoted(asked.source_alias)}.{quoted(name)}"
        elif not (asked.merge_schema or _has_own_value(target.rules, field, clause)):
            raise InvalidOperationError(
                f"column {field.name!r} is not in the source, but {str(clause)!r} needs all columns "
                "of the table"
            )
    return values


def _has_own_value(rules: WriteRules, field: Field, clause: Clause) -> bool:
    """Whether the table has a value for a column that the clause leaves out."""
    return field.name in rules.generated or (clause.action == INSERT and field.name in rules.defaults)


def _verified(target: Target, asked: Merge) -> dict[int, Targets]:
    """The values of each clause that has some, by its number. Conditions that Spark cannot judge are refused
    before anything runs.
    """
    if asked.source_alias.lower() == asked.target_alias.lower():
        raise InvalidOperationError(
            f"source_alias and target_alias are both {asked.source_alias!r}, expected two different names"
        )
    mine = target.empty().alias(asked.target_alias)
    theirs = asked.source.alias(asked.source_alias)
    both = mine.crossJoin(theirs)
    verify_condition(both, asked.on, "on")
    frames = {MATCHED: both, NOT_MATCHED: theirs, NOT_MATCHED_BY_SOURCE: mine}
    case_sensitive = target.settings.case_sensitive
    found = {}
    for number, clause in enumerate(asked.clauses):
        if clause.condition is not None:
            verify_condition(frames[clause.kind], clause.condition, f"{clause}: condition")
        if clause.action != DELETE:
            values = _all_values(target, asked, clause) if clause.values is None else clause.values
            schema = target.rules.schema
            what, frame = str(clause), frames[clause.kind]
            found[number] = resolve(values, schema, frame, what, case_sensitive=case_sensitive)
    return found


def _names(target: Target, asked: Merge) -> _Names:
    prefix = own_prefix(target.rules.schema, *asked.source.columns) + "m_"
    return _Names(*(prefix + name for name in ("file", "row", "source", "clause", "new", "old")))
