"""Scopes of a query: places in sqlglot's tree are places in the statement, and paths are found in scope."""

from __future__ import annotations

import pytest

from delvec.schema import Field, Primitive, Struct
from delvec.statements.cursor import Span
from delvec.statements.lexer import tokenize
from delvec.statements.qualifiers import Qualifier, short_paths
from delvec.statements.scopes import Scopes
from delvec.statements.table_references import relations
from delvec.statements.text_edits import edited


def span(text):
    return Span(text, tokenize(text)[:-1])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.b, `c d`.e[0].f FROM t WHERE g = 'x' AND h.`i`` j`.k.l.m = :n",
        "SELECT /* a.b */ x -- y\n, z FROM t",
        "SELECT x, r'\\', 'it\\'s', \"a'b\", X'1F' FROM t",
    ],
)
def test_names_know_their_places(text):
    scopes = Scopes.of(span(text), relations(span(text)))
    found = [
        (part, start)
        for named in scopes.names(scopes.tree)
        for part, start in zip(named.parts, named.starts, strict=True)
    ]
    tokens = {token.start: token.name for token in tokenize(text)}
    assert found
    assert all(tokens[start] == part for part, start in found)


@pytest.mark.parametrize(
    "text",
    ["SELECT ${x} FROM t", "FROM t |> WHERE a = 1", "SELECT FROM WHERE", "SHOW TABLES", "SELECT 1; SELECT 2"],
)
def test_what_is_not_certain_has_no_scopes(text):
    assert Scopes.of(span(text)) is None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT delta.`p`.id, delta.`p`.* FROM delta.`p`", "SELECT `p`.id, `p`.* FROM delta.`p`"),
        ("SELECT delta.`q`.id FROM delta.`p`", None),
        ("SELECT delvec.`p`.id FROM delta.`p`", None),
        ("SELECT delta.`p`.id FROM delta.`p` AS x", None),
        ("SELECT delta.`p`.s FROM delta.`p`", "SELECT `p`.s FROM delta.`p`"),
        ("SELECT delta.`p` FROM delta.`p`", None),
        # in the scope of the table, and in the subqueries of that scope
        ("SELECT * FROM delta.`p` WHERE EXISTS (SELECT 1 FROM u WHERE u.id = delta.`p`.id)",
         "SELECT * FROM delta.`p` WHERE EXISTS (SELECT 1 FROM u WHERE u.id = `p`.id)"),
        ("SELECT (SELECT delta.`p`.id FROM u AS delta) FROM delta.`p`", None),
        ("SELECT delta.`p`.id FROM (SELECT * FROM delta.`p`) AS x", None),
        ("SELECT f(delta.`p`.id) FROM u JOIN delta.`p` ON delta.`p`.id = u.id",
         "SELECT f(`p`.id) FROM u JOIN delta.`p` ON `p`.id = u.id"),
    ],
)  # fmt: skip
def test_paths_before_columns(query, expected):
    whole = span(query)
    found = relations(whole)
    schema = Struct((Field("id", Primitive("long")), Field("s", Primitive("long"))))
    qualifiers = {
        each.span.start: lambda each=each: Qualifier.of(each.name, each.alias, schema, case_sensitive=False)
        for each in found
    }
    edits = short_paths(Scopes.of(whole, found), qualifiers)
    assert edited(query, 0, len(query), edits) == (expected or query)


def test_a_struct_hides_a_path_that_has_no_such_column():
    query = "SELECT delta.`p`.id, delta.`p`.y FROM delta.`p`"
    whole = span(query)
    (table,) = relations(whole)
    schema = Struct((Field("id", Primitive("long")), Field("delta", Primitive("long"))))
    qualifier = Qualifier.of(table.name, None, schema, case_sensitive=False)
    edits = short_paths(Scopes.of(whole, [table]), {table.span.start: lambda: qualifier})
    assert edited(query, 0, len(query), edits) == "SELECT `p`.id, delta.`p`.y FROM delta.`p`"


def test_a_struct_of_an_inner_table_hides_an_outer_path():
    query = "SELECT (SELECT delta.`p`.id FROM delvec.`q`), delta.`p`.id FROM delta.`p`"
    whole = span(query)
    found = relations(whole)
    schemas = {
        "p": Struct((Field("id", Primitive("long")),)),
        "q": Struct((Field("delta", Primitive("long")),)),
    }
    qualifiers = {
        each.span.start: lambda each=each: Qualifier.of(
            each.name, None, schemas[each.name.parts[1]], case_sensitive=False
        )
        for each in found
    }
    edits = short_paths(Scopes.of(whole, found), qualifiers)
    expected = "SELECT (SELECT delta.`p`.id FROM delvec.`q`), `p`.id FROM delta.`p`"
    assert edited(query, 0, len(query), edits) == expected
