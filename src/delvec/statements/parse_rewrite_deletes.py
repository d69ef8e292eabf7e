"""Parses the frame of REWRITE DELETES."""

from __future__ import annotations

from delvec.statements.cursor import Cursor, IsOurs, Span
from delvec.statements.lexer import Kind
from delvec.statements.parse_maintenance import our_table
from delvec.statements.statement import RewriteDeletes

_TEXT = (Kind.STRING, Kind.MARKER)


def rewrite_deletes(cursor: Cursor, is_ours: IsOurs) -> RewriteDeletes | None:
    """REWRITE DELETES table [TO 'form'] [ENCODING 'encoding'] [WHERE condition] [DRY RUN]."""
    table = our_table(cursor, is_ours)
    if table is None:
        return None
    to = _text(cursor, "TO", "a form such as 'deletion-vector'")
    encoding = _text(cursor, "ENCODING", "an encoding such as 'auto'")
    where = cursor.until("DRY", expected="a condition") if cursor.takes("WHERE") else None
    return RewriteDeletes(table, to, encoding, where, dry_run=cursor.takes("DRY", "RUN"))


def _text(cursor: Cursor, word: str, expected: str) -> Span | None:
    if not cursor.takes(word):
        return None
    cursor.token(*_TEXT, expected=expected)
    return cursor.span(cursor.at - 1, cursor.at)
