"""Subqueries in conditions: the table's default alias, and bare columns that mean something else."""

from __future__ import annotations

import warnings

import pytest

from delvec import sql
from delvec.errors import SubqueryScopeWarning
from verbs import holds, table_of

pytestmark = pytest.mark.spark

ROWS = [(1, 10), (2, 20), (3, 30)]


@pytest.fixture
def table(spark, tmp_path):
    spark.createDataFrame([(2, 5)], "id long, other long").createOrReplaceTempView("req")
    spark.createDataFrame([(2, 5)], "key long, other long").createOrReplaceTempView("req2")
    yield table_of(spark, tmp_path / "t", "id bigint, v bigint", ROWS)
    spark.catalog.dropTempView("req")
    spark.catalog.dropTempView("req2")


@pytest.mark.parametrize(
    "where",
    [
        "EXISTS (SELECT 1 FROM req r WHERE r.id = id)",
        "EXISTS (SELECT 1 FROM req WHERE req.id = id)",
        "id IN (SELECT r.id FROM req r WHERE id = r.id AND other > 1)",
        "v > 5 AND NOT EXISTS (SELECT 1 FROM req r JOIN range(3) AS s(n) ON ID <=> r.other)",
    ],
)
def test_a_column_that_the_subquery_captures_is_told(table, where):
    with pytest.warns(SubqueryScopeWarning, match=r"(?i)write target\.id"):
        table.delete(where, dry_run=True)
    with pytest.warns(SubqueryScopeWarning, match=r"(?i)write target\.id"):
        table.update({"v": "0"}, where, dry_run=True)


@pytest.mark.parametrize(
    ("where", "matching"),
    [
        ("id IN (SELECT id FROM req2)", 3),
        ("v > 10 AND ID IN (SELECT DISTINCT Id FROM req2 r WHERE other = 5)", 2),
        ("id NOT IN (SELECT id FROM req2)", 0),
        ("(id, v) IN (SELECT id, other FROM req2)", 0),
        ("id IN (SELECT key FROM req2 UNION SELECT id FROM req2)", 3),
    ],
)
def test_a_selected_column_that_no_table_of_the_subquery_has_is_told(table, where, matching):
    message = r"(?i)no table of the subquery has a column id, .* write target\.id"
    with pytest.warns(SubqueryScopeWarning, match=message):
        assert table.delete(where, dry_run=True).metrics["numDeletedRows"] == matching
    with pytest.warns(SubqueryScopeWarning, match=message):
        table.update({"v": "0"}, where, dry_run=True)


@pytest.mark.parametrize(
    "where",
    [
        "id IN (SELECT key FROM req2)",
        "id IN (SELECT target.id FROM req2)",
        "id IN (SELECT id FROM req2 AS r(id, other))",
        "id IN (SELECT id FROM req2 JOIN req ON req.id = req2.key)",
        "id IN (SELECT id FROM req2, range(3))",
        "id IN (SELECT id FROM req2 LATERAL VIEW explode(array(1, 2)) AS id)",
        "id IN (SELECT id FROM (SELECT key AS id FROM req2))",
        "id IN (WITH req2 AS (SELECT 1 AS id) SELECT id FROM req2)",
        "id IN (SELECT id FROM req WHERE EXISTS (SELECT id FROM req2))",
        "id IN (SELECT id FROM req)",
        "id IN (SELECT id FROM req WHERE other = 5)",
        "EXISTS (SELECT 1 FROM req r WHERE r.id = target.id)",
        "EXISTS (SELECT 1 FROM req r WHERE r.id = v)",
        "EXISTS (SELECT 1 FROM req r WHERE r.id = target.id AND id = other)",
        "id = (SELECT max(id) FROM req WHERE id > 1)",
        "v = 20",
    ],
)
def test_other_subqueries_are_quiet(table, where):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.delete(where, dry_run=True)


def test_target_is_the_default_alias(table):
    assert table.delete("EXISTS (SELECT 1 FROM req r WHERE r.id = target.id)").metrics["numDeletedRows"] == 1
    table.update({"v": "(SELECT max(other) FROM req WHERE req.id < target.id)"}, "target.id = 3")
    holds(table, [(1, 10), (3, 5)])


def test_a_column_named_target_stays_a_column(spark, tmp_path):
    ddl = "id bigint, target struct<id: bigint>"
    table = table_of(spark, tmp_path / "t", ddl, [(1, (2,)), (2, (1,))])
    table.delete("target.id = 2")
    assert [row.id for row in table.to_df().collect()] == [2]


def test_statements_warn_too(spark, table):
    name = f"delvec.`{table.location}`"
    with pytest.warns(SubqueryScopeWarning, match=r"write o\.id"):
        sql(spark, f"DELETE FROM {name} AS o WHERE o.v = 0 AND EXISTS (SELECT 1 FROM req r WHERE r.id = id)")
