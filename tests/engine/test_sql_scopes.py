"""Names that could be another relation's: what prunes a table, and which column a qualified name is."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from scanning import collected
from verbs import rows_of, table_of

pytestmark = pytest.mark.spark


@pytest.fixture
def ask(spark):
    from delvec import sql

    def rows(text, args=None):
        return [tuple(row.values()) for row in collected(sql(spark, text, args))]

    return rows


@pytest.fixture
def numbers(spark, tmp_path):
    """Files by p, so that a condition on x leaves some out."""
    rows = [(n, n % 5) for n in range(5, 15)]
    return table_of(spark, tmp_path / "numbers", "x int, p int", rows, partition_by=["p"])


@pytest.fixture
def sparks(spark, tmp_path):
    for name in ("one", "two"):
        spark.sql(f"CREATE TABLE {name} (x int) USING parquet LOCATION '{tmp_path}/{name}'")
    yield
    for name in ("one", "two"):
        spark.sql(f"DROP TABLE {name}")


def test_where_of_one_insert_leaves_the_others_rows(ask, spark, numbers, sparks):
    ask(f"FROM delvec.`{numbers.location}` INSERT INTO one SELECT x INSERT INTO two SELECT x WHERE p > 3")
    assert sorted(row.x for row in spark.table("one").collect()) == list(range(5, 15))
    assert sorted(row.x for row in spark.table("two").collect()) == [9, 14]


@pytest.fixture(params=["delta", "delvec"])
def structs(spark, tmp_path, request):
    """A table with a struct named like a format: ``x.y`` is 1 where that one's ``x.y`` is 10, and so on."""
    ddl = f"id int, x struct<y: int>, {request.param} struct<x: struct<y: int>>"
    rows = [(n, (n,), ((10 * n,),)) for n in (1, 10, 100)]
    table = table_of(spark, tmp_path / "structs", ddl, rows)
    name = f"{request.param}.`{table.location}`"

    def filled(text):
        return text.replace("{c}", f"{request.param}.`x`.y").replace("{t}", name)

    return table, filled


def values(table):
    """id, x.y and the other x.y of each row."""
    return [(row[0], row[1]["y"], row[2]["x"]["y"]) for row in rows_of(table)]


def test_a_struct_named_like_a_format(ask, structs):
    """The table's own name comes first, then the struct; a path that is no table here is a field."""
    table, filled = structs
    assert ask(filled("SELECT {c} AS y FROM {t} WHERE {c} = 10")) == [(10,)]
    assert ask(filled("SELECT {t}.{c} AS a, {t}.`x`.y AS b FROM {t} WHERE {t}.x.y = 10")) == [(100, 10)]
    assert ask(
        filled("SELECT {c} AS y FROM {t} WHERE {t}.id IN (SELECT {t}.x.y FROM {t} WHERE {c} > 100)")
    ) == [(1000,)]
    ask(filled("UPDATE {t} SET {c} = {c} + 1, {t}.`x`.y = {t}.x.y - 3 WHERE {c} = 10"))
    assert values(table) == [(1, -2, 11), (10, 10, 100), (100, 100, 1000)]
    ask(filled("DELETE FROM {t} WHERE {c} = 100"))
    assert values(table) == [(1, -2, 11), (100, 100, 1000)]
    ask(
        filled(
            "MERGE INTO {t} USING (SELECT 11 AS k) s ON {c} = s.k "
            "WHEN MATCHED THEN UPDATE SET {c} = {c} + 7, {t}.id = {t}.x.y"
        )
    )
    assert values(table) == [(-2, -2, 18), (100, 100, 1000)]


@pytest.fixture
def nested(spark, tmp_path):
    """``s.c`` is 100, and files are left out where it is compared with another value."""
    ddl = "id int, s struct<c: int>, arr array<int>"
    return table_of(spark, tmp_path / "nested", ddl, [(1, (100,), [1, 3]), (2, (100,), [5])])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id FROM {t} LATERAL VIEW explode(arr) s AS c WHERE s.c = 3", [(1,)]),
        ("SELECT id FROM {t} LATERAL VIEW OUTER posexplode(arr) s AS k, c WHERE s.c = 5", [(2,)]),
        ("SELECT id FROM {t}, VALUES (1) AS s(c) WHERE s.c = 1", [(1,), (2,)]),
        ("SELECT id FROM {t} JOIN (VALUES (1) AS v(c)) s WHERE s.c = 1", [(1,), (2,)]),
        ("SELECT id FROM {t}, LATERAL (SELECT id + 1 AS c) s WHERE s.c = 3", [(2,)]),
        ("SELECT t.id FROM {t} t JOIN range(3, 4) AS s(c) WHERE s.c = 3", [(1,), (2,)]),
        ("WITH s AS (SELECT 1 AS c) SELECT id FROM {t}, s WHERE s.c = 1", [(1,), (2,)]),
        ("SELECT id FROM {t}, LATERAL explode(arr) AS s(c) WHERE s.c = 3", [(1,)]),
        ("SELECT id FROM {t} WHERE s.c = 100", [(1,), (2,)]),
    ],
)
def test_an_alias_named_like_a_struct(ask, nested, query, expected):
    assert sorted(ask(query.replace("{t}", f"delvec.`{nested.location}`"))) == expected


