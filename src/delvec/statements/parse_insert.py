"""INSERT after other clauses: ``WITH … INSERT INTO t SELECT …``, ``FROM … INSERT INTO a SELECT … INSERT …``.

Each target gets the rows of one query: what stands before the first INSERT, then its own SELECT. The text of
such a query is the statement's with the rest blank, so that places in it are places in the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from delvec.errors import UnsupportedFeatureError
from delvec.statements import parse_dml
from delvec.statements.cursor import Cursor, Name, Span
from delvec.statements.lexer import Kind, Token
from delvec.statements.statement import Insert, MultiInsert

_BEFORE_QUERY = ("AS", "MAX", "RECURSION", "LEVEL")


def after_with(cursor: Cursor, is_ours: parse_dml.IsOurs) -> Insert | MultiInsert | None:
    """A statement of which WITH was read; None where it is a query, or no target is ours."""
    first = cursor.at - 1
    _pass_expressions(cursor)
    if cursor.sees("INSERT") or cursor.sees("FROM"):
        return _inserts(cursor, first, is_ours)
    for words in (("DELETE", "FROM"), ("UPDATE",), ("MERGE", "INTO")):
        if cursor.takes(*words) and cursor.here.is_name and is_ours(cursor.name("a table")):
            raise UnsupportedFeatureError(
                f"WITH before {words[0]} is not supported, expected the query in a subquery or in USING",
                feature=f"WITH … {words[0]}",
            )
    return None


def after_from(cursor: Cursor, is_ours: parse_dml.IsOurs) -> Insert | MultiInsert | None:
    """A statement of which FROM was read; None where it is a query, or no target is ours."""
    return _inserts(cursor, cursor.at - 1, is_ours)


def _inserts(cursor: Cursor, first: int, is_ours: parse_dml.IsOurs) -> Insert | MultiInsert | None:
    starts = _starts(cursor)
    if not starts:
        return None
    head, named, found = cursor.tokens[first : starts[0]], [], []

    def is_target(name: Name) -> bool:
        named.append(name)
        return is_ours(name)

    for start, end in zip(starts, [*starts[1:], len(cursor.tokens) - 1], strict=True):
        body = (*cursor.tokens[start + 1 : end], Token(Kind.END, "", cursor.tokens[end].start))
        found.append(parse_dml.insert(Cursor(cursor.source, body), is_target))
    ours = [each for each in found if each is not None]
    if not ours:
        return None
    if len(ours) < len(found):
        _refuse_mixed(ours, named)
    cursor.at = len(cursor.tokens) - 1
    inserts = [replace(each, query=_query(head, each.query)) for each in ours]
    return inserts[0] if len(inserts) == 1 else MultiInsert(tuple(inserts))


def _starts(cursor: Cursor) -> list[int]:
    """Where each INSERT stands, outside of brackets."""
    found, inner = [], Cursor(cursor.source, cursor.tokens)
    inner.at = cursor.at
    while not inner.is_done:
        after = inner.ahead().word
        if inner.sees("INSERT") and after in ("INTO", "OVERWRITE") and not inner.is_field():
            found.append(inner.at)
        inner.at = inner.after_piece()
    return found


def _query(head: Sequence[Token], body: Span) -> Span:
    """The query of both, in a text that has nothing between them."""
    between = body.start - head[-1].end
    source = body.source[: head[-1].end] + " " * between + body.source[body.start :]
    return Span(source, (*head, *body.tokens))


def _pass_expressions(cursor: Cursor) -> None:
    """Go behind the common table expressions: name [(columns)] [MAX RECURSION LEVEL n] [AS] (query), …"""
    cursor.takes("RECURSIVE")
    while cursor.here.is_name:
        cursor.at += 1
        while (
            cursor.here.is_symbol("(") or cursor.here.word in _BEFORE_QUERY or cursor.here.kind is Kind.NUMBER
        ):
            cursor.at = cursor.after_piece()
        if not cursor.takes_symbol(","):
            return


def _refuse_mixed(ours: Sequence[Insert], named: Sequence[Name]) -> None:
    targets = {each.table for each in ours}
    others = ", ".join(str(name) for name in named if name not in targets) or "a directory"
    raise UnsupportedFeatureError(
        f"INSERT writes {', '.join(str(each.table) for each in ours)} of delvec and {others} of Spark in one "
        "statement, expected targets of one kind",
        feature="INSERT into tables of delvec and of Spark",
    )
