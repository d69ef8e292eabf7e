"""Codecs and compression of vectors of keys, from the table's properties to its rows."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cents_codec import CentsCodec
from connector_rows import connector_rows
from delvec.deletes.codecs import register, registry
from delvec.detect import open_table
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.plan import EQUALITY_FILE
from delvec.puffin import BlobMetadata, PuffinReader
from delvec.table import Table
from delvec.verify import verify_table
from verbs import rows_of

pytestmark = pytest.mark.spark

PROPERTIES = {
    "write.delete.equality-vector.enabled": "true",
    "write.delete.encoding-hint": "deletion-vector",
    "write.delete.mode": "merge-on-read",
}
ZONED = dt.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
DAY = dt.date(2024, 8, 9)


def made(spark: Any, place: Path, ddl: str, rows: list[tuple[Any, ...]]) -> Table:
    table = Table.create(spark, str(place), ddl, format="iceberg", format_version=3, properties=PROPERTIES)
    table.append(spark.createDataFrame(rows, ddl).coalesce(1))
    return table


def deletes(table: Table) -> list[dict[str, Any]]:
    found = open_table(table.location).snapshot().live_deletes().to_pylist()
    return [delete for delete in found if delete["kind"] == EQUALITY_FILE]


def blobs(table: Table) -> list[BlobMetadata]:
    """All blobs of the table's Puffin files, by type."""
    places = sorted(Path(table.location).rglob("*.puffin"))
    found = [blob for place in places for blob in PuffinReader.from_bytes(place.read_bytes()).blobs]
    return sorted(found, key=lambda blob: blob.type)


TYPES = {
    "long": ("bigint", [5, 7, 2**40]),
    "int": ("int", [5, 7, 2_000_000_000]),
    "date": ("date", [DAY, dt.date(1970, 1, 1), dt.date(2100, 1, 1)]),
    "timestamp": ("timestamp_ntz", [ZONED.replace(tzinfo=None), dt.datetime(1970, 1, 1)]),
    "timestamptz": ("timestamp", [ZONED, ZONED.replace(year=2100)]),
}


@pytest.mark.parametrize("codec", TYPES)
def test_each_codec(spark, tmp_path, codec):
    kind, values = TYPES[codec]
    rows = [(value, number) for number, value in enumerate(values)] + [(None, 9)]
    table = made(spark, tmp_path / "t", f"k {kind}, v int", rows)
    table.delete_keys([{"k": values[0]}, {"k": values[-1]}], on="k")
    (blob,) = blobs(table)
    assert (blob.type, blob.properties["codec"]) == ("equality-delete-vector-v1", codec)
    left = [row[1] for row in rows[1 : len(values) - 1]] + [9]
    assert sorted(row["v"] for row in table.to_df().collect()) == left
    assert sorted(row["v"] for row in connector_rows(table.location)) == left
    assert verify_table(open_table(table.location)).errors == 0
    table.rewrite_deletes()
    assert deletes(table) == []
    assert sorted(row["v"] for row in table.to_df().collect()) == left


@pytest.mark.parametrize("codec", ["int", pytest.param("date", marks=pytest.mark.slow)])
def test_without_a_hint_only_longs_are_vectors(spark, tmp_path, codec):
    kind, values = TYPES[codec]
    table = made(spark, tmp_path / "t", f"k {kind}, v int", [(value, 1) for value in values])
    table.set_properties({"write.delete.encoding-hint": "auto"})
    result = table.delete_keys([{"k": values[0]}], on="k")
    assert [delete["encoding"] for delete in deletes(table)] == ["full-row"]
    assert (result.metrics["numKeysInVectors"], result.metrics["numKeysInRowsKeyType"]) == (0, 1)
    result = table.rewrite_deletes(to="equality-vector")
    assert (result.removed, list(result.refused.values())) == ({}, [1])
    result = table.rewrite_deletes(to="equality-vector", encoding="deletion-vector")
    assert (result.keys, [delete["encoding"] for delete in deletes(table)]) == (1, ["deletion-vector"])
    assert table.count() == len(values) - 1


