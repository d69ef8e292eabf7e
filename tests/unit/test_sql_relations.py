"""The tables that a query reads, wherever they stand, and what its WHERE says of them."""

from __future__ import annotations

import pytest

from delvec.predicate import SPARK_DEFAULTS
from delvec.schema import Field, Primitive, Struct
from delvec.statements import where_conjuncts
from delvec.statements.cursor import Span
from delvec.statements.lexer import tokenize
from delvec.statements.parameters import Parameters
from delvec.statements.qualifiers import Qualifier
from delvec.statements.scopes import Scopes
from delvec.statements.table_references import nested_relations, relations


def span(text):
    return Span(text, tokenize(text)[:-1])


def found(text):
    return [
        (".".join(r.name.parts), r.alias, r.version.text if r.version else r.timestamp and r.timestamp.text)
        for r in relations(span(text))
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM t", [("t", None, None)]),
        ("SELECT * FROM delta.`/a b` AS x", [("delta./a b", "x", None)]),
        ("SELECT * FROM a, b c JOIN d ON c.x = d.x",
         [("a", None, None), ("b", "c", None), ("d", None, None)]),
        ("SELECT * FROM a LEFT OUTER JOIN b USING (x)", [("a", None, None), ("b", None, None)]),
        ("SELECT * FROM (SELECT * FROM a) x, (b JOIN c ON true)",
         [("a", None, None), ("b", None, None), ("c", None, None)]),
        ("SELECT (SELECT max(x) FROM a) FROM b WHERE y IN (SELECT y FROM c)",
         [("a", None, None), ("b", None, None), ("c", None, None)]),
        ("SELECT 1 FROM a UNION ALL SELECT 1 FROM b EXCEPT TABLE c",
         [("a", None, None), ("b", None, None), ("c", None, None)]),
        ("TABLE a", [("a", None, None)]),
        ("FROM a SELECT *", [("a", None, None)]),
        ("FROM a |> WHERE x = 1 |> JOIN b ON y", [("a", None, None), ("b", None, None)]),
        ("SELECT * EXCEPT (x) FROM a", [("a", None, None)]),
        # a common table expression hides a table only after it, and inside what follows
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a JOIN b", [("a", None, None), ("b", None, None)]),
        ("WITH RECURSIVE a AS (SELECT * FROM a) SELECT * FROM a", []),
        ("WITH a(x) AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b, c", [("c", None, None)]),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a), a", [("a", None, None)]),
        ("INSERT INTO other WITH a AS (SELECT 1) SELECT * FROM a, b", [("b", None, None)]),
        # no tables
        ("SELECT extract(year FROM d), trim(BOTH 'x' FROM y), substring(s FROM 2) FROM a",
         [("a", None, None)]),
        ("SELECT a IS NOT DISTINCT FROM b FROM c", [("c", None, None)]),
        ("SELECT * FROM range(5) r, explode(array(1)) AS e", []),
        ("SELECT * FROM VALUES (1), (2) AS v(x)", []),
        ("SELECT * FROM t LATERAL VIEW explode(m) x AS k, v WHERE k = 1", [("t", None, None)]),
        ("SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.a = t.a) l",
         [("t", None, None), ("u", None, None)]),
        ("SELECT t.from, s.join FROM t", [("t", None, None)]),
        ("SELECT 'FROM x' FROM t -- FROM y", [("t", None, None)]),
        ("SELECT x FROM t WINDOW w AS (PARTITION BY a), v AS (PARTITION BY b)", [("t", None, None)]),
        # versions
        ("SELECT * FROM t VERSION AS OF 3 AS x", [("t", "x", "3")]),
        ("SELECT * FROM t FOR SYSTEM_VERSION AS OF '3' WHERE true", [("t", None, "'3'")]),
        ("SELECT * FROM t TIMESTAMP AS OF '2025-01-01' x JOIN u VERSION AS OF :v ON true",
         [("t", "x", "'2025-01-01'"), ("u", None, ":v")]),
        ("SELECT * FROM t TIMESTAMP AS OF TIMESTAMP '2025-01-01' x", [("t", "x", "TIMESTAMP '2025-01-01'")]),
        (
            "SELECT * FROM t FOR SYSTEM_TIME AS OF current_timestamp() - INTERVAL 1 DAY 2 HOURS x",
            [("t", "x", "current_timestamp() - INTERVAL 1 DAY 2 HOURS")],
        ),
        ("SELECT * FROM t TIMESTAMP AS OF now() - INTERVAL '1' DAY",
         [("t", None, "now() - INTERVAL '1' DAY")]),
        ("SELECT * FROM t TIMESTAMP AS OF now() - INTERVAL '1 day' x",
         [("t", "x", "now() - INTERVAL '1 day'")]),
        ("SELECT * FROM t TIMESTAMP AS OF CASE WHEN a THEN b END x", [("t", "x", "CASE WHEN a THEN b END")]),
        ("SELECT * FROM t TIMESTAMP AS OF cast('a' AS timestamp)::date, u",
         [("t", None, "cast('a' AS timestamp)::date"), ("u", None, None)]),
        ("SELECT * FROM version AS of", [("version", "of", None)]),
    ],
)  # fmt: skip
def test_relations(query, expected):
    assert sorted(found(query)) == sorted(expected)


