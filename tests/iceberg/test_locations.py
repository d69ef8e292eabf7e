"""Recorded locations of files, and tables that were copied."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from delvec import detect
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.locations import Locations
from iceberg_tables.writer import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string())])


def both(locations, raw):
    """By ``resolve``, and by ``resolve_many`` with the fast way and with the slow one."""
    found = {
        locations.resolve(raw),
        locations.resolve_many(pa.array([raw]))[0].as_py(),
        locations.resolve_many(pa.chunked_array([[raw], ["/elsewhere/x"]]))[0].as_py(),
    }
    assert len(found) == 1, found
    return found.pop()


@pytest.mark.parametrize(
    ("recorded", "raw", "expected"),
    [
        ("/lake/t", "/lake/t/data/a.parquet", "/lake/t/data/a.parquet"),
        ("/lake/t/", "/lake/t/data/a.parquet", "/lake/t/data/a.parquet"),
        ("/lake/t", "/lake/t/data//p=1/./a.parquet", "/lake/t/data/p=1/a.parquet"),
        ("file:/lake/t", "file:/lake/t/data/a b%2Fc.parquet", "/lake/t/data/a b%2Fc.parquet"),
        ("file:///lake/t", "file:///lake/t/data/a.parquet", "/lake/t/data/a.parquet"),
        ("s3a://b/t", "s3a://b/t/data/p=a%20b/x.parquet", "s3://b/t/data/p=a%20b/x.parquet"),
        ("s3://b/t", "s3://other/t/x.parquet", "s3://other/t/x.parquet"),
        ("gs://b/t", "gs://b/t/data/ä/x.parquet", "gs://b/t/data/ä/x.parquet"),
    ],
)
def test_where_files_are(recorded, raw, expected):
    assert both(Locations(recorded), raw) == expected


@pytest.mark.parametrize(
    ("recorded", "raw", "expected"),
    [
        ("/lake/t", "/lake/t/data/a.parquet", "/copy/t/data/a.parquet"),
        ("file:/lake/t", "/lake/t/data/a.parquet", "/copy/t/data/a.parquet"),
        ("s3a://b/t", "s3://b/t/data/ä/a%2Fb.parquet", "/copy/t/data/ä/a%2Fb.parquet"),
        ("/lake/ä", "/lake/ä/data//a.parquet", "/copy/t/data/a.parquet"),
        ("/lake/t", "/lake/t2/data/a.parquet", "/lake/t2/data/a.parquet"),  # another folder
        ("/lake/t", "s3://b/data/a.parquet", "s3://b/data/a.parquet"),
        ("warehouse/t", "warehouse/t/data/a.parquet", "/copy/t/data/a.parquet"),  # some tests of others
        ("hdfs://h:80/t", "hdfs://h:80/t/data/a.parquet", "/copy/t/data/a.parquet"),
    ],
)
def test_where_files_of_a_copied_table_are(recorded, raw, expected):
    assert both(Locations(recorded, "/copy/t"), raw) == expected


def test_nulls_and_nothing():
    locations = Locations("/lake/t")
    assert locations.resolve_many(pa.array(["/lake/t/a", None])).to_pylist() == ["/lake/t/a", None]
    assert locations.resolve_many(pa.array(["/x/a", None])).to_pylist() == ["/x/a", None]
    assert locations.resolve_many(pa.array([], pa.string())).to_pylist() == []


@pytest.mark.parametrize("raw", ["data/a.parquet", "", "a\0b", "/lake/t/a\0b"])
def test_locations_that_are_none(raw):
    locations = Locations("/lake/t")
    with pytest.raises(FormatError):
        locations.resolve(raw)
    with pytest.raises(FormatError):
        locations.resolve_many(pa.array([raw]))


def test_stores_that_delvec_does_not_know(tmp_path):
    with pytest.raises(UnsupportedFeatureError, match="hdfs"):
        both(Locations("hdfs://h:80/t"), "hdfs://h:80/t/data/a.parquet")
    table = IcebergWriter(tmp_path / "t", COLUMNS, location="hdfs://h:80/t")
    table.append([{"id": 1, "p": "a"}])
    snapshot = detect.open_table(str(table.root), relocate=True).snapshot()
    assert snapshot.details()["recorded location"] == "hdfs://h:80/t"
    assert paths(snapshot.plan())[0].startswith(str(table.root))


def test_relative_locations_need_relocate():
    with pytest.raises(
        FormatError, match="the table's own location is relative: open it with relocate=True: warehouse/t"
    ):
        both(Locations("warehouse/t"), "warehouse/t/data/a.parquet")
    assert both(Locations("warehouse/t"), "/lake/x") == "/lake/x"


def paths(plan):
    return [*plan.files.column("location").to_pylist(), *plan.deletes.column("location").to_pylist()]


@pytest.mark.parametrize("version", [2, 3])
def test_a_copied_table(tmp_path, version):
    """Metadata, manifests, data files and deletes are read from the copy; the original is gone."""
    table = IcebergWriter(tmp_path / "t", COLUMNS, partition_by=["p"], format_version=version)
    file = table.add_file([{"id": 1, "p": "a b"}, {"id": 2, "p": "a b"}])
    table.commit()
    table.delete_rows(file, [0])
    table.delete_keys([{"id": 7}], on=["id"], partition={"p": "a b"})
    table.commit()
    copy = tmp_path / "copy"
    shutil.move(table.root, copy)
    with pytest.raises(FormatError, match=r"is missing; the metadata records the location .* relocate=True"):
        detect.open_table(str(copy)).snapshot().plan()
    moved = detect.open_table(str(copy), relocate=True)
    plan = moved.snapshot().plan()
    assert len(paths(plan)) == 3
    assert all(path.startswith(f"{copy}/data/") for path in paths(plan))
    # Deletes name data files by their recorded locations, which stay as they are.
    assert plan.files.column("raw_location")[0].as_py().startswith(str(tmp_path / "t"))
    assert moved.snapshot().details()["recorded location"] == str(tmp_path / "t")
    one_file = detect.open_table(str(copy / "metadata/v3.metadata.json"), relocate=True)
    assert paths(one_file.snapshot().plan()) == paths(plan)


def test_relocate_changes_nothing_on_delta(tmp_path):
    detect.write_sample_table(str(tmp_path / "d"))
    table = detect.open_table(str(tmp_path / "d"), relocate=True)
    assert table.snapshot().version == 2
