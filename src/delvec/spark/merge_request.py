"""The request of a MERGE: its arguments, verified before a row is read, and the values that its clauses
assign.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame

from delvec.errors import InvalidOperationError
from delvec.row_delta import Operation, Request, WriteRules
from delvec.schema import Field
from delvec.spark.conditions import verify_condition
from delvec.spark.merge_clauses import (
    DELETE,
    INSERT,
    MATCHED,
    NOT_MATCHED,
    NOT_MATCHED_BY_SOURCE,
    UPDATE,
    Clause,
)
from delvec.spark.scan import own_prefix
from delvec.spark.set_clause import Targets, resolve
from delvec.spark.target import Target, shown
from delvec.spark.types import quoted


@dataclass(frozen=True, slots=True)
class Merge:
    """The arguments of a MERGE. Clauses have the numbers of their order."""

    source: DataFrame
    on: str | Column
    source_alias: str
    target_alias: str
    clauses: tuple[Clause, ...]
    merge_schema: bool = False

    @property
    def matched(self) -> list[tuple[int, Clause]]:
        return self._of(MATCHED)

    @property
    def inserts(self) -> list[tuple[int, Clause]]:
        return self._of(NOT_MATCHED)

    @property
    def by_source(self) -> list[tuple[int, Clause]]:
        return self._of(NOT_MATCHED_BY_SOURCE)

    @property
    def updates(self) -> list[tuple[int, Clause]]:
        return [(n, clause) for n, clause in enumerate(self.clauses) if clause.action == UPDATE]

    def numbers(self, action: str) -> list[int]:
        """The numbers of the clauses with this action."""
        return [n for n, clause in enumerate(self.clauses) if clause.action == action]

    def _of(self, kind: str) -> list[tuple[int, Clause]]:
        return [(n, clause) for n, clause in enumerate(self.clauses) if clause.kind == kind]


def merge_request(merge: Merge) -> Request:
    return Request(Operation.MERGE, shown(merge.on))


@dataclass(frozen=True, slots=True)
class MergeNames:
    """Names of columns that neither the target nor the source has."""

    file: str
    row: str
    source: str
    clause: str
    new: str
    old: str


def merge_names(target: Target, merge: Merge) -> MergeNames:
    prefix = own_prefix(target.rules.schema, *merge.source.columns) + "m_"
    return MergeNames(*(prefix + name for name in ("file", "row", "source", "clause", "new", "old")))


def verified_values(target: Target, merge: Merge) -> dict[int, Targets]:
    """The values that each clause assigns, by the clause's number. Refuses conditions that Spark cannot
    analyse before anything runs.
    """
    if merge.source_alias.lower() == merge.target_alias.lower():
        raise InvalidOperationError(
            f"source_alias and target_alias are both {merge.source_alias!r}, expected two different names"
        )
    target_rows = target.empty().alias(merge.target_alias)
    source_rows = merge.source.alias(merge.source_alias)
    pairs = target_rows.crossJoin(source_rows)
    verify_condition(pairs, merge.on, "on")
    frames = {MATCHED: pairs, NOT_MATCHED: source_rows, NOT_MATCHED_BY_SOURCE: target_rows}
    case_sensitive = target.settings.case_sensitive
    values_by_clause = {}
    for number, clause in enumerate(merge.clauses):
        if clause.condition is not None:
            verify_condition(frames[clause.kind], clause.condition, f"{clause}: condition")
        if clause.action != DELETE:
            values = all_values(target, merge, clause) if clause.values is None else clause.values
            schema = target.rules.schema
            what, frame = str(clause), frames[clause.kind]
            values_by_clause[number] = resolve(values, schema, frame, what, case_sensitive=case_sensitive)
    return values_by_clause


def all_values(target: Target, merge: Merge, clause: Clause) -> dict[str, str | Column]:
    """The value of each column of the table: the source's column of the same name."""
    source_names = {name.lower(): name for name in merge.source.columns}
    values: dict[str, str | Column] = {}
    for field in target.rules.schema:
        if field.name.lower() in source_names:
            name = source_names[field.name.lower()]
            values[quoted(field.name)] = f"{quoted(merge.source_alias)}.{quoted(name)}"
        elif not (merge.merge_schema or _has_own_value(target.rules, field, clause)):
            raise InvalidOperationError(
                f"column {field.name!r} is not in the source, but {str(clause)!r} needs all columns "
                "of the table"
            )
    return values


def _has_own_value(rules: WriteRules, field: Field, clause: Clause) -> bool:
    """Whether the table has a value for a column that the clause does not assign."""
    return field.name in rules.generated or (clause.action == INSERT and field.name in rules.defaults)