def test_a_codec_from_outside_of_the_package(spark, tmp_path, monkeypatch):
    """One file (`cents_codec`) and one call of ``register``. Without it, its blobs stop readers by name."""
    monkeypatch.setattr(registry, "_CODECS", dict(registry._CODECS))
    register(CentsCodec())
    rows = [(Decimal(f"{cents}.25"), cents) for cents in range(20)]
    table = made(spark, tmp_path / "t", "amount decimal(10,2), v int", rows)
    table.set_properties({"write.delete.encoding-hint": "auto"})
    table.delete_keys([{"amount": Decimal("3.25")}, {"amount": Decimal("3.26")}], on="amount")
    table.upsert([(Decimal("4.25"), 40), (Decimal("99.25"), 99)], on="amount")
    assert {blob.properties["codec"] for blob in blobs(table)} == {"cents"}
    left = sorted([v for _, v in rows if v not in (3, 4)] + [40, 99])
    assert sorted(row["v"] for row in table.to_df().collect()) == left
    assert sorted(row["v"] for row in connector_rows(table.location)) == left
    monkeypatch.delitem(registry._CODECS, "cents")
    message = "codec of a deletion vector is 'cents', expected one of date, int, long"
    for read in (
        lambda: table.to_df().collect(),
        lambda: connector_rows(table.location),
        lambda: table.delete("v > 17"),
        table.rewrite_deletes,
    ):
        with pytest.raises(UnsupportedFeatureError, match=message) as refused:
            read()
        assert refused.value.feature == "codec cents"
    register(CentsCodec())
    assert table.rewrite_deletes().rows == 2
    assert sorted(row["v"] for row in table.to_df().collect()) == left


def test_an_int_column_that_became_long(spark, tmp_path):
    """The codec's name stands in the blob, so its numbers are read as they were written."""
    table = made(spark, tmp_path / "t", "k int, v int", [(number, number) for number in range(6)])
    table.delete_keys([{"k": 2}, {"k": 3}], on="k")
    assert blobs(table)[0].properties["codec"] == "int"
    newest = max((tmp_path / "t" / "metadata").glob("*.metadata.json"))
    document = json.loads(newest.read_text())
    for schema in document["schemas"]:
        schema["fields"][0]["type"] = "long"
    newest.write_text(json.dumps(document))
    table = Table.open(spark, table.location)
    assert table.schema["k"].dataType.simpleString() == "bigint"
    table.append(spark.createDataFrame([(2, 20), (2**40, 40)], "k bigint, v int").coalesce(1))
    table.delete_keys([{"k": 2**40}], on="k")
    assert {blob.properties["codec"] for blob in blobs(table)} == {"int", "long"}
    left = [(0, 0), (1, 1), (2, 20), (4, 4), (5, 5)]
    assert rows_of(table) == sorted(left, key=str)
    assert sorted((row["k"], row["v"]) for row in connector_rows(table.location)) == sorted(left)
    table.rewrite_deletes()
    assert rows_of(table) == sorted(left, key=str)


def test_vectors_of_keys_are_compressed_and_vectors_of_positions_are_not(spark, tmp_path):
    table = Table.create(
        spark,
        str(tmp_path / "t"),
        spark.range(0, 5000, 1, 1),
        format="iceberg",
        format_version=3,
        properties=PROPERTIES | {"write.deletion-vector.compression": "zstd"},
    )
    table.delete("id % 7 = 1")
    table.delete_keys(spark.range(0, 5000, 3), on="id")
    positions, keys = blobs(table)
    assert (positions.type, positions.compression_codec) == ("deletion-vector-v1", None)
    assert (keys.type, keys.compression_codec) == ("equality-delete-vector-v1", "zstd")
    left = [number for number in range(5000) if number % 7 != 1 and number % 3]
    assert sorted(row["id"] for row in table.to_df().collect()) == left
    table.set_properties({"write.deletion-vector.compression": "roaring"})
    table.delete_keys([{"id": 2}], on="id")
    assert table.to_df().count() == len(left) - 1
    with pytest.raises(InvalidOperationError, match=r"compression is 'lz4', expected roaring or zstd"):
        table.set_properties({"write.deletion-vector.compression": "lz4"})
    assert table.rewrite_deletes().kept == 0
    assert table.to_df().count() == len(left) - 1
