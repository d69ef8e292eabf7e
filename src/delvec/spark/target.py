"""The table that a statement changes, at the version that it starts from: planning and scanning."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from delvec import predicate
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.supported_kinds import verify_applied
from delvec.errors import InvalidOperationError
from delvec.formats import Snapshot, Table
from delvec.plan import MATCH_ALL, Base, ScanPlan
from delvec.predicate import Condition, SqlSettings
from delvec.predicate.tree import is_decided
from delvec.row_delta import Isolation, MetadataChange, Read, Request, RowCounts, Verb, WriteRules
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

_ROW_BYTES = 100  # of a stored row, if the files do not record their number of rows


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What a statement did: the table's version afterwards, and metrics by the names of the table's history.

    A statement that changes no row commits nothing: ``version`` is the version that it started from.
    A metric is None if its count cannot be known, such as the number of rows that a delete of keys deletes.
    """

    version: int
    metrics: Mapping[str, int | None]
    counts: RowCounts = field(default=RowCounts(), kw_only=True, repr=False)

    def _repr_html_(self) -> str:
        return html_pairs(f"version {self.version}", self.metrics.items())


@dataclass(frozen=True, slots=True)
class Target:
    """A version of the table, and how a statement must change it.

    verb      the kind of the statement
    settings  the session settings that decide what conditions mean
    run       how often the statement has run, this run included
    level     the isolation level that the user asked for
    alias     the name of the table in conditions and values, for example in subqueries
    deletes   loads deletes of the table, each of them once
    """

    spark: SparkSession
    table: Table
    snapshot: Snapshot
    verb: Verb
    settings: SqlSettings
    load_rules: Callable[[], WriteRules]
    run: int = 1
    level: Isolation | None = None
    alias: str | None = None
    deletes: DeleteLoader = field(kw_only=True)
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        table: Table,
        verb: Verb,
        *,
        snapshot: Snapshot | None = None,
        run: int = 1,
        level: Isolation | None = None,
        alias: str | None = None,
        default_alias: str | None = None,
    ) -> Target:
        """The table at ``snapshot``, by default its newest version.

        ``default_alias`` is the alias if none is given and no column has that name.
        """
        if snapshot is None:
            snapshot = table.snapshot()
        if alias is None and default_alias is not None and not snapshot.schema.find(default_alias):
            alias = default_alias
        load_rules, loader = _rules_loader(snapshot, verb), DeleteLoader(table.storage)
        settings = sql_settings(spark)
        return cls(spark, table, snapshot, verb, settings, load_rules, run, level, alias, deletes=loader)

    @property
    def rules(self) -> WriteRules:
        """How the statement must write rows. The format is asked once, when the rules are first needed."""
        return self.load_rules()

    def at(self, snapshot: Snapshot) -> Target:
        """The same table at another version with the same metadata."""
        return replace(self, snapshot=snapshot)

    def after(self, change: MetadataChange) -> Target:
        """The same version with the rules that apply after ``change``."""
        if change.schema is not None:
            verify_new_names(change.schema, self.schema)
        return replace(self, load_rules=_rules_loader(self.snapshot, self.verb, change))

    def grown(self, rows: StructType) -> Target:
        """The target after its columns are extended by those that only ``rows`` have (``rules.change``)."""
        schema = evolved(self.schema, rows)
        return self if schema == self.schema else self.after(MetadataChange(schema=schema))

    @property
    def schema(self) -> Schema:
        return self.snapshot.schema

    @property
    def base(self) -> Base:
        return self.snapshot.base

    @property
    def storage(self) -> Storage:
        return self.table.storage

    def empty(self) -> DataFrame:
        """A frame without rows that has the table's columns, for the analysis of expressions."""
        columns = [f"CAST(NULL AS {type_text(f.type)}) AS {quoted(f.name)}" for f in self.schema]
        return self._named(kept_frame(self.spark, *columns))

    def verify_removable(self) -> None:
        if self.rules.append_only:
            raise InvalidOperationError(
                f"table is append-only, its rows cannot be removed: {self.table.location}"
            )

    def plan(self, where: str | Column | None, *, among: pa.Array | None = None) -> ScanPlan:
        """The files that may hold a matching row; with ``among``, only of these files, by their ids.

        Spark must have analysed ``where`` before.
        """
        plan = self.snapshot.plan(self._condition(where), time_zone=self.settings.time_zone, among=among)
        verify_applied(plan)  # also for verbs that never scan, such as a delete from metadata alone
        return plan

    def _condition(self, where: str | Column | None) -> Condition | None:
        """The condition that prunes; None if delvec cannot parse ``where`` as Spark does."""
        if not isinstance(where, str) or self._alias_is_a_column:
            return None
        try:
            return predicate.parse(where, self.schema, self.settings)
        except InvalidOperationError:  # only Spark understands the text
            return None

    @property
    def _alias_is_a_column(self) -> bool:
        """Whether ``alias.x`` could also be a field of a struct column. If so, conditions do not prune."""
        return self.alias is not None and bool(self.schema.find(self.alias, case_sensitive=False))

    def plan_verified(self, where: str | Column) -> ScanPlan:
        if isinstance(where, str):
            columns = [field.name for field in self.schema]
            warn_of_captured_columns(self.spark, where, columns, self.alias)
        verify_condition(self.empty(), where, "condition")
        return self.plan(where)

    def scan(self, plan: ScanPlan) -> DataFrame:
        """The live rows of the plan's files."""
        return scan(self.spark, plan, self.storage, self.deletes)

    def matching(self, plan: ScanPlan, where: str | Column | None, *, lineage: bool = False) -> DataFrame:
        """The live rows for which ``where`` is true, with their file and position; ``lineage``: also with
        ids.
        """
        if where is None:
            return self._named(self.scan_located(plan, lineage=lineage))
        condition, safe = expression(where), cannot_fail(plan, where)
        parts = [replace(p, frame=self._named(p.frame)) for p in self.parts(plan, lineage=lineage)]
        return self._named(united([part.where(condition, safe=safe) for part in parts]))

    def _named(self, frame: DataFrame) -> DataFrame:
        return frame if self.alias is None else frame.alias(self.alias)

    def scan_located(self, plan: ScanPlan, *, lineage: bool = True) -> DataFrame:
        """The live rows with their file and position (`scan.place_columns`) and, if they have them, ids."""
        return united([part.live() for part in self.parts(plan, lineage=lineage)])

    def parts(self, plan: ScanPlan, *, lineage: bool = True) -> Sequence[ScanPart]:
        """The same rows in parts, deleted rows included. Each part is joined or filtered on its own."""
        if lineage and self.lineage:
            fields = lineage_fields(self.rules)
            parts = parts_with_lineage(self.spark, plan, self.storage, fields, self.deletes)
        else:
            parts = scan_parts(self.spark, plan, self.storage, self.deletes)
        return few_parts(parts)

    @property
    def lineage(self) -> tuple[str, ...]:
        """The stored columns for ids and versions of moved rows; empty if rows have no ids."""
        return tuple(field.name for field in lineage_fields(self.rules))

    def read(self, where: str | Column | None, verb: Verb) -> Read:
        """What a statement reads to find the rows for which ``where`` is true."""
        condition = where if isinstance(where, str) else None
        return Read(condition, isolation=self.level or self.snapshot.isolation(verb))

    def unchanged(self, request: Request, counts: RowCounts) -> OperationResult:
        """The result of a statement that commits nothing."""
        metrics = self.table.metrics(request, counts)
        return OperationResult(self.snapshot.version, metrics, counts=counts)


