"""What a DELETE or an UPDATE in SQL would do: the statement is run on tables whose verbs only look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, SparkSession

from delvec.spark.assignments import Assignments
from delvec.spark.preview import Preview, preview_delete, preview_update
from delvec.spark.target import OperationResult
from delvec.statements import changing
from delvec.statements.cursor import Name
from delvec.statements.frames import Frames
from delvec.statements.lexer import tokenize
from delvec.statements.parameters import Parameters
from delvec.statements.parser import parse
from delvec.statements.tables import Tables
from delvec.statements.tree import Delete, Update
from delvec.table import Table


def preview_statement(spark: SparkSession, text: str, values: Mapping[str, Any] | None) -> Preview | None:
    """None where the statement is no DELETE and no UPDATE of a table of delvec."""
    tables = _LookingTables(spark)
    statement = parse(text, tables.is_ours)
    if not isinstance(statement, Delete | Update):
        return None
    frames = Frames(spark, tables, Parameters(text, tokenize(text), None if values is None else dict(values)))
    if isinstance(statement, Delete):
        changing.delete(frames, statement)
    else:
        changing.update(frames, statement)
    (found,) = tables.previews
    return found


class _LookingTable(Table):
    """A table whose delete and update change nothing, and keep what they would have done."""

    def __init__(self, table: Table, previews: list[Preview]) -> None:
        super().__init__(table._spark, table._table)
        self._previews = previews

    def delete(
        self, where: str | Column | None = None, *, alias: str | None = None, **_: object
    ) -> OperationResult:
        return self._looked(preview_delete(self._spark, self._table, where, alias=alias))

    def update(
        self,
        set: Assignments,  # noqa: A002 - the word of SQL
        where: str | Column | None = None,
        *,
        alias: str | None = None,
        **_: object,
    ) -> OperationResult:
        return self._looked(preview_update(self._spark, self._table, set, where, alias=alias))

    def _looked(self, preview: Preview) -> OperationResult:
        self._previews.append(preview)
        return OperationResult(preview.version, {})


class _LookingTables(Tables):
    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.previews: list[Preview] = []
        self._looking: dict[int, _LookingTable] = {}

    def of(self, name: Name) -> Table:
        table = super().of(name)
        return self._looking.setdefault(id(table), _LookingTable(table, self.previews))
