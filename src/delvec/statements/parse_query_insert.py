"""Parses INSERT after other clauses: ``WITH … INSERT INTO t SELECT …``,
``FROM … INSERT INTO a SELECT … INSERT …``.

The query of each target is the text before the first INSERT, then the target's own SELECT. The other text is
replaced by spaces, so that positions in the query are positions in the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from delvec.errors import UnsupportedFeatureError
from delvec.statements import parse_dml
from delvec.statements.cursor import Cursor, IsOurs, Name, Span
from delvec.statements.lexer import Kind, Token
from delvec.statements.statement import Insert, MultiInsert

_BEFORE_QUERY = ("AS", "MAX", "RECURSION", "LEVEL")


def after_with(cursor: Cursor, is_ours: IsOurs) -> Insert | MultiInsert | None:
    """A statement after its WITH; None if it is a query, or if no target is a delvec table."""
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


def after_from(cursor: Cursor, is_ours: IsOurs) -> Insert | MultiInsert | None:
    """A statement after its FROM; None if it is a query, or if no target is a delvec table."""
    return _inserts(cursor, cursor.at - 1, is_ours)


def _inserts(cursor: Cursor, first: int, is_ours: IsOurs) -> Insert | MultiInsert | None:
    starts = _starts(cursor)
    if not starts:
        return None
    head, names, inserts = cursor.tokens[first : starts[0]], [], []

    def is_target(name: Name) -> bool:
        names.append(name)
        return is_ours(name)

    for start, end in zip(starts, [*starts[1:], len(cursor.tokens) - 1], strict=True):
        body = (*cursor.tokens[start + 1 : end], Token(Kind.END, "", cursor.tokens[end].start))
        inserts.append(parse_dml.insert(Cursor(cursor.source, body), is_target))
    delvec_inserts = [insert for insert in inserts if insert is not None]
    if not delvec_inserts:
        return None
    if len(delvec_inserts) < len(inserts):
        _refuse_mixed(delvec_inserts, names)
    cursor.at = len(cursor.tokens) - 1
    complete = [replace(insert, query=_query(head, insert.query)) for insert in delvec_inserts]
    return complete[0] if len(complete) == 1 else MultiInsert(tuple(complete))


def _starts(cursor: Cursor) -> list[int]:
    """The index of each INSERT outside of brackets."""
    starts, inner = [], Cursor(cursor.source, cursor.tokens)
    inner.at = cursor.at
    while not inner.is_done:
        after = inner.ahead().word
        if inner.sees("INSERT") and after in ("INTO", "OVERWRITE") and not inner.is_field():
            starts.append(inner.at)
        inner.at = inner.after_group()
    return starts


def _query(head: Sequence[Token], body: Span) -> Span:
    """The query of both parts, in a text with spaces between them."""
    between = body.start - head[-1].end
    source = body.source[: head[-1].end] + " " * between + body.source[body.start :]
    return Span(source, (*head, *body.tokens))


def _pass_expressions(cursor: Cursor) -> None:
    """Move behind the common table expressions: name [(columns)] [MAX RECURSION LEVEL n] [AS] (query), …"""
    cursor.takes("RECURSIVE")
    while cursor.here.is_name:
        cursor.at += 1
        while (
            cursor.here.is_symbol("(") or cursor.here.word in _BEFORE_QUERY or cursor.here.kind is Kind.NUMBER
        ):
            cursor.at = cursor.after_group()
        if not cursor.takes_symbol(","):
            return


def _refuse_mixed(delvec_inserts: Sequence[Insert], names: Sequence[Name]) -> None:
    targets = {insert.table for insert in delvec_inserts}
    delvec_targets = ", ".join(str(insert.table) for insert in delvec_inserts)
    other_targets = ", ".join(str(name) for name in names if name not in targets) or "a directory"
    raise UnsupportedFeatureError(
        f"INSERT writes {delvec_targets} of delvec and {other_targets} of Spark in one "
        "statement, expected targets of one kind",
        feature="INSERT into tables of delvec and of Spark",
    )
