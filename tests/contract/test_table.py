"""``Table``: what it says of a table, which rows it gives, and what it refuses."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import time

import pyarrow as pa
import pytest

from contract.kinds import POSITION_FILES, VECTOR_FILES
from delvec import sql
from delvec.errors import CorruptVectorError, DelvecError, InvalidOperationError, TableNotFoundError
from scanning import collected, opened, same

pytestmark = [pytest.mark.spark, pytest.mark.common]

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("p", pa.int32())])


def rows(p, ids):
    return [{"id": i, "name": f"n{i % 7}", "p": p} for i in ids]


@pytest.fixture
def lake(kind, tmp_path):
    """Three versions: three files; rows of two deleted; one more file."""
    lake = kind.lake(tmp_path / "t", SCHEMA, partition_by=["p"])
    files = [lake.write(rows(p, range(p * 100, p * 100 + 20 + p))) for p in range(3)]
    lake.commit(operation="WRITE", at=1_700_000_000)
    lake.delete(files[1], [0, 1, 2])
    lake.delete(files[2], range(22))
    lake.commit(operation="DELETE", at=1_700_000_100)
    lake.write(rows(3, range(300, 310)))
    lake.commit(operation="WRITE", at=1_700_000_200)
    return lake


def ids(frame):
    return sorted(row["id"] for row in collected(frame.select("id")))


def test_what_a_table_says_of_itself(kind, spark, lake):
    table = opened(spark, lake)
    assert (table.version, table.format, table.location) == (lake.versions[2], kind.format, str(lake.root))
    assert table.schema.simpleString() == "struct<id:bigint,name:string,p:int>"
    columns = "id bigint, name string, p int"
    said = f"format={kind.format!r}, version={lake.versions[2]}, columns={columns!r}"
    assert repr(table) == f"Table({str(lake.root)!r}, {said})"


@pytest.mark.rare
def test_what_a_table_shows_in_a_notebook(kind, spark, lake):
    table = opened(spark, lake)
    shown = table._repr_html_()
    assert f"<tr><th>version</th><td>{lake.versions[2]}</td></tr>" in shown
    assert "<td>id bigint, name string, p int</td>" in shown
    shutil.rmtree(lake.root)  # what is gone is shown, too
    assert repr(table) == f"Table({str(lake.root)!r}, format={kind.format!r})"
    assert str(lake.root) in table._repr_html_()


@pytest.mark.common(every=True)
def test_files(kind, spark, lake):
    """Position files do not record how many rows of a file they delete."""
    counted = POSITION_FILES not in kind.features
    found = collected(opened(spark, lake).files())
    expected = [
        {
            "location": f"{lake.root}/{file.path}",
            "size": file.size,
            "record_count": len(file.rows),
            "deleted_count": len(file.deleted) if counted or not file.deleted else None,
            "partition": {"p": file.rows[0]["p"]},
        }
        for file in lake.files
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_history(spark, lake):
    table = opened(spark, lake)
    found = table.history().select("version", "operation").collect()
    expected = zip(lake.versions, lake.operations, strict=True)
    assert [tuple(row) for row in found] == list(expected)[::-1]
    assert [row["version"] for row in table.history(1).collect()] == lake.versions[-1:]


@pytest.mark.numbered
@pytest.mark.common(every=True)
def test_versions_and_times(spark, lake):
    table = opened(spark, lake)
    first, second, _ = lake.versions
    whole = [i for p in range(3) for i in range(p * 100, p * 100 + 20 + p)]
    assert ids(table.to_df(version=first)) == whole
    assert ids(table.to_df(version=second)) == sorted(r["id"] for r in lake.live if r["id"] < 300)
    assert ids(table.to_df(timestamp="2023-11-14T22:13:30Z")) == whole
    with pytest.raises(InvalidOperationError, match=f"both version {first} and timestamp"):
        table.to_df(version=first, timestamp="2023-11-14T22:13:30Z")
    with pytest.raises(InvalidOperationError, match="9 does not exist"):
        table.to_df(version=9)


@pytest.fixture
def local_zone():
    """Sets Python's local time zone, and puts it back."""
    before = os.environ.get("TZ")

    def change(name):
        os.environ["TZ"] = name
        time.tzset()

    yield change
    os.environ.pop("TZ", None)
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.rare
def test_times_without_a_zone(spark, lake, conf, local_zone):
    """The versions are of 22:13:20, 22:15:00 and 22:16:40 UTC."""
    local_zone("Asia/Tokyo")
    conf("spark.sql.session.timeZone", "America/New_York")
    table = opened(spark, lake)

    counts = {table.to_df(version=v).count(): at for at, v in enumerate(lake.versions)}
    assert len(counts) == 3

    def version(timestamp):
        return counts[table.to_df(timestamp=timestamp).count()]

    assert version(dt.datetime(2023, 11, 15, 7, 15, 30)) == 1
    assert version(dt.datetime(2023, 11, 14, 22, 15, 30, tzinfo=dt.UTC)) == 1
    assert version("2023-11-14 17:15:30") == 1  # in New York
    assert version("2023-11-14T22:15:30Z") == 1
    assert version("2023-11-15 07:15:30 Asia/Tokyo") == 1
    for row in table.history().collect():
        assert lake.versions[version(row.timestamp)] == row.version
    for now in (dt.datetime.now(), dt.datetime.now(dt.UTC)):
        assert version(now) == 2
    assert version(str(spark.sql("SELECT string(now())").first()[0])) == 2
    query = "SELECT count(*) FROM delvec.`{}` TIMESTAMP AS OF {}"
    as_of = [(1, "'2023-11-14 17:15:30'"), (2, "current_timestamp()")]
    for expected, text in as_of:
        assert counts[sql(spark, query.format(table.location, text)).first()[0]] == expected
    option = spark.read.format("delvec").option("timestamp", dt.datetime.now(dt.UTC).isoformat())
    assert counts[option.load(table.location).count()] == 2
    with pytest.raises(InvalidOperationError, match="in the future"):
        table.to_df(timestamp=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    for wrong in ("noon", dt.date(2023, 11, 14)):
        with pytest.raises(InvalidOperationError, match="timestamp is"):
            table.to_df(timestamp=wrong)


@pytest.mark.common(every=True)
def test_where_and_columns(spark, lake):
    from pyspark.sql import functions as f

    table = opened(spark, lake)
    expected = sorted(r["id"] for r in lake.live if r["p"] >= 1 and r["name"] == "n3")
    assert ids(table.to_df(where="p >= 1 AND name = 'n3'")) == expected
    assert ids(table.to_df(where=(f.col("p") >= 1) & (f.col("name") == "n3"))) == expected
    only = table.to_df(where="p = 3 AND id > 305", columns=["name"])
    assert only.columns == ["name"]
    same(only, [{"name": f"n{i % 7}"} for i in range(306, 310)])
    assert table.to_df(columns=["P", "ID"]).columns == ["P", "ID"]
    assert table.to_df(columns="id").columns == ["id"]


@pytest.mark.rare
def test_conditions_that_only_spark_can_parse(spark, lake):
    spark.udf.register("is_even", lambda i: i % 2 == 0, "boolean")
    table = opened(spark, lake)
    even = sorted(r["id"] for r in lake.live if r["id"] % 2 == 0)
    assert ids(table.to_df(where="is_even(id)")) == even
    reversed_names = sorted(r["id"] for r in lake.live if r["name"] == "n3")
    assert ids(table.to_df(where="exists(array(name), x -> reverse(x) = '3n')")) == reversed_names


@pytest.mark.rare
def test_unknown_columns_are_refused_by_name(spark, lake, conf):
    table = opened(spark, lake)
    with pytest.raises(InvalidOperationError, match="nmae"):
        table.to_df(where="nmae = 'x'")
    with pytest.raises(InvalidOperationError, match=r"unknown column 'nmae' in columns.*id, name, p"):
        table.to_df(columns=["id", "nmae"])
    conf("spark.sql.caseSensitive", "true")
    with pytest.raises(InvalidOperationError, match="unknown column 'ID'"):
        table.to_df(columns=["ID"])


def test_where_prunes_files_before_spark_sees_them(spark, lake):
    from pyspark.sql import functions as f

    table = opened(spark, lake)
    assert len(table.to_df().inputFiles()) == 4
    assert len(table.to_df(where="id < 5").inputFiles()) == 1
    assert len(table.to_df(where="p = 2").inputFiles()) == 1
    assert len(table.to_df(where=f.col("p") == 2).inputFiles()) == 4
    assert collected(table.to_df(where="id > 999")) == []


def test_a_data_frame_stays_at_its_version(spark, lake):
    table = opened(spark, lake)
    frame = table.to_df()
    before = ids(frame)
    lake.delete(lake.files[0], [5])
    lake.write(rows(9, [900]))
    lake.commit()
    assert ids(frame) == before
    assert ids(table.to_df()) == sorted(r["id"] for r in lake.live) != before
    assert table.version == lake.versions[3]


def test_a_table_with_another_schema_since(spark, lake):
    table = opened(spark, lake)
    assert table.to_df().columns == ["id", "name", "p"]
    lake.replace_columns(pa.schema([("id", pa.int64()), ("late", pa.string()), ("p", pa.int32())]))
    assert table.to_df().columns == ["id", "late", "p"]
    assert collected(table.to_df(columns=["late"]).distinct()) == [{"late": None}]


def test_an_empty_table(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", SCHEMA, partition_by=["p"])
    lake.commit()
    table = opened(spark, lake)
    assert collected(table.to_df()) == []
    assert table.to_df().schema == table.schema
    assert collected(table.to_df(where="p = 1", columns=["name"])) == []
    assert table.files().count() == 0
    assert table.files().columns == ["location", "size", "record_count", "deleted_count", "partition"]


def test_a_table_without_partitions_has_files_without_them(kind, spark, tmp_path):
    lake = kind.lake(tmp_path / "t", pa.schema([("id", pa.int64())]))
    lake.write([{"id": 1}, {"id": 2}], deleted=[0])
    lake.commit()
    (found,) = collected(opened(spark, lake).files())
    assert found["deleted_count"] == 1
    assert "partition" not in found


@pytest.mark.needs(VECTOR_FILES)
def test_a_missing_vector_is_an_error_that_names_it(spark, lake):
    (place,) = lake.vector_files()
    place.unlink()
    table = opened(spark, lake)
    with pytest.raises(CorruptVectorError, match=rf"missing.*{place.name}"):
        table.to_df()


@pytest.mark.needs(VECTOR_FILES)
def test_a_corrupt_vector_is_an_error_that_names_it(spark, lake):
    (place,) = lake.vector_files()
    data = bytearray(place.read_bytes())
    data[lake.vectors_end() - 1] ^= 1
    place.write_bytes(data)
    with pytest.raises(CorruptVectorError, match=rf"CRC.*{place.name}"):
        opened(spark, lake).to_df()


@pytest.mark.rare
@pytest.mark.needs(VECTOR_FILES)
def test_a_corrupt_vector_on_the_executors_is_named_too(spark, lake, monkeypatch):
    from pyspark.errors import PySparkException

    from delvec.spark import scan

    (place,) = lake.vector_files()
    place.write_bytes(place.read_bytes()[: lake.vectors_end() - 3])
    monkeypatch.setattr(scan, "DRIVER_CHUNK_BYTES", 0)
    with pytest.raises((PySparkException, DelvecError), match=rf"CorruptVectorError.*{place.name}"):
        opened(spark, lake).to_df().collect()


def test_no_table(spark, tmp_path):
    from delvec.table import Table

    with pytest.raises(TableNotFoundError, match="the folder is empty"):
        Table.open(spark, str(tmp_path))


def test_names_to_register(spark, lake):
    table = opened(spark, lake)
    table.register("some_orders")
    for name in ("", "a b", "a.b", "x;"):
        with pytest.raises(InvalidOperationError, match="expected letters, digits and _"):
            table.register(name)
