"""The change feed gives what Delta-Spark's gives: on tables of Delta-Spark and of delvec, range by range."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delvec import Table, sql
from rows import multiset
from scanning import collected

pytestmark = [pytest.mark.interop, pytest.mark.spark]

FEED = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'"
MAPPED = f"{FEED}, 'delta.columnMapping.mode' = 'name'"
STEPS = (
    "INSERT INTO {t} SELECT /*+ REPARTITION(1) */ id, concat('n', id), id % 3 FROM range(90)",
    "DELETE FROM {t} WHERE id % 10 = 0",
    "DELETE FROM {t} WHERE id % 10 = 1",
    "UPDATE {t} SET name = upper(name) WHERE id BETWEEN 20 AND 30",
    "MERGE INTO {t} AS t USING (SELECT id, 'm' AS name, 7 AS p FROM range(80, 100)) AS s ON t.id = s.id "
    "WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "OPTIMIZE {t}",
    "DELETE FROM {t} WHERE id < 40 AND id % 2 = 0",
    "RESTORE TABLE {t} TO VERSION AS OF 3",
    "DELETE FROM {t} WHERE p = 2",
    "INSERT INTO {t} REPLACE WHERE p = 1 SELECT id, 'r', 1 FROM range(3)",
    "ALTER TABLE {t} ADD COLUMNS (more DOUBLE)",
    "INSERT INTO {t} VALUES (1000, NULL, NULL, 1.5D)",
    "DELETE FROM {t} WHERE id > 1",
)


def feed(spark: Any, location: str, first: int, last: int | None) -> Any:
    reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", first)
    return (reader if last is None else reader.option("endingVersion", last)).load(location)


def same_feed(spark: Any, table: Any, first: int, last: int | None) -> None:
    mine, theirs = table.changes(first, last), feed(spark, table.location, first, last)
    assert mine.schema.simpleString() == theirs.schema.simpleString(), (first, last)
    found, expected = (multiset(collected(frame)) for frame in (mine, theirs))
    assert found == expected, f"{first} to {last} lost {expected - found}, gained {found - expected}"


def same_feeds(spark: Any, table: Any, *, samples: int) -> None:
    newest, rng = table.version, random.Random(17)
    ranges = [(0, newest), (newest // 2, None)]
    ranges += [tuple(sorted(rng.choices(range(newest + 1), k=2))) for _ in range(samples)]
    for first, last in ranges:
        same_feed(spark, table, first, last)


@pytest.mark.parametrize(
    ("partitioned", "properties"), [(True, FEED), (False, MAPPED)], ids=["parts", "mapped"]
)
def test_tables_of_delta_spark(delta_spark: Any, tmp_path: Path, partitioned: bool, properties: str) -> None:
    name = f"delta.`{tmp_path / 'a b%41'}`"
    parts = "PARTITIONED BY (p)" if partitioned else ""
    delta_spark.sql(
        f"CREATE TABLE {name} (id BIGINT, name STRING, p INT) USING delta {parts} "
        f"TBLPROPERTIES ({properties})"
    )
    for step in STEPS:
        delta_spark.sql(step.format(t=name))
    table = Table.open(delta_spark, str(tmp_path / "a b%41"))
    assert table.version == len(STEPS)
    same_feeds(delta_spark, table, samples=6)


def test_tables_of_delvec(delta_spark: Any, tmp_path: Path) -> None:
    spark, place = delta_spark, str(tmp_path / "t")
    name = f"delvec.`{place}`"
    steps: list[Callable[[Any], Any]] = [
        lambda table: table.append(
            spark.range(60).selectExpr("id", "concat('n', id) AS name", "CAST(id % 3 AS INT) AS p")
        ),
        lambda table: table.delete("id % 7 = 0"),
        lambda table: table.update({"name": "upper(name)"}, "id > 50"),
        lambda table: table.delete("p = 1"),
        lambda table: table.overwrite(
            spark.sql("SELECT id, 'o' AS name, 2 AS p FROM range(5)"), where="p = 2"
        ),
        lambda _: sql(spark, STEPS[4].format(t=name)),
        lambda table: table.set_properties({"delta.enableDeletionVectors": "false"}),
        lambda table: table.delete("id % 5 = 0"),
        lambda table: table.add_columns("more double"),
        lambda table: table.append([{"id": 1, "name": "x", "p": 9, "more": 2.5}]),
    ]
    properties = {"delta.enableChangeDataFeed": "true"}
    table = Table.create(
        spark, place, "id bigint, name string, p int", partition_by=["p"], properties=properties
    )
    for step in steps:
        step(table)
    same_feeds(spark, table, samples=4)
