"""Parses the clauses of ALTER TABLE about branches and tags, as Iceberg's SQL extensions have them.

CREATE BRANCH [IF NOT EXISTS] b, CREATE OR REPLACE BRANCH b, REPLACE BRANCH b
    [AS OF VERSION n] [RETAIN n DAYS] [WITH SNAPSHOT RETENTION [n SNAPSHOTS] [n DAYS]]
the same with TAG, without SNAPSHOT RETENTION
DROP BRANCH [IF EXISTS] b, DROP TAG [IF EXISTS] b
"""

from __future__ import annotations

from dataclasses import replace

from delvec.ref_changes import BRANCH, TAG, IfExists
from delvec.statements.cursor import Cursor, Name, Span
from delvec.statements.expression_ends import after_value
from delvec.statements.lexer import Kind
from delvec.statements.statement import CreateRef, DropRef, Duration

_KINDS = {"BRANCH": BRANCH, "TAG": TAG}
_UNITS_MS = {"DAYS": 86_400_000, "HOURS": 3_600_000, "MINUTES": 60_000}
_STARTS = (
    (("CREATE", "OR", "REPLACE"), IfExists.REPLACE),
    (("REPLACE",), IfExists.MUST_REPLACE),
    (("CREATE",), IfExists.REFUSE),
)


def alter(cursor: Cursor, table: Name) -> CreateRef | DropRef | None:
    """The clause here; None if it is another one, and the cursor does not move."""
    for word, kind in _KINDS.items():
        if cursor.takes("DROP", word):
            if_exists = cursor.takes("IF", "EXISTS")
            return DropRef(table, _ref_name(cursor, kind), kind, if_exists)
        for words, existing in _STARTS:
            if cursor.takes(*words, word):
                keeps = existing is IfExists.REFUSE and cursor.takes("IF", "NOT", "EXISTS")
                name = _ref_name(cursor, kind)
                return _options(cursor, CreateRef(table, name, kind, IfExists.KEEP if keeps else existing))
    return None


def _ref_name(cursor: Cursor, kind: str) -> str:
    return cursor.identifier(f"the name of a {kind}")


def _options(cursor: Cursor, statement: CreateRef) -> CreateRef:
    if cursor.takes("AS", "OF", "VERSION"):
        first = cursor.at
        cursor.at = after_value(cursor)
        statement = replace(statement, version=cursor.span(first, cursor.at))
    if cursor.takes("RETAIN"):
        statement = replace(statement, max_ref_age=_duration(cursor, _number(cursor)))
    if statement.kind == BRANCH and cursor.takes("WITH", "SNAPSHOT", "RETENTION"):
        statement = _snapshot_retention(cursor, statement)
    if not cursor.is_done:
        expected = "AS OF VERSION, RETAIN" + ", WITH SNAPSHOT RETENTION" * (statement.kind == BRANCH)
        raise cursor.error(f"expected {expected} or the end of the statement")
    return statement


def _snapshot_retention(cursor: Cursor, statement: CreateRef) -> CreateRef:
    number = _number(cursor)
    if cursor.takes("SNAPSHOTS"):
        statement = replace(statement, min_versions=number)
        if cursor.is_done:
            return statement
        number = _number(cursor)
    return replace(statement, max_version_age=_duration(cursor, number))


def _number(cursor: Cursor) -> Span:
    cursor.token(Kind.NUMBER, Kind.MARKER, expected="a whole number")
    return cursor.span(cursor.at - 1, cursor.at)


def _duration(cursor: Cursor, number: Span) -> Duration:
    for unit, unit_ms in _UNITS_MS.items():
        if cursor.takes(unit):
            return Duration(number, unit_ms)
    raise cursor.error("expected DAYS, HOURS or MINUTES")