def test_an_alias_goes_behind_a_sample():
    text = "SELECT * FROM t TABLESAMPLE (5 ROWS) REPEATABLE (1) WHERE true"
    (relation,) = relations(span(text))
    assert text[: relation.alias_at].endswith("(1)")
    (relation,) = relations(span("SELECT * FROM t TABLESAMPLE (5 ROWS) x"))
    assert relation.alias == "x"


def test_subqueries_of_an_expression():
    condition = span("id IN (SELECT id FROM a) AND f(extract(year FROM d)) > (SELECT 1 FROM b)")
    assert [r.name.parts[0] for r in nested_relations(condition)] == ["a", "b"]
    assert not nested_relations(span("id IN (values, table) AND f(map(1, 2), (a))"))


T = Struct(
    (
        Field("id", Primitive("long")),
        Field("p", Primitive("integer")),
        Field("s", Struct((Field("id", Primitive("long")),))),
    )
)


def pruned(query, table="t", args=None):
    tokens = tokenize(query)
    whole, parameters = Span(query, tokens[:-1]), Parameters(query, tokens, args)
    found = relations(whole)
    (relation,) = [r for r in found if r.name.parts[-1] == table]
    filters = where_conjuncts.filters(relation, Scopes.of(whole, found))
    called = Qualifier.of(relation.name, relation.alias, T, case_sensitive=False)
    return where_conjuncts.condition(filters, called, whole, parameters, SPARK_DEFAULTS)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM t WHERE id = 5 AND p < 3", "(id = 5) AND (p < 3)"),
        ("SELECT * FROM t x WHERE x.id = 5", "(id = 5)"),
        ("SELECT * FROM delta.`t` WHERE delta.`t`.id = 5 AND `t`.p = 1", "(id = 5) AND (p = 1)"),
        ("SELECT * FROM t WHERE id = 5 OR p = 1", "(id = 5 OR p = 1)"),
        ("SELECT * FROM t WHERE id = 5 AND rand() < 0.5", "(id = 5)"),
        ("SELECT * FROM t WHERE id = 5 AND 10 / p > 1", "(id = 5)"),
        ("SELECT * FROM t JOIN u ON t.id = u.id WHERE t.id = 5 AND u.id = 6", "(id = 5)"),
        ("SELECT * FROM u, t WHERE p = 5 AND q = 3", "(p = 5)"),
        ("SELECT * FROM t LEFT JOIN u ON x WHERE t.id = 5", "(id = 5)"),
        ("SELECT * FROM t LEFT ANTI JOIN u ON x WHERE id = 5", "(id = 5)"),
        ("SELECT p, count(*) FROM t WHERE id = 5 GROUP BY p HAVING count(*) > 1", "(id = 5)"),
        ("SELECT * FROM t WHERE id = 5 UNION SELECT * FROM u WHERE id = 6", "(id = 5)"),
        ("SELECT * FROM u WHERE x IN (SELECT id FROM t WHERE id = 5) AND id = 7", "(id = 5)"),
        ("WITH c AS (SELECT * FROM t WHERE id = 5) SELECT * FROM c WHERE id = 7", "(id = 5)"),
        ("SELECT * FROM t AS s WHERE s.id = 5", "(id = 5)"),
        ("SELECT * FROM t WHERE s.id = 5", "(s.id = 5)"),
        ("SELECT * FROM t WHERE id BETWEEN 1 AND 3", "(id BETWEEN 1 AND 3)"),
        ("SELECT * FROM t WHERE id BETWEEN 1 AND 3 AND NOT p = 5", "(id BETWEEN 1 AND 3) AND (NOT p = 5)"),
        ("SELECT * FROM t WHERE (id = 5 AND (p = 1 OR p = 2)) AND CASE WHEN id = 1 AND p = 2 THEN true END",
         "(id = 5) AND ((p = 1 OR p = 2))"),
        ("EXPLAIN EXTENDED SELECT * FROM t VERSION AS OF 3 x WHERE x.id = 5", "(id = 5)"),
        ("SELECT /*+ BROADCAST(t) */ * FROM t -- WHERE\n WHERE /* a */ id /* AND */ = 5 LIMIT 3",
         "(id /* AND */ = 5)"),
        ("FROM t SELECT id WHERE id = 5", "(id = 5)"),
        ("INSERT INTO x SELECT * FROM t WHERE id = 5", "(id = 5)"),
        ("SELECT * FROM t x JOIN delta.`/u` y ON true, v WHERE X.`s`.id = 5 AND x.p = y.p", "(`s`.id = 5)"),
        ("SELECT * FROM t WHERE name = 'it''s' AND id = 5 AND name <> 'a\\'b AND c'", "(id = 5)"),
        # what does not surely apply to every row of the table
        ("SELECT * FROM u LEFT JOIN t ON x WHERE t.id IS NULL", None),
        ("SELECT * FROM u RIGHT JOIN t ON x WHERE t.id = 5", None),
        ("SELECT * FROM t FULL OUTER JOIN u ON x WHERE t.id IS NULL", None),
        ("SELECT * FROM t JOIN s ON x WHERE s.id = 5", None),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS) WHERE id = 5", None),
        ("SELECT * FROM t AS x(p, id, s) WHERE id = 5", None),
        ("FROM t |> LIMIT 3 |> WHERE id = 5", None),
        ("SELECT * FROM t PIVOT (max(id) FOR p IN (1, 2)) WHERE id = 5", None),
        ("SELECT * FROM (u RIGHT JOIN t ON x) WHERE t.id = 5", None),
        ("SELECT * FROM t HAVING id = 5", None),
        ("SELECT * FROM u WHERE id = 5 AND EXISTS (SELECT 1 FROM t)", None),
        ("SELECT count(*) FILTER (WHERE id = 5) FROM t", None),
        ("SELECT * FROM u o WHERE EXISTS (SELECT 1 FROM t WHERE t.id = o.id)", None),
        ("FROM t INSERT INTO a SELECT id INSERT INTO b SELECT id WHERE id = 5", None),
        ("FROM t INSERT INTO a SELECT id WHERE id = 5", None),
        ("SELECT * FROM t LATERAL VIEW explode(a) s AS id WHERE s.id = 5", None),
        ("SELECT * FROM t, VALUES (1) AS s(id) WHERE s.id = 5", None),
        ("SELECT * FROM t, LATERAL (SELECT 1 AS id) s WHERE s.id = 5", None),
        ("SELECT * FROM t JOIN range(5) s WHERE s.id = 5", None),
        ("SELECT * FROM t JOIN u USING (id) WHERE id = 5", None),
        ("SELECT * FROM t NATURAL JOIN u WHERE id = 5", None),
        ("SELECT * FROM t, u RIGHT JOIN v ON true WHERE t.id = 5", None),
        ("SELECT * FROM u AS t JOIN v.t ON true WHERE t.id = 5", None),
        ("SELECT * FROM t JOIN t.s ON true WHERE t.s.id = 5", None),
        ("SELECT * FROM u JOIN t ON x WHERE s.id = 5", None),
        ("SELECT * FROM t JOIN (SELECT 1 AS id) AS T WHERE t.id = 5", None),
        ("SELECT * FROM u JOIN (t JOIN v ON x) ON y WHERE p = 5", None),
        ("WITH RECURSIVE c AS (SELECT 1) SELECT * FROM t, c WHERE p = 5", None),
        ("SELECT * FROM (WITH t AS (SELECT 1 AS id) SELECT * FROM t WHERE id = 5), t", None),
        ("WITH t AS (SELECT * FROM t WHERE id = 5) SELECT * FROM t", None),
        ("SELECT * FROM t WHERE id = 5 DISTRIBUTE BY p", None),
        ("SELECT * FROM t WHERE id = 5 QUALIFY row_number() OVER (ORDER BY p) = 1", None),
        ("SELECT TRANSFORM (id) USING 'cat' AS (x) FROM t WHERE id = 5", None),
        ("SELECT * FROM t WHERE id = ${x} AND p = 5", None),
        ("SELECT * FROM t WHERE exists(a, id -> id = 5)", None),
        ("SELECT * FROM t UNPIVOT (v FOR k IN (id, p)) WHERE p = 5", None),
        ("MERGE INTO x USING t ON x.id = 5 WHEN MATCHED THEN DELETE", None),
    ],
)  # fmt: skip
def test_what_where_says_of_a_table(query, expected):
    assert pruned(query) == expected


def test_values_of_parameters_prune():
    assert pruned("SELECT * FROM t WHERE id = :a", args={"a": 5}) == "(id = 5)"
    assert pruned("SELECT * FROM t WHERE id IN (?, ?)", args=[5, -6]) == "(id IN (5, (-6)))"
