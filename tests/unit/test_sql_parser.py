"""Frames of statements: what is read into which part, what stays text, and where errors point."""

from __future__ import annotations

import pytest

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.statements.parser import parse
from delvec.statements.statement import (
    AddColumns,
    Create,
    Delete,
    DescribeDetail,
    DescribeHistory,
    Explain,
    Insert,
    Merge,
    MultiInsert,
    Other,
    Query,
    SetProperties,
    UnsetProperties,
    Update,
)


def is_ours(name):
    return name.parts[0].lower() in ("delvec", "delta", "t")


def parsed(text):
    return parse(text, is_ours)


def text(span):
    return None if span is None else span.text


@pytest.mark.parametrize(
    ("statement", "alias", "where"),
    [
        ("DELETE FROM t", None, None),
        ("delete from delvec.`/a b` where id = 1;", None, "id = 1"),
        ("DELETE FROM t AS x WHERE x.id IN (SELECT id FROM u WHERE a = 1)", "x", None),
        ("DELETE FROM t x WHERE a /* c */ = 'it''s' -- end", "x", "a /* c */ = 'it''s'"),
        ("DELETE FROM t `where` WHERE `where`.id = 1", "where", "`where`.id = 1"),
        ("DELETE FROM t WHERE CASE WHEN a THEN b END", None, "CASE WHEN a THEN b END"),
    ],
)
def test_delete(statement, alias, where):
    found = parsed(statement)
    assert isinstance(found, Delete)
    assert found.alias == alias
    assert text(found.where) == (where or statement.partition("WHERE ")[2] or None)


def test_update():
    found = parsed("UPDATE t AS x SET a = f(b, c), x.s.d = CASE WHEN y THEN 1 ELSE 2 END, `set` = 3 WHERE e")
    assert isinstance(found, Update)
    assert [(each.column.parts, each.value.text) for each in found.set] == [
        (("a",), "f(b, c)"),
        (("x", "s", "d"), "CASE WHEN y THEN 1 ELSE 2 END"),
        (("set",), "3"),
    ]
    assert (found.alias, text(found.where)) == ("x", "e")


def test_a_field_of_a_reserved_name_does_not_end_an_expression():
    found = parsed("UPDATE t SET a = s.where + s.when WHERE s.then > 1")
    assert found.set[0].value.text == "s.where + s.when"
    assert found.where.text == "s.then > 1"


def test_less_than_after_a_type_compares():
    found = parsed("UPDATE t SET a = b::INT < 5, c = d::ARRAY<INT>[0] < 2 WHERE e")
    assert [each.value.text for each in found.set] == ["b::INT < 5", "d::ARRAY<INT>[0] < 2"]


def test_merge():
    found = parsed(
        "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT * FROM u) AS s(a, b) ON t.a = s.a "
        "WHEN MATCHED AND CASE WHEN s.b THEN 1 END = 1 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED BY TARGET AND s.a > 0 THEN INSERT (a, b) VALUES (s.a, f(s.b, 1)) "
        "WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET b = 0"
    )
    assert isinstance(found, Merge)
    assert (found.alias, found.source.text, found.source_alias) == (None, "(SELECT * FROM u) AS s(a, b)", "s")
    assert (found.on.text, found.merge_schema) == ("t.a = s.a", True)
    assert [
        (
            clause.kind,
            clause.action,
            text(clause.condition),
            None if clause.values is None else [(v.column.parts, v.value.text) for v in clause.values],
        )
        for clause in found.clauses
    ] == [
        ("matched", "delete", "CASE WHEN s.b THEN 1 END = 1", None),
        ("matched", "update", None, None),
        ("not matched", "insert", "s.a > 0", [(("a",), "s.a"), (("b",), "f(s.b, 1)")]),
        ("not matched", "insert", None, None),
        ("not matched by source", "update", None, [(("b",), "0")]),
    ]


