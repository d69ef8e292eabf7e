"""Names qualified by the table that is changed: taken away where the bare name means the same."""

from __future__ import annotations

import pytest

from delvec.schema import Field, Primitive, Struct
from delvec.statements.cursor import Cursor, Span
from delvec.statements.lexer import tokenize
from delvec.statements.qualifiers import Qualifier, without_qualifier
from delvec.statements.scopes import Scopes
from delvec.statements.text_edits import edited

COLUMNS = Struct(tuple(Field(name, Primitive("long")) for name in ("id", "s", "x")))


def bare(text, qualifier="t"):
    span = Span(text, tokenize(text)[:-1])
    table = Qualifier(("delta", qualifier), COLUMNS, case_sensitive=False)
    edits = without_qualifier(Scopes.of(span, before="SELECT "), table)
    return edited(text, span.start, span.end, edits)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t.id = 1 AND T.x = t.s.a", "id = 1 AND x = s.a"),
        ("`t`.`id` = 1", "`id` = 1"),
        ("a.t.id = 1", "a.t.id = 1"),
        ("delta.`t`.id = 1", "id = 1"),
        ("'t.id' = t.id", "'t.id' = id"),
        ("t.nothing = 1", "nothing = 1"),
        # a variable of a lambda, in whichever case
        (
            "t.id = 1 AND exists(s, T -> t.id = 5 AND t.x = 1)",
            "id = 1 AND exists(s, T -> t.id = 5 AND t.x = 1)",
        ),
        (
            "exists(s, (a, T) -> exists(a, b -> t.id = b)) OR t.x = 1",
            "exists(s, (a, T) -> exists(a, b -> t.id = b)) OR x = 1",
        ),
        # in a subquery the bare name could be another table's
        ("EXISTS (SELECT 1 FROM r WHERE r.id = t.id)", "EXISTS (SELECT 1 FROM r WHERE r.id = t.id)"),
        ("t.id IN (SELECT rid FROM r)", "id IN (SELECT rid FROM r)"),
        ("id IN (SELECT t.id FROM u AS t)", "id IN (SELECT t.id FROM u AS t)"),
    ],
)
def test_qualifiers(text, expected):
    assert bare(text) == expected


def test_a_column_of_the_qualifiers_name():
    """As in Spark: first the qualifier, then a column with a field."""
    assert bare("s.id = 1 AND s.a = 2", qualifier="s") == "id = 1 AND s.a = 2"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("id", ("id",)),
        ("t.id", ("id",)),
        ("s.a", ("s", "a")),
        ("t.s.a", ("s", "a")),
        ("delta.`t`.id", ("id",)),
    ],
)
def test_columns_that_are_set(text, parts):
    name = Cursor(text, tokenize(text)).name("a column")
    table = Qualifier(("delta", "t"), COLUMNS, case_sensitive=False)
    assert name.parts[table.length(name.parts) :] == parts
