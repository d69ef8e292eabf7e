"""Tables that Delta-Spark writes are what Delta-Spark says they are, at every version."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc
import pytest

from delvec.delta.table import DeltaTable
from plans import plan_where
from rows import multiset, read_rows
from spark_tables import TABLES, Writer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning"),
]


class Both:
    """A table as Delta-Spark and as delvec see it."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.spark = writer.spark
        self.table = DeltaTable.open(str(writer.path))
        self.history = self.spark.sql(f"DESCRIBE HISTORY {writer.name}").collect()
        self.versions = _compared(sorted(row["version"] for row in self.history))
        self._snapshots: dict[int, Any] = {}

    def frame(self, version: int) -> Any:
        return self.spark.read.format("delta").option("versionAsOf", version).load(str(self.writer.path))

    def snapshot(self, version: int) -> Any:
        """Delta-Spark's own snapshot."""
        if version not in self._snapshots:
            none = self.spark._jvm.scala.Option.empty()
            self._snapshots[version] = self.writer.log().getSnapshotAt(version, none, none, False)
        return self._snapshots[version]


def _compared(versions: list[int]) -> list[int]:
    """The first version, and the last three: a version takes seconds in Delta-Spark.

    `test_scan_of_delta_spark_tables.py` reads every version of some tables.
    """
    return sorted({versions[0], *versions[-3:]})


def _spark_rows(frame: Any) -> Counter[str]:
    if "variant" in frame.schema.simpleString():
        rows = [row.asDict(recursive=True) for row in frame.collect()]
        return multiset({name: _plain(value) for name, value in row.items()} for row in rows)
    return multiset(frame.toArrow().to_pylist())


def _plain(value: Any) -> Any:
    """A variant as the struct that files hold."""
    from pyspark.sql.types import VariantVal

    if isinstance(value, VariantVal):
        return {"metadata": bytes(value.metadata), "value": bytes(value.value)}
    return value


@pytest.fixture(scope="module", params=list(TABLES))
def both(request: pytest.FixtureRequest, written: Callable[[str], Writer]) -> Both:
    return Both(written(request.param))


def test_rows(both: Both) -> None:
    for version in both.versions:
        plan = both.table.snapshot(version).plan()
        assert plan.base.version == version
        assert multiset(read_rows(plan, both.table.storage)) == _spark_rows(both.frame(version)), version


def test_files_stats_and_vectors(both: Both) -> None:
    for version in both.versions:
        theirs = _their_files(both, version)
        ours = _our_files(both.table.snapshot(version))
        assert ours.keys() == theirs.keys(), version
        for path, file in theirs.items():
            assert ours[path] == file, (version, path)


def _their_files(both: Both, version: int) -> dict[str, dict[str, Any]]:
    from pyspark.sql import DataFrame

    files = DataFrame(both.snapshot(version).allFiles().toDF(), both.spark)
    return {row["path"]: _their_file(row.asDict(recursive=True)) for row in files.collect()}


def _their_file(add: dict[str, Any]) -> dict[str, Any]:
    vector = add["deletionVector"]
    names = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
    return {
        "partition": add["partitionValues"],
        "size": add["size"],
        "modified": add["modificationTime"],
        "stats": _parsed(add["stats"]),
        "vector": None if vector is None else tuple(vector[name] for name in names),
        "row id": add["baseRowId"],
        "row version": add["defaultRowCommitVersion"],
    }


def _our_files(snapshot: Any) -> dict[str, dict[str, Any]]:
    return {add["path"]: _our_file(add) for add in snapshot.adds.to_pylist()}


def _our_file(add: dict[str, Any]) -> dict[str, Any]:
    names = ("dv_storage", "dv_path", "dv_offset", "dv_size", "dv_cardinality")
    return {
        "partition": dict(add["partition_values"]),
        "size": add["size"],
        "modified": add["modification_time"],
        "stats": _parsed(add["stats"]) or _stated(add.get("stats_parsed")),
        "vector": None if add["dv_storage"] is None else tuple(add[name] for name in names),
        "row id": add["base_row_id"],
        "row version": add["default_row_commit_version"],
    }


def _parsed(stats: str | None) -> Any:
    """Statistics in JSON, their moments without a zone: the columns of a checkpoint have none."""
    return None if stats is None else json.loads(re.sub(r'(T[0-9:.]+)Z"', r'\1"', stats))


def _stated(value: Any) -> Any:
    """Statistics held as columns, as JSON would state them: nulls left out, times to the millisecond."""
    match value:
        case dict():
            return {key: _stated(child) for key, child in value.items() if child is not None}
        case dt.datetime():
            return value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        case dt.date():
            return value.isoformat()
        case decimal.Decimal():
            return float(value)
    return value


def test_metadata(both: Both) -> None:
    for version in both.versions:
        theirs = both.snapshot(version)
        metadata = json.loads(theirs.metadata().json())["metaData"]
        protocol = json.loads(theirs.protocol().json())["protocol"]
        ours = both.table.snapshot(version)
        assert dict(ours.properties) == metadata["configuration"], version
        assert list(ours.partition_columns) == metadata["partitionColumns"], version
        assert ours.protocol.min_reader_version == protocol["minReaderVersion"], version
        fields = [
            (field["name"], field["type"] if isinstance(field["type"], str) else field["type"]["type"])
            for field in json.loads(metadata["schemaString"])["fields"]
        ]
        assert [(f.name, str(f.type).partition("<")[0]) for f in ours.schema] == fields, version


def test_scans(both: Both) -> None:
    """No matching row is lost, ``all`` means all, and a file is skipped where metadata suffices to know."""
    conditions = TABLES[both.writer.path.parent.name].conditions
    if not conditions:
        pytest.skip("this table shows nothing about conditions")
    snapshot = both.table.snapshot()
    for where, decided in conditions.items():
        plan = plan_where(snapshot, where)
        chosen = both.frame(snapshot.version).where(where)
        matching = _spark_rows(chosen)
        assert matching <= multiset(read_rows(plan, both.table.storage)), where
        whole = replace(plan, files=plan.files.filter(pc.equal(plan.files["match"], "all")))
        assert multiset(read_rows(whole, both.table.storage)) <= matching, where
        assert plan.skipped + len(plan.files) == len(snapshot.adds), where
        if decided:
            assert len(plan.files) == chosen.select("_metadata.file_path").distinct().count(), where


def test_history_and_time_travel(both: Both) -> None:
    theirs = {row["version"]: row for row in both.history}
    ours = {row["version"]: row for row in both.table.history().to_pylist()}
    assert ours.keys() == theirs.keys()
    for version, row in theirs.items():
        instant = row["timestamp"].astimezone(dt.UTC)
        assert ours[version]["operation"] == row["operation"], version
        assert ours[version]["timestamp"] == instant, version
        at_or_before = [v for v, other in theirs.items() if other["timestamp"] <= row["timestamp"]]
        assert both.table.snapshot(timestamp=instant).version == max(at_or_before), version
