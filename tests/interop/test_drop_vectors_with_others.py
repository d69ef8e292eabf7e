"""A table without vectors again: a reader that never knew them reads it, Delta-Spark reads all versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from old_reader import ReaderUnavailableError, old_reader, read_rows

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROWS = [(n, f"n{n}") for n in range(10)]
DDL = "id bigint, name string"


@pytest.fixture(scope="module")
def reader() -> Path:
    try:
        return old_reader()
    except ReaderUnavailableError as error:
        pytest.skip(str(error))


def ids(rows: Any) -> list[int]:
    return sorted(row["id"] for row in rows)


def commits(location: Path) -> list[list[dict[str, Any]]]:
    files = sorted((location / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def steps(location: Path) -> list[str]:
    return [
        action["commitInfo"]["operation"]
        for lines in commits(location)
        for action in lines
        if "commitInfo" in action
    ]


@pytest.mark.slow  # it builds an environment for the old reader
def test_a_reader_without_vectors_reads_the_table_after(
    delta_spark: Any, tmp_path: Path, reader: Path
) -> None:
    from delvec.table import Table

    location = tmp_path / "t"
    table = Table.create(delta_spark, str(location), delta_spark.createDataFrame(ROWS, DDL).coalesce(1))
    table.delete("id IN (1, 2)")
    table.delete("id = 3")
    refused = read_rows(reader, str(location))
    assert isinstance(refused, str)
    assert "reader version" in refused.lower() or "protocol" in refused.lower(), refused
    result = table.drop_deletion_vectors()
    assert result.reader_features == ()
    rows = read_rows(reader, str(location))
    assert not isinstance(rows, str), rows
    assert ids(rows) == [0, *range(4, 10)]
    for version, left in ((0, [*range(10)]), (1, [0, *range(3, 10)]), (2, [0, *range(4, 10)])):
        read = delta_spark.read.format("delta").option("versionAsOf", version).load(str(location))
        assert ids(read.collect()) == left
    delta_spark.sql(f"INSERT INTO delta.`{location}` VALUES (50, 'new')")
    delta_spark.sql(f"DELETE FROM delta.`{location}` WHERE id = 4")
    rows = read_rows(reader, str(location))
    assert not isinstance(rows, str), rows
    assert ids(rows) == [0, *range(5, 10), 50]
    delta_spark.sql(f"VACUUM delta.`{location}`")
    read = delta_spark.read.format("delta").option("versionAsOf", 2).load(str(location))
    assert ids(read.collect()) == [0, *range(4, 10)], "the tombstones keep the vector files"


def test_the_log_is_the_one_that_delta_spark_writes(delta_spark: Any, tmp_path: Path) -> None:
    """DROP FEATURE of both on equal tables: the same operations, protocol, properties and tombstones."""
    from delvec import sql
    from delvec.table import Table

    found = []
    for name, run in (("ours", lambda text: sql(delta_spark, text)), ("theirs", delta_spark.sql)):
        location = tmp_path / name
        table = Table.create(delta_spark, str(location), delta_spark.createDataFrame(ROWS, DDL).coalesce(1))
        table.delete("id IN (1, 2)")
        table.delete("id = 3")
        run(f"ALTER TABLE delta.`{location}` DROP FEATURE deletionVectors")
        lines = [action for commit in commits(location) for action in commit]
        tombstones = [a["remove"] for a in lines if a.get("remove", {}).get("path", "").endswith(".bin")]
        (protocol,) = (a["protocol"] for a in commits(location)[-1] if "protocol" in a)
        protocol["writerFeatures"].sort()
        (info,) = (a["commitInfo"]["operationParameters"] for a in commits(location)[-1] if "commitInfo" in a)
        (metadata,) = (a["metaData"]["configuration"] for a in commits(location)[-1] if "metaData" in a)
        checkpoints = sorted(path.name for path in (location / "_delta_log").glob("*.checkpoint.parquet"))
        found.append(
            (
                [step.replace("OPTIMIZE", "REORG") for step in steps(location)],
                protocol,
                info,
                metadata,
                checkpoints,
                [sorted(one) for one in tombstones],
            )
        )
        assert ids(delta_spark.read.format("delta").load(str(location)).collect()) == [0, *range(4, 10)]
        assert ids(table.to_df().collect()) == [0, *range(4, 10)]
        delta_spark.sql(
            f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('delta.enableDeletionVectors'='true')"
        )
        table.delete("id = 9")
        assert ids(delta_spark.read.format("delta").load(str(location)).collect()) == [0, *range(4, 9)]
    ours, theirs = found
    assert ours == theirs
