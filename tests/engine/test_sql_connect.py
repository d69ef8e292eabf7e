"""SQL in a Spark Connect session, where a query is analysed each time it runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

STATEMENTS = [
    ("CREATE TABLE t (id BIGINT, p INT, name STRING) USING delvec PARTITIONED BY (p) "
     "LOCATION '{place}'", None),
    ("INSERT INTO t SELECT id, CAST(id % 2 AS INT), '{{x}}' FROM range(6)", None),
    ("INSERT INTO t SELECT id + 10, p, name FROM t WHERE id < :n", {"n": 2}),
    ("DELETE FROM t WHERE t.id IN (SELECT id FROM delta.`{place}/../other`)", None),
    ("UPDATE t SET name = :v WHERE id = 5", {"v": "it's"}),
    ("MERGE INTO t USING (SELECT * FROM t VERSION AS OF 1 WHERE id < 4) s ON t.id = s.id "
     "WHEN MATCHED THEN UPDATE SET name = 'm' WHEN NOT MATCHED THEN INSERT *", None),
    ("ALTER TABLE t ADD COLUMNS (e INT)", None),
]  # fmt: skip
ON_NAMES = [
    ("CREATE TEMP VIEW v AS SELECT id, p FROM t WHERE id < :n", {"n": 3}),
    ("SELECT count(*) FROM v JOIN t USING (id)", None),
    ("DESCRIBE t id", None),
    ("EXPLAIN DELETE FROM t WHERE id = 77", None),
    ("DROP VIEW v", None),
    ("DROP TABLE t", None),
]
QUERY = (
    "SELECT n.id, n.name, o.id AS old FROM t n LEFT JOIN t VERSION AS OF 1 o ON n.id = o.id WHERE n.id <> ?"
)


def main(place: str, answer: str) -> None:
    """In a process of its own: classic and Connect cannot share one."""
    from pyspark.sql import SparkSession

    from delvec import Table, sql
    from delvec.errors import DelvecError

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    Table.create(spark, f"{place}/../other", spark.sql("SELECT 3L AS id UNION SELECT 4L"))
    counts = [
        [list(row) for row in sql(spark, text.format(place=place), args).collect()]
        for text, args in STATEMENTS
    ]
    frame = sql(spark, QUERY, [11])
    Table.open(spark, place).delete("id = 0")
    rows = [[list(row) for row in frame.orderBy("id").collect()] for _ in range(2)]
    try:
        sql(spark, "DELETE FROM t\nWHERE id = = 1")
        error = None
    except DelvecError as refused:
        error = str(refused)
    named = [[list(row) for row in sql(spark, *each).collect()] for each in ON_NAMES]
    views = [view.name for view in spark.catalog.listTables()]
    found = {"counts": counts, "rows": rows, "error": error, "named": named, "views": views}
    found["changes"] = changes(spark, f"{place}/../fed")
    Path(answer).write_text(json.dumps(found))
    spark.stop()


def changes(spark, place: str) -> list[list[object]]:
    from delvec import Table, sql

    feed = {"delta.enableChangeDataFeed": "true"}
    table = Table.create(spark, place, spark.range(6).selectExpr("id", "id % 2 AS p"), properties=feed)
    for i in (1, 2):
        table.delete(f"id = {i}")
    table.update({"id": "id + 10"}, where="id = 4")
    table.register("fed")
    rows = sql(spark, "SELECT _commit_version, _change_type, id FROM table_changes('fed', 1) ORDER BY ALL")
    return [list(row) for row in rows.collect()]


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    if shutil.which("java") is None:
        pytest.skip("Java is absent: Spark needs it")
    pytest.importorskip("grpc", reason="grpcio is absent: Spark Connect needs it")
    from scan_process import alone  # not there where this file is a program

    folder = tmp_path_factory.mktemp("sql-connect")
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"}
    with alone():
        done = subprocess.run(
            [sys.executable, __file__, str(folder / "t"), str(folder / "answer.json")],
            env=environment | {"PYSPARK_PYTHON": sys.executable},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    if done.returncode and "Unable to bind" in done.stderr:
        pytest.skip("a Spark Connect server cannot be started here")
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads((folder / "answer.json").read_text())


def test_counts(answer):
    assert answer["counts"] == [[], [[6, 6]], [[2, 2]], [[2]], [[1]], [[4, 3, 0, 1]], []]


def test_a_query_stays_at_its_version_and_runs_again(answer):
    expected = [
        *([0, "m", 0], [1, "m", 1], [2, "m", 2], [3, "{x}", 3], [5, "it's", 5], [10, "{x}", None]),
    ]
    assert answer["rows"] == [expected, expected]


def test_statements_on_names(answer):
    described = [["col_name", "id"], ["data_type", "bigint"], ["comment", None]]
    assert answer["named"] == [[], [[2]], described, [], [], []]


def test_nothing_is_left_in_the_session(answer):
    assert answer["views"] == []


def test_syntax_errors_are_ours(answer):
    assert answer["error"].startswith("syntax error at line 2, column 12: ")


def test_changes(answer):
    changed = [[3, "update_postimage", 14], [3, "update_preimage", 4]]
    assert answer["changes"] == [[1, "delete", 1], [2, "delete", 2], *changed]


if __name__ == "__main__":
    main(*sys.argv[1:])
