"""Delta-Spark and delvec's commits in turns on one table: each takes what the other wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from delta_writer import NUMBERS, added, append, bodies, committed, delete_ids, numbers, put_file
from delvec.delta.table import DeltaTable
from delvec.plan import Base
from delvec.row_delta import MetadataChange, Operation, Read, Request, RowDelta, Verb
from rows import multiset, read_rows

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning"),
]

EVERYTHING = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.enableRowTracking": "true",
    "delta.checkpointPolicy": "v2",
    "delta.checkpointInterval": "2",
    "delta.enableTypeWidening": "true",
}


def both(spark: Any, table: DeltaTable) -> set[int]:
    """The ids that Delta-Spark and delvec read, which are the same."""
    spark.sql(f"REFRESH TABLE delta.`{table.location}`")
    theirs = spark.read.format("delta").load(table.location).toArrow().to_pylist()
    ours = read_rows(DeltaTable.open(table.location).snapshot().plan(), table.storage)
    assert multiset(theirs) == multiset(ours)
    return {row["id"] for row in ours}


@pytest.mark.parametrize("properties", [{}, EVERYTHING], ids=["plain", "everything"])
def test_in_turns(delta_spark: Any, tmp_path: Path, properties: dict[str, str]) -> None:
    table = DeltaTable.create(str(tmp_path / "t"), NUMBERS, properties=properties)
    name = f"delta.`{table.location}`"
    committed(append(table, numbers(0, 10), numbers(10, 20)))
    committed(delete_ids(table, [1, 2, 12]))
    live = set(range(20)) - {1, 2, 12}
    assert both(delta_spark, table) == live
    delta_spark.sql(f"DELETE FROM {name} WHERE id IN (3, 13)")
    live -= {3, 13}
    assert both(delta_spark, table) == live
    committed(delete_ids(table, [4, 14]))
    committed(append(table, numbers(20, 25)))
    live = live - {4, 14} | set(range(20, 25))
    assert both(delta_spark, table) == live
    delta_spark.sql(f"UPDATE {name} SET name = 'x' WHERE id IN (5, 21)")
    delta_spark.sql(
        f"MERGE INTO {name} t USING (SELECT 6L AS id, 'm' AS name UNION SELECT 90L, 'm') s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    live |= {90}
    assert both(delta_spark, table) == live
    committed(delete_ids(table, range(10, 20)))
    live -= set(range(10, 20))
    assert both(delta_spark, table) == live
    delta_spark.sql(f"OPTIMIZE {name}")
    assert both(delta_spark, table) == live
    committed(delete_ids(table, [90]))
    assert both(delta_spark, table) == live - {90}
    history = {row["version"]: row for row in delta_spark.sql(f"DESCRIBE HISTORY {name}").collect()}
    assert history[2]["operation"] == "DELETE"
    assert history[2]["operationMetrics"]["numDeletionVectorsAdded"] == "2"
    assert history[2]["operationParameters"] == {"predicate": '["id >= 0"]'}


def test_the_change_feed_of_our_vectors(delta_spark: Any, tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path / "t"), NUMBERS, properties=EVERYTHING)
    committed(append(table, numbers(0, 5)))
    committed(delete_ids(table, [1]))
    committed(delete_ids(table, [1, 2]))
    changes = (
        delta_spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 2)
        .load(table.location)
        .select("id", "_change_type", "_commit_version")
        .collect()
    )
    assert sorted(map(tuple, changes)) == [(1, "delete", 2), (2, "delete", 3)]


def test_row_ids_go_on(delta_spark: Any, tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path / "t"), NUMBERS, properties=EVERYTHING)
    name = f"delta.`{table.location}`"
    committed(append(table, numbers(0, 5)))
    delta_spark.sql(f"INSERT INTO {name} VALUES (50, 'a'), (51, 'b')")
    committed(append(DeltaTable.open(table.location), numbers(5, 8)))
    rows = delta_spark.sql(f"SELECT id, _metadata.row_id, _metadata.row_commit_version FROM {name}").collect()
    assert len({row["row_id"] for row in rows}) == len(rows) == 10
    by_id = {row["id"]: row for row in rows}
    assert [by_id[i]["row_id"] for i in range(5)] == list(range(5))
    assert by_id[7]["row_commit_version"] == 3


def test_columns_that_we_added_and_widened(delta_spark: Any, tmp_path: Path) -> None:
    from delvec.schema import Field, Primitive, Struct

    short = Struct((Field("id", Primitive("integer")), Field("name", Primitive("string"))))
    properties = EVERYTHING | {"delta.columnMapping.mode": "name"}
    table = DeltaTable.create(str(tmp_path / "t"), short, partition_by=["name"], properties=properties)
    first = table.snapshot().rules(Verb.APPEND).schema
    rows = pa.table({first.fields[0].physical_name: pa.array([1, 2], pa.int32())})
    file = put_file(table.storage, rows, partition={"name": "a b"})
    files = added([file], table.snapshot().spec)
    committed(
        table.commit(
            table.snapshot(), RowDelta(Base(0), Request(Operation.APPEND), Read(blind=True), added=files)
        )
    )
    wider = Struct(
        (Field("id", Primitive("long")), Field("name", Primitive("string")), Field("n", Primitive("double")))
    )
    change = MetadataChange(schema=table.snapshot().rules(Verb.APPEND, MetadataChange(schema=wider)).schema)
    delta = RowDelta(Base(1), Request(Operation.ADD_COLUMNS), Read(blind=True), metadata=change)
    committed(table.commit(table.snapshot(), delta))
    delta_spark.sql(f"INSERT INTO delta.`{table.location}` VALUES (5000000000, 'c', 1.5)")
    assert both(delta_spark, table) == {1, 2, 5000000000}
    assert bodies(table.storage, 2, "metaData")[0]["configuration"]["delta.columnMapping.maxColumnId"] == "3"
