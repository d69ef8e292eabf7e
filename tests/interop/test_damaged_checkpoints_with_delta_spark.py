"""Where a checkpoint is damaged, delvec reads the rows that Delta-Spark reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from delvec.delta.table import DeltaTable
from delvec.errors import FormatError
from delvec.table import Table
from spark_tables import Writer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning"),
]

V2 = {"checkpointV2_topLevelFileFormat": "parquet", "checkpoint_partSize": "2"}
CASES = {
    "classic, empty": ({}, {}, "*4.checkpoint.parquet", 0),
    "classic, truncated": ({}, {}, "*4.checkpoint.parquet", 0.5),
    "one of several parts": ({}, {"checkpoint_partSize": "3"}, "*4.checkpoint.*1.*.parquet", 0.5),
    "v2, its top": ({"checkpointPolicy": "v2"}, V2, "*4.checkpoint.*.parquet", 0.5),
}


def written(spark: object, path: Path, properties: dict[str, str], settings: dict[str, str]) -> Writer:
    """Version 4 has a checkpoint, version 5 is the last."""
    writer = Writer(spark, path)
    writer.create("id BIGINT", **properties)
    for start in (0, 30):
        writer.numbers(start, start + 30, files=3)
    writer.sql("DELETE FROM {t} WHERE id % 10 = 3")
    writer.sql("DELETE FROM {t} WHERE id < 7")
    writer.checkpoint(**settings)
    writer.sql("DELETE FROM {t} WHERE id > 55")
    return writer


def damage(writer: Writer, pattern: str, share: float) -> Path:
    path = writer.log_files(pattern)[0]
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's own checksum
    for checksum in writer.log_files(
        "*.crc"
    ):  # with these Delta-Spark opens the checkpoint too late to skip it
        checksum.unlink()
    writer.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    return path


def by_delta_spark(writer: Writer) -> list[int]:
    frame = writer.spark.read.format("delta").load(str(writer.path))
    return sorted(row.id for row in frame.collect())


@pytest.mark.parametrize("case", CASES)
def test_the_rows_of_delta_spark(delta_spark: Any, tmp_path: Path, case: str) -> None:
    properties, settings, pattern, share = CASES[case]
    writer = written(delta_spark, tmp_path / "t", properties, settings)
    expected = [n for n in range(7, 56) if n % 10 != 3]
    assert by_delta_spark(writer) == expected
    damaged = damage(writer, pattern, share)
    assert by_delta_spark(writer) == expected
    with pytest.warns(UserWarning, match=re.escape(damaged.name)):
        table = Table.open(delta_spark, str(writer.path))
    assert sorted(row.id for row in table.to_df().collect()) == expected
    writer.sql("DELETE FROM {t} WHERE id = 9")
    table.delete("id = 10")
    assert by_delta_spark(writer) == [n for n in expected if n not in (9, 10)]


def test_a_damaged_sidecar_stops_delta_spark_but_not_delvec(delta_spark: Any, tmp_path: Path) -> None:
    writer = written(delta_spark, tmp_path / "t", {"checkpointPolicy": "v2"}, V2)
    damaged = damage(writer, "_sidecars/*.parquet", 0.5)
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        by_delta_spark(writer)
    with pytest.warns(UserWarning, match=re.escape(damaged.name)):
        table = Table.open(delta_spark, str(writer.path))
    assert sorted(row.id for row in table.to_df().collect()) == [n for n in range(7, 56) if n % 10 != 3]


def test_neither_reads_it_without_the_commits(delta_spark: Any, tmp_path: Path) -> None:
    writer = written(delta_spark, tmp_path / "t", {}, {})
    damaged = damage(writer, "*4.checkpoint.parquet", 0.5)
    writer.forget_commits_before(4)
    with pytest.raises(Exception, match=r"DELTA_|parquet"):
        by_delta_spark(writer)
    with pytest.raises(FormatError, match=re.escape(damaged.name)):
        DeltaTable.open(str(writer.path)).snapshot()
