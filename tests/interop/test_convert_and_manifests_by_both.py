"""CONVERT, manifests and counts beside Delta-Spark's, on copies of one folder or on one table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from scanning import same

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

QUERY = """SELECT id, CAST(id AS INT) AS i, named_struct('x', id, 'l', array(id)) AS s, map('k', id) AS m,
  TIMESTAMP'2020-01-01 01:02:03' AS at, TIMESTAMP_NTZ'2020-01-01 01:02:03' AS local, id / 4 AS d,
  CAST(id AS DECIMAL(10, 2)) AS n, {values} FROM range(4)"""
PLAIN = "'v' AS word"
PARTS = "elt(id + 1, 'a/b', 'x y%', 'é', NULL) AS p, INT(id) AS q, DATE'2020-01-01' + INT(id) AS r"
DECLARED = "p STRING, q INT, r DATE"


def actions(root: Path, kind: str, version: int = 0) -> list[dict[str, Any]]:
    lines = (root / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [body[kind] for body in map(json.loads, lines) if kind in body]


@pytest.mark.parametrize("declared", ["", DECLARED])
def test_conversions_of_one_folder(delta_spark, tmp_path, declared):
    from delvec.table import Table

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    rows = delta_spark.sql(QUERY.format(values=PARTS if declared else PLAIN)).coalesce(1)
    (
        rows.write.partitionBy(*[part.split()[0] for part in declared.split(", ")])
        if declared
        else rows.write
    ).parquet(str(theirs))
    shutil.copytree(theirs, ours, copy_function=shutil.copy2)
    clause = f"PARTITIONED BY ({declared})" if declared else ""
    delta_spark.sql(f"CONVERT TO DELTA parquet.`{theirs}` {clause}")
    table = Table.convert(delta_spark, str(ours), declared)
    (mine,), (other,) = (actions(root, "metaData") for root in (ours, theirs))
    for key in ("schemaString", "partitionColumns", "format"):
        assert mine[key] == other[key]
    files = [
        {add["path"]: [add[key] for key in ("partitionValues", "size")] for add in actions(root, "add")}
        for root in (ours, theirs)
    ]
    assert files[0] == files[1]
    mine, other = (
        {add["path"]: json.loads(add["stats"]) for add in actions(root, "add")} for root in (ours, theirs)
    )
    for path, stats in mine.items():
        for key in ("numRecords", "nullCount"):
            assert stats[key] == other[path][key]
        for key in ("minValues", "maxValues"):  # the footers have no bounds of Spark's INT96 timestamps
            assert {name: value for name, value in other[path][key].items() if name != "at"} == stats[key]
    (mine,), (other,) = (actions(root, "commitInfo") for root in (ours, theirs))
    for key in ("operation", "operationParameters", "isolationLevel", "isBlindAppend"):
        assert mine[key] == other[key]
    assert other["operationMetrics"].items() <= mine["operationMetrics"].items()
    same(delta_spark.read.format("delta").load(str(ours)), _rows(delta_spark, theirs))
    table.delete("id = 1")
    assert table.count() == 3
    same(delta_spark.read.format("delta").load(str(ours)), _rows(table.to_df()))
    delta_spark.sql(f"DELETE FROM delta.`{ours}` WHERE id = 2")
    assert table.count() == 2 == delta_spark.sql(f"SELECT count(*) FROM delta.`{ours}`").collect()[0][0]


def _rows(spark_or_frame: Any, place: Path | None = None) -> Any:
    from scanning import collected

    frame = spark_or_frame if place is None else spark_or_frame.read.format("delta").load(str(place))
    return collected(frame)


@pytest.mark.parametrize("partitions", [(), ("p", "q", "d", "at")])
def test_manifests_of_one_table(delta_spark, tmp_path, partitions):
    from delvec.table import Table

    rows = delta_spark.sql(
        "SELECT id, elt(id + 1, 'a/b', 'x y%=', 'é', NULL) AS p, id / 4 AS q, "
        "DATE'2020-01-01' + CAST(id AS INT) AS d, "
        "TIMESTAMP'2020-01-01 01:02:03.5' + make_interval(0, 0, 0, id) AS at FROM range(4)"
    )
    table = Table.create(
        delta_spark,
        str(tmp_path),
        rows,
        partition_by=partitions,
        properties={"delta.enableDeletionVectors": "false"},
    )
    manifests = []
    for step in (None, "id = 1", "true"):
        if step is not None:
            table.delete(step)
        delta_spark.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{tmp_path}`")
        theirs = _manifests(tmp_path)
        shutil.rmtree(tmp_path / "_symlink_format_manifest")
        if step is not None:  # ours replaces older ones
            for path, text in manifests[-1].items():
                (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / path).write_text("\n".join(text))
        table.generate_manifest()
        assert _manifests(tmp_path) == theirs
        manifests.append(theirs)
    assert [len(each) for each in manifests] == ([4, 3, 0] if partitions else [1, 1, 1])


def _manifests(root: Path) -> dict[str, list[str]]:
    found = (root / "_symlink_format_manifest").rglob("manifest")
    texts = {str(path.relative_to(root)): path.read_text() for path in found}
    assert all(text.endswith("\n") or not text for text in texts.values())
    return {path: sorted(text.splitlines()) for path, text in texts.items()}
