"""Delta-Spark commits first, on the same file: its commit is judged by what it did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from racing import losing
from verbs import rows_of

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TOP, UNITED, AGAIN = "top", "united", "again"
MERGE = (
    "MERGE INTO {table} t USING (SELECT 3L AS id, 33L AS v UNION ALL SELECT 40L, 4L) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
CASES = [
    ("DELETE FROM {table} WHERE id = 3", UNITED, {(1, 10), (2, 21), (4, 40)}),
    ("DELETE FROM {table} WHERE id = 2", AGAIN, {(1, 10), (3, 30), (4, 40)}),
    ("UPDATE {table} SET v = v + 5 WHERE id = 3", UNITED, {(1, 10), (2, 21), (3, 35), (4, 40)}),
    ("UPDATE {table} SET v = v + 5 WHERE id = 2", AGAIN, {(1, 10), (2, 26), (3, 30), (4, 40)}),
    (MERGE, UNITED, {(1, 10), (2, 21), (3, 33), (4, 40), (40, 4)}),
    ("INSERT INTO {table} VALUES (9, 90)", TOP, {(1, 10), (2, 21), (3, 30), (4, 40), (9, 90)}),
    ("INSERT INTO {table} VALUES (2, 90)", AGAIN, {(1, 10), (2, 21), (2, 91), (3, 30), (4, 40)}),
    ("OPTIMIZE {table}", AGAIN, {(1, 10), (2, 21), (3, 30), (4, 40)}),
]


@pytest.mark.parametrize(("statement", "how", "expected"), CASES)
def test_an_update_after_delta_spark(
    delta_spark: Any, tmp_path: Path, statement: str, how: str, expected: set[tuple[int, int]]
) -> None:
    from delvec.table import Table

    place = str(tmp_path / "t")
    rows = delta_spark.createDataFrame([(i, 10 * i) for i in range(1, 5)], "id bigint, v bigint").coalesce(1)
    table = Table.create(delta_spark, place, rows)
    if statement.startswith("OPTIMIZE"):  # it rewrites only where there is something to gain
        table.append(rows.where("id > 4"))
        table.append(delta_spark.createDataFrame([(7, 70)], "id bigint, v bigint").coalesce(1))
        expected = expected | {(7, 70)}
    named = statement.format(table=f"delta.`{place}`")
    mine = losing(delta_spark, place, lambda _: delta_spark.sql(named).collect())
    result = mine.update({"v": "v + 1"}, "id = 2")
    assert set(rows_of(table)) == expected
    theirs = delta_spark.read.format("delta").load(place).collect()
    assert {tuple(row) for row in theirs} == expected
    if how == UNITED:
        assert result.metrics["numFilesUnited"] == 1
    assert (result.metrics.get("numRuns", 1) == 2) == (
        how == AGAIN and bool(result.metrics["numUpdatedRows"])
    )


def test_delta_spark_reads_a_united_vector(delta_spark: Any, tmp_path: Path) -> None:
    from delvec.table import Table

    place = str(tmp_path / "t")
    Table.create(delta_spark, place, delta_spark.range(0, 1000, 1, 1).selectExpr("id", "id AS v"))
    deletes = [
        lambda _, key=key: delta_spark.sql(f"DELETE FROM delta.`{place}` WHERE id = {key}").collect()
        for key in (1, 2)
    ]
    mine = losing(delta_spark, place, *deletes)
    assert mine.delete("id IN (2, 3)").metrics["numDeletedRows"] == 1
    left = delta_spark.read.format("delta").load(place)
    assert (left.count(), left.where("id < 5").count()) == (997, 2)
