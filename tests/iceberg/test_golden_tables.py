"""Tables that other engines wrote, and that were copied from another machine."""

from __future__ import annotations

import datetime as dt
import shutil

import pyarrow as pa
import pytest

from connector_rows import connector_rows
from delvec import Table
from delvec.detect import open_table
from delvec.errors import DelvecError
from golden_data import golden
from iceberg_tables import IcebergWriter
from rows import multiset


def test_equality_deletes():
    path = golden("iceberg/equality-deletes")
    rows = [tuple(row.values()) for row in connector_rows(path, relocate="true")]
    assert sorted(rows) == [(4, "d", dt.date(2025, 1, 4)), (5, "e", dt.date(2025, 1, 5))]


@pytest.mark.spark
def test_equality_deletes_in_a_native_scan(spark):
    table = Table.open(spark, str(golden("iceberg/equality-deletes")), relocate=True)
    rows = [(4, "d", dt.date(2025, 1, 4)), (5, "e", dt.date(2025, 1, 5))]
    assert sorted(map(tuple, table.to_df().collect())) == rows
    assert table.count() == 2


def test_a_vector_without_a_footer():
    path = golden("iceberg/legacy_bare_deletion_vector")
    rows = [tuple(row.values()) for row in connector_rows(path, relocate="true")]
    assert sorted(rows) == [(1, "legacy"), (3, "legacy")]


@pytest.mark.parametrize("name", ["equality-deletes", "legacy_bare_deletion_vector"])
def test_a_copied_table_is_not_there_where_its_metadata_says(name):
    with pytest.raises(DelvecError, match=r"not found|not absolute|missing"):
        connector_rows(golden(f"iceberg/{name}"))


@pytest.mark.parametrize(
    "location", ["s3://bucket/lake/t", "file:/lake/a%20t", "hdfs://host:8020/lake/t", "/lake/t"]
)
@pytest.mark.parametrize("version", [2, 3])
def test_tables_that_were_copied(tmp_path, location, version):
    """Every file is found below the place of the table, the rows of position deletes, too."""
    columns = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = IcebergWriter(
        tmp_path / "t", columns, format_version=version, partition_by=["p"], location=location
    )
    files = [table.add_file([{"id": n, "p": p} for n in range(5)]) for p in ("a b", "%41")]
    table.commit()
    table.delete_rows(files[0], [1, 2])
    table.commit()
    moved = tmp_path / "other place %41"
    shutil.move(table.root, moved)
    assert multiset(connector_rows(moved, relocate="true")) == multiset(table.rows())
    plan = open_table(str(moved)).relocated().snapshot().plan()
    assert all(place.startswith(f"{moved}/") for place in plan.files.column("location").to_pylist())
    assert plan.files.column("raw_location").to_pylist()[0].startswith(location)
