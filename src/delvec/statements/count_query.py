"""``SELECT count(*) FROM t [WHERE …]``: the count from the table's metadata, where that decides.

Only a query of exactly this form is counted here. The result is bound to the version that is the newest when
the statement runs, as every scan is. Files that the metadata does not decide are scanned when the result is
used.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from delvec.recorded_count import recorded_rows
from delvec.spark.scan import scan
from delvec.spark.types import quoted
from delvec.statements import where_conjuncts
from delvec.statements.cursor import Cursor, Span
from delvec.statements.lexer import Kind
from delvec.statements.opened_tables import snapshot_of, storage_of
from delvec.statements.run_query import Frames
from delvec.statements.table_references import relations

_SPARKS_NAME = "count(1)"
"""Spark's name for the column of ``count(*)``."""


def counted(frames: Frames, query: Span) -> DataFrame | None:
    """The result of the query; None if Spark must count all rows that it reads."""
    column = _column(query)
    if column is None:
        return None
    tables = relations(query)
    if len(tables) != 1:
        return None
    (relation,) = tables
    if relation.changes is not None or not frames.tables.is_ours(relation.name):
        return None
    scopes = frames.scopes(query, [relation], "")
    filters = None if scopes is None else where_conjuncts.all_filters(relation, scopes)
    if filters is None:
        return None
    table = frames.tables.of(relation.name)
    snapshot, where = snapshot_of(table, *frames.version_of(relation)), None
    if filters:
        qualifier = frames.qualifier(relation.name, relation.alias, snapshot.schema)
        where = where_conjuncts.whole_condition(filters, qualifier, query, frames.parameters, frames.settings)
        if where is None:
            return None
    recorded = recorded_rows(snapshot, where, frames.settings)
    if recorded is None:
        return None
    is_decided = not len(recorded.undecided.files)
    if is_decided and where is None:
        return _constant(frames, recorded.rows, column)
    rest = scan(frames.spark, recorded.undecided, storage_of(table))
    count = frames.of(query, scans={relation.span.start: rest})
    (name,) = count.columns  # Spark analyses the condition here, and refuses what it does not understand
    if is_decided:
        return _constant(frames, recorded.rows, column)
    return count.selectExpr(f"{quoted(name)} + {recorded.rows}L AS {quoted(name)}")


def _constant(frames: Frames, rows: int, column: str) -> DataFrame:
    return frames.spark.sql(f"SELECT * FROM VALUES ({rows}L) AS counted({quoted(column)})")


def _column(query: Span) -> str | None:
    """The name of the result's column if the query starts with ``SELECT count(*) [[AS] name] FROM``."""
    cursor = Cursor.over(query)
    if not (cursor.takes("SELECT", "COUNT") and cursor.takes_symbol("(")):
        return None
    is_one = cursor.here.kind is Kind.NUMBER and cursor.here.text == "1"
    if not (is_one or cursor.here.is_symbol("*")):
        return None
    cursor.at += 1
    if not cursor.takes_symbol(")"):
        return None
    column = _SPARKS_NAME
    if cursor.takes("AS") or not cursor.sees("FROM"):
        if not cursor.here.is_name:
            return None
        column = cursor.identifier("a name")
    return column if cursor.sees("FROM") else None
