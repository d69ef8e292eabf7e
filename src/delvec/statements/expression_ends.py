"""Finds the end of a value expression."""

from __future__ import annotations

from delvec.statements.cursor import Cursor
from delvec.statements.lexer import Kind

_OPERATORS = frozenset(["+", "-", "*", "/", "%", "||", "&", "|", "^", "<<", ">>"])
_LITERAL_WORDS = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "INTERVAL", "X", "BINARY", "TIME")
_UNITS = frozenset(
    (
        *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"),
        *("MILLISECOND", "MICROSECOND", "NANOSECOND"),
    )
)


def after_value(cursor: Cursor) -> int:
    """The index after the value expression here, such as the time in TIMESTAMP AS OF.

    An alias may follow without AS: the expression ends at the first token that neither is an operator nor
    belongs to a value.
    """
    start = cursor.at
    _pass_value(cursor)
    while (cursor.here.kind is Kind.SYMBOL and cursor.here.text in _OPERATORS) or cursor.sees("DIV"):
        cursor.at += 1
        _pass_value(cursor)
    end, cursor.at = cursor.at, start
    return end


def _pass_value(cursor: Cursor) -> None:
    while cursor.here.text in ("+", "-", "~"):
        cursor.at += 1
    if cursor.is_done or (cursor.here.kind is Kind.SYMBOL and cursor.here.text != "("):
        raise cursor.error("expected a value")
    if cursor.takes("INTERVAL"):
        _pass_interval(cursor)
    elif cursor.sees("CASE"):
        cursor.at = _after_case(cursor)
    elif cursor.here.is_symbol("("):
        cursor.at = cursor.closing() + 1
    else:
        typed = cursor.here.word in _LITERAL_WORDS and cursor.ahead().kind is Kind.STRING
        cursor.at += 2 if typed else 1
    while cursor.here.text in ("(", "[", ".", "::"):
        cursor.at = cursor.at + 2 if cursor.here.is_symbol(".") else cursor.after_group()


def _pass_interval(cursor: Cursor) -> None:
    """Values with units: '1' DAY, 2 HOURS 3 MINUTES, '1-2' YEAR TO MONTH; or one string with all of them."""
    while True:
        cursor.takes_symbol("-")
        is_text = cursor.here.kind is Kind.STRING
        cursor.at = cursor.closing() + 1 if cursor.here.is_symbol("(") else cursor.at + 1
        if is_text and cursor.here.word.rstrip("S") not in _UNITS:
            return
        if cursor.here.kind is Kind.WORD:
            cursor.at += 1
        if cursor.takes("TO"):
            cursor.at += 1
        if cursor.here.kind is not Kind.NUMBER:
            return


def _after_case(cursor: Cursor) -> int:
    start, depth = cursor.at, 0
    while not cursor.is_done:
        depth += {"CASE": 1, "END": -1}.get(cursor.here.word, 0)
        cursor.at += 1
        if not depth:
            return cursor.at
    cursor.at = start
    raise cursor.error("CASE has no END")