@pytest.mark.parametrize(
    ("source", "alias"),
    [
        ("u", "u"),
        ("a.u", "u"),
        ("u AS s", "s"),
        ("delta.`/p` VERSION AS OF 3 s", "s"),
        ("delta.`/p`", "/p"),
        ("(VALUES (1)) s", "s"),
        ("range(5) s", "s"),
    ],
)
def test_the_alias_of_a_merge_source(source, alias):
    found = parsed(f"MERGE INTO t USING {source} ON true WHEN MATCHED THEN DELETE")
    assert (found.source.text, found.source_alias) == (source, alias)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO t VALUES (1), (2)", (False, None, False, [], None, "VALUES (1), (2)")),
        ("INSERT INTO TABLE t SELECT 1", (False, None, False, [], None, "SELECT 1")),
        ("INSERT INTO t (a, `b c`) (SELECT 1, 2)", (False, ["a", "b c"], False, [], None, "(SELECT 1, 2)")),
        ("INSERT INTO t ((SELECT 1))", (False, None, False, [], None, "((SELECT 1))")),
        ("INSERT INTO t (values) VALUES (1)", (False, ["values"], False, [], None, "VALUES (1)")),
        ("INSERT INTO t BY NAME SELECT 1 a", (False, None, True, [], None, "SELECT 1 a")),
        ("INSERT OVERWRITE t TABLE u", (True, None, False, [], None, "TABLE u")),
        (
            "INSERT OVERWRITE TABLE t PARTITION (p = 1 + 1, q) FROM u SELECT 1",
            (True, None, False, [("p", "1 + 1"), ("q", None)], None, "FROM u SELECT 1"),
        ),
        (
            "INSERT INTO t REPLACE WHERE a = 1 WITH c AS (SELECT 1) SELECT * FROM c",
            (False, None, False, [], "a = 1", "WITH c AS (SELECT 1) SELECT * FROM c"),
        ),
    ],
)
def test_insert(statement, expected):
    found = parsed(statement)
    assert isinstance(found, Insert)
    columns = None if found.columns is None else [column.parts[0] for column in found.columns]
    partition = [(column.parts[0], text(value)) for column, value in found.partition]
    given = (found.overwrite, columns, found.by_name, partition, text(found.where), found.query.text)
    assert given == expected


def test_create():
    found = parsed(
        "CREATE TABLE IF NOT EXISTS n (a INT NOT NULL, b STRUCT<x: INT, y: MAP<STRING, INT>>) COMMENT 'c' "
        "USING delta PARTITIONED BY (a) LOCATION '/p' TBLPROPERTIES ('k' = 'v', a.b = true, c 5, d = -1)"
    )
    assert isinstance(found, Create)
    assert (found.table.parts, found.if_not_exists, found.provider) == (("n",), True, "delta")
    assert found.columns.text == "a INT NOT NULL, b STRUCT<x: INT, y: MAP<STRING, INT>>"
    assert found.partition_by == (("a", None),)
    assert (found.comment.text, found.location.text, found.query) == ("'c'", "'/p'", None)
    assert [each.value.text for each in found.properties] == ["'v'", "true", "5", "-1"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE n (a INT)",
        "CREATE TABLE n (a INT) USING parquet",
        "CREATE TABLE n AS SELECT 1",
        "CREATE TABLE a.n (a INT) USING delta",
        "CREATE TABLE n USING parquet AS SELECT * FROM x JOIN y USING (delta)",
    ],
)
def test_tables_that_spark_creates(statement):
    assert isinstance(parsed(statement), Query)


def test_create_external():
    found = parsed("CREATE EXTERNAL TABLE n (a INT) USING delvec LOCATION '/p'")
    assert isinstance(found, Create)
    assert (found.table.parts, found.location.text) == (("n",), "'/p'")
    for kind in ("EXTERNAL", "TEMPORARY"):
        assert isinstance(parsed(f"CREATE {kind} TABLE n (a INT) USING parquet"), Other)


def test_create_as_select():
    found = parsed("CREATE TABLE delvec.`/p` PARTITIONED BY (a) AS WITH c AS (SELECT 1 a) SELECT * FROM c")
    assert found.query.text == "WITH c AS (SELECT 1 a) SELECT * FROM c"


def test_alter():
    found = parsed("ALTER TABLE t SET TBLPROPERTIES ('k' = 'v')")
    assert isinstance(found, SetProperties)
    found = parsed("ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('k', a.b)")
    assert isinstance(found, UnsetProperties)
    assert found.if_exists
    found = parsed("ALTER TABLE t ADD COLUMNS (a MAP<STRING, INT> COMMENT 'x, y', s.b DECIMAL(3, 1))")
    assert isinstance(found, AddColumns)
    assert [(c.name.parts, c.definition.text) for c in found.columns] == [
        (("a",), "MAP<STRING, INT> COMMENT 'x, y'"),
        (("s", "b"), "DECIMAL(3, 1)"),
    ]
    assert [c.name.parts for c in parsed("ALTER TABLE t ADD COLUMN a INT").columns] == [("a",)]


