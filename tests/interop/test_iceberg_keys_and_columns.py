"""Keys of every type, names in files, and row lineage: rows as Iceberg-Spark sees them."""

from __future__ import annotations

import datetime as dt
import decimal
import shutil

import pyarrow as pa
import pytest

from connector_rows import connector_rows
from delvec.table import Table
from iceberg_tables import IcebergWriter
from rows import multiset
from scanning import collected, same

pytestmark = [pytest.mark.interop, pytest.mark.spark]

NAN = float("nan")
TYPES = {
    "boolean": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [-5, 7, 2**31 - 1]),
    "long": (pa.int64(), [0, 2**56 - 1, 2**56, -(2**63)]),
    "float": (pa.float32(), [-0.0, 0.0, NAN, 1.5]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, NAN]),
    "nan": (pa.float64(), [NAN, 1.5]),
    "date": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
    "timestamptz": (pa.timestamp("us", tz="UTC"), [dt.datetime(2024, 3, 31, 2, tzinfo=dt.UTC), None]),
    "timestamp": (pa.timestamp("us"), [dt.datetime(1960, 1, 1, 0, 0, 0, 1), dt.datetime(2024, 3, 31, 2, 30)]),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff"]),
    "decimal": (pa.decimal128(20, 4), [decimal.Decimal("1.5000"), decimal.Decimal("-9.1234")]),
    "string": (pa.string(), ["", "é", "e\u0301"]),
    "struct": (pa.struct([("x", pa.int32())]), [{"x": 1}, {"x": None}, {"x": 2}]),
}


@pytest.fixture
def table(iceberg_table):
    """A table of Iceberg-Spark's catalog in which the test's own writer writes."""

    def make(name, schema, **options):
        spark_table = iceberg_table(name)
        shutil.rmtree(spark_table.location, ignore_errors=True)
        return spark_table, IcebergWriter(spark_table.warehouse / "db" / name, schema, **options)

    return make


def same_rows(spark_table):
    expected = collected(spark_table.rows())
    same(Table.open(spark_table.spark, spark_table.location).to_df(), expected)
    assert multiset(map(plain, connector_rows(spark_table.location))) == multiset(map(plain, expected))
    return expected


def plain(row):
    """Timestamps without their zone, which is UTC."""
    return {n: v.replace(tzinfo=None) if isinstance(v, dt.datetime) else v for n, v in row.items()}


def test_keys_of_every_type(table):
    """Of each column the first value is deleted. All other columns of a row have the last value."""
    schema = pa.schema([("n", pa.int32()), *((name, kind) for name, (kind, _) in TYPES.items())])
    spark_table, writer = table("key_types", schema)
    filler = {name: values[-1] for name, (_, values) in TYPES.items()}
    changes = [(name, value) for name, (_, values) in TYPES.items() for value in [*values, None]]
    writer.append([{**filler, "n": n, name: value} for n, (name, value) in enumerate(changes)])
    for name, (_, values) in TYPES.items():
        if name == "timestamptz":
            continue
        on = "struct.x" if name == "struct" else name
        writer.delete_keys([{name: values[0]}], on=[on])
    writer.commit()
    live = {row["n"] for row in same_rows(spark_table)}
    assert len(live) == len(changes) - len(TYPES) + 1


def test_null_keys_and_nested_nulls(table):
    schema = pa.schema([("n", pa.int32()), ("s", pa.struct([("x", pa.int32()), ("y", pa.int32())]))])
    spark_table, writer = table("null_keys", schema)
    writer.append([{"n": 1, "s": None}, {"n": 2, "s": {"x": None, "y": 1}}, {"n": 3, "s": {"x": 1, "y": 1}}])
    writer.delete_keys([{"s": {"x": None, "y": 5}}], on=["s.x"])
    writer.commit()
    assert {row["n"] for row in same_rows(spark_table)} == {1, 3}, "a struct that is null has no null field"
    writer.delete_keys([{"s": None}], on=["s.x"])
    writer.commit()
    assert {row["n"] for row in same_rows(spark_table)} == {3}


def test_names_and_defaults(table):
    schema = pa.schema([("id", pa.int32()), ("a b", pa.string()), ("s", pa.struct([("x", pa.int32())]))])
    spark_table, writer = table("names", schema, format_version=3)
    writer.append([{"id": 1, "a b": "q", "s": {"x": 1}}, {"id": 2, "a b": None, "s": None}])
    writer.drop_column("s.x")
    writer.add_column(pa.field("z", pa.int32()), within="s")
    writer.add_column(pa.field("d", pa.string()), default="it's")
    writer.add_column(pa.field("w", pa.int32()), default=5, within="s")
    writer.rename_column("a b", "c.d")
    writer.promote_column("id", "long")
    writer.write_metadata()
    assert [row["d"] for row in same_rows(spark_table)] == ["it's", "it's"]


def test_row_lineage(table):
    spark_table, writer = table("lineage_of_schema", pa.schema([("id", pa.int64())]), format_version=3)
    first = writer.add_file([{"id": n} for n in range(4)])
    writer.add_file([{"id": n} for n in (5, 6)], row_ids=[77, None], row_versions=[1, None])
    writer.commit()
    writer.delete_rows(first, [1])
    writer.add_file([{"id": 8}])
    writer.commit()
    names = ["id", "_row_id", "_last_updated_sequence_number"]
    expected = collected(spark_table.sql(f"SELECT {', '.join(names)} FROM {{t}}"))
    same(Table.open(spark_table.spark, spark_table.location).to_df(columns=names), expected)