def test_case_decides_where_the_session_says_so(ask, spark, conf, tmp_path):
    conf("spark.sql.caseSensitive", "true")
    table = table_of(spark, tmp_path / "t", "id int, s struct<id: int>", [(1, (2,)), (2, (1,))])
    name = f"delvec.`{table.location}`"
    assert ask(f"SELECT id FROM {name} S WHERE s.id = 2") == [(1,)]
    assert ask(f"SELECT id FROM {name} S WHERE S.id = 2") == [(2,)]
    ask(f"UPDATE {name} S SET s.id = 7, S.id = 8 WHERE s.id = 2 AND S.id = 1")
    ask(f"DELETE FROM {name} S WHERE s.id = 1")
    assert rows_of(table) == [(8, {"id": 7})]


def test_names_in_double_quotes(ask, spark, conf, tmp_path):
    conf("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    table = table_of(spark, tmp_path / "t", "id int, s struct<id: int>", [(1, (2,)), (2, (1,))])
    name = f"delvec.`{table.location}`"
    assert ask(f'SELECT id FROM {name} AS s WHERE "s"."id" = 1') == [(1,)]
    ask(f'DELETE FROM {name} AS s WHERE "s"."id" = 1')
    assert rows_of(table) == [(2, {"id": 1})]


def test_several_inserts_read_what_was_there_before(ask, spark, tmp_path):
    """One commit for each target, in order; the first one's rows are not seen by the second."""
    from delvec.errors import UnsupportedFeatureError

    one, two = (table_of(spark, tmp_path / name, "x int", [(1,), (2,)]) for name in ("one", "two"))
    a, b = (f"delvec.`{table.location}`" for table in (one, two))
    found = ask(f"WITH c AS (SELECT 10 AS y) FROM {a}, c INSERT INTO {a} SELECT x + y "
                f"INSERT OVERWRITE {b} (x) SELECT {a}.x WHERE {a}.x > 1")  # fmt: skip
    assert found == [(3, 3)]
    assert [rows_of(table) for table in (one, two)] == [[(1,), (11,), (12,), (2,)], [(2,)]]
    assert (one.version, two.version) == (2, 2)
    ask(f"WITH c AS (SELECT max(x) + ? AS x FROM {b}) INSERT INTO {b} SELECT * FROM c", [1])
    assert rows_of(two) == [(2,), (3,)]
    spark.createDataFrame([(1,)], "x int").createOrReplaceTempView("sparks_own")
    with pytest.raises(UnsupportedFeatureError, match="sparks_own of Spark"):
        ask(f"FROM {a} INSERT INTO {b} SELECT x INSERT INTO sparks_own SELECT x")
    spark.catalog.dropTempView("sparks_own")
    with pytest.raises(PySparkException) as failure:
        ask(f"FROM {a} INSERT INTO {b} SELECT x INSERT INTO {a} SELECT CAST(if(x > 0, 'z', 1) AS int)")
    assert failure.value.__notes__ == [f"INSERT INTO {b} is committed as version 4"]


def test_generic_types_in_values(ask, spark, tmp_path):
    table = table_of(spark, tmp_path / "t", "id int, m map<string,int>", [(1, {"1": 1}), (2, None)])
    name = f"delvec.`{table.location}`"
    ask(f"UPDATE {name} SET m = map(id, '5')::map<string,int>, id = id + 1 WHERE m IS NULL")
    values = "m = map('v', array(7)::array<int>[0])::map<string,int>, id = 9"
    ask(f"MERGE INTO {name} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {values}")
    assert rows_of(table) == [(3, [("2", 5)]), (9, [("v", 7)])]


def test_a_qualified_name_that_only_spark_can_read(ask, spark, tmp_path):
    """``t.1c`` is the table's column: the struct of the same name must not leave files out."""
    ddl = "id int, t struct<x: int, `1c`: int>, `1c` int"
    table = table_of(spark, tmp_path / "t", ddl, [(5, (0, 1), 5)])
    table.append(spark.createDataFrame([(1, (0, 5), 1)], ddl))
    name = f"delvec.`{table.location}`"
    ask(f"UPDATE {name} AS t SET id = 6 WHERE t.1c = 5")
    assert sorted(row[0] for row in rows_of(table)) == [1, 6]
    ask(f"DELETE FROM {name} AS t WHERE t.1c = 5")
    assert [row[0] for row in rows_of(table)] == [1]


def test_a_lambda_variable_like_the_alias(ask, spark, tmp_path):
    rows = [(5, [(1,)]), (1, [(5,)])]
    table = table_of(spark, tmp_path / "t", "id int, items array<struct<id: int>>", rows)
    ask(f"DELETE FROM delvec.`{table.location}` AS t WHERE exists(items, T -> t.id = 5)")
    assert [row[0] for row in rows_of(table)] == [5]


def test_an_interrupt_between_inserts_notes_what_is_committed(ask, spark, tmp_path, monkeypatch):
    from delvec.table import Table

    a, b = (table_of(spark, tmp_path / name, "x int", [(1,)]) for name in ("a", "b"))
    append = Table.append

    def interrupted(table, *arguments, **options):
        if table.location == b.location:
            raise KeyboardInterrupt
        return append(table, *arguments, **options)

    monkeypatch.setattr(Table, "append", interrupted)
    names = [f"delvec.`{table.location}`" for table in (a, b)]
    with pytest.raises(KeyboardInterrupt) as failure:
        ask(f"FROM {names[0]} INSERT INTO {names[0]} SELECT x INSERT INTO {names[1]} SELECT x")
    assert failure.value.__notes__ == [f"INSERT INTO {names[0]} is committed as version 2"]
