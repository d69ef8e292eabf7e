"""``count``: from the metadata where that decides, and always the number of rows that a scan returns."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from contract.kinds import POSITION_FILES, Change
from delvec.predicate import SPARK_DEFAULTS
from delvec.recorded_count import recorded_rows
from executed_plans import executed

pytestmark = pytest.mark.spark

DDL = "id bigint, p int, name string"
ROWS = [(p * 100 + n, p, f"n{n}" if n % 4 else None) for p in range(4) for n in range(10)]

DECIDED = [
    (None, 35),
    ("p = 1", 9),
    ("p IN (1, 2) AND id >= 100", 18),
    ("p IS NULL", 0),
    ("id < 0 OR p > 7", 0),
    ("NOT (id >= 100)", 8),
    ("id BETWEEN 100 AND 209 AND name IS NULL AND 1 = 2", 0),
    ("p = NULL", 0),
    ("TRUE", 35),
]
"""Conditions that the metadata of the table decides for every file."""

READ = [("id = 5", 1, 1), ("id >= 105", 23, 1), ("name IS NULL AND p < 2", 6, 2), ("name = 'n1'", 4, 4)]
"""Conditions with the number of files that must be read."""


@pytest.fixture(scope="module")
def history(kind, spark, tmp_path_factory):
    """Four files of ten rows; the second version has a deleted row in each, the third another."""
    place = tmp_path_factory.mktemp("count") / "a t%41"
    deletes = [
        Change("id % 100 = 3", lambda row: row["id"] % 100 == 3),
        Change("id = 7", lambda row: row["id"] == 7),
    ]
    table, versions = kind.history(spark, place, DDL, ROWS, *deletes, partition_by=["p"])
    table.register("counted")
    return table, versions


@pytest.fixture
def table(history):
    return history[0]


@pytest.mark.core
@pytest.mark.common(every=True)
def test_the_metadata_decides(kind, spark, history):
    table, versions = history
    for where, count in DECIDED:
        with executed(spark) as ran:
            assert table.count(where) == count, where
        # Position files do not say how many rows they delete; the toy format has no bounds of id.
        if POSITION_FILES not in kind.features and not (kind.format == "toy" and "id" in str(where)):
            assert (ran.jobs, ran.plans) == (0, []), where
    assert [table.count(version=version) for version in versions] == [40, 36, 35]
    assert not kind.numbered or table.count(version=kind.version(table, 0)) == 0
    assert table.count("p = 0", version=versions[1]) == 9


def test_only_the_files_that_must_be_are_read(kind, table):
    for where, count, files in READ:
        assert table.count(where) == count == table.to_df(where=where).count(), where
        recorded = recorded_rows(table._table.snapshot(), where, SPARK_DEFAULTS)
        assert len(recorded.undecided.files) == files or kind.format == "toy", where


def test_conditions_that_only_spark_understands(spark, table):
    assert (
        table.count("length(name) = 2 AND p = 2") == table.to_df(where="length(name) = 2 AND p = 2").count()
    )
    assert table.count(F.col("p") == 1) == 9
    assert table.count("id IN (SELECT 5L)") == 1
    assert table.count("rand() >= 0") == 35
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        table.count("p >= 0 AND 1 / (id - 5) > 0")


def test_bad_conditions(table):
    from delvec.errors import InvalidOperationError

    with pytest.raises(InvalidOperationError, match="unknown column `nope`"):
        table.count("nope = 1")
    with pytest.raises(InvalidOperationError, match="an operand is missing"):
        table.count("p = ")


@pytest.mark.parametrize("where", ["NULL", "p IS NOT NULL IS NULL"])
def test_conditions_that_spark_refuses_though_the_metadata_decides(spark, table, where):
    from delvec import sql

    with pytest.raises(Exception, match=r"FILTER_NOT_BOOLEAN|[sS]yntax error|PARSE_SYNTAX_ERROR"):
        table.count(where)
    with pytest.raises(Exception, match=r"FILTER_NOT_BOOLEAN|[sS]yntax error|PARSE_SYNTAX_ERROR"):
        sql(spark, f"SELECT count(*) FROM counted WHERE {where}")


QUERIES = [
    ("SELECT count(*) FROM counted", 35, True),
    ("select COUNT(1) from counted", 35, True),
    ("SELECT count(*) AS n FROM counted c WHERE c.p = 1", 9, True),
    ("SELECT count(*) `n m` FROM {path} WHERE p IN (:a, 2) AND (id >= 100);", 18, True),
    ("SELECT count(*) FROM counted VERSION AS OF {first}", 40, True),
    ("SELECT /* all */ count(*) FROM counted FOR VERSION AS OF {second} x WHERE x.p = 0", 9, True),
    ("SELECT count(*) FROM counted WHERE id >= 105", 23, False),
    ("SELECT count(*) FROM counted WHERE p + 1 = 2", 9, False),
    ("SELECT count(*) FROM counted WHERE p = 1 AND length(name) = 2", 6, False),
    ("SELECT count(name) FROM counted", 23, False),
    ("SELECT count(DISTINCT p) FROM counted", 4, False),
    ("SELECT count(*) FROM counted HAVING count(*) > 0", 35, False),
    ("SELECT count(*) FROM (SELECT * FROM counted LIMIT 7)", 7, False),
    ("SELECT count(*) FROM counted a JOIN counted b USING (id)", 35, False),
    ("SELECT count(*) FROM counted LATERAL VIEW explode(array(1, 2)) e AS x", 70, False),
    ("SELECT count(*) FROM counted WHERE id IN (SELECT id FROM counted WHERE p = 1)", 9, False),
    ("SELECT count(*) FILTER (WHERE p = 1) FROM counted", 9, False),
    ("SELECT count(*) + 1 FROM counted", 36, False),
]


@pytest.mark.parametrize(("query", "count", "from_metadata"), QUERIES)
def test_queries(kind, spark, history, query, count, from_metadata):
    from delvec import sql

    table, (first, second, _) = history
    text = query.replace("{path}", f"delvec.`{table.location}`")
    text = text.replace("{first}", str(first)).replace("{second}", str(second))
    args = {"a": 1} if ":a" in text else None
    with executed(spark) as ran:
        result = sql(spark, text, args)
        rows = result.collect()
    assert [tuple(row) for row in rows] == [(count,)]
    assert (ran.jobs == 0) == (from_metadata and POSITION_FILES not in kind.features)
    # Spark's own name, type and nullability.
    plain = text.replace(f"delvec.`{table.location}`", "counted").replace(f"VERSION AS OF {first}", "")
    plain = plain.replace(f"FOR VERSION AS OF {second}", "").replace("counted", "{t}").rstrip(";")
    assert _columns(result) == _columns(spark.sql(plain, args=args, t=table.to_df()))


def _columns(frame):
    return [(field.name, field.dataType, field.nullable) for field in frame.schema]


def test_queries_with_other_results(spark, table):
    from delvec import sql

    assert sql(spark, "SELECT count(*) FROM counted GROUP BY p ORDER BY 1").count() == 4
    assert sql(spark, "SELECT count(*) FROM counted LIMIT 0").collect() == []
    assert sql(spark, "SELECT count(*) OVER () FROM counted").count() == 35
    assert sql(spark, "SELECT count(*) FROM counted UNION ALL SELECT 1").count() == 2
    assert "Scan parquet" in sql(spark, "EXPLAIN SELECT count(*) FROM counted").collect()[0][0]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sql(spark, "SELECT count(*) FROM counted WHERE p = 0 AND 1 / (id - 5) > 0").collect()


def test_a_query_stays_at_its_version(kind, spark, tmp_path):
    from delvec import sql

    table = kind.table(spark, tmp_path / "t", "id bigint", [(n,) for n in range(10)])
    query = f"SELECT count(*) FROM delvec.`{table.location}`"
    before, partly = sql(spark, query), sql(spark, query + " WHERE id > 4")
    table.delete("id < 3")
    table.append(spark.range(20, 25))
    assert [before.collect()[0][0], partly.collect()[0][0]] == [10, 5]
    assert sql(spark, query).collect()[0][0] == 12 == table.count()
    assert sql(spark, query + " WHERE id > 4").collect()[0][0] == 10 == table.count("id > 4")


@pytest.mark.common
@pytest.mark.usefixtures("in_spark")
def test_the_command(delvec, kind, history, started):
    table, versions = history
    shown = delvec("count", table.location, "--json").json
    decided = POSITION_FILES not in kind.features
    assert (shown["rows"], shown["version"], shown["read"]) == (35, versions[2], not decided)
    first = versions[0]
    counted = delvec("count", table.location, "--where", "p = 1", "--version", first).out
    assert counted == f"10 rows in version {first}\n"
    assert len(started) == 0
    assert delvec("count", table.location, "--where", "id > 105", "--json").json["rows"] == 22
    assert delvec("count", table.location, "--where", "nope = 1").code == 2
    assert len(started) == 1
