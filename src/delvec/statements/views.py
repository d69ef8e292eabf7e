"""CREATE VIEW: parses the statement's frame, and creates temporary views over delvec's tables."""

from __future__ import annotations

from pyspark.sql import DataFrame

from delvec import name_resolver
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.statements.cursor import Cursor, IsOurs, Span
from delvec.statements.lexer import Kind
from delvec.statements.run_query import Frames
from delvec.statements.statement import CreateView, ViewKind

STARTS = tuple(
    ("CREATE", *replacing, *kind, "VIEW")
    for replacing in ((), ("OR", "REPLACE"))
    for kind in ((), *((*scope, word) for scope in ((), ("GLOBAL",)) for word in ("TEMP", "TEMPORARY")))
)


def create(cursor: Cursor, is_ours: IsOurs) -> CreateView | None:
    """None if it is not a view of a query."""
    del is_ours  # whether the query reads a delvec table is found out when it runs
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


def run(frames: Frames, statement: CreateView) -> None:
    """Create the view. It stays at the tables' current versions: Spark stores a plan, not the text."""
    if statement.kind is ViewKind.PERMANENT:
        raise UnsupportedFeatureError(
            f"delvec has no CREATE VIEW over its tables, which Spark's catalog does not know: use CREATE "
            f"TEMPORARY VIEW {statement.view}",
            feature="CREATE VIEW",
        )
    if statement.clauses is not None:
        feature = f"CREATE {statement.kind.value} … {statement.clauses.tokens[0].text.upper()}"
        raise UnsupportedFeatureError(
            f"delvec has no {feature}, expected AS after the name and columns of {statement.view}",
            feature=feature,
        )
    name = _name(statement)
    rows = _renamed(frames.of(statement.query), statement)
    if statement.kind is ViewKind.GLOBAL:
        _ = rows.createOrReplaceGlobalTempView(name) if statement.replace else rows.createGlobalTempView(name)
    else:
        _ = rows.createOrReplaceTempView(name) if statement.replace else rows.createTempView(name)


def _name(statement: CreateView) -> str:
    if len(statement.view.parts) != 1:
        raise InvalidOperationError(f"the temporary view is {statement.view}, expected a name without a dot")
    name = statement.view.parts[0]
    existing = name_resolver.registered(name)
    if existing is not None and statement.kind is ViewKind.TEMPORARY:
        raise InvalidOperationError(f"{statement.view} is already the name of a table: {existing.location}")
    return name


def _renamed(rows: DataFrame, statement: CreateView) -> DataFrame:
    if statement.columns is None:
        return rows
    names = _names(statement.columns)
    if len(names) != len(rows.columns):
        raise InvalidOperationError(
            f"view {statement.view} names {len(names)} columns, expected as many as its query has: "
            f"{', '.join(rows.columns)}"
        )
    return rows.toDF(*names)


def _names(columns: Span) -> list[str]:
    cursor = Cursor.over(columns)
    names = cursor.list_of(lambda: _column(cursor))
    cursor.expect_end()
    return names


def _column(cursor: Cursor) -> str:
    name = cursor.identifier("the name of a column")
    if cursor.takes("COMMENT"):
        cursor.token(Kind.STRING, expected="a comment in quotes")
    return name
