"""CREATE VIEW: the frame of the statement, and temporary views of the rows that its query gives."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.statements.cursor import Cursor, Name, Span
from delvec.statements.lexer import Kind, Token
from delvec.statements.run_query import Frames
from delvec.statements.statement import CreateView, ViewKind
from delvec.table import registered_table

IsOurs = Callable[[Name], bool]

STARTS = tuple(
    ("CREATE", *replacing, *kind, "VIEW")
    for replacing in ((), ("OR", "REPLACE"))
    for kind in ((), *((*scope, word) for scope in ((), ("GLOBAL",)) for word in ("TEMP", "TEMPORARY")))
)


def create(cursor: Cursor, is_ours: IsOurs) -> CreateView | None:
    """None where it is no view of a query; whether that reads a table of ours is not known here."""
    del is_ours
    words = {token.word for token in cursor.tokens[: cursor.at]}
    cursor.takes("IF", "NOT", "EXISTS")
    view = cursor.name("a view")
    columns = None
    if cursor.here.is_symbol("("):
        columns = cursor.inside().rest("names of columns")
    first = cursor.at
    while not (cursor.is_done or cursor.sees("AS")):
        cursor.at = cursor.closing() + 1 if cursor.here.is_symbol("(") else cursor.at + 1
    clauses = cursor.span(first, cursor.at) if cursor.at > first else None
    if not cursor.takes("AS"):
        return None
    kind = ViewKind.PERMANENT
    if words & {"TEMP", "TEMPORARY"}:
        kind = ViewKind.GLOBAL if "GLOBAL" in words else ViewKind.TEMPORARY
    return CreateView(view, kind, "REPLACE" in words, columns, clauses, cursor.rest("a query"))


def run(frames: Frames, asked: CreateView) -> None:
    """Make the view. It keeps the versions that the tables have now: Spark stores a plan, not the text."""
    if asked.kind is ViewKind.PERMANENT:
        raise UnsupportedFeatureError(
            f"delvec has no CREATE VIEW over its tables, which Spark's catalog does not know: use CREATE "
            f"TEMPORARY VIEW {asked.view}",
            feature="CREATE VIEW",
        )
    if asked.clauses is not None:
        raise UnsupportedFeatureError(
            f"delvec has no CREATE {asked.kind.value} … {asked.clauses.tokens[0].text.upper()}, expected AS "
            f"after the name and columns of {asked.view}",
            feature=f"CREATE {asked.kind.value} … {asked.clauses.tokens[0].text.upper()}",
        )
    name = _name(frames, asked)
    rows = _renamed(frames.of(asked.query), asked)
    if asked.kind is ViewKind.GLOBAL:
        _ = rows.createOrReplaceGlobalTempView(name) if asked.replace else rows.createGlobalTempView(name)
    else:
        _ = rows.createOrReplaceTempView(name) if asked.replace else rows.createTempView(name)


def _name(frames: Frames, asked: CreateView) -> str:
    if len(asked.view.parts) != 1:
        raise InvalidOperationError(f"the temporary view is {asked.view}, expected a name without a dot")
    name = asked.view.parts[0]
    known = registered_table(name, frames.spark)
    if known is not None and asked.kind is ViewKind.TEMPORARY:
        raise InvalidOperationError(f"{asked.view} is already the name of a table: {known.location}")
    return name


def _renamed(rows: DataFrame, asked: CreateView) -> DataFrame:
    if asked.columns is None:
        return rows
    names = _names(asked.columns)
    if len(names) != len(rows.columns):
        raise InvalidOperationError(
            f"view {asked.view} names {len(names)} columns, expected as many as its query has: "
            f"{', '.join(rows.columns)}"
        )
    return rows.toDF(*names)


def _names(columns: Span) -> list[str]:
    cursor = Cursor(columns.source, (*columns.tokens, Token(Kind.END, "", columns.end)))
    found = [_column(cursor)]
    while cursor.takes_symbol(","):
        found.append(_column(cursor))
    cursor.expect_end()
    return found


def _column(cursor: Cursor) -> str:
    name = cursor.identifier("the name of a column")
    if cursor.takes("COMMENT"):
        cursor.token(Kind.STRING, expected="a comment in quotes")
    return name
