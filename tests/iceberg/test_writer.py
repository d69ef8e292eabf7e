"""The test writer itself: DuckDB and pyiceberg read from its tables the rows that it says are live."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from iceberg_tables import IcebergWriter
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg
from iceberg_tables.values import murmur3, transformed
from rows import multiset

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.int32()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("st", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.int64()))])),
        ("m", pa.map_(pa.string(), pa.float64())),
    ]
)


def row(number, p=1):
    return {
        "id": number,
        "p": p,
        "s": None if number % 5 == 0 else f"text number {number}",
        "d": dt.date(2024, 1, 1) + dt.timedelta(days=number),
        "st": {"x": number, "l": [number, None]},
        "m": [("k", number / 2)],
    }


def history(root, version, **options):
    """Two partitions, all kinds of deletes that the version has, another spec and other columns."""
    table = IcebergWriter(root, COLUMNS, format_version=version, partition_by=["p"], **options)
    files = [table.add_file([row(n, p) for n in range(p * 100, p * 100 + 10)]) for p in (1, 2)]
    first = table.commit()
    if version > 1:
        table.delete_rows(files[0], [0, 3])
        table.commit()
        table.delete_rows(files[0], [4])
        table.delete_rows(files[1], [9])
        table.commit()
    table.replace_spec(["bucket[4](id)"])
    table.append([row(n) for n in range(300, 312)])
    table.rename_column("s", "text")
    table.promote_column("p", "long")
    table.add_column(pa.field("late", pa.int32()))
    table.drop_column("st.x")
    table.append([row(400) | {"late": 7, "text": "x"}])
    table.set_tag("first", first)
    return table


@pytest.mark.parametrize("read", [read_by_duckdb, read_by_pyiceberg])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_other_engines_read_the_rows(tmp_path, version, read):
    table = history(tmp_path / "t", version)
    assert multiset(read(table.root)) == multiset(table.rows())
    if read is read_by_pyiceberg:  # DuckDB shows old snapshots with the newest columns
        for snapshot in table.snapshots:
            assert multiset(read(table.root, snapshot)) == multiset(table.rows(snapshot))


@pytest.mark.parametrize("version", [2, 3])
def test_duckdb_reads_equality_deletes(tmp_path, version):
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=version, partition_by=["p"])
    table.append([row(n, n % 2) for n in range(20)])
    table.delete_keys([{"id": 3}], on=["id"], partition={"p": 1})  # DuckDB applies it to all partitions
    table.commit()
    table.replace_spec([])
    table.delete_keys([{"s": None, "p": 1}], on=["s", "p"])
    table.append([row(5, 1)])
    assert 5 in {found["id"] for found in table.rows()}
    assert len(table.rows()) == 18
    assert multiset(read_by_duckdb(table.root)) == multiset(table.rows())


def test_transforms_are_pyicebergs():
    transforms, types = pytest.importorskip("pyiceberg.transforms"), pytest.importorskip("pyiceberg.types")
    moment = dt.datetime(1969, 12, 31, 23, 30, 1, 5)
    cases = [
        ("bucket[16]", "int", types.IntegerType(), 34),
        ("bucket[16]", "string", types.StringType(), "iceberg"),
        ("bucket[16]", "date", types.DateType(), dt.date(2017, 11, 16)),
        ("bucket[16]", "timestamp", types.TimestampType(), moment),
        ("bucket[16]", "decimal(9, 2)", types.DecimalType(9, 2), Decimal("14.20")),
        ("bucket[16]", "binary", types.BinaryType(), b"\x00\x01\x02\x03"),
        ("truncate[10]", "int", types.IntegerType(), -1),
        ("truncate[50]", "decimal(9, 2)", types.DecimalType(9, 2), Decimal("-10.65")),
        ("truncate[3]", "string", types.StringType(), "iceberg"),
        ("year", "timestamp", types.TimestampType(), moment),
        ("month", "date", types.DateType(), dt.date(1969, 11, 30)),
        ("day", "timestamp", types.TimestampType(), moment),
        ("hour", "timestamp", types.TimestampType(), moment),
    ]
    from pyiceberg.utils import datetime as times

    for name, kind, iceberg_type, value in cases:
        given = value
        if isinstance(value, dt.datetime):
            given = times.datetime_to_micros(value)
        elif isinstance(value, dt.date):
            given = times.date_to_days(value)
        theirs = transforms.parse_transform(name).transform(iceberg_type)(given)
        assert transformed(name, kind, value) == theirs, (name, kind)
    assert murmur3(b"iceberg") == 1210000089