def _rules_loader(
    snapshot: Snapshot, verb: Verb, change: MetadataChange | None = None
) -> Callable[[], WriteRules]:
    @functools.cache
    def rules() -> WriteRules:
        resolved = snapshot.rules(verb, change)
        if verb not in (Verb.DELETE, Verb.DELETE_KEYS, Verb.REWRITE_DELETES, Verb.ALTER):
            for column in resolved.schema:
                verify_spark_type(column)
        return resolved

    return rules


def split_by_match(plan: ScanPlan) -> tuple[ScanPlan, ScanPlan]:
    """The files that hold only matching rows, and those that must be read."""
    is_full_match = plan.files.column("match").to_numpy(zero_copy_only=False) == MATCH_ALL
    return plan.at(np.flatnonzero(is_full_match)), plan.at(np.flatnonzero(~is_full_match))


def cannot_fail(plan: ScanPlan, where: str | Column) -> bool:
    """Whether the plan's condition cannot raise an error, not even for a deleted row."""
    condition = plan.condition
    return condition is not None and condition.text == where and is_decided(condition.tree)


def live_rows(plan: ScanPlan) -> int | None:
    """The number of rows of the plan's files that are not deleted; None if a file's count is not recorded."""
    records, deleted = plan.files.column("record_count"), plan.deleted_rows
    if records.null_count or deleted.null_count:
        return None
    return int(pc.sum(records).as_py() or 0) - int(pc.sum(deleted).as_py() or 0)


def row_size(plan: ScanPlan) -> int:
    """The approximate size of a stored row, in bytes."""
    counted = plan.files.filter(pc.greater(pc.fill_null(plan.files.column("record_count"), 0), 0))
    if not len(counted):
        return _ROW_BYTES
    rows, size = (pc.sum(counted.column(name)).as_py() for name in ("record_count", "size"))
    return max(1, int(size // rows))


def translated(error: PySparkException) -> Exception:
    """A violated constraint as an InvalidOperationError; any other error unchanged."""
    text = str(error)
    if VIOLATION not in text:
        return error
    message = text.split(VIOLATION, 1)[1].split(VIOLATION, 1)[0].strip()
    return InvalidOperationError(message)


def shown(where: str | Column) -> str:
    """The condition as a text, for the history and for messages."""
    return where if isinstance(where, str) else str(where)
