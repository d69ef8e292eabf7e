"""The table that a verb changes, at the version it starts from: planning and scanning."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from delvec import predicate
from delvec.deletes.applied import verify_applied
from delvec.errors import InvalidOperationError
from delvec.formats import Snapshot, Table
from delvec.plan import MATCH_ALL, Base, ScanPlan
from delvec.predicate import Condition, SqlSettings
from delvec.predicate.tree import is_decided
from delvec.row_delta import Isolation, MetadataChange, Read, Verb, WriteRules
from delvec.schema import Schema
from delvec.spark.conditions import expression, verify_condition
from delvec.spark.new_rows import evolved
from delvec.spark.notebook import html_pairs
from delvec.spark.reserved_names import verify_new_names
from delvec.spark.row_checks import VIOLATION
from delvec.spark.row_lineage import lineage_fields, parts_with_lineage
from delvec.spark.scan import scan, scan_parts
from delvec.spark.scan_part import ScanPart, few_parts, united
from delvec.spark.session import kept_frame, sql_settings
from delvec.spark.subquery_warning import warn_of_captured_columns
from delvec.spark.types import quoted, type_text, verify_spark_type
from delvec.storage import Storage

_ROW_BYTES = 100  # of a stored row, where no file tells


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What a verb did: the table's version afterwards, and counts.

    A verb that found nothing to do commits nothing: ``version`` is the one that was there.
    """

    version: int
    metrics: Mapping[str, int]

    def _repr_html_(self) -> str:
        return html_pairs(f"version {self.version}", self.metrics.items())


@dataclass(frozen=True, slots=True)
class Target:
    """A version of the table, and how it is to be changed.

    settings  how the session reads conditions
    run       how often the verb has run, this time included
    level     the isolation asked for
    alias     what conditions and values may call the table, in subqueries above all
    """

    spark: SparkSession
    table: Table
    snapshot: Snapshot
    rules: WriteRules
    settings: SqlSettings
    run: int = 1
    level: Isolation | None = None
    alias: str | None = None
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        table: Table,
        *,
        new_rows: bool = True,
        run: int = 1,
        level: Isolation | None = None,
        alias: str | None = None,
        default_alias: str | None = None,
    ) -> Target:
        """The table's newest version; ``new_rows`` false: rows will only be removed.

        ``default_alias`` is the alias where none is given and no column has that name.
        """
        snapshot = table.snapshot()
        if alias is None and default_alias is not None and not snapshot.schema.find(default_alias):
            alias = default_alias
        rules = snapshot.rules(new_rows=new_rows)
        if new_rows:
            for column in rules.schema:
                verify_spark_type(column)
        return cls(spark, table, snapshot, rules, sql_settings(spark), run, level, alias)

    def at(self, snapshot: Snapshot) -> Target:
        """The same table at another version, whose metadata is the same."""
        return replace(self, snapshot=snapshot)

    def after(self, change: MetadataChange) -> Target:
        """The same version, to be written as its metadata will be after ``change``."""
        if change.schema is not None:
            verify_new_names(change.schema, self.schema)
        return replace(self, rules=self.snapshot.rules(change))

    def grown(self, rows: StructType) -> tuple[Target, MetadataChange | None]:
        """The target with the columns that only ``rows`` have, and the change that adds them, if any."""
        schema = evolved(self.schema, rows)
        if schema == self.schema:
            return self, None
        after = self.after(MetadataChange(schema=schema))
        return after, MetadataChange(schema=after.rules.schema)

    @property
    def schema(self) -> Schema:
        return self.snapshot.schema

    @property
    def base(self) -> Base:
        return Base(self.snapshot.version)

    @property
    def storage(self) -> Storage:
        return self.table.storage

    def empty(self) -> DataFrame:
        """No rows, under the table's columns: what expressions are analysed against."""
        columns = [f"CAST(NULL AS {type_text(f.type)}) AS {quoted(f.name)}" for f in self.schema]
        return self._named(kept_frame(self.spark, *columns))

    def verify_removable(self) -> None:
        if self.rules.append_only:
            raise InvalidOperationError(
                f"table is append-only, its rows cannot be removed: {self.table.location}"
            )

    def plan(self, where: str | Column | None, *, among: pa.Array | None = None) -> ScanPlan:
        """The files that may hold a matching row, of those ``among`` the table's where these are given.

        Spark must have analysed ``where`` before.
        """
        plan = self.snapshot.plan(self._condition(where), time_zone=self.settings.time_zone, among=among)
        verify_applied(plan)  # also for verbs that never scan, such as a delete from metadata alone
        return plan

    def _condition(self, where: str | Column | None) -> Condition | None:
        """The condition that prunes; None where delvec cannot read ``where`` as Spark does."""
        if not isinstance(where, str) or self._alias_is_a_column:
            return None
        try:
            return predicate.parse(where, self.schema, self.settings)
        except InvalidOperationError:  # only Spark understands the text
            return None

    @property
    def _alias_is_a_column(self) -> bool:
        """Whether ``alias.x`` could also be a field of a struct column: then conditions do not prune."""
        return self.alias is not None and bool(self.schema.find(self.alias, case_sensitive=False))

    def plan_verified(self, where: str | Column) -> ScanPlan:
        if isinstance(where, str):
            columns = [field.name for field in self.schema]
            warn_of_captured_columns(self.spark, where, columns, self.alias)
        verify_condition(self.empty(), where, "condition")
        return self.plan(where)

    def scan(self, plan: ScanPlan) -> DataFrame:
        """The live rows of the plan's files."""
        return scan(self.spark, plan, self.storage)

    def matching(self, plan: ScanPlan, where: str | Column | None, *, lineage: bool = False) -> DataFrame:
        """The live rows for which ``where`` is true, with their places; ``lineage``: with their ids too."""
        if where is None:
            return self._named(self.scan_located(plan, lineage=lineage))
        condition, safe = expression(where), cannot_fail(plan, where)
        parts = [replace(p, frame=self._named(p.frame)) for p in self.parts(plan, lineage=lineage)]
        return self._named(united([part.where(condition, safe=safe) for part in parts]))

    def _named(self, frame: DataFrame) -> DataFrame:
        return frame if self.alias is None else frame.alias(self.alias)

    def scan_located(self, plan: ScanPlan, *, lineage: bool = True) -> DataFrame:
        """The live rows with their places (`scan.place_columns`) and, where rows have ids, with these."""
        return united([part.live() for part in self.parts(plan, lineage=lineage)])

    def parts(self, plan: ScanPlan, *, lineage: bool = True) -> Sequence[ScanPart]:
        """The same in parts, deleted rows too: what is joined or filtered is so part by part."""
        if lineage and self.lineage:
            fields = lineage_fields(self.rules)
            return few_parts(parts_with_lineage(self.spark, plan, self.storage, fields))
        return few_parts(scan_parts(self.spark, plan, self.storage))

    @property
    def lineage(self) -> tuple[str, ...]:
        """The stored columns for ids and versions of rows that move; none where rows have no ids."""
        return tuple(field.name for field in lineage_fields(self.rules))

    def read(self, where: str | Column | None, verb: Verb) -> Read:
        """That an operation has read the rows for which ``where`` is true."""
        condition = where if isinstance(where, str) else None
        return Read(condition, isolation=self.level or self.snapshot.isolation(verb))

    def unchanged(self, **metrics: int) -> OperationResult:
        return OperationResult(self.snapshot.version, metrics)


