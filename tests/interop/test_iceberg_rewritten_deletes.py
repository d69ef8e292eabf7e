"""Deletes by key that delvec rewrote: every engine reads the rows, and the older versions too."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from delvec.detect import open_table
from delvec.plan import EQUALITY_FILE
from delvec.table import Table
from iceberg_spark import SparkTable
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg
from rows import multiset
from scanning import collected, same

pytestmark = [pytest.mark.interop, pytest.mark.spark]

GATE = "write.delete.equality-vector.enabled"


def agrees(table: SparkTable, expected: list[dict[str, Any]]) -> None:
    """Iceberg-Spark, DuckDB, pyiceberg and delvec read these rows, and no equality delete is left."""
    table.spark.sql(f"REFRESH TABLE {table.full_name}")
    assert multiset(collected(table.rows())) == multiset(expected)
    assert multiset(read_by_duckdb(table.location)) == multiset(expected)
    assert multiset(read_by_pyiceberg(table.location)) == multiset(expected)
    mine = Table.open(table.spark, table.location)
    same(mine.to_df(), expected)
    assert mine.verify().errors == 0
    assert equality_deletes(table) == []


def equality_deletes(table: SparkTable) -> list[str]:
    deletes = open_table(table.location).snapshot().live_deletes().to_pylist()
    return sorted(delete["encoding"] for delete in deletes if delete["kind"] == EQUALITY_FILE)


@pytest.mark.parametrize("through_keys", [False, True])
def test_equality_deletes_of_the_java_api(iceberg_table, through_keys):
    """They become vectors of positions; or first vectors of keys, while the gate is open."""
    table = iceberg_table(f"rewritten_{through_keys}".lower())
    table.create("id int, p int", 3, "PARTITIONED BY (p)")
    table.sql("INSERT INTO {t} SELECT id, id % 3 FROM range(30)")
    table.delete_keys([{"id": 1}, {"id": 3}], ["id"], partition={"p": 1})
    table.delete_keys([{"id": 4}, {"id": 7}], ["id"], partition={"p": 1})
    table.sql("INSERT INTO {t} VALUES (4, 1), (50, 0)")  # inserted again
    table.sql("DELETE FROM {t} WHERE id = 9")  # a vector
    expected = collected(table.rows())
    assert {4, 50} <= {row["id"] for row in expected}
    before = table.snapshots()[-1]
    mine = Table.open(table.spark, table.location)
    if through_keys:
        mine.set_properties({GATE: "true"})
        done = mine.rewrite_deletes(to="equality-vector", encoding="deletion-vector")
        assert done.removed == {"equality files": 2}
        assert equality_deletes(table) == ["deletion-vector"] * 2
        same(mine.to_df(), expected)
        mine.set_properties({GATE: "false"})
    assert mine.rewrite_deletes().kept == 0
    agrees(table, expected)
    assert multiset(collected(table.rows(before))) == multiset(expected)
    table.sql("DELETE FROM {t} WHERE id = 10")  # Iceberg-Spark goes on
    agrees(table, [row for row in expected if row["id"] != 10])


def test_vectors_of_keys_that_delvec_wrote(iceberg_table):
    """Iceberg-Spark fails on them. After the gate is closed and the deletes are rewritten it reads on."""
    table = iceberg_table("gate_closed")
    table.create("id bigint, v string", 3, **{GATE: "true"})
    table.sql("INSERT INTO {t} SELECT id, 'old' FROM range(100)")
    mine = Table.open(table.spark, table.location)
    mine.delete_keys([{"id": number} for number in range(20)], on="id")
    mine.upsert([{"id": 30, "v": "new"}, {"id": 200, "v": "new"}], on="id")
    assert equality_deletes(table) == ["deletion-vector"] * 2
    table.spark.sql(f"REFRESH TABLE {table.full_name}")
    with pytest.raises((PySparkException, Py4JJavaError)):
        table.rows().collect()
    expected = collected(mine.to_df())
    assert len(expected) == 81
    mine.set_properties({GATE: "false"})
    mine.rewrite_deletes()
    agrees(table, expected)
    table.sql("INSERT INTO {t} VALUES (5, 'again')")
    agrees(table, [*expected, {"id": 5, "v": "again"}])


def test_position_files_of_version_2(iceberg_table):
    table = iceberg_table("rewritten_two")
    table.create("id int, v string", 2)
    table.sql("INSERT INTO {t} SELECT id, 'old' FROM range(50)")
    table.delete_keys([{"id": 1}, {"id": 2}], ["id"])
    table.sql("INSERT INTO {t} VALUES (2, 'again')")
    table.sql("DELETE FROM {t} WHERE id = 7")
    expected = collected(table.rows())
    Table.open(table.spark, table.location).rewrite_deletes(to="position-deletes")
    agrees(table, expected)
    Table.open(table.spark, table.location).upgrade(3)
    Table.open(table.spark, table.location).rewrite_deletes()
    agrees(table, expected)