def test_describe():
    found = parsed("DESC HISTORY t LIMIT 3")
    assert isinstance(found, DescribeHistory)
    assert found.limit == 3
    assert isinstance(parsed("DESCRIBE DETAIL delta.`/p`"), DescribeDetail)
    assert isinstance(parsed("DESCRIBE HISTORY other"), Other)
    assert isinstance(parsed("DESCRIBE history"), Other)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "(SELECT 1) UNION SELECT 2",
        "EXPLAIN SELECT 1",
        "INSERT INTO other SELECT 1",
        "INSERT OVERWRITE DIRECTORY '/x' USING csv SELECT 1",
        "DELETE FROM other WHERE anything Spark may know",
        "MERGE INTO other USING t ON x WHEN whatever",
    ],
)
def test_statements_on_tables_of_spark(statement):
    assert isinstance(parsed(statement), Query)


@pytest.mark.parametrize("statement", ["SHOW TABLES", "SET a = b", "BEGIN SELECT 1; SELECT 2; END", "USE x"])
def test_other_statements(statement):
    assert isinstance(parsed(statement), Other)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM t WHERE", "line 1, column 20: found nothing more, expected a condition"),
        ("DELETE FROM t WHERE a = 1)", "line 1, column 26: ) has no opening bracket"),
        ("DELETE FROM t WHERE (a = 1", "line 1, column 21: ( is not closed"),
        ("DELETE FROM t WHERE a[1)", "column 24: ) has no opening bracket"),
        ("DELETE FROM\n t x y", "line 2, column 6: found 'y', expected the end"),
        ("UPDATE t SET a 5", "column 16: found '5', expected ="),
        ("UPDATE t WHERE a", "column 10: found 'WHERE', expected SET"),
        ("UPDATE t SET a = , b = 1", "column 18: found ',', expected a value"),
        ("MERGE INTO t USING u WHEN MATCHED THEN DELETE", "found nothing more, expected ON"),
        ("MERGE INTO t USING u ON x", "found nothing more, expected WHEN"),
        ("MERGE INTO t USING u ON x WHEN MATCHED THEN INSERT *", "expected UPDATE or DELETE"),
        ("MERGE INTO t USING u ON x WHEN NOT MATCHED THEN DELETE", "found 'DELETE', expected INSERT"),
        (
            "MERGE INTO t USING u ON x WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
            "column 56: 2 columns but 1 values",
        ),
        ("INSERT t SELECT 1", "found 't', expected INTO"),
        ("INSERT INTO t", "expected a query or VALUES"),
        ("INSERT INTO t SET a = 1", "found 'SET', expected a query"),
        ("INSERT INTO t (a, ) VALUES (1)", "expected a column"),
        ("CREATE TABLE delvec.`/p` (a INT) USING parquet", "column 40: found 'parquet', expected delvec"),
        ("CREATE TABLE delvec.`/p` (a INT) NONSENSE", "expected USING, PARTITIONED BY"),
        ("ALTER TABLE t SET TBLPROPERTIES ('k' = v)", "found 'v', expected a value"),
        ("ALTER TABLE t ADD COLUMNS (a)", "found nothing more, expected a type"),
        ("DESCRIBE HISTORY t LIMIT 1.5", "column 26: found 1.5, expected a whole number"),
        ("SELECT 1; SELECT 2", "column 9: found a second statement"),
        ("", "the statement is empty"),
        ("  -- nothing\n", "the statement is empty"),
        (";", "the statement is empty"),
    ],
)
def test_rejects(statement, problem):
    with pytest.raises(InvalidOperationError) as caught:
        parsed(statement)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "feature"),
    [
        ("ALTER TABLE t RENAME COLUMN a TO b", "ALTER TABLE … RENAME COLUMN"),
        ("ALTER TABLE t ADD COLUMNS (a INT FIRST)", "ADD COLUMNS … FIRST"),
        ("ALTER TABLE t ADD COLUMNS (a INT AFTER b)", "ADD COLUMNS … AFTER"),
        ("CREATE OR REPLACE TABLE t (a INT) USING delta", "REPLACE TABLE"),
        ("CREATE TABLE a.n (a INT) USING delvec", "CREATE TABLE of a name in a schema"),
        ("CREATE EXTERNAL TABLE a.n (a INT) USING delvec", "CREATE TABLE of a name in a schema"),
        ("CREATE TEMPORARY TABLE n (a INT) USING delvec", "CREATE TEMPORARY TABLE"),
        ("CREATE TEMP TABLE IF NOT EXISTS a.n USING delvec AS SELECT 1", "CREATE TEMPORARY TABLE"),
        ("CREATE EXTERNAL TABLE n (a INT) USING delvec STORED AS orc", "CREATE TABLE … STORED"),
        ("CREATE TABLE delvec.`/p` (a INT) CLUSTER BY (a)", "CREATE TABLE … CLUSTER"),
    ],
)
def test_refuses_what_is_not_done(statement, feature):
    with pytest.raises(UnsupportedFeatureError) as caught:
        parsed(statement)
    assert caught.value.feature == feature