def split_by_match(plan: ScanPlan) -> tuple[ScanPlan, ScanPlan]:
    """The files that hold only matching rows, and those that must be looked into."""
    whole = plan.files.column("match").to_numpy(zero_copy_only=False) == MATCH_ALL
    return plan.at(np.flatnonzero(whole)), plan.at(np.flatnonzero(~whole))


def cannot_fail(plan: ScanPlan, where: str | Column) -> bool:
    """Whether the condition that the plan was made with raises no error, not even for a deleted row."""
    condition = plan.condition
    return condition is not None and condition.text == where and is_decided(condition.tree)


def live_rows(plan: ScanPlan) -> int | None:
    """The rows of the plan's files that are not deleted; None where a file's count is not recorded."""
    records = plan.files.column("record_count")
    deleted = plan.deletes.column("cardinality").take(plan.files.column("vector")).fill_null(0)
    if records.null_count:
        return None
    return int(pc.sum(records).as_py() or 0) - int(pc.sum(deleted).as_py() or 0)


def row_size(plan: ScanPlan) -> int:
    """The bytes that a stored row takes, about."""
    known = plan.files.filter(pc.greater(pc.fill_null(plan.files.column("record_count"), 0), 0))
    if not len(known):
        return _ROW_BYTES
    rows, size = (pc.sum(known.column(name)).as_py() for name in ("record_count", "size"))
    return max(1, int(size // rows))


def translated(error: PySparkException) -> Exception:
    """A violated constraint as an error of ours; any other error as it is."""
    text = str(error)
    if VIOLATION not in text:
        return error
    message = text.split(VIOLATION, 1)[1].split(VIOLATION, 1)[0].strip()
    return InvalidOperationError(message)


def shown(where: str | Column) -> str:
    """The condition as the history tells it."""
    return where if isinstance(where, str) else str(where)
