"""Parses the frames of OPTIMIZE and REORG."""

from __future__ import annotations

from delvec.errors import UnsupportedFeatureError
from delvec.statements.cursor import Cursor, IsOurs, Name, Span
from delvec.statements.parse_maintenance import our_table
from delvec.statements.statement import Optimize, Purge


def optimize(cursor: Cursor, is_ours: IsOurs) -> Optimize | None:
    """OPTIMIZE table [WHERE condition] [ZORDER BY (columns)]."""
    table = our_table(cursor, is_ours)
    if table is None:
        return None
    if cursor.sees("FULL"):
        raise UnsupportedFeatureError(
            f"delvec has no OPTIMIZE … FULL, which clusters rows: use OPTIMIZE {table}, which combines files",
            feature="OPTIMIZE … FULL",
        )
    where = _where(cursor, "ZORDER")
    columns: list[Name] = []
    if cursor.takes("ZORDER"):
        cursor.expect("BY")
        if cursor.here.is_symbol("("):
            columns = cursor.bracketed(lambda inner: inner.name("a column"))
        else:
            columns = cursor.list_of(lambda: cursor.name("a column"))
    return Optimize(table, where, tuple(columns))


def purge(cursor: Cursor, is_ours: IsOurs) -> Purge | None:
    """REORG TABLE table [WHERE condition] APPLY (PURGE)."""
    table = our_table(cursor, is_ours)
    if table is None:
        return None
    where = _where(cursor, "APPLY")
    cursor.expect("APPLY")
    inner = cursor.inside()
    if inner.sees("UPGRADE"):
        raise UnsupportedFeatureError(
            "delvec has no REORG TABLE … APPLY (UPGRADE …): use APPLY (PURGE)",
            feature="REORG TABLE … APPLY (UPGRADE …)",
        )
    inner.expect("PURGE")
    inner.expect_end()
    return Purge(table, where)


def _where(cursor: Cursor, stop: str) -> Span | None:
    return cursor.until(stop, expected="a condition") if cursor.takes("WHERE") else None
