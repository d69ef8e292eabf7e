"""Iceberg-Spark sees the same table when delvec has written its manifests and its manifest list again."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.iceberg.vector_file import write_vectors
from delvec.storage import open_storage
from iceberg_tables import IcebergWriter
from iceberg_tables.avro import DATA, POSITION_DELETES
from iceberg_tables.files import File
from rewritten_manifests import rewrite
from rows import multiset
from scanning import collected

pytestmark = [pytest.mark.interop, pytest.mark.spark]

# Iceberg 1.12 cannot read partition values of the type fixed, whoever writes them as Avro's type.
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("bool", pa.bool_()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("us", tz="UTC")),
        ("a b-é", pa.string()),
        ("bytes", pa.binary()),
        ("d1", pa.decimal128(9, 2)),
        ("d2", pa.decimal128(9, 2)),
    ]
)
MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
VALUES = {
    "bool": True,
    "float": 1.5,
    "double": -1e300,
    "day": dt.date(1969, 12, 31),
    "ts": MOMENT,
    "tz": MOMENT.replace(tzinfo=dt.UTC),
    "a b-é": "é😀",
    "bytes": b"\x00\xff",
    "d1": Decimal("-1.28"),
    "d2": Decimal("9999999.99"),
}
MANIFESTS = (
    "content, partition_spec_id, added_data_files_count + existing_data_files_count, "
    "added_delete_files_count + existing_delete_files_count, partition_summaries"
)
ENTRIES = "sequence_number, file_sequence_number, snapshot_id, readable_metrics, data_file.*"


def history(root, version):
    partition_by = [name for name in COLUMNS.names if name != "id"]
    table = IcebergWriter(root, COLUMNS, format_version=version, partition_by=partition_by)
    file = table.add_file([VALUES | {"id": n} for n in range(6)])
    table.add_file([dict.fromkeys(COLUMNS.names) | {"id": 10}])
    table.commit()
    table.delete_rows(file, [1, 2])
    table.commit()
    table.replace_spec(["bucket[4](id)", "truncate[1](a b-é)", "truncate[10](d1)", "month(ts)", "hour(tz)"])
    table.append([VALUES | {"id": n, "a b-é": f"text {n}"} for n in range(20, 26)])
    return table


def seen(table):
    """What Iceberg-Spark sees: the rows, some of them by conditions, and the metadata."""
    conditions = ("id < 21", "day IS NULL", "`a b-é` = 'text 21'", "d2 > 9", "tz < TIMESTAMP '1970-01-01'")
    rows = [collected(table.sql(f"SELECT * FROM {{t}} WHERE {text}")) for text in ("true", *conditions)]
    manifests = table.sql(f"SELECT {MANIFESTS} FROM {{t}}.manifests").collect()
    entries = table.sql(f"SELECT {ENTRIES} FROM {{t}}.entries").collect()
    metadata = [[row.asDict(recursive=True) for row in found] for found in (manifests, entries)]
    for manifest in metadata[0]:
        for summary in manifest["partition_summaries"]:  # not recorded by all writers
            summary["contains_nan"] = summary["contains_nan"] or False
    return [multiset(found) for found in (*rows, *metadata)]


@pytest.mark.parametrize("version", [2, 3])
def test_manifests_that_delvec_writes(iceberg_table, version):
    table = iceberg_table(f"manifests{version}")
    model = history(Path(table.location), version)
    before = seen(table)
    rewrite(model)
    assert (Path(table.location) / "metadata" / "rewritten-0.avro").exists()
    after = seen(table)
    assert after == before
    ids = [row["id"] for row in table.rows().collect()]
    assert sorted(ids) == sorted(row["id"] for row in model.rows())


def test_vectors_that_delvec_writes(iceberg_table):
    table = iceberg_table("vectors_of_delvec")
    model = IcebergWriter(Path(table.location), COLUMNS, format_version=3, partition_by=["day"])
    file = model.add_file([VALUES | {"id": n} for n in range(100)])
    model.commit()
    rows = Bitmap.of(0, 7, 99)
    stored = write_vectors(open_storage(table.location), [blob.encode(rows)], [file.path], folder="data")
    ((offset, length),) = stored.places
    held = {file.path: frozenset(rows)}
    vector = File(
        POSITION_DELETES,
        stored.location,
        "PUFFIN",
        file.spec,
        file.partition,
        len(rows),
        stored.size,
        file.schema,
        positions=held,
        referenced=file.path,
        offset=offset,
        length=length,
    )
    model._stage(vector)
    model.commit()
    rewrite(model)
    assert len(model.head.entries(DATA)) == 1
    ids = [row["id"] for row in table.rows().collect()]
    assert sorted(ids) == [n for n in range(100) if n not in (0, 7, 99)]
