"""Columns of evolved tables: the native scan and the connector read what a plain model reads."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from connector_rows import connector_rows
from delvec import Table
from delvec.detect import open_table
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from iceberg_tables import IcebergWriter
from rows import multiset

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("f", pa.float32()),
        ("dec", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("a b", pa.string()),
        ("old", pa.string()),
        ("gone", pa.int64()),
        ("s", pa.struct([("x", pa.int32()), ("dropped", pa.int32()), ("y.z", pa.string())])),
        ("l", pa.list_(pa.struct([("e", pa.int32()), ("g", pa.string())]))),
        ("m", pa.map_(pa.string(), pa.struct([("v", pa.int32())]))),
    ]
)
NAME_MAPPING = "schema.name-mapping.default"
MANGLED = {"a b": "a_x20b", "y.z": "y_x2Ez"}


def row(n):
    return {
        "id": n,
        "f": n / 4,
        "dec": Decimal(f"{n}.25"),
        "day": dt.date(2024, 1, 1) + dt.timedelta(days=n),
        "a b": f"ab{n}",
        "old": None if n % 3 == 0 else f"old{n}",
        "gone": n % 5,
        "s": None if n % 4 == 0 else {"x": n, "dropped": n % 6, "y.z": f"z{n}"},
        "l": [{"e": n, "g": "g"}, None] if n % 2 else [],
        "m": [("k", {"v": n})],
    }


def evolve(table):
    """Rename, drop, re-add, reorder, promote and add with defaults; deletes by columns that are dropped."""
    table.delete_keys([{"gone": 3}], on=["gone"])
    table.delete_keys([{"s": {"dropped": 2}}], on=["s.dropped"])
    table.commit()
    table.drop_column("gone")
    table.drop_column("s.dropped")
    table.rename_column("old", "new")
    table.rename_column("s.x", "renamed")
    table.rename_column("l.element.e", "inner")
    table.add_column(pa.field("gone", pa.string()))
    table.add_column(pa.field("old", pa.int64()), first=True)
    table.promote_column("id", "long")
    table.promote_column("f", "double")
    table.promote_column("dec", "decimal(20, 2)")
    if table.format_version > 2:
        table.promote_column("day", "timestamp")
        table.add_column(pa.field("with_default", pa.int32()), default=7)
        table.add_column(pa.field("nested_default", pa.string()), default="d'é", within="s")
        table.add_column(pa.field("moment", pa.timestamp("us")), default=dt.datetime(2024, 3, 31, 2, 30))
    table.add_file([{"id": 100 + n, "gone": "new", "old": n, "new": "n"} for n in range(3)])
    table.delete_keys([{"id": 101}, {"id": 7}], on=["id"])
    table.commit()


@pytest.fixture(params=[(2, True), (3, True), (3, False)], ids=["v2", "v3", "v3 without ids"])
def table(request, tmp_path):
    version, ids = request.param
    table = IcebergWriter(tmp_path / "t", SCHEMA, format_version=version, ids=ids)
    names = {"names": lambda name: MANGLED.get(name, name)} if ids else {}
    table.add_file([row(n) for n in range(20)], **names)
    table.add_file([row(n) for n in range(20, 40)], **names)
    table.commit()
    if ids:
        evolve(table)
    else:
        table.rename_column("old", "new")
        table.add_column(pa.field("with_default", pa.int32()), default=7)
        mapping = json.loads(table.properties[NAME_MAPPING])
        (renamed,) = (item for item in mapping if item["names"] == ["new"])
        renamed["names"] += ["old"]
        table.set_properties({NAME_MAPPING: json.dumps(mapping)})
        table.delete_keys([{"gone": 3, "new": "ignored"}], on=["gone"], ids=False)
        table.commit()
    return table


def test_native_scan_and_connector(spark, table):
    expected = multiset(map(plain, table.rows()))
    assert 10 < expected.total() < 43
    frame = Table.open(spark, str(table.root)).to_df()
    assert multiset(plain(found.asDict(recursive=True)) for found in frame.collect()) == expected
    assert multiset(map(plain, connector_rows(table.root))) == expected


def plain(value):
    """Maps as dictionaries, dates as the timestamps to which they are promoted."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime.combine(value, dt.time())
    return value


def test_row_lineage(spark, tmp_path):
    """Stored ids and versions, else those of the file; null in files from before version 3."""
    table = IcebergWriter(tmp_path / "t", pa.schema([("id", pa.int64())]), format_version=2)
    table.append([{"id": 0}])
    table.upgrade(3)
    first = table.add_file([{"id": n} for n in range(1, 5)])
    table.add_file([{"id": n} for n in (5, 6)], row_ids=[77, None], row_versions=[1, None])
    table.commit()
    table.delete_rows(first, [1])
    table.delete_keys([{"id": 4}], on=["id"])
    table.commit()
    opened = Table.open(spark, str(table.root))
    frame = opened.to_df(columns=["id", "_row_id", "_last_updated_sequence_number"])
    found = {row.id: tuple(row)[1:] for row in frame.collect()}
    files = opened._table.snapshot().plan().files
    counts, firsts = (files.column(name).to_pylist() for name in ("record_count", "first_row_id"))
    starts = dict(zip(counts, firsts, strict=True))
    assert set(found) == {0, 1, 3, 5, 6}
    assert [found[n] for n in (1, 3)] == [(starts[4], 2), (starts[4] + 2, 2)]
    assert found[5] == (77, 1)
    assert found[6] == (starts[2] + 1, 2)
    assert opened.to_df().columns == ["id"]
    with pytest.raises(InvalidOperationError, match="expected some of id, _row_id"):
        opened.to_df(columns=["_rowid"])


