"""Parses the frames of statements that describe, empty or drop a table: DESCRIBE, SHOW, TRUNCATE, DROP."""

from __future__ import annotations

from delvec.errors import UnsupportedFeatureError
from delvec.statements.cursor import Cursor, IsOurs, Name
from delvec.statements.lexer import Kind, syntax_error
from delvec.statements.parse_ddl import property_key
from delvec.statements.statement import (
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    DropTable,
    Property,
    ShowColumns,
    ShowProperties,
    Truncate,
)


def describe_history(cursor: Cursor, is_ours: IsOurs) -> DescribeHistory | None:
    table = _our_table(cursor, is_ours)
    if table is None:
        return None
    limit = None
    if cursor.takes("LIMIT"):
        number = cursor.token(Kind.NUMBER, expected="a number of commits")
        if not number.text.isdecimal():
            raise syntax_error(cursor.source, number.start, f"found {number.text}, expected a whole number")
        limit = int(number.text)
    return DescribeHistory(table, limit)


def describe_detail(cursor: Cursor, is_ours: IsOurs) -> DescribeDetail | None:
    table = _our_table(cursor, is_ours)
    return None if table is None else DescribeDetail(table)


def describe(cursor: Cursor, is_ours: IsOurs) -> DescribeTable | None:
    """DESCRIBE [TABLE] [EXTENDED | FORMATTED] table [column]."""
    if cursor.ahead().is_name:
        cursor.takes("TABLE")
    extended = cursor.ahead().is_name and (cursor.takes("EXTENDED") or cursor.takes("FORMATTED"))
    table = _our_table(cursor, is_ours)
    if table is None:
        return None
    if cursor.sees("PARTITION") or cursor.sees("AS", "JSON"):
        clause = "PARTITION" if cursor.sees("PARTITION") else "AS JSON"
        raise UnsupportedFeatureError(
            f"delvec has no DESCRIBE … {clause}: use DESCRIBE {table} or DESCRIBE DETAIL {table}",
            feature=f"DESCRIBE … {clause}",
        )
    column = None if cursor.is_done else cursor.name("a column")
    return DescribeTable(table, extended, column)


def show_columns(cursor: Cursor, is_ours: IsOurs) -> ShowColumns | None:
    if not (cursor.takes("IN") or cursor.takes("FROM")):
        return None
    table = _our_table(cursor, is_ours)
    return None if table is None else ShowColumns(table)


def show_properties(cursor: Cursor, is_ours: IsOurs) -> ShowProperties | None:
    table = _our_table(cursor, is_ours)
    if table is None:
        return None
    if cursor.is_done:
        return ShowProperties(table, None)
    inner = cursor.inside()
    key = property_key(inner)
    inner.expect_end()
    return ShowProperties(table, Property(key, None))


def truncate(cursor: Cursor, is_ours: IsOurs) -> Truncate | None:
    table = _our_table(cursor, is_ours)
    if table is None:
        return None
    if cursor.sees("PARTITION"):
        raise UnsupportedFeatureError(
            f"delvec has no TRUNCATE TABLE … PARTITION: use DELETE FROM {table} WHERE …",
            feature="TRUNCATE TABLE … PARTITION",
        )
    return Truncate(table)


def drop(cursor: Cursor, is_ours: IsOurs) -> DropTable | None:
    """DROP TABLE [IF EXISTS] name: drops only the name, as Spark does for an external table."""
    if_exists = cursor.takes("IF", "EXISTS")
    table = _our_table(cursor, is_ours)
    if table is None:
        return None
    if table.is_path:
        raise UnsupportedFeatureError(
            f"delvec has no DROP TABLE of a path: it drops names, and the files of {table} would stay; use "
            "TRUNCATE TABLE to delete the rows, or delete the folder",
            feature="DROP TABLE of a path",
        )
    if cursor.sees("PURGE"):
        raise UnsupportedFeatureError(
            f"delvec has no DROP TABLE … PURGE: it deletes no files; use DROP TABLE {table}, then delete the "
            "folder",
            feature="DROP TABLE … PURGE",
        )
    return DropTable(table, if_exists)


def _our_table(cursor: Cursor, is_ours: IsOurs) -> Name | None:
    """The name of a table here; None if there is no name, or if it is not a delvec table."""
    if not cursor.here.is_name:
        return None
    table = cursor.name("a table")
    return table if is_ours(table) else None
