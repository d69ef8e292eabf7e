"""Names qualified by the table that is changed: taken away only where the bare name means the same."""

from __future__ import annotations

import pytest

from delvec.errors import UnsupportedFeatureError
from delvec.statements.cursor import Cursor, Span
from delvec.statements.edits import edited
from delvec.statements.lexer import tokenize
from delvec.statements.qualifiers import correlated, short_paths, unqualified_parts, without_qualifier

COLUMNS = {"id", "s", "x"}
OTHERS = {"r": {"rid", "name"}, "u": {"id"}}


def bare(text, qualifier="t"):
    span = Span(text, tokenize(text)[:-1])
    edits = [
        *short_paths(span.tokens),
        *without_qualifier(span, qualifier, COLUMNS),
        *correlated(span, qualifier, COLUMNS, lambda relation: OTHERS.get(relation.name.parts[0])),
    ]
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
        ("EXISTS (SELECT 1 FROM r WHERE r.rid = t.id)", "EXISTS (SELECT 1 FROM r WHERE r.rid = id)"),
        ("t.id IN (SELECT rid FROM r)", "id IN (SELECT rid FROM r)"),
        # another table of that name is meant
        ("id IN (SELECT t.id FROM u AS t)", "id IN (SELECT t.id FROM u AS t)"),
    ],
)
def test_qualifiers(text, expected):
    assert bare(text) == expected


def test_a_column_of_the_qualifiers_name():
    """As in Spark: first the qualifier, then a column with a field."""
    assert bare("s.id = 1 AND s.a = 2", qualifier="s") == "id = 1 AND s.a = 2"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 FROM u WHERE u.id = t.id",
        "SELECT 1 FROM unknown WHERE a = t.id",
        "SELECT 1 FROM (SELECT 1 AS id) v WHERE v.id = t.id",
        "SELECT 1 FROM r, range(3) WHERE t.id = 1",
        "SELECT 1 FROM r AS v(id, b) WHERE v.b = t.id",
        "SELECT 1 FROM r LATERAL VIEW explode(name) e AS id WHERE rid = t.id",
        "WITH c AS (SELECT 1 AS id) SELECT 1 FROM c WHERE t.id = 1",
        "SELECT 1 FROM r WHERE rid IN (SELECT id FROM u WHERE t.id = 2)",
    ],
)
def test_rejects_what_could_be_another_tables_column(query):
    with pytest.raises(UnsupportedFeatureError, match=r"t\.id in a subquery could be another table's"):
        bare(f"EXISTS ({query})")


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
    assert unqualified_parts(name, "t", COLUMNS) == parts