def test_names_that_differ_only_in_case(spark, tmp_path, conf):
    """Iceberg tells them apart. Spark does only where a setting says so, and may take one for the other."""
    inner = pa.struct([("y", pa.int64()), ("Y", pa.int64())])
    for name, schema, alike in (
        ("top", [("id", pa.int64()), ("Ab", pa.int64()), ("aB", pa.int64())], "'Ab' and 'aB'"),
        ("nested", [("id", pa.int64()), ("s", pa.list_(inner))], r"'s\.element\.y' and 's\.element\.Y'"),
    ):
        table = IcebergWriter(tmp_path / name, pa.schema(schema))
        table.append([{"id": 1, "Ab": 2, "aB": 3, "s": [{"y": 4, "Y": 5}]}])
        opened = Table.open(spark, str(table.root))
        for read in (opened.to_df, lambda opened=opened: opened.to_df(where="id = 1", columns=["id"])):
            with pytest.raises(
                InvalidOperationError, match=f"columns {alike} .* expected spark.sql.caseSens"
            ):
                read()
        conf("spark.sql.caseSensitive", "true")
        (row,) = opened.to_df().collect()
        conf("spark.sql.caseSensitive", "false")
        assert row.asDict(recursive=True) == table.rows()[0]


TYPES = pa.schema(
    [
        ("id", pa.int64()),
        pa.field("u", pa.binary(16), metadata={"iceberg-type": "uuid"}),
        ("fixed", pa.binary(3)),
        ("us", pa.list_(pa.field("element", pa.binary(16), metadata={"iceberg-type": "uuid"}))),
        ("nothing", pa.null()),
        ("time", pa.time64("us")),
        ("ns", pa.timestamp("ns")),
        pa.field("place", pa.binary(), metadata={"iceberg-type": "geometry(OGC:CRS84)"}),
    ]
)


def test_types_that_spark_lacks(spark, tmp_path):
    one = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    table = IcebergWriter(tmp_path / "t", TYPES, format_version=3)
    rows = [
        {"id": 1, "u": one.bytes, "fixed": b"abc", "us": [one.bytes, None], "time": dt.time(1), "ns": None},
        {"id": 2, "u": None, "fixed": None, "us": None, "time": None, "ns": None},
    ]
    table.append(rows)
    opened, readable = Table.open(spark, str(table.root)), ["id", "u", "fixed", "us", "nothing"]
    expected = [(1, str(one), b"abc", [str(one), None], None), (2, None, None, None, None)]
    frame = opened.to_df()
    assert sorted(map(tuple, frame.select(readable).collect())) == expected
    by_connector = connector_rows(table.root, columns=",".join(readable))
    assert sorted(tuple(row.values()) for row in by_connector) == expected
    for name in ("time", "ns", "place"):
        with pytest.raises(UnsupportedFeatureError, match=f"column {name} is of type"):
            opened.to_df(columns=[name])
        with pytest.raises(Exception, match=f"column {name} is of type"):
            frame.select(name).collect()


def test_variant(spark, tmp_path, conf):
    """Spark writes the data file: PyArrow has no such type. Rows are deleted, and cannot be written."""
    conf("spark.sql.variant.inferShreddingSchema", "false")  # the connector reads no shredded values
    column = pa.field("v", pa.binary(), metadata={"iceberg-type": "variant"})
    modes = {"write.delete.mode": "merge-on-read"}
    writer = IcebergWriter(
        tmp_path / "t", pa.schema([("id", pa.int64()), column]), format_version=3, properties=modes
    )
    file = writer.add_file([{"id": number, "v": None} for number in range(3)], without=["v"])
    writer.commit()
    rows = spark.sql(
        """SELECT id, parse_json(if(id = 2, NULL, concat('{"a":', id, '}'))) AS v FROM range(3)"""
    )
    rows.coalesce(1).write.parquet(str(tmp_path / "written"))
    (stored,) = (tmp_path / "written").glob("*.parquet")
    stored.replace(file.path)
    table = Table.open(spark, str(writer.root))

    def texts(frame):
        return sorted(map(tuple, frame.selectExpr("id", "to_json(v)").collect()))

    assert texts(table.to_df()) == [(0, '{"a":0}'), (1, '{"a":1}'), (2, None)]
    assert texts(spark.read.format("delvec").load(str(writer.root))) == texts(table.to_df())
    assert table.delete("variant_get(v, '$.a', 'int') = 1").metrics["numDeletedRows"] == 1
    assert texts(table.to_df()) == [(0, '{"a":0}'), (2, None)]
    with pytest.raises(UnsupportedFeatureError, match="column v is of type variant"):
        table.append(rows)


def test_partition_values_of_files_without_the_column(spark, tmp_path):
    """As files of a Hive table that was added to the table; the column is in newer files."""
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = IcebergWriter(tmp_path / "t", schema, partition_by=["p"])
    table.add_file([{"id": 1, "p": "x"}], without=["p"])
    table.add_file([{"id": 2, "p": None}], without=["p"])
    table.add_file([{"id": 3, "p": "y"}])
    table.commit()
    table.delete_keys([{"id": 1, "p": "x"}, {"id": 3, "p": "z"}], on=["id", "p"], partition={"p": "x"})
    table.add_file([{"id": 1, "p": "x"}], without=["p"])
    table.commit()
    plan = open_table(str(table.root)).snapshot().plan()
    assert sorted(plan.files.column("read_schema").to_pylist()) == [0, 1, 1, 1]
    expected = [(1, "x"), (2, None), (3, "y")]
    assert sorted(map(tuple, Table.open(spark, str(table.root)).to_df().collect())) == expected
    assert sorted(tuple(row.values()) for row in connector_rows(table.root)) == expected
