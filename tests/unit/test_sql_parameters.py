"""Values for markers: literals that cannot be escaped from, and markers without a value."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delvec.errors import InvalidOperationError
from delvec.statements.cursor import Span
from delvec.statements.lexer import Kind, tokenize
from delvec.statements.parameters import Parameters, literal

PLUS_TWO = dt.timezone(dt.timedelta(hours=2))


def bound(text, args):
    tokens = tokenize(text)
    return Parameters(text, tokens, args).text(Span(text, tokens[:-1]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (5, "5"),
        (-5, "(-5)"),
        (1.5, "1.5D"),
        (-0.0, "(-0.0D)"),
        (1e300, "1e+300D"),
        (float("nan"), "CAST('NaN' AS DOUBLE)"),
        (float("-inf"), "CAST('-Infinity' AS DOUBLE)"),
        (Decimal("1.50"), "1.50BD"),
        (Decimal("-1E+2"), "(-100BD)"),
        ("plain é", "'plain é'"),
        ("it's", "decode(X'69742773', 'UTF-8')"),
        ("a\\", "decode(X'615c', 'UTF-8')"),
        ("${x}", "decode(X'247b787d', 'UTF-8')"),
        ("a\nb", "decode(X'610a62', 'UTF-8')"),
        (b"\x00'", "X'0027'"),
        (dt.date(2025, 1, 31), "DATE'2025-01-31'"),
        (dt.datetime(2025, 1, 31, 2, 3, 4, 5, PLUS_TWO), "TIMESTAMP_LTZ'2025-01-31 00:03:04.000005Z'"),
        (dt.timedelta(days=1, seconds=3661, microseconds=7), "INTERVAL '1 01:01:01.000007' DAY TO SECOND"),
        (dt.timedelta(seconds=-1), "INTERVAL '-0 00:00:01.000000' DAY TO SECOND"),
        ([1, "a"], "array(1, 'a')"),
        ({"a": 1}, "map('a', 1)"),
    ],
)
def test_literals(value, text):
    assert literal(value, ":x") == text


@given(st.text(max_size=20))
def test_a_text_is_one_literal_whatever_is_in_it(value):
    tokens = tokenize(literal(value, ":x"))[:-1]
    if tokens[0].kind is Kind.STRING:
        assert [token.text for token in tokens] == [f"'{value}'"]
        assert not set("'\"\\$\n") & set(value)
    else:
        name, opening, held, *rest = tokens
        assert [name.text, opening.text, *(token.text for token in rest)] == [
            "decode",
            "(",
            ",",
            "'UTF-8'",
            ")",
        ]
        assert bytes.fromhex(held.text[2:-1]).decode() == value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (1 << 63, "expected a 64-bit number"),
        (Decimal("NaN"), "expected a number"),
        ("\ud800", "expected a string that can be encoded as UTF-8"),
        (object(), "is object, expected a SQL value"),
        (dt.datetime(999, 1, 1, tzinfo=dt.UTC), "expected a later time"),
    ],
)
def test_rejects_values(value, problem):
    with pytest.raises(InvalidOperationError, match=problem):
        literal(value, ":x")


def test_markers_become_literals_and_nothing_else_changes():
    assert (
        bound("a = :a AND b = ':a' -- :a\n AND c=:b", {"a": 1, "b": "x"})
        == "a = 1 AND b = ':a' -- :a\n AND c='x'"
    )
    assert bound("a = ? AND b IN (?, ?)", [1, 2, 3]) == "a = 1 AND b IN (2, 3)"
    assert bound("a -:x", {"x": -1}) == "a -(-1)"


@pytest.mark.parametrize(
    ("text", "args", "problem"),
    [
        ("a = :x", None, "column 5: :x has no value in args, which has none"),
        ("a = :x", {"y": 1}, ":x has no value in args, which has y"),
        ("a = 1", {"y": 1}, "args has y, which the statement does not use"),
        ("a = ?", {"y": 1}, "? has no value: args has names, so use :name"),
        ("a = ? AND b = ?", [1], "column 15: ? has no value in args, which has 1"),
        ("a = ?", [1, 2], "args has 2 values, expected 1"),
        ("a = :x", [1], ":x has no value"),
        ("a = :x AND b = ?", {"x": 1}, "column 16: found ? beside :x"),
        ("a = 1", "text", "args is str, expected a dict or a list"),
    ],
)
def test_rejects_markers_and_values_that_do_not_fit(text, args, problem):
    with pytest.raises(InvalidOperationError) as caught:
        bound(text, args)
    assert problem in str(caught.value)


def test_a_query_without_what_is_replaced():
    text = "SELECT ? FROM t VERSION AS OF ? WHERE a = ?"
    tokens = tokenize(text)
    parameters = Parameters(text, tokens, [1, 2, 3])
    whole = Span(text, tokens[:-1])
    version = Span(text, tokens[7:8])
    assert version.text == "?"
    edits, args = parameters.for_query(whole, [version])
    assert [(edit.start, edit.text) for edit in edits] == [(7, "1"), (42, "3")]
    assert args is None
