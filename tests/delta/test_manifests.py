"""Symlink manifests: which files they list, that they follow each commit, and tables that have none."""

from __future__ import annotations

import datetime as dt
import logging
from pathlib import Path

import pyarrow as pa
import pytest

from delvec.delta import manifests
from delvec.delta.table import DeltaTable
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.restore import restore
from delvec.row_delta import Committed, MetadataChange, Operation, Read, Request, RowDelta, Verb
from lake import Lake

ENABLED = "delta.compatibility.symlinkFormatManifest.enabled"
VECTORS = "delta.enableDeletionVectors"


def written(root: Path) -> dict[str, str]:
    """The manifests by their folder; the table's location is ``T``."""
    base = root / "_symlink_format_manifest"
    paths = (path for path in base.rglob("*") if path.is_file())
    return {
        str(path.parent.relative_to(base)): path.read_text().replace(f"file:{root}", "T") for path in paths
    }


def test_all_files_in_one_manifest(tmp_path: Path) -> None:
    root = tmp_path / "a b%41"
    lake = Lake(root, pa.schema([("id", pa.int64())]))
    lake.commit()
    table = DeltaTable.open(str(root))
    table.generate_manifest()
    assert written(root) == {".": ""}
    one = lake.write([{"id": 1}], name="one é%.parquet")
    lake.write([{"id": 2}], name="f/two.parquet")
    lake.commit()
    table.generate_manifest()
    assert written(root) == {".": "T/one é%.parquet\nT/f/two.parquet\n"}
    lake.forget(one)
    table.generate_manifest()
    assert written(root) == {".": "T/f/two.parquet\n"}


def test_a_manifest_for_each_partition(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])
    lake = Lake(tmp_path, schema, partition_by=["s", "at"])
    at = dt.datetime(2020, 1, 1, 1, 2, 3, tzinfo=dt.UTC)
    texts = {"at": "2020-01-01T01:02:03.000000Z"}
    a = lake.write([{"id": 1, "s": "x/y %", "at": at}], name="a.parquet", texts=texts)
    lake.write([{"id": 2, "s": "x/y %", "at": at}], name="b.parquet", texts=texts)
    c = lake.write([{"id": 3, "s": None, "at": None}], name="c.parquet")
    lake.commit()
    table = DeltaTable.open(str(tmp_path))
    table.generate_manifest()
    both, null = (
        "s=x%2Fy %25/at=2020-01-01T01%3A02%3A03.000000Z",
        "s={0}/at={0}".format("__HIVE_DEFAULT_PARTITION__"),
    )
    assert written(tmp_path) == {both: "T/a.parquet\nT/b.parquet\n", null: "T/c.parquet\n"}
    (tmp_path / "_symlink_format_manifest" / "kept.txt").write_text("of someone else")
    lake.forget(a)
    lake.forget(c)
    table.generate_manifest()
    assert written(tmp_path) == {both: "T/b.parquet\n", ".": "of someone else"}


def test_a_file_with_a_vector_is_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path, pa.schema([("id", pa.int64())]))
    lake.write([{"id": 1}], name="whole.parquet")
    lake.write([{"id": 2}, {"id": 3}], name="cut.parquet", deleted=[0])
    lake.commit()
    with pytest.raises(InvalidOperationError, match=r"file cut\.parquet has a deletion vector"):
        DeltaTable.open(str(tmp_path)).generate_manifest()
    assert written(tmp_path) == {}


def test_renamed_columns_are_refused(tmp_path: Path) -> None:
    lake = Lake(tmp_path, pa.schema([("id", pa.int64())]), mapping="name")
    lake.commit()
    with pytest.raises(UnsupportedFeatureError, match=r"columnMapping\.mode = name has no symlink manifests"):
        DeltaTable.open(str(tmp_path)).generate_manifest()


