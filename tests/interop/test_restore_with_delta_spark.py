"""RESTORE of delvec and of Delta-Spark on copies of a table: the same files, vectors, metrics and schema."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scanning import collected

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DDL = "id bigint, name string"


@pytest.fixture(scope="module")
def history(delta_spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors come and grow, rows move, a column is added, properties change: by both engines in turns."""
    from delvec.table import Table

    location = tmp_path_factory.mktemp("history") / "t"
    name = f"delta.`{location}`"
    first = delta_spark.createDataFrame([(n, f"n{n}") for n in range(10)], DDL).coalesce(1)
    off = {"delta.enableDeletionVectors": "false", "delta.feature.rowTracking": "supported"}
    table = Table.create(delta_spark, str(location), first, properties=off)
    table.set_properties({"delta.enableDeletionVectors": "true", "owner": "me"})
    delta_spark.sql(f"DELETE FROM {name} WHERE id IN (1, 2)")
    table.delete("id = 3")
    delta_spark.sql(f"UPDATE {name} SET name = 'x' WHERE id = 5")
    table.add_columns("note string")
    delta_spark.sql(f"INSERT INTO {name} VALUES (20, 'new', 'y')")
    table.delete()
    assert table.version == 7
    return location


def state(table: Any, location: Path) -> tuple[Any, ...]:
    snapshot = table._table.snapshot()
    adds = snapshot.adds.to_pylist()
    names = ("path", "size", "dv_storage", "dv_path", "dv_offset", "dv_cardinality", "stats", "base_row_id")
    live = sorted(tuple(str(row[name]) for name in names) for row in adds)
    last = sorted((location / "_delta_log").glob("*.json"))[-1]
    actions = [json.loads(line) for line in last.read_text().splitlines()]
    (info,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
    # Delta-Spark gives these names with any change of metadata, also where rows need no ids yet.
    names_of_ids = "delta.rowTracking.materialized"
    properties = {
        key: value for key, value in snapshot.properties.items() if not key.startswith(names_of_ids)
    }
    return (
        live,
        replace(snapshot.metadata, configuration=properties),
        snapshot.protocol,
        {name: one.configuration for name, one in snapshot.domains.items()},
        info["operation"],
        info["operationParameters"],
        info["operationMetrics"],
    )


@pytest.mark.parametrize("version", [0, 2, 3, 6])
def test_both_restore_the_same(delta_spark: Any, history: Path, tmp_path: Path, version: int) -> None:
    from delvec import sql
    from delvec.table import Table

    results, states = [], []
    for name, run in (("ours", lambda text: sql(delta_spark, text)), ("theirs", delta_spark.sql)):
        location = shutil.copytree(history, tmp_path / name)
        (row,) = collected(run(f"RESTORE TABLE delta.`{location}` TO VERSION AS OF {version}"))
        results.append(row)
        table = Table.open(delta_spark, str(location))
        states.append(state(table, location))
        old = collected(delta_spark.read.format("delta").option("versionAsOf", version).load(str(location)))
        for rows in (delta_spark.read.format("delta").load(str(location)), table.to_df()):
            assert sorted(map(str, collected(rows))) == sorted(map(str, old))
        delta_spark.sql(f"DELETE FROM delta.`{location}` WHERE id = 9")
        table.append(delta_spark.createDataFrame([(30, "after")], DDL))
        left = [row for row in old if row["id"] != 9]
        assert table.to_df().count() == len(left) + 1
    assert results[0] == results[1]
    assert states[0] == states[1]


def test_delta_spark_says_the_same_about_a_restored_table(
    delta_spark: Any, history: Path, tmp_path: Path
) -> None:
    """Its history, its change of properties, its own RESTORE after ours, and back."""
    from delvec.table import Table

    location = shutil.copytree(history, tmp_path / "t")
    table = Table.open(delta_spark, str(location))
    table.restore(2)
    name = f"delta.`{location}`"
    (row,) = delta_spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()
    assert row.operation == "RESTORE"
    assert row.operationParameters["version"] == "2"
    assert row.operationMetrics == {key: str(value) for key, value in table.restore(2).metrics.items()} | {
        "numRemovedFiles": row.operationMetrics["numRemovedFiles"],
        "removedFilesSize": row.operationMetrics["removedFilesSize"],
        "numRestoredFiles": row.operationMetrics["numRestoredFiles"],
        "restoredFilesSize": row.operationMetrics["restoredFilesSize"],
    }
    delta_spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF 3")
    assert sorted(row.id for row in table.to_df().collect()) == [0, *range(4, 10)]
    table.restore(7)
    assert table.to_df().count() == 0
    table.restore(8)
    delta_spark.sql(f"OPTIMIZE {name}")
    assert sorted(row.id for row in delta_spark.read.format("delta").load(str(location)).collect()) == [
        0,
        *range(3, 10),
    ]
