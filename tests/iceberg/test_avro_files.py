"""Avro files as columns: codecs, schemas that other writers choose, and files that are damaged."""

from __future__ import annotations

import io
import json
import resource
import struct
import zlib

import fastavro
import pyarrow as pa
import pytest

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg import avro_columns
from delvec.iceberg.avro_blocks import read_blocks
from delvec.iceberg.avro_columns import read_table
from delvec.iceberg.avro_header import read_header
from delvec.iceberg.avro_schema import flatten
from delvec.iceberg.manifest import ENTRIES_SCHEMA, read_manifest
from delvec.iceberg.manifest_list import MANIFESTS_SCHEMA, read_manifest_list
from iceberg_tables import avro

SYNC = bytes(range(16))


def field(number, name, kind):
    return {"name": name, "type": kind, "field-id": number}


def record(*fields, name="r"):
    return {"type": "record", "name": name, "fields": list(fields)}


def number(value):
    """A zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def sized(data):
    return number(len(data)) + data


def avro_file(schema, blocks, codec="null"):
    """An Avro file of blocks: pairs of the number of records and their bytes."""
    pairs = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    header = b"Obj\x01" + number(len(pairs))
    header += b"".join(sized(key.encode()) + sized(value) for key, value in pairs.items()) + number(0) + SYNC
    return header + b"".join(number(count) + sized(data) + SYNC for count, data in blocks)


def written(schema, records, codec="null"):
    sink = io.BytesIO()
    fastavro.writer(sink, schema, records, codec=codec)
    return sink.getvalue()


def columns(data):
    return {name: column.to_pylist() for name, column in read_table(data, lambda _: True).columns.items()}


SIMPLE = record(field(1, "a", "long"), field(2, "b", ["null", "string"]))
ROWS = number(7) + number(1) + sized(b"x") + number(-3) + number(0)


def snappy(data):
    return pa.Codec("snappy").compress(data, asbytes=True) + struct.pack(">I", zlib.crc32(data))


def zstandard(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


def deflate(data):
    return zlib.compress(data, wbits=-15)


@pytest.mark.parametrize(
    ("codec", "compress"),
    [("null", bytes), ("deflate", deflate), ("snappy", snappy), ("zstandard", zstandard)],
)
def test_codecs(codec, compress):
    data = avro_file(SIMPLE, [(2, compress(ROWS)), (0, compress(b"")), (2, compress(ROWS))], codec)
    assert columns(data) == {"1": [7, -3, 7, -3], "2": ["x", None, "x", None]}


def test_an_unknown_codec_is_refused_by_name():
    with pytest.raises(UnsupportedFeatureError, match="brotli"):
        read_table(avro_file(SIMPLE, [(2, ROWS)], "brotli"), lambda _: True)


@pytest.mark.parametrize(
    ("codec", "block"),
    [
        ("deflate", deflate(ROWS)[:-1]),
        ("deflate", b"\xff" + deflate(ROWS)[1:]),
        ("snappy", snappy(ROWS)[:-1] + b"\x00"),
        ("snappy", b"\xff\xff\xff\xff\x7f" + snappy(ROWS)),
        ("snappy", b""),
        ("zstandard", zstandard(ROWS)[:-1]),
        ("zstandard", b"nothing"),
    ],
)
def test_damaged_blocks_are_refused(codec, block):
    with pytest.raises(FormatError, match="decompressed"):
        read_table(avro_file(SIMPLE, [(2, block)], codec), lambda _: True)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize(("codec", "compress"), [("deflate", deflate), ("zstandard", zstandard)])
def test_a_block_that_grows_out_of_proportion_is_refused(codec, compress):
    data = avro_file(SIMPLE, [(1, compress(bytes(400 << 20)))], codec)
    before = peak()
    with pytest.raises(FormatError, match="out of proportion"):
        read_table(data, lambda _: True)
    assert peak() - before < 400 << 20


@pytest.mark.parametrize(
    "data",
    [
        avro_file(SIMPLE, [(2**40, ROWS)]),  # more records than bytes
        avro_file(SIMPLE, [(-1, ROWS)]),
        avro_file(SIMPLE, [(3, ROWS)]),
        avro_file(SIMPLE, [(1, number(7) + number(1) + number(2**50))]),  # a text of 2^50 bytes
        avro_file(SIMPLE, [(1, number(7) + number(1) + number(-5))]),
        avro_file(SIMPLE, [(1, number(7) + number(1) + sized(b"\xff"))]),  # not UTF-8
        avro_file(record(field(1, "a", {"type": "array", "items": "long"})), [(1, number(2**60))]),
        avro_file(
            record(field(1, "a", {"type": "array", "items": "long"})), [(1, number(-(2**60)) + number(1))]
        ),
        avro_file(SIMPLE, [(2, ROWS)])[:-3],
        avro_file(SIMPLE, [(2, ROWS)])[:40],
        avro_file(SIMPLE, [(2, ROWS)]) + b"\x02",
        b"Obj\x01" + number(2**50),
        b"Obj\x01" + number(1) + number(2**60),
        b"",
    ],
)
def test_files_with_false_numbers_are_refused(data):
    before = peak()
    with pytest.raises(FormatError):
        read_table(data, lambda _: True)
    assert peak() - before < 100 << 20


@pytest.mark.parametrize(
    "schema",
    [
        "long",
        {"type": "record", "name": "r"},
        record({"type": "long"}),
        record(field(1, "a", "nothing")),
        record(field(1, "a", [])),
        record(field(1, "a", {"type": "fixed", "name": "f", "size": 2**40})),
        record(field(1, "a", {"type": "array", "items": "null"})),
        record(field(1, "a", {"type": "array", "items": record(name="empty")})),
        record(field(1, "a", "long"), field(1, "b", "long")),
        record(field(1, "a", ["null", "r"])),  # a record inside of itself
        record(*(field(n, f"x{n}", 7) for n in range(3))),
    ],
)
def test_schemas_that_cannot_be_are_refused(schema):
    with pytest.raises(FormatError):
        read_table(avro_file(schema, [(1, b"\x00" * 50)]), lambda _: True)


def test_a_schema_that_repeats_types_again_and_again_is_refused():
    kinds = record(field(1, "a", "long"), name="r0")
    for level in range(1, 30):
        kinds = record(field(1, "a", kinds), field(2, "b", f"r{level - 1}"), name=f"r{level}")
    with pytest.raises(FormatError, match="too many"):
        flatten(kinds)


def test_nested_records_and_named_types_become_columns():
    uuid = {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    inner = record(field(10, "u", ["null", uuid]), field(11, "v", "uuid_fixed"), name="inner")
    schema = record(field(1, "a", "int"), field(2, "in", inner), field(3, "d", decimal))
    plain = {"type": "fixed", "name": "uuid_fixed", "size": 16}
    inner = record(field(10, "u", ["null", plain]), field(11, "v", "uuid_fixed"), name="inner")
    rows = [{"a": n, "in": {"u": None if n else b"u" * 16, "v": b"v" * 16}, "d": b"\x01"} for n in range(2)]
    block = written(record(field(1, "a", "int"), field(2, "in", inner), field(3, "d", "bytes")), rows)
    records = read_blocks(block, read_header(block))
    data = avro_file(schema, [(records.count, records.data)])
    expected = {"1": [0, 1], "2.10": [b"u" * 16, None], "2.11": [b"v" * 16] * 2, "3": [b"\x01"] * 2}
    assert columns(data) == expected


def test_what_polars_cannot_read_goes_through_fastavro():
    enum = {"type": "enum", "name": "e", "symbols": ["x", "y"]}
    schema = record(
        field(1, "a", "long"),
        field(2, "e", enum),
        field(3, "m", {"type": "map", "values": "int"}),
        field(4, "one", ["long"]),
        field(
            5,
            "l",
            {
                "type": "array",
                "items": record(field(6, "k", "int"), field(7, "v", ["null", "bytes"]), name="kv"),
            },
        ),
        field(8, "n", "null"),
    )
    rows = [
        {
            "a": 1,
            "e": "y",
            "m": {"k": 5},
            "one": 9,
            "l": [{"k": 1, "v": b"b"}, {"k": 2, "v": None}],
            "n": None,
        }
    ]
    data = written(schema, rows)
    assert columns(data) == {
        "1": [1],
        "2": ["y"],
        "3": [[("k", 5)]],
        "4": [9],
        "5": [[{"6": 1, "7": b"b"}, {"6": 2, "7": None}]],
        "8": [None],
    }
    assert columns(avro_file(schema, []))["1"] == []


def test_both_readers_give_the_same_columns(monkeypatch):
    """Manifests through polars, and through fastavro as if polars could not read them."""
    data = manifest_file()
    with_polars = read_manifest(data)
    monkeypatch.setattr(avro_columns, "_read_with_polars", lambda *_: None)
    assert read_manifest(data).entries.equals(with_polars.entries)
    assert read_manifest(data).partition_ids == with_polars.partition_ids == (1000, 1001)


def test_a_union_of_several_types_is_refused_only_where_it_is_needed():
    schema = record(field(1, "a", "long"), field(2, "u", ["long", "string"]))
    data = written(schema, [{"a": 1, "u": "x"}])
    assert read_table(data, lambda name: name == "1").columns["1"].to_pylist() == [1]
    with pytest.raises(FormatError, match="union of 2 types"):
        read_table(data, lambda _: True)


# Manifests


def entry(path="f", **data_file):
    return {
        "status": 1,
        "snapshot_id": 5,
        "sequence_number": 3,
        "file_sequence_number": 4,
        "data_file": {
            "content": 0,
            "file_path": path,
            "file_format": "PARQUET",
            "partition": {"p": 1, "d": None},
            "record_count": 10,
            "file_size_in_bytes": 100,
            **data_file,
        },
    }


def manifest_file(version=3, **data_file):
    partition = avro.partition_type([(1000, "p", "int"), (1001, "d", "decimal(9, 2)")])
    full = {
        "column_sizes": avro.pairs({1: 11}),
        "value_counts": avro.pairs({1: 12}),
        "null_value_counts": avro.pairs({1: 13}),
        "nan_value_counts": avro.pairs({1: 14}),
        "lower_bounds": avro.pairs({1: b"l", 2: b""}),
        "upper_bounds": avro.pairs({1: b"u"}),
        "split_offsets": [4, 8],
        "equality_ids": [1, 2],
        "sort_order_id": 6,
        "first_row_id": 15,
        "referenced_data_file": "r",
        "content_offset": 16,
        "content_size_in_bytes": 17,
        "block_size_in_bytes": 64,
        **data_file,
    }
    records = [entry("full", **full), entry("bare", block_size_in_bytes=64)]
    metadata = {"format-version": str(version), "partition-spec-id": "3"}
    return avro.avro_bytes(avro.manifest_schema(version, partition), records, metadata)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_field_of_a_manifest(version):
    manifest = read_manifest(manifest_file(version))
    assert (manifest.format_version, manifest.spec_id) == (version, 3)
    full, bare = manifest.entries.to_pylist()
    expected = {
        "status": 1,
        "snapshot_id": 5,
        "sequence_number": 3 if version > 1 else None,
        "file_sequence_number": 4 if version > 1 else None,
        "content": 0,
        "file_path": "full",
        "file_format": "parquet",
        "record_count": 10,
        "file_size": 100,
        "column_sizes": [{"key": 1, "value": 11}],
        "value_counts": [{"key": 1, "value": 12}],
        "null_value_counts": [{"key": 1, "value": 13}],
        "nan_value_counts": [{"key": 1, "value": 14}],
        "lower_bounds": [{"key": 1, "value": b"l"}, {"key": 2, "value": b""}],
        "upper_bounds": [{"key": 1, "value": b"u"}],
        "key_metadata": None,
        "split_offsets": [4, 8],
        "equality_ids": [1, 2] if version > 1 else None,
        "sort_order_id": 6,
        "first_row_id": 15 if version > 2 else None,
        "referenced_data_file": "r" if version > 1 else None,
        "content_offset": 16 if version > 2 else None,
        "content_size": 17 if version > 2 else None,
        "encoding": None,  # delvec's own field, which other writers do not have
        "position": 0,
        "1000": 1,
        "1001": None,
    }
    assert full == expected
    assert set(expected) == {*ENTRIES_SCHEMA.names, "1000", "1001"}
    assert {name for name, value in bare.items() if value is None} >= {
        "lower_bounds",
        "split_offsets",
        "1001",
    }


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_field_of_a_manifest_list(version):
    summary = {"contains_null": True, "contains_nan": False, "lower_bound": b"l", "upper_bound": b"u"}
    names = [item["name"] for item in avro.manifest_list_schema(version)["fields"]]
    values = {name: number for number, name in enumerate(names, start=100)}
    values |= {"manifest_path": "m", "partitions": [summary], "key_metadata": None}
    values |= {"content": 1} if version > 1 else {}
    data = avro.avro_bytes(avro.manifest_list_schema(version), [values], {})
    (row,) = read_manifest_list(data).to_pylist()
    expected = {
        "path": "m",
        "length": values["manifest_length"],
        "spec_id": values["partition_spec_id"],
        "content": 1 if version > 1 else 0,
        "sequence_number": values.get("sequence_number", 0),
        "min_sequence_number": values.get("min_sequence_number", 0),
        "added_snapshot_id": values["added_snapshot_id"],
        **{
            f"{kind}_{what}": values[f"{kind}_{what}_count"]
            for kind in ("added", "existing", "deleted")
            for what in ("files", "rows")
        },
        "partitions": [{"contains_null": True, "contains_nan": False, "lower": b"l", "upper": b"u"}],
        "key_metadata": None,
        "first_row_id": values.get("first_row_id"),
    }
    assert row == expected
    assert set(expected) == set(MANIFESTS_SCHEMA.names)


def without(schema, number):
    """The schema without the field of this id."""
    if isinstance(schema, dict):
        fields = schema.get("fields")
        kept = {name: without(value, number) for name, value in schema.items() if name != "fields"}
        if fields is not None:
            kept["fields"] = [without(item, number) for item in fields if item.get("field-id") != number]
        return kept
    return [without(item, number) for item in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize(("number", "name"), [(0, "status"), (100, "file_path"), (103, "record_count")])
def test_a_manifest_without_a_required_field_is_refused(number, name):
    schema = without(avro.manifest_schema(2, avro.partition_type([])), number)
    record = entry() | {"data_file": entry()["data_file"] | {"partition": {}}}
    with pytest.raises(FormatError, match=name):
        read_manifest(avro.avro_bytes(schema, [record], {}))


def test_a_field_of_another_type_is_refused():
    text = json.dumps(avro.manifest_schema(2, avro.partition_type([])))
    schema = json.loads(
        text.replace('{"name": "record_count", "type": "long"', '{"name": "record_count", "type": "string"')
    )
    record = entry(partition={}, record_count="many")
    with pytest.raises(FormatError, match=r"record_count.*expected int64"):
        read_manifest(avro.avro_bytes(schema, [record], {}))