@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_a_restored_version_has_its_manifests(tmp_path: Path, partition_by: list[str]) -> None:
    """The restore is to a version with manifests, from one without."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.int32())])
    lake = Lake(tmp_path, schema, partition_by=partition_by)
    lake.write([{"id": 1, "p": 1}], name="a.parquet")
    last = lake.write([{"id": 2, "p": 2}], name="b.parquet")
    lake.commit()
    table = DeltaTable.open(str(tmp_path))
    switch(table, "true")
    expected = written(tmp_path)
    assert "T/b.parquet\n" in "".join(expected.values())
    switch(table, "false")
    lake.log.commits += [(), ()]  # the two versions above
    lake.forget(last)
    table.generate_manifest()
    assert written(tmp_path) != expected
    restore(table, version=1)
    assert written(tmp_path) == expected


def switch(table: DeltaTable, value: str) -> None:
    snapshot, change = table.snapshot(), MetadataChange(properties={ENABLED: value, VECTORS: "false"})
    request = Request(Operation.SET_PROPERTIES, properties=change.properties)
    delta = RowDelta(snapshot.base, request, Read(blind=True), Verb.ALTER, metadata=change)
    assert isinstance(table.commit(snapshot, delta), Committed)


@pytest.mark.spark
def test_manifests_follow_each_commit(spark, tmp_path, monkeypatch, caplog):
    from delvec import sql
    from delvec.table import Table

    rows = spark.sql("SELECT id, id % 2 AS p FROM range(4)").coalesce(1)
    table = Table.create(spark, str(tmp_path), rows, partition_by=["p"], properties={ENABLED: "true"})
    assert VECTORS not in table.properties
    first = written(tmp_path)
    assert first.keys() == {"p=0", "p=1"}
    puts = []
    put = type(table._table.storage).put
    monkeypatch.setattr(
        type(table._table.storage), "put", lambda self, path, data: puts.append(path) or put(self, path, data)
    )
    table.delete("id = 3")
    assert [path for path in puts if "manifest" in path] == ["_symlink_format_manifest/p=1/manifest"]
    second = written(tmp_path)
    assert second["p=0"] == first["p=0"]
    assert second["p=1"] not in {first["p=1"], ""}
    table.delete("p = 1")
    assert written(tmp_path) == {"p=0": first["p=0"]}
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(manifests, "in_parallel", lambda *_: 1 / 0)
        assert table.append(rows).version == 3
    assert "symlink manifests were not updated" in caplog.text
    assert written(tmp_path) == {"p=0": first["p=0"]}
    sql(spark, f"GENERATE symlink_format_manifest FOR TABLE delta.`{tmp_path}`")
    assert written(tmp_path).keys() == {"p=0", "p=1"}


@pytest.mark.spark
def test_manifests_and_vectors_exclude_each_other(spark, tmp_path):
    from delvec.table import Table

    both = f"{ENABLED} and {VECTORS} cannot both be true"
    with pytest.raises(InvalidOperationError, match=both):
        Table.create(spark, str(tmp_path / "n"), "id int", properties={ENABLED: "true", VECTORS: "true"})
    assert not (tmp_path / "n").exists()
    table = Table.create(spark, str(tmp_path / "t"), spark.range(4).coalesce(1))
    with pytest.raises(InvalidOperationError, match=both):
        table.set_properties({ENABLED: "true"})
    table.delete("id = 1")
    with pytest.raises(InvalidOperationError, match="has a deletion vector"):
        table.set_properties({ENABLED: "true", VECTORS: "false"})
    assert table.version == 1
    table.set_properties({VECTORS: "false"})
    table.overwrite(spark.range(2))
    table.set_properties({ENABLED: "true"})
    assert written(tmp_path / "t")["."].count("\n") == len(table.files().collect())
    with pytest.raises(InvalidOperationError, match=both):
        table.set_properties({VECTORS: "true"})
    with pytest.raises(InvalidOperationError, match=r"cannot be true with delta\.columnMapping\.mode"):
        table.set_properties({"delta.columnMapping.mode": "name"})
