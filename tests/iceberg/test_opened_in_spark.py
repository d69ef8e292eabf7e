"""Iceberg tables in Spark: opened by path, by catalog, at refs, at times, and where they were copied to."""

from __future__ import annotations

import datetime as dt
import shutil

import pyarrow as pa
import pytest

from connector_rows import connector_rows
from delvec import Table, sql
from delvec.errors import FormatError, InvalidOperationError, TableNotFoundError
from iceberg_tables.writer import IcebergWriter

pytestmark = pytest.mark.spark

SECOND = 1000


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A table with a tag, a branch and deleted rows, whose newest schema is newer than its snapshots."""
    root = tmp_path_factory.mktemp("lake")
    table = IcebergWriter(root / "db/orders", pa.schema([("id", pa.int64())]), format_version=3)
    file = table.add_file([{"id": number} for number in range(4)])
    table.commit(at=10 * SECOND)
    table.set_tag("start", table.head.id)
    table.set_branch("audit", table.head.id)
    table.delete_rows(file, [0])
    table.commit(at=20 * SECOND)
    table.append([{"id": 9}], at=30 * SECOND, branch="audit")
    table.add_column(pa.field("note", pa.string()))
    return table


@pytest.fixture
def configured(lake, tmp_path, monkeypatch):
    """A SQLite catalog of the configuration that has the table."""
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("lake", uri=uri, warehouse=str(tmp_path))
    catalog.create_namespace("db")
    catalog.register_table("db.orders", str(lake.root / f"metadata/v{lake.metadata_version}.metadata.json"))
    catalog.engine.dispose()
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
    return "lake"


def ids(frame):
    return sorted(row["id"] for row in frame.collect())


def test_versions_refs_and_times(spark, lake):
    first, second, third = lake.snapshots
    table = Table.open(spark, str(lake.root))
    assert (table.format, table.format_version, table.version) == ("iceberg", 3, second)
    assert table.schema.names == ["id", "note"]
    assert ids(table.to_df()) == [1, 2, 3]
    assert ids(table.to_df(where="id > 2")) == [3]
    assert ids(table.to_df(ref="start")) == [0, 1, 2, 3]
    assert ids(table.to_df(ref="audit")) == [0, 1, 2, 3, 9]
    assert table.to_df(ref="audit").columns == ["id", "note"]
    assert table.to_df(ref="start").columns == ["id"]
    assert ids(table.to_df(version=first)) == [0, 1, 2, 3]
    assert ids(table.to_df(version=third)) == [0, 1, 2, 3, 9]
    assert ids(table.to_df(timestamp=dt.datetime.fromtimestamp(15, dt.UTC))) == [0, 1, 2, 3]
    assert (table.count(), table.count(ref="audit"), table.count(version=first)) == (3, 5, 4)
    audit = Table.open(spark, str(lake.root), ref="audit")
    assert (audit.version, ids(audit.to_df())) == (third, [0, 1, 2, 3, 9])
    assert [row["version"] for row in table.history().collect()] == [third, second, first]
    with pytest.raises(InvalidOperationError, match="both ref 'audit' and version"):
        table.to_df(version=first, ref="audit")
    with pytest.raises(InvalidOperationError, match="branch or tag 'x' does not exist"):
        Table.open(spark, str(lake.root), ref="x")


def test_statements(spark, lake, configured):
    first = next(iter(lake.snapshots))
    path = f"iceberg.`{lake.root}`"

    def rows(text, **args):
        return ids(sql(spark, f"SELECT id FROM {text}", **args))

    assert rows(path) == rows(f"{configured}.db.orders") == rows(f"delvec.`{lake.root}`") == [1, 2, 3]
    assert rows(f"{path} VERSION AS OF {first}") == [0, 1, 2, 3]
    assert rows(f"{path} VERSION AS OF 'audit'") == [0, 1, 2, 3, 9]
    assert rows(f"{path} VERSION AS OF :ref", args={"ref": "start"}) == [0, 1, 2, 3]
    assert rows(f"{path} TIMESTAMP AS OF '1970-01-01T00:00:15Z' WHERE id < 2") == [0, 1]
    assert rows(f"{configured}.db.orders FOR VERSION AS OF 'audit' AS o WHERE o.id = 9") == [9]
    assert sql(spark, f"SELECT count(*) FROM {path} VERSION AS OF 'audit'").collect()[0][0] == 5
    joined = (
        f"SELECT o.id FROM {path} VERSION AS OF 'audit' o LEFT ANTI JOIN {configured}.db.orders n USING (id)"
    )
    assert ids(sql(spark, joined)) == [0, 9]
    with pytest.raises(InvalidOperationError, match="branch or tag 'nope' does not exist"):
        rows(f"{path} VERSION AS OF 'nope'")
    with pytest.raises(TableNotFoundError, match=r"no table db\.absent in catalog 'lake'"):
        rows("lake.db.absent")
    one_file = f"{lake.root}/metadata/v{lake.metadata_version}.metadata.json"
    assert rows(f"iceberg.`{one_file}`") == [1, 2, 3]
    with pytest.raises(InvalidOperationError, match="opened by one of its metadata files"):
        sql(spark, f"DELETE FROM iceberg.`{one_file}` WHERE id = 1")


def test_catalogs(spark, lake, configured):
    table = Table.open(spark, "db.orders", catalog=configured)
    assert (table.location, ids(table.to_df())) == (str(lake.root), [1, 2, 3])
    audit = Table.open(spark, "db.orders", catalog=configured, ref="audit")
    assert ids(audit.to_df()) == [0, 1, 2, 3, 9]


def test_the_connector(spark, lake, tmp_path):
    """Spark opens the table in three processes. The newest schema is newer than the newest snapshot."""

    def read(place, **options):
        return spark.read.format("delvec").options(**options).load(str(place))

    newest = read(lake.root)
    assert newest.columns == ["id", "note"]
    assert ids(newest) == [1, 2, 3]
    copy = tmp_path / "copy"
    shutil.copytree(lake.root, copy)
    assert ids(read(copy, relocate="true", ref="audit")) == [0, 1, 2, 3, 9]
    assert read(lake.root / "metadata/v3.metadata.json", ref="start").columns == ["id"]


def test_a_copied_table(spark, lake, tmp_path):
    copy = tmp_path / "a copy"
    shutil.copytree(lake.root, copy)
    table = Table.open(spark, str(copy), relocate=True)
    assert table.location == str(copy)
    assert ids(table.to_df()) == [1, 2, 3]
    assert all(row["location"].startswith(str(copy)) for row in table.files().collect())


def test_a_file_that_is_listed_twice(spark, tmp_path):
    """Its rows count twice, as in Iceberg-Spark; its vector deletes them twice. No row's place is known."""
    table = IcebergWriter(tmp_path / "t", pa.schema([("id", pa.int64())]), format_version=3)
    for _ in range(2):
        file = table.add_file([{"id": n} for n in range(3)], name="data/same.parquet")
        table.commit()
    opened = Table.open(spark, str(table.root))
    assert ids(opened.to_df()) == [0, 0, 1, 1, 2, 2]
    assert ids(opened.to_df(where="id > 0")) == [1, 1, 2, 2]
    table.delete_rows(file, [1])
    table.commit()
    assert ids(opened.to_df()) == [0, 0, 2, 2]
    assert opened.count() == len(connector_rows(table.root)) == 4
    with pytest.raises(FormatError, match=r"data file is listed twice, expected once: .*/data/same\.parquet"):
        opened.to_df(columns=["id", "_row_id"])


def test_credentials_that_spark_lacks(spark, lake, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    table = Table.open(spark, str(lake.root))
    table._table.credentials = ("fs.s3a.access.key", "fs.s3a.aws.credentials.provider")
    for read in (table.to_df, table.count):
        with pytest.raises(InvalidOperationError, match=r"set spark\.hadoop\.fs\.s3a\.access\.key or"):
            read()
    spark.conf.set("spark.hadoop.fs.s3a.bucket.b.access.key", "k")
    try:
        assert table.count() == 3
    finally:
        spark.conf.unset("spark.hadoop.fs.s3a.bucket.b.access.key")
