"""Manifests as Parquet files: what is written is read; what others may write is read or refused by name."""

from __future__ import annotations

import datetime as dt
import random
import time
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delvec.errors import DelvecError, FormatError, UnsupportedFeatureError
from delvec.iceberg.tree import content_stats as cs
from delvec.iceberg.tree import entries as e
from delvec.iceberg.tree.manifest_file import ManifestFile, read_manifest, write_manifest

PATH = "t/metadata/root.parquet"
FUZZ_CASES = 250
MAX_CASE_SECONDS = 5.0

BOUNDS = {
    1: (pa.int32(), -3, 7),
    2: (pa.int64(), -(2**63), 2**63 - 1),
    3: (pa.float32(), -0.5, 1.5),
    4: (pa.float64(), float("-inf"), 1e300),
    5: (pa.string(), "", "é\U0001f600"),
    6: (pa.binary(), b"", b"\xff\x00"),
    7: (pa.bool_(), False, True),
    8: (pa.date32(), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    9: (pa.time64("us"), dt.time(0), dt.time(23, 59, 59, 999999)),
    10: (pa.timestamp("us"), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)),
    11: (pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None),
    12: (pa.timestamp("ns"), None, dt.datetime(2020, 1, 1)),
    13: (pa.timestamp("ns", "UTC"), None, dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    14: (pa.decimal128(9, 2), Decimal("-1.25"), Decimal("9999999.99")),
    15: (pa.decimal128(38, 10), Decimal("-1E-10"), None),
    16: (pa.binary(16), b"0" * 16, b"f" * 16),
    1017: (pa.null(), None, None),
}
STATS = cs.stats_type({field_id: kind for field_id, (kind, _, _) in BOUNDS.items()})


def statistics(low, high):
    values = (low, high, True, 10, 2, 1, 8)
    return dict(zip(cs.STATISTICS, values, strict=True))


ALL_STATS = {str(field_id): statistics(low, high) for field_id, (_, low, high) in BOUNDS.items()}
SOME_STATS = dict.fromkeys(ALL_STATS) | {"2": dict.fromkeys(cs.STATISTICS) | {cs.VALUES: 4}}


def root():
    """A root with an entry of each kind that columns depend on."""
    nothing = [None] * 4
    columns = {
        "status": pa.array([e.ADDED, e.EXISTING, e.DELETED, e.ADDED]),
        "snapshot_id": pa.array([7, 5, 7, 7]),
        "sequence_number": pa.array([4, 2, 3, 4]),
        "file_sequence_number": pa.array([4, 2, 3, 4]),
        "first_row_id": pa.array([100, 0, None, None]),
        "content_type": pa.array([e.DATA, e.DATA_MANIFEST, e.MANIFEST_DV, e.MANIFEST_DV]),
        "location": pa.array(["s3://b/é.parquet", "m.parquet", None, "dv.puffin"]),
        "file_format": pa.array(["parquet", "parquet", "puffin", "puffin"]),
        "record_count": pa.array([10, 3, 1, 2]),
        "file_size_in_bytes": pa.array([1000, 800, None, 90]),
        "partition_spec_id": pa.array([0, e.MIXED_SPECS, 0, 0]),
        "sort_order_id": pa.array([1, None, None, None]),
        "referenced_file": pa.array([None, None, "m.parquet", "m.parquet"]),
        "dv_offset": pa.array([None, None, None, 4]),
        "dv_size_in_bytes": pa.array([None, None, None, 40]),
        "dv_inline": pa.array([None, None, b"\x00\xff", None]),
        **{name: pa.array([None, at, None, None]) for at, name in enumerate(e.MANIFEST_STATS)},
        "split_offsets": pa.array([[4, 500], None, None, None]),
        "equality_ids": pa.array(nothing, pa.list_(pa.int32())),
        "encoding": pa.array([None, None, 1, None]),
        e.CONTENT_STATS: pa.array([ALL_STATS, SOME_STATS, None, None], STATS),
    }
    return ManifestFile(e.ROOT_CONTENT, e.entries_table(columns, 4, STATS))


def test_every_column_and_every_type_is_read_as_it_was_written():
    manifest = root()
    data = write_manifest(manifest)
    found = read_manifest(data, PATH)
    assert found.content == e.ROOT_CONTENT
    assert found.entries.schema == manifest.entries.schema
    assert found.entries.to_pylist() == manifest.entries.to_pylist()
    assert len(data) < 40_000


def test_a_manifest_without_entries_and_without_statistics():
    data = write_manifest(ManifestFile(e.DATA_CONTENT, e.no_entries(STATS)))
    found = read_manifest(data, PATH)
    assert (found.content, len(found.entries), found.entries.schema) == ("data", 0, e.entries_schema())


def test_only_some_statistics_are_read():
    found = read_manifest(write_manifest(root()), PATH, stats_of=[2, 99]).entries
    assert cs.bound_types(found.schema.field(e.CONTENT_STATS).type) == {2: pa.int64()}
    assert found.column(e.CONTENT_STATS).to_pylist()[0] == {"2": ALL_STATS["2"]}
    none = read_manifest(write_manifest(root()), PATH, stats_of=[]).entries
    assert none.schema.field(e.CONTENT_STATS).type == cs.NO_STATS
    assert none.column("location").to_pylist() == root().entries.column("location").to_pylist()


def test_ids_on_disk():
    """The ids that other readers find the fields by, as the documentation lists them."""
    found = dict(ids_of(pq.ParquetFile(pa.BufferReader(write_manifest(root()))).schema_arrow))
    fixed = {path: number for path, number in found.items() if not path.startswith("content_stats.")}
    assert fixed == {
        "tracking": 147,
        "tracking.status": 0,
        "tracking.snapshot_id": 1,
        "tracking.sequence_number": 3,
        "tracking.file_sequence_number": 4,
        "tracking.first_row_id": 142,
        "content_type": 134,
        "location": 100,
        "file_format": 101,
        "record_count": 103,
        "file_size_in_bytes": 104,
        "partition_spec_id": 141,
        "sort_order_id": 140,
        "deletion_vector": 148,
        "deletion_vector.offset": 144,
        "deletion_vector.size_in_bytes": 145,
        "deletion_vector.inline_content": 160,
        "manifest_stats": 150,
        "manifest_stats.added_files_count": 504,
        "manifest_stats.existing_files_count": 505,
        "manifest_stats.deleted_files_count": 506,
        "manifest_stats.added_rows_count": 512,
        "manifest_stats.existing_rows_count": 513,
        "manifest_stats.deleted_rows_count": 514,
        "manifest_stats.min_sequence_number": 516,
        "referenced_file": 143,
        "split_offsets": 132,
        "split_offsets.element": 133,
        "encoding": found["encoding"],
        "content_stats": 146,
    }
    assert found["content_stats.5"] == 11_000
    assert [found[f"content_stats.5.{name}"] for name in cs.STATISTICS] == list(range(11_001, 11_008))
    assert found["content_stats.1017"] == 10_000 + 200 * 1017


def ids_of(fields, parent=""):
    for field in fields:
        name = f"{parent}{field.name}"
        if b"PARQUET:field_id" in (field.metadata or {}):
            yield name, int(field.metadata[b"PARQUET:field_id"])
        if pa.types.is_struct(field.type):
            yield from ids_of(field.type, f"{name}.")
        elif pa.types.is_list(field.type):
            yield from ids_of([field.type.value_field], f"{name}.")


def test_the_file_says_its_version_and_content():
    metadata = pq.ParquetFile(pa.BufferReader(write_manifest(root()))).metadata.metadata
    assert {key: metadata[key] for key in (b"format-version", b"content")} == {
        b"format-version": b"4",
        b"content": b"root",
    }


# Files that others wrote: built by hand, with columns as (id, name, array), structs as lists of these.


def column(field_id, name, values):
    if isinstance(values, list):
        parts = [column(*part) for part in values]
        values = pa.StructArray.from_arrays([a for _, a in parts], fields=[f for f, _ in parts])
    metadata = None if field_id is None else {"PARQUET:field_id": str(field_id)}
    return pa.field(name, values.type, metadata=metadata), values


def foreign(*columns, version="4", content="data"):
    parts = [column(*part) for part in columns]
    sink = pa.BufferOutputStream()
    schema = pa.schema([field for field, _ in parts])
    pairs = {"format-version": version, "content": content}
    with pq.ParquetWriter(sink, schema) as writer:
        writer.add_key_value_metadata({key: value for key, value in pairs.items() if value is not None})
        writer.write_table(pa.table([array for _, array in parts], schema=schema))
    return sink.getvalue().to_pybytes()


def plain(**replaced):
    """The least columns of a manifest with one data file, under other names, types and an other order."""
    columns = {
        "spec": (141, "the spec", pa.array([0], pa.int64())),
        "rows": (103, "x.y", pa.array([5], pa.int32())),
        "format": (101, "f", pa.array(["PARQUET"], pa.large_string())),
        "type": (134, "t", pa.array([0], pa.int8())),
        "tracking": (147, "tr", [(0, "status", pa.array([1], pa.int16()))]),
        **replaced,
    }
    return [part for part in columns.values() if part is not None]


def test_fields_are_found_by_id_whatever_their_names_types_and_order_are():
    unknown = [(9, "known to others", pa.array(["?"])), (None, "location", pa.array(["not this one"]))]
    found = read_manifest(foreign(*plain(), *unknown, (100, "p", pa.array(["a"]))), PATH).entries
    row = {key: value for key, value in found.to_pylist()[0].items() if value is not None}
    assert row == {
        "partition_spec_id": 0,
        "record_count": 5,
        "file_format": "parquet",
        "content_type": 0,
        "status": 1,
        "location": "a",
    }


def test_statistics_of_others():
    """A column without bounds, one whose bounds have different types, ids that are no statistics."""
    stats = [
        (10_200, "one", [(10_204, "n", pa.array([3], pa.int32())), (10_299, "more", pa.array([1]))]),
        (10_400, "two", [(10_401, "low", pa.array([1], pa.int32()))]),
        (10_600, "three", [(10_601, "low", pa.array(["a"], pa.large_string()))]),
        (10_500, "no statistics", pa.array([1])),
        (7, "nor this", pa.array([1])),
    ]
    found = read_manifest(foreign(*plain(), (146, "stats", stats)), PATH).entries
    nothing = dict.fromkeys(cs.STATISTICS)
    assert found.column(e.CONTENT_STATS).to_pylist() == [
        {"1": {**nothing, cs.VALUES: 3}, "2": {**nothing, cs.LOWER: 1}, "3": {**nothing, cs.LOWER: "a"}}
    ]
    assert cs.bound_types(found.schema.field(e.CONTENT_STATS).type) == {
        1: pa.null(),
        2: pa.int32(),
        3: pa.string(),
    }


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (plain(spec=None), r"manifest has no field 141 \(partition_spec_id\)"),
        (plain(tracking=None), r"manifest has no field 147 \(tracking\)"),
        (plain(tracking=(147, "t", pa.array([1]))), r"field 147 \(tracking\) has the type int64, expected a"),
        (plain(tracking=(147, "t", [(1, "s", pa.array([1]))])), r"manifest has no field 0 \(status\)"),
        (plain(tracking=(147, "t", [(0, "s", pa.array([None], pa.int32()))])), r"field 0 \(status\) is null"),
        (plain(rows=(103, "r", pa.array(["5"]))), r"field 103 \(record_count\) has the type string"),
        (plain(rows=(103, "r", pa.array([None], pa.int64()))), r"field 103 \(record_count\) is null in 1"),
        (plain(type=(134, "t", pa.array([2**40]))), r"field 134 \(content_type\) has the type int64"),
        ([*plain(), (103, "again", pa.array([5]))], r"manifest has two fields with the id 103, expected one"),
        ([*plain(), (148, "dv", [(144, "o", pa.array([None], pa.int64()))])], r"field 148 .* has no value"),
        ([*plain(), (150, "ms", [(504, "a", pa.array([1]))])], r"manifest has no field 505"),
        ([*plain(), (146, "stats", [(10_200, "s", pa.array([1]))])], r"field 10200 .* is no struct"),
        (
            [*plain(), (146, "stats", [(10_200, "s", [(10_204, "n", pa.array(["x"]))])])],
            r"field 10204 \(value_count\) has the type string",
        ),
        ([*plain(), (132, "so", pa.array([4]))], r"field 132 \(split_offsets\) has the type int64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_column_is_refused_by_id_and_file(columns, message):
    with pytest.raises(FormatError, match=message) as caught:
        read_manifest(foreign(*columns), PATH)
    assert caught.value.path == PATH


@pytest.mark.parametrize(
    ("version", "content", "error", "message"),
    [
        (None, "data", FormatError, "manifest has no format-version in its file metadata, expected 4"),
        ("5", "data", UnsupportedFeatureError, "format-version of a manifest is '5', expected 4"),
        ("4", None, FormatError, "content of a manifest is 'missing', expected root, data, delete"),
        ("4", "deletes", FormatError, "content of a manifest is 'deletes', expected root, data, delete"),
    ],
)
def test_a_wrong_header_is_refused(version, content, error, message):
    with pytest.raises(error, match=f"{message}: {PATH}"):
        read_manifest(foreign(*plain(), version=version, content=content), PATH)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"Obj\x01", write_manifest(root())[:-1], b"x" * 5000])
