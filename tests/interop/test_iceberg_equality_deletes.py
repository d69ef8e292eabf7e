"""Equality deletes that Iceberg's Java API writes: rows as Iceberg-Spark and DuckDB see them."""

from __future__ import annotations

import pytest

from connector_rows import connector_rows
from delvec.table import Table
from iceberg_tables.readers import read_by_duckdb
from rows import multiset
from scanning import collected, same

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def agrees(table, *conditions, duckdb=False):
    """``duckdb``: it, too. It is wrong where keys have nulls, and where deletes have partitions."""
    mine = Table.open(table.spark, table.location)
    for snapshot in table.snapshots():
        same(mine.to_df(version=snapshot), collected(table.rows(snapshot)))
    expected = collected(table.rows())
    same(mine.to_df(), expected)
    assert multiset(connector_rows(table.location)) == multiset(expected)
    assert mine.count() == len(expected)
    if duckdb:
        assert multiset(read_by_duckdb(table.location)) == multiset(expected)
    for where in conditions:
        same(mine.to_df(where=where), collected(table.sql(f"SELECT * FROM {{t}} WHERE {where}")))
    return expected


def test_without_partitions_two_field_sets_and_nulls(iceberg_table):
    table = iceberg_table("keys")
    table.create("id int, a string, b int", 2)
    table.sql("INSERT INTO {t} SELECT id, IF(id % 5 = 0, NULL, concat('a', id % 4)), id % 3 FROM range(40)")
    table.delete_keys([{"id": 3}, {"id": 39}], ["id"])
    table.delete_keys([{"id": 4, "b": 1}, {"id": 5, "b": 1}], ["id", "b"])  # 5 has another b
    agrees(table, duckdb=True)
    table.delete_keys([{"a": None, "b": 1}, {"a": "a1", "b": 2}], ["a", "b"])
    table.sql("INSERT INTO {t} VALUES (3, 'again', 1), (50, NULL, 1), (51, NULL, NULL), (NULL, 'x', 0)")
    table.delete_keys([{"id": None}], ["id"])
    table.delete_keys([{"a": None, "b": None}], ["a", "b"])
    table.sql("DELETE FROM {t} WHERE id IN (8, 50)")  # position deletes on top
    found = agrees(table, "id = 3", "a IS NULL", "b = 1 AND id > 20")
    assert 3 in {row["id"] for row in found}


def test_in_partitions_and_after_another_partitioning(iceberg_table):
    table = iceberg_table("parted_keys")
    table.create("id int, p int", 2, "PARTITIONED BY (p)")
    table.sql("INSERT INTO {t} SELECT id, id % 3 FROM range(30)")
    table.delete_keys([{"id": 1}, {"id": 3}], ["id"], partition={"p": 1})  # 3 is in another partition
    table.sql("ALTER TABLE {t} REPLACE PARTITION FIELD p WITH bucket(2, id)")
    table.sql("INSERT INTO {t} SELECT id, id % 3 FROM range(100, 112)")
    table.delete_keys([{"id": 4}, {"id": 7}], ["id"], partition={"p": 1}, spec_id=0)
    table.delete_keys([{"id": i} for i in range(100, 106)], ["id"], partition={"id": 100, "p": 0})
    table.sql("ALTER TABLE {t} DROP PARTITION FIELD id_bucket_2")
    table.delete_keys([{"id": 5}, {"id": 111}], ["id"])  # without a partition: everywhere
    table.sql("INSERT INTO {t} VALUES (5, 5), (111, 0)")
    agrees(table, "p = 1", "id = 5", "id >= 100")


def test_columns_dropped_or_renamed_since_and_vectors_beside(iceberg_table):
    table = iceberg_table("dropped_keys")
    table.create("id int, code int, name string", 3)
    table.sql("INSERT INTO {t} SELECT id, id % 5, concat('n', id) FROM range(20)")
    table.delete_keys([{"code": 2}], ["code"])
    table.delete_keys([{"name": "n4"}], ["name"])
    table.sql("DELETE FROM {t} WHERE id = 6")  # a vector
    table.sql("ALTER TABLE {t} RENAME COLUMN name TO title")
    table.sql("ALTER TABLE {t} DROP COLUMN code")
    table.sql("INSERT INTO {t} VALUES (100, 'n4')")
    agrees(table, "id < 10", "title = 'n4'")
