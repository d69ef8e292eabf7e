"""OPTIMIZE and REORG by both engines: the same files are picked, and each reads what the other rewrote."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from delvec import sql
from scanning import collected

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COMPARED = ("numRemovedFiles", "numAddedFiles", "numRemovedBytes", "numDeletionVectorsRemoved")
NOT_COMPARED = {"filesAdded", "startTimeMs", "totalClusterParallelism", "numTableColumnsWithStats"}


def delta_table(spark: Any, place: Any, *, partitioned: bool = True) -> str:
    """A table of Delta-Spark: files without vectors, with few and with many deleted rows, and row ids."""
    rows = spark.range(0, 600, 1, 6).selectExpr("id", "CAST(id % 2 AS INT) AS p", "concat('n', id) AS name")
    writer = rows.write.format("delta").option("delta.enableDeletionVectors", "true")
    writer = writer.option("delta.enableRowTracking", "true")
    (writer.partitionBy("p") if partitioned else writer).save(str(place))
    spark.sql(f"DELETE FROM delta.`{place}` WHERE id < 40 OR id IN (150, 151, 599)")
    return str(place)


def last_commit(spark: Any, place: str) -> Any:
    return spark.sql(f"DESCRIBE HISTORY delta.`{place}` LIMIT 1").first()


def row_ids(spark: Any, place: str) -> dict[int, tuple[int, int]]:
    frame = spark.read.format("delta").load(place)
    found = frame.select("id", "_metadata.row_id", "_metadata.row_commit_version").collect()
    return {row[0]: (row[1], row[2]) for row in found}


@pytest.mark.parametrize(
    "text",
    [
        "OPTIMIZE {t}",
        "OPTIMIZE {t} WHERE p = 1",
        "OPTIMIZE {t} ZORDER BY (id, name)",
        "REORG TABLE {t} APPLY (PURGE)",
        "REORG TABLE {t} WHERE p = 0 APPLY (PURGE)",
    ],
)
def test_both_pick_the_same_files(delta_spark: Any, tmp_path: Any, text: str) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    delta_table(delta_spark, theirs)
    shutil.copytree(theirs, ours)
    rows, ids = collected(delta_spark.read.format("delta").load(str(ours))), row_ids(delta_spark, str(ours))
    expected = delta_spark.sql(text.format(t=f"delta.`{theirs}`"))
    result = sql(delta_spark, text.format(t=f"delvec.`{ours}`"))
    assert result.schema.simpleString() == expected.schema.simpleString()
    mine, other = result.first()["metrics"].asDict(True), expected.first()["metrics"].asDict(True)
    for name in other.keys() - NOT_COMPARED:
        assert mine[name] == other[name], name
    commits = last_commit(delta_spark, str(ours)), last_commit(delta_spark, str(theirs))
    for name in ("version", "operation", "readVersion", "isolationLevel", "isBlindAppend"):
        assert commits[0][name] == commits[1][name], name
    parameters = [dict(commit["operationParameters"]) for commit in commits]
    assert parameters[0].keys() == parameters[1].keys()
    for name in parameters[0].keys() - {"predicate"}:
        assert parameters[0][name] == parameters[1][name], name
    metrics = [dict(commit["operationMetrics"]) for commit in commits]
    assert metrics[0].keys() == metrics[1].keys()
    for name in COMPARED:
        assert metrics[0][name] == metrics[1][name], name
    left = collected(delta_spark.read.format("delta").load(str(ours)))
    assert sorted(left, key=str) == sorted(rows, key=str)
    assert row_ids(delta_spark, str(ours)) == ids


def test_delta_spark_sees_no_change(delta_spark: Any, tmp_path: Any) -> None:
    from delvec.table import Table

    place = str(tmp_path / "t")
    writer = delta_spark.range(0, 40, 1, 4).write.format("delta")
    writer.option("delta.enableChangeDataFeed", "true").save(place)
    table = Table.open(delta_spark, place)
    table.delete("id < 5")
    version = table.optimize().version
    changes = delta_spark.read.format("delta").option("readChangeFeed", "true")
    assert changes.option("startingVersion", version).load(place).count() == 0
    delta_spark.sql(f"DELETE FROM delta.`{place}` WHERE id = 9")
    assert sorted(row["id"] for row in collected(table.to_df())) == [5, 6, 7, 8, *range(10, 40)]


def test_our_statement_loses_to_their_compaction(delta_spark: Any, tmp_path: Any) -> None:
    from racing import losing

    place = delta_table(delta_spark, tmp_path / "t")
    table = losing(delta_spark, place, lambda _: delta_spark.sql(f"OPTIMIZE delta.`{place}`"))
    result = table.delete("id BETWEEN 100 AND 104")
    assert (result.metrics["numRuns"], result.metrics["numDeletedRows"]) == (2, 5)
    place = delta_table(delta_spark, tmp_path / "u")
    table = losing(delta_spark, place, lambda _: delta_spark.sql(f"OPTIMIZE delta.`{place}` WHERE p = 0"))
    result = table.optimize()
    assert (result.dropped, result.groups) == (1, 1)
    assert table.to_df().count() == 557
