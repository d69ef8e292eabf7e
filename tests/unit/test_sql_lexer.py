"""Tokens of Spark SQL: what they are, where they stand, and what does not end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delvec.errors import InvalidOperationError
from delvec.statements.lexer import Kind, syntax_error, tokenize


def texts(text):
    return [token.text for token in tokenize(text)[:-1]]


def kinds(text):
    return [token.kind for token in tokenize(text)[:-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a.b, c", ["SELECT", "a", ".", "b", ",", "c"]),
        ("a -- b 'c\n d", ["a", "d"]),
        ("a -- b \\\n c\n d", ["a", "d"]),
        ("a /* b */ c", ["a", "c"]),
        ("a /* b /* c */ d */ e", ["a", "e"]),
        ("SELECT /*+ BROADCAST(t) */ a", ["SELECT", "a"]),
        ("'it''s' 'it\\'s' \"a'b\" x", ["'it''s'", "'it\\'s'", '"a\'b"', "x"]),
        ("r'a\\' b", ["r'a\\'", "b"]),
        ("X'1F' b", ["X'1F'", "b"]),
        ("DATE'2025-01-01'", ["DATE", "'2025-01-01'"]),
        ("`a ``b` c", ["`a ``b`", "c"]),
        ("10L 1.5e-3 .5 2BD", ["10L", "1.5e-3", ".5", "2BD"]),
        ("a<=>b||c::int->d", ["a", "<=>", "b", "||", "c", "::", "int", "->", "d"]),
        ("x--y", ["x"]),
        ("été = 1", ["été", "=", "1"]),
    ],
)
def test_tokens(text, expected):
    assert texts(text) == expected


@pytest.mark.parametrize(
    ("text", "markers"),
    [
        ("a = :x AND b=:y", [":x", ":y"]),
        ("a = ? AND b=?", ["?", "?"]),
        ("a::int", []),
        ("STRUCT<a:INT, `b`:INT, c: INT>", []),
        ("v:field[0]:x", []),
        ("':x' = \":y\" -- :z", []),
        ("LIMIT :n", [":n"]),
        ("array(:a, :b)", [":a", ":b"]),
    ],
)
def test_markers(text, markers):
    assert [token.text for token in tokenize(text) if token.kind is Kind.MARKER] == markers


def test_a_quoted_name_is_no_word():
    (token, _) = tokenize("`select`")
    assert (token.word, token.name, token.is_name) == ("", "select", True)


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("SELECT 'a", 1, 8, "the string does not end"),
        ("SELECT\n  `a", 2, 3, "the quoted name does not end"),
        ('x = "a\\"', 1, 5, "the string does not end"),
        ("a /* b /* c */", 1, 3, "the comment does not end"),
    ],
)
def test_rejects_what_does_not_end(text, line, column, problem):
    with pytest.raises(InvalidOperationError) as caught:
        tokenize(text)
    message = str(caught.value)
    assert f"line {line}, column {column}: {problem}" in message
    shown, pointer = message.splitlines()[1:]
    assert shown == text.splitlines()[line - 1]
    assert pointer == " " * (column - 1) + "^"


def test_the_place_is_shown_after_tabs_and_at_the_end():
    assert str(syntax_error("a\n\tb c", 5, "x")).splitlines() == [
        "syntax error at line 2, column 4: x",
        "\tb c",
        "\t  ^",
    ]
    assert str(syntax_error("ab", 2, "x")).splitlines()[1:] == ["ab", "  ^"]
    assert str(syntax_error("ab\n", 3, "x")).splitlines()[1:] == ["", "^"]


@given(st.text(alphabet="ab1 .,'\"`\\-/*:?\n()<>=xXrR", max_size=40))
def test_tokens_are_the_text_without_what_is_between_them(text):
    try:
        tokens = tokenize(text)
    except InvalidOperationError:
        return
    at = 0
    for token in tokens:
        assert text[token.start : token.end] == token.text
        between = text[at : token.start]
        assert not between.strip() or between.strip().startswith(("--", "/*"))
        at = token.end