def squeezed(span):
    return " ".join(span.text.split())


@pytest.mark.parametrize(
    ("statement", "query"),
    [
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "WITH a AS (SELECT 1) SELECT * FROM a"),
        ("WITH a (x) AS (SELECT 1), b (SELECT 2) INSERT INTO t (x) SELECT * FROM a, b",
         "WITH a (x) AS (SELECT 1), b (SELECT 2) SELECT * FROM a, b"),
        ("WITH RECURSIVE a MAX RECURSION LEVEL 5 AS (SELECT 1) INSERT OVERWRITE TABLE t SELECT * FROM a",
         "WITH RECURSIVE a MAX RECURSION LEVEL 5 AS (SELECT 1) SELECT * FROM a"),
        ("FROM u INSERT INTO t SELECT x WHERE x > 1", "FROM u SELECT x WHERE x > 1"),
    ],
)  # fmt: skip
def test_an_insert_after_other_clauses(statement, query):
    found = parsed(statement)
    assert isinstance(found, Insert)
    assert squeezed(found.query) == query
    assert all(found.query.source[token.start : token.end] == token.text for token in found.query.tokens)


def test_explain_of_an_insert_after_other_clauses():
    found = parsed("EXPLAIN WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a")
    assert isinstance(found, Explain)
    assert squeezed(found.statement.query) == "WITH a AS (SELECT 1) SELECT * FROM a"
    assert isinstance(parsed("EXPLAIN WITH a AS (SELECT 1) SELECT * FROM a, t"), Query)
    assert isinstance(parsed("EXPLAIN FROM t SELECT x"), Query)
    with pytest.raises(UnsupportedFeatureError, match="EXPLAIN of several INSERTs"):
        parsed("EXPLAIN FROM u INSERT INTO t SELECT x INSERT INTO t SELECT y")


def test_several_inserts_of_one_statement():
    found = parsed(
        "WITH c AS (SELECT 1 AS x) FROM c, u INSERT INTO t SELECT x WHERE (x = 1) "
        "INSERT OVERWRITE delta.`/p` PARTITION (p = 1) (a, b) SELECT s.insert, into"
    )
    assert isinstance(found, MultiInsert)
    assert [(str(each.table), each.overwrite, squeezed(each.query)) for each in found.inserts] == [
        ("t", False, "WITH c AS (SELECT 1 AS x) FROM c, u SELECT x WHERE (x = 1)"),
        ("delta.`/p`", True, "WITH c AS (SELECT 1 AS x) FROM c, u SELECT s.insert, into"),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "WITH a AS (SELECT 1) FROM a SELECT *",
        "WITH a AS (SELECT 1) INSERT INTO other SELECT * FROM a, t",
        "WITH a AS (SELECT 1) DELETE FROM other WHERE id IN (SELECT id FROM t)",
        "FROM t SELECT x",
        "FROM t INSERT INTO one SELECT x INSERT OVERWRITE DIRECTORY '/d' SELECT x",
        "FROM t SELECT `insert`, into",
    ],
)
def test_statements_that_stay_sparks(statement):
    found = parsed(statement)
    assert isinstance(found, Query)
    assert found.text.text == statement


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("FROM u INSERT INTO t SELECT x INSERT INTO db.other SELECT x", "t of delvec and db.other of Spark"),
        (
            "FROM u INSERT OVERWRITE DIRECTORY '/d' SELECT x INSERT INTO t SELECT x",
            "t of delvec and a directory",
        ),
        ("WITH a AS (SELECT 1) DELETE FROM t WHERE id IN (SELECT * FROM a)", "WITH before DELETE"),
        ("WITH a AS (SELECT 1) MERGE INTO t USING a ON true WHEN MATCHED THEN DELETE", "WITH before MERGE"),
    ],
)
def test_clauses_before_a_change_that_are_refused(statement, problem):
    with pytest.raises(UnsupportedFeatureError, match=problem):
        parsed(statement)


@pytest.mark.parametrize(
    "value",
    [
        "x::map<string,int>",
        "x::map<string,array<map<int,int>>>",
        "x::struct<a:int, b: decimal(10, 2)>",
        "map(1, 2)::map<string, int>[1]",
        "x::struct<>",
        "x::decimal(10,2) + y",
    ],
)
def test_types_of_casts_do_not_end_a_value(value):
    found = parsed(f"UPDATE t SET a = {value}, b = 1 WHERE a < b")
    assert [each.value.text for each in found.set] == [value, "1"]
    found = parsed(f"MERGE INTO t USING u ON true WHEN MATCHED THEN UPDATE SET a = {value}, b = 1")
    assert [each.value.text for each in found.clauses[0].values] == [value, "1"]
