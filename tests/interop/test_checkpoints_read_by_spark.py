"""Delta-Spark reads tables from delvec's checkpoints alone, and keeps the statistics that delvec would."""

from __future__ import annotations

import decimal
import json
from typing import Any

import pytest

from delvec import location
from delvec.delta.checkpoint_writer import write_checkpoint
from delvec.delta.stats.columns import stats_rules
from delvec.delta.stats.texts import stats_texts
from delvec.delta.stats.writer import new_stats_texts
from delvec.delta.table import DeltaTable
from delvec.footers.statistics import measure
from spark_tables import Writer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning"),
]

SHAPES = {
    "classic": {},
    "structs only": {"checkpoint.writeStatsAsJson": "false"},
    "json only": {"checkpoint.writeStatsAsStruct": "false"},
    "v2": {"checkpointPolicy": "v2"},
    "v2, structs only": {"checkpointPolicy": "v2", "checkpoint.writeStatsAsJson": "false"},
}
CONDITIONS = ("id >= 70", "p = 1", "t > timestamp'2020-01-01 00:00:30.0005Z'", "n.d > 55.5", "s = 'value 33'")


def rows(writer: Writer, condition: str = "true") -> list[Any]:
    frame = writer.spark.read.format("delta").load(str(writer.path))
    return sorted(map(str, frame.where(condition).collect()))


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_from_the_checkpoint_alone(delta_spark: object, tmp_path: Any, shape: str) -> None:
    writer = Writer(delta_spark, tmp_path / "a table")
    writer.create(
        "id BIGINT, p INT, t TIMESTAMP, n STRUCT<d: DECIMAL(20,2)>, s STRING, a ARRAY<INT>",
        by="PARTITIONED BY (p)",
    )
    if SHAPES[shape]:
        writer.alter(**SHAPES[shape])
    columns = (
        "id;cast(id % 3 as int) AS p;timestamp_micros(1577836800000500 + id * 1000000) AS t;"
        "named_struct('d', cast(id AS DECIMAL(20,2))) AS n;concat('value ', id) AS s;array(1) AS a"
    )
    writer.numbers(0, 90, columns, files=3)
    writer.sql("DELETE FROM {t} WHERE id % 10 = 3")
    writer.sql("DELETE FROM {t} WHERE id < 30")
    expected = {condition: rows(writer, condition) for condition in ("true", *CONDITIONS)}
    table = DeltaTable.open(str(writer.path))
    snapshot = table.snapshot()
    write_checkpoint(table.storage, snapshot, now_ms=1)
    writer.forget_commits_before(snapshot.version)  # the version's own commit must stay, for Delta-Spark
    assert {condition: rows(writer, condition) for condition in expected} == expected
    # Delta-Spark goes on from there, and delvec from what it did.
    writer.sql("DELETE FROM {t} WHERE id = 41")
    writer.checkpoint()
    assert len(rows(writer)) == len(expected["true"]) - 1
    assert table.snapshot().version == snapshot.version + 1


def test_statistics_are_those_of_delta_spark(delta_spark: object, tmp_path: Any) -> None:
    writer = Writer(delta_spark, tmp_path / "a table")
    writer.create(
        "i INT, b TINYINT, f FLOAT, d DOUBLE, nan DOUBLE, c DECIMAL(38,10), e DECIMAL(9,2), s STRING, "
        "u STRING, x BINARY, o BOOLEAN, t TIMESTAMP, z TIMESTAMP_NTZ, y DATE, "
        "n STRUCT<k: INT, m: STRUCT<l: STRING>>, a ARRAY<INT>, h MAP<STRING, INT>, nothing INT"
    )
    made = (
        "SELECT cast(id AS int), cast(-id AS tinyint), cast(id + 0.5 AS float), id - 0.25D, "
        "IF(id = 1, double('NaN'), id), cast(id AS DECIMAL(38,10)) / 3, cast(-id AS DECIMAL(9,2)), "
        "repeat(chr(cast(97 + id AS int)), 40), concat(repeat('é', 32), '𝄞 ', id), cast('b' AS binary), "
        "id = 1, timestamp_micros(-1500 + id), timestamp_ntz'0999-01-01 00:00:00.123456', "
        "date_add(date'1500-01-01', cast(id AS int)), "
        "IF(id = 2, null, named_struct('k', cast(id AS int), 'm', named_struct('l', 'q'))), "
        "array(1), map('k', 1), null FROM range(5)"
    )
    timestamps = "spark.sql.parquet.outputTimestampType"  # footers say nothing of Spark's default, INT96
    writer.spark.conf.set(timestamps, "TIMESTAMP_MICROS")
    try:
        writer.sql(f"INSERT INTO {{t}} {made}")
    finally:
        writer.spark.conf.unset(timestamps)
    table = DeltaTable.open(str(writer.path))
    snapshot = table.snapshot()
    rules = stats_rules(snapshot.schema, snapshot.partition_columns, snapshot.properties)
    places = [location.resolve(table.location, path) for path in snapshot.adds.column("path").to_pylist()]
    ours = new_stats_texts(measure(table.storage, places, rules.columns), rules)
    stated = stats_texts(snapshot.adds).to_pylist()
    for mine, theirs in zip(map(_tree, ours), map(_tree, stated), strict=True):
        if theirs["maxValues"].get("nan") == "NaN":
            del theirs["maxValues"]["nan"]  # delvec leaves it out
        assert mine == {**theirs, "tightBounds": True}


def _tree(text: str) -> Any:
    return json.loads(text, parse_float=decimal.Decimal)