def test_what_is_no_parquet_file_is_refused(data):
    with pytest.raises(FormatError, match=f"manifest cannot be read as Parquet: .*: {PATH}"):
        read_manifest(data, PATH)


def test_a_changed_page_is_noticed():
    data = write_manifest(root())
    found = data.rindex(b"s3://b/")  # zstd keeps short values as they are
    with pytest.raises(FormatError, match="could not verify page integrity"):
        read_manifest(data[:found] + b"S" + data[found + 1 :], PATH)


def outcome(data, right):
    try:
        found = read_manifest(data, PATH).entries.to_pylist()
    except DelvecError as error:
        message = str(error)
    else:
        return "right" if found == right else "other"
    assert PATH in message
    return "refused"


def test_damaged_files_are_read_or_refused_by_name():
    rng, data, right = random.Random(3), write_manifest(root()), root().entries.to_pylist()
    seen = {"right": 0, "refused": 0, "other": 0}
    for _ in range(FUZZ_CASES):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 1, 4))):
            broken[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.2:
            del broken[rng.randrange(len(data)) :]
        begin = time.perf_counter()
        seen[outcome(bytes(broken), right)] += 1
        assert time.perf_counter() - begin < MAX_CASE_SECONDS
    assert seen["refused"] > FUZZ_CASES / 2
    assert seen["other"] < FUZZ_CASES / 10, seen  # only what the footer says has no checksum
