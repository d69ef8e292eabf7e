"""Parses the frames of statements that change rows: DELETE, UPDATE, MERGE, INSERT."""

from __future__ import annotations

from delvec.spark.merge_clauses import (
    DELETE,
    INSERT,
    MATCHED,
    NOT_MATCHED,
    NOT_MATCHED_BY_SOURCE,
    UPDATE,
)
from delvec.statements.cursor import QUERY_STARTS, Cursor, IsOurs, Name, Span
from delvec.statements.lexer import syntax_error
from delvec.statements.statement import Assignment, Delete, Insert, Merge, MergeClause, Update
from delvec.statements.table_references import alias_after


def delete(cursor: Cursor, is_ours: IsOurs) -> Delete | None:
    table = cursor.name("a table")
    if not is_ours(table):
        return None
    return Delete(table, _alias(cursor), _where(cursor))


def update(cursor: Cursor, is_ours: IsOurs) -> Update | None:
    table = cursor.name("a table")
    if not is_ours(table):
        return None
    alias = _alias(cursor)
    cursor.expect("SET")
    return Update(table, alias, _assignments(cursor, "WHERE"), _where(cursor))


def merge(cursor: Cursor, is_ours: IsOurs) -> Merge | None:
    merge_schema = cursor.takes("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table = cursor.name("a table")
    if not is_ours(table):
        return None
    alias = _alias(cursor)
    cursor.expect("USING")
    source = cursor.until("ON", expected="a table or a query")
    source_alias = alias_after(source)
    cursor.expect("ON")
    on = cursor.until("WHEN", expected="a condition")
    clauses = [_clause(cursor)]
    while not cursor.is_done:
        clauses.append(_clause(cursor))
    return Merge(table, alias, source, source_alias, on, tuple(clauses), merge_schema)


def insert(cursor: Cursor, is_ours: IsOurs) -> Insert | None:
    overwrite = cursor.takes("OVERWRITE")
    if overwrite:
        if cursor.sees("DIRECTORY") or cursor.sees("LOCAL", "DIRECTORY"):
            return None
        cursor.takes("INTO")
    else:
        cursor.expect("INTO")
    if cursor.ahead().is_name:
        cursor.takes("TABLE")
    table = cursor.name("a table")
    if not is_ours(table):
        return None
    partition = _partition(cursor) if cursor.takes("PARTITION") else ()
    columns = _columns(cursor) if cursor.here.is_symbol("(") and not _starts_query(cursor) else None
    by_name = cursor.takes("BY", "NAME")
    where = None
    if not overwrite and cursor.takes("REPLACE"):
        cursor.expect("WHERE")
        where = cursor.until(*QUERY_STARTS, expected="a condition")
    query = cursor.rest("a query or VALUES")
    if not (query.tokens[0].word in QUERY_STARTS or query.tokens[0].is_symbol("(")):
        raise syntax_error(cursor.source, query.start, f"found {query.tokens[0].text!r}, expected a query")
    return Insert(table, overwrite, columns, by_name, partition, where, query)


def _alias(cursor: Cursor) -> str | None:
    """The alias of the changed table, if it has one."""
    if cursor.takes("AS"):
        return cursor.identifier("an alias")
    if cursor.here.is_name and cursor.here.word not in ("SET", "WHERE", "USING"):
        return cursor.identifier("an alias")
    return None


def _where(cursor: Cursor) -> Span | None:
    if not cursor.takes("WHERE"):
        return None
    return cursor.until(expected="a condition")


def _assignments(cursor: Cursor, *stops: str) -> tuple[Assignment, ...]:
    return tuple(cursor.list_of(lambda: _assignment(cursor, *stops)))


def _assignment(cursor: Cursor, *stops: str) -> Assignment:
    column = cursor.name("a column")
    if not (cursor.takes_symbol("=") or cursor.takes_symbol("==")):
        raise cursor.error("expected =")
    return Assignment(column, cursor.until(*stops, comma=True, expected="a value"))


def _clause(cursor: Cursor) -> MergeClause:
    cursor.expect("WHEN")
    kind = MATCHED
    if cursor.takes("NOT"):
        kind = NOT_MATCHED
    cursor.expect("MATCHED")
    if kind == NOT_MATCHED and cursor.takes("BY"):
        if cursor.takes("SOURCE"):
            kind = NOT_MATCHED_BY_SOURCE
        else:
            cursor.expect("TARGET")
    condition = cursor.until("THEN", expected="a condition") if cursor.takes("AND") else None
    cursor.expect("THEN")
    if kind == NOT_MATCHED:
        return _insert_clause(cursor, condition)
    if cursor.takes("DELETE"):
        return MergeClause(kind, DELETE, condition, None)
    if not cursor.takes("UPDATE"):
        raise cursor.error("expected UPDATE or DELETE")
    cursor.expect("SET")
    if kind == MATCHED and cursor.takes_symbol("*"):
        return MergeClause(kind, UPDATE, condition, None)
    return MergeClause(kind, UPDATE, condition, _assignments(cursor, "WHEN"))


def _insert_clause(cursor: Cursor, condition: Span | None) -> MergeClause:
    cursor.expect("INSERT")
    if cursor.takes_symbol("*"):
        return MergeClause(NOT_MATCHED, INSERT, condition, None)
    place = cursor.here
    columns = _columns(cursor)
    cursor.expect("VALUES")
    inner = cursor.inside()
    values = inner.list_of(lambda: inner.until(comma=True, expected="a value"))
    if len(columns) != len(values):
        raise syntax_error(cursor.source, place.start, f"{len(columns)} columns but {len(values)} values")
    pairs = zip(columns, values, strict=True)
    return MergeClause(NOT_MATCHED, INSERT, condition, tuple(Assignment(c, v) for c, v in pairs))


def _columns(cursor: Cursor) -> tuple[Name, ...]:
    return tuple(cursor.bracketed(lambda inner: inner.name("a column")))


def _partition(cursor: Cursor) -> tuple[tuple[Name, Span | None], ...]:
    return tuple(cursor.bracketed(_partition_value))


def _partition_value(cursor: Cursor) -> tuple[Name, Span | None]:
    column = cursor.name("a partition column")
    if cursor.takes_symbol("="):
        return column, cursor.until(comma=True, expected="a value")
    return column, None


def _starts_query(cursor: Cursor) -> bool:
    """Whether the parentheses here contain a query, not a list of columns."""
    count = 0
    while cursor.ahead(count).is_symbol("("):
        count += 1
    return cursor.ahead(count).word in QUERY_STARTS and cursor.ahead(count + 1).text not in (",", ")")
