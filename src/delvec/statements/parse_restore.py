"""Parses RESTORE [TABLE] table [TO] VERSION AS OF n, or TIMESTAMP AS OF time."""

from __future__ import annotations

from delvec.statements.cursor import Cursor, IsOurs
from delvec.statements.statement import Restore
from delvec.statements.table_references import version_clause


def restore(cursor: Cursor, is_ours: IsOurs) -> Restore | None:
    if not cursor.here.is_name:
        return None
    table = cursor.name("a table")
    if not is_ours(table):
        return None
    cursor.takes("TO")
    version, timestamp = version_clause(cursor)
    if version is None and timestamp is None:
        raise cursor.error("expected TO VERSION AS OF or TO TIMESTAMP AS OF")
    return Restore(table, version, timestamp)
