"""Manifests and manifest lists that delvec writes: read by fastavro, pyiceberg, DuckDB and delvec itself."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import uuid
from dataclasses import replace
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.manifest import ADDED, DELETED, EXISTING, read_manifest
from delvec.iceberg.manifest_cache import MANIFESTS
from delvec.iceberg.manifest_list import DATA, DELETES, MANIFESTS_SCHEMA, read_manifest_list
from delvec.iceberg.manifest_list_writer import with_row_ids, write_manifest_list
from delvec.iceberg.manifest_writer import manifest_row, write_manifest
from delvec.schema import arrow_type
from delvec.transforms import Transform
from golden_data import golden
from iceberg_tables import IcebergWriter, avro
from iceberg_tables.columns import ICEBERG_TYPE
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg
from iceberg_tables.values import to_bytes
from rewritten_manifests import existing, live_files, rewrite, wire
from rows import multiset


def as_type(name, kind, iceberg):
    return pa.field(name, kind, metadata={ICEBERG_TYPE: iceberg.encode()})


MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("bool", pa.bool_()),
        ("int", pa.int32()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("day", pa.date32()),
        ("time", pa.time64("us")),
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("us", tz="UTC")),
        ("text", pa.string()),
        ("a b-é", pa.string()),
        ("bytes", pa.binary()),
        ("d1", pa.decimal128(9, 2)),
        ("d2", pa.decimal128(9, 2)),
        ("d3", pa.decimal128(38, 0)),
        ("fix", pa.binary(3)),
        as_type("uuid", pa.binary(16), "uuid"),
    ]
)
VALUES = {
    "id": -(2**63),
    "bool": True,
    "int": -1,
    "float": 1.5,
    "double": -1e300,
    "day": dt.date(1969, 12, 31),
    "time": dt.time(23, 59, 59, 999999),
    "ts": MOMENT,
    "tz": MOMENT.replace(tzinfo=dt.UTC),
    "text": "é😀",
    "a b-é": "",
    "bytes": b"\x00\xff",
    "d1": Decimal("-1.28"),
    "d2": Decimal("9999999.99"),
    "d3": Decimal(10**38 - 1),
    "fix": b"abc",
    "uuid": uuid.UUID(int=2**127 + 7).bytes,
}


@pytest.fixture(autouse=True)
def _empty_cache():
    MANIFESTS.clear()


def writer(root, version, partition_by=tuple(COLUMNS.names), columns=COLUMNS, **options):
    return IcebergWriter(root, columns, format_version=version, partition_by=partition_by, **options)


def filled(root, version):
    """Two files, of values and of nulls, partitioned by a column of each type."""
    table = writer(root, version)
    table.add_file([VALUES])
    table.add_file([dict.fromkeys(VALUES)])
    table.commit()
    return table


@pytest.mark.parametrize("version", [2, 3])
def test_entries_are_read_as_they_were(tmp_path, version):
    table = filled(tmp_path / "t", version)
    table.delete_rows(table.head.entries(avro.DATA)[0].file, [0])
    table.delete_keys([{"id": 7}], on=["id"], beside=table.head.entries(avro.DATA)[0].file)
    table.commit()
    before = live_files(table)
    rewrite(table)
    after = live_files(table)
    assert after.data().equals(existing(before.data()))
    assert after.deletes().equals(existing(before.deletes()))
    assert len(after.data()) == 2
    assert len(after.deletes()) == 2


@pytest.mark.parametrize("version", [2, 3])
def test_the_avro_schema_has_the_fields_and_ids_of_the_specification(tmp_path, version):
    """The test writer has its own list of them."""
    table = filled(tmp_path / "t", version)
    data = write_manifest(live_files(table).data(), **wire(table, 0), format_version=version, content=DATA)
    parts = [(part.id, part.name, part.type) for part in table.spec.fields]
    partition = avro.partition_type(parts)
    found = json.loads(header(data)["avro.schema"])
    expected = avro.manifest_schema(version, partition)
    for field in found["fields"][-1]["type"]["fields"][3]["type"]["fields"]:
        if field.pop("iceberg-field-name", None) is not None:
            assert field["name"] == "a_x20b_x2D_xE9"
    assert found == expected


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("content", "name"), [(DATA, "data"), (DELETES, "deletes")])
def test_the_header_names_schema_and_spec(tmp_path, version, content, name):
    table = filled(tmp_path / "t", version)
    wires = wire(table, 0)
    data = write_manifest(live_files(table).data(), **wires, format_version=version, content=content)
    found = header(data)
    assert json.loads(found.pop("schema")) == wires["schema_json"]
    assert json.loads(found.pop("partition-spec")) == wires["spec_json"]["fields"]
    assert found.pop("avro.schema")
    assert found == {
        "avro.codec": "deflate",
        "schema-id": "0",
        "partition-spec-id": "0",
        "format-version": str(version),
        "content": name,
    }


def header(data):
    return fastavro.reader(io.BytesIO(data)).metadata


def replaced(entries, columns):
    for name, column in columns.items():
        entries = entries.set_column(entries.schema.get_field_index(name), name, column)
    return entries


def records(data):
    return list(fastavro.reader(io.BytesIO(data)))


@pytest.mark.parametrize("version", [2, 3])
def test_fastavro_reads_what_the_test_writer_writes(tmp_path, version):
    """Both write the same records, field for field."""
    table = filled(tmp_path / "t", version)
    (manifest,) = table.head.manifests
    expected = records((table.root / manifest.path).read_bytes())
    read = read_manifest((table.root / manifest.path).read_bytes()).entries
    live = live_files(table).data()
    inherited = ("sequence_number", "file_sequence_number", "first_row_id")
    entries = replaced(live, {name: read.column(name) for name in inherited})
    data = write_manifest(entries, **wire(table, 0), format_version=version, content=DATA)
    assert records(data) == expected


def test_what_is_null_stays_null(tmp_path):
    """Nothing is inherited by the writer: a null is written as a null."""
    table = filled(tmp_path / "t", 3)
    entries = live_files(table).data()
    names = ("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id")
    entries = replaced(entries, {name: pa.array([None, 5], pa.int64()) for name in names})
    data = write_manifest(entries, **wire(table, 0), format_version=3, content=DATA)
    read = read_manifest(data).entries
    for name in names:
        assert read.column(name).to_pylist() == [None, 5]


def test_a_required_field_is_never_null(tmp_path):
    table = filled(tmp_path / "t", 3)
    entries = replaced(live_files(table).data(), {"record_count": pa.array([None, 1], pa.int64())})
    with pytest.raises(FormatError, match=r"data_file\.record_count is null in 1 records"):
        write_manifest(entries, **wire(table, 0), format_version=3, content=DATA)


def test_an_unknown_transform_is_refused(tmp_path):
    table = filled(tmp_path / "t", 3)
    wires = wire(table, 0)
    unknown = replace(wires["spec"].fields[0], transform=Transform("zorder[3]"))
    spec = replace(wires["spec"], fields=(unknown, *wires["spec"].fields[1:]))
    with pytest.raises(UnsupportedFeatureError, match=r"partition field id is zorder\[3\], expected"):
        write_manifest(live_files(table).data(), **wires | {"spec": spec}, format_version=3, content=DATA)


@pytest.mark.parametrize("version", [2, 3])
def test_names_that_become_one_in_avro_stay_two(tmp_path, version):
    columns = pa.schema([("a b", pa.int32()), ("a_x20b", pa.int32())])
    table = writer(tmp_path / "t", version, ["a b"], columns)
    table.replace_spec(["a b", "a_x20b"])
    wires = wire(table, 1)
    schema = live_files(table).schema
    row = {
        "status": ADDED,
        "content": 0,
        "file_path": "x",
        "file_format": "parquet",
        "record_count": 1,
        "file_size": 1,
        "partition.a b": 1,
        "partition.a_x20b": 2,
    }
    data = write_manifest(
        pa.Table.from_pylist([row], schema=schema), **wires, format_version=version, content=DATA
    )
    assert list(records(data)[0]["data_file"]["partition"].values()) == [1, 2]


def history(root, version):
    table = writer(root, version, ["int", "text"])
    rows = [VALUES | {"id": n, "int": n % 2} for n in range(10)]
    files = [table.add_file([row for row in rows if row["int"] == p]) for p in (0, 1)]
    table.commit()
    table.delete_rows(files[0], [0, 3])
    table.commit()
    table.replace_spec(["bucket[4](id)", "day(ts)", "truncate[3](text)", "truncate[10](d1)", "a b-é"])
    table.append([VALUES | {"id": n, "text": f"text {n}"} for n in range(20, 30)])
    table.delete_rows(files[1], [1])
    table.commit()
    table.promote_column("int", "long")
    table.rename_column("text", "renamed")
    table.append([{"id": 40, "int": 2**40, "renamed": "x"}])
    return table


def comparable(found):
    """The rows as texts: each engine has UUIDs and time zones in its own form."""
    return multiset([{name: _text(name, value) for name, value in row.items()} for row in found])


def _text(name, value):
    if name == "uuid" and isinstance(value, bytes):
        return str(uuid.UUID(bytes=value))
    return str(value.astimezone(dt.UTC) if name == "tz" and value else value)


@pytest.mark.parametrize("read", [read_by_duckdb, read_by_pyiceberg])
@pytest.mark.parametrize("version", [2, 3])
def test_other_engines_read_the_rows(tmp_path, version, read):
    table = history(tmp_path / "t", version)
    rewrite(table)
    assert comparable(read(table.root)) == comparable(table.rows())


def test_manifests_of_version_2_are_written_again_as_version_3(tmp_path):
    table = history(tmp_path / "t", 2)
    table.upgrade(3)
    before = live_files(table)
    rewrite(table, 3)
    after = live_files(table)
    assert after.data().drop(["first_row_id"]).equals(existing(before.data()).drop(["first_row_id"]))
    assert comparable(read_by_duckdb(table.root)) == comparable(table.rows())


@pytest.mark.parametrize("kind", ["manifest", "list"])
def test_avro_schemas_are_those_of_the_java_library(tmp_path, kind):
    folder = golden("iceberg/equality-deletes") / "metadata"
    (of_java, *_) = folder.glob("snap-*.avro" if kind == "list" else "*-m0.avro")
    table = writer(tmp_path / "t", 2, ())
    table.append([VALUES])
    rewrite(table)
    name = table.head.json["manifest-list"] if kind == "list" else "metadata/rewritten-0.avro"
    found, expected = (
        json.loads(header(file.read_bytes())["avro.schema"]) for file in (table.root / name, of_java)
    )
    assert found == without_docs(expected)


def without_docs(tree):
    if isinstance(tree, dict):
        return {key: without_docs(value) for key, value in tree.items() if key != "doc"}
    return [without_docs(item) for item in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize("version", [2, 3])
def test_pyiceberg_reads_the_entries(tmp_path, version):
    manifests = pytest.importorskip("pyiceberg.manifest")
    from pyiceberg.io.pyarrow import PyArrowFileIO

    table = history(tmp_path / "t", version)
    rewrite(table)
    lists = list(manifests.read_manifest_list(PyArrowFileIO().new_input(table.head.json["manifest-list"])))
    live = live_files(table)
    assert [each.manifest_path for each in lists] == live.manifests.column("path").to_pylist()
    found = [entry for each in lists for entry in each.fetch_manifest_entry(PyArrowFileIO())]
    expected = [*live.data().to_pylist(), *live.deletes().to_pylist()]
    by_path = {(row["file_path"], row["content"]): row for row in expected}
    assert len(found) == len(by_path) == len(expected)
    for entry in found:
        row = by_path[entry.data_file.file_path, int(entry.data_file.content)]
        assert entry.sequence_number == row["sequence_number"]
        assert entry.snapshot_id == row["snapshot_id"]
        assert entry.data_file.record_count == row["record_count"]
        for name in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
            pairs = row[name] and {pair["key"]: pair["value"] for pair in row[name]}
            assert getattr(entry.data_file, name) == pairs


ENTRY = st.fixed_dictionaries(
    {
        "status": st.sampled_from([EXISTING, ADDED, DELETED]),
        "sequence_number": st.none() | st.integers(0, 9),
        "record_count": st.integers(0, 2**40),
        "partition.double": st.none() | st.floats() | st.sampled_from([0.0, -0.0, math.nan]),
        "partition.text": st.none() | st.text("az\0é\uffff😀", max_size=3),
        "partition.d1": st.none() | st.decimals(-999, 999, places=2),
        "partition.uuid": st.none() | st.binary(min_size=16, max_size=16),
        "partition.bool": st.none() | st.booleans(),
    }
)
PARTS = {"double": "double", "text": "string", "d1": "decimal(9, 2)", "uuid": "uuid", "bool": "boolean"}


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    table = writer(tmp_path_factory.mktemp("specs") / "t", 3, tuple(PARTS))
    table.append([VALUES])
    return wire(table, 0)["spec"]


@settings(deadline=None)
@given(st.lists(ENTRY, max_size=6))
def test_the_row_of_a_manifest(spec, entries):
    """Counts, the least sequence number, and summaries, against plain Python."""
    kinds = {field.name: arrow_type(field.type) for field in spec.fields}
    schema = pa.schema(
        [("status", pa.int32()), ("sequence_number", pa.int64()), ("record_count", pa.int64())]
        + [(f"partition.{name}", kinds[name]) for name in PARTS]
    )
    table = pa.Table.from_pylist(entries, schema=schema)
    row = manifest_row(
        table, path="p", length=5, spec=spec, content=DATA, sequence_number=7, snapshot_id=8, first_row_id=9
    )
    summaries = row.pop("partitions")
    live = [entry for entry in entries if entry["status"] != DELETED]
    sequences = [7 if entry["sequence_number"] is None else entry["sequence_number"] for entry in live]
    expected = {"path": "p", "length": 5, "spec_id": 0, "content": DATA, "sequence_number": 7}
    expected |= {"min_sequence_number": min(sequences, default=7), "added_snapshot_id": 8}
    for status, name in ((ADDED, "added"), (EXISTING, "existing"), (DELETED, "deleted")):
        counts = [entry["record_count"] for entry in entries if entry["status"] == status]
        expected |= {f"{name}_files": len(counts), f"{name}_rows": sum(counts)}
    assert row == expected | {"key_metadata": None, "first_row_id": 9}
    for summary, (name, kind) in zip(summaries, PARTS.items(), strict=True):
        assert summary == summary_of([entry[f"partition.{name}"] for entry in entries], kind)


def summary_of(values, kind):
    held = [value for value in values if value is not None]
    plain = [value for value in held if value == value]  # noqa: PLR0124
    order = (lambda value: (value, math.copysign(1, value))) if kind == "double" else None
    lower, upper = (min(plain, key=order), max(plain, key=order)) if plain else (None, None)
    if kind == "double" and plain:  # a zero bound covers both zeros
        lower, upper = lower or -0.0, upper or 0.0
    return {
        "contains_null": len(held) < len(values),
        "contains_nan": len(plain) < len(held),
        "lower": to_bytes(kind, lower) if plain else None,
        "upper": to_bytes(kind, upper) if plain else None,
    }


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("parent", [None, 5])
def test_a_manifest_list_is_read_as_it_was(tmp_path, version, parent):
    table = history(tmp_path / "t", version)
    manifests = live_files(table).manifests
    data = write_manifest_list(
        manifests, snapshot_id=7, parent_id=parent, sequence_number=3, first_row_id=11, format_version=version
    )
    assert read_manifest_list(data).equals(manifests)
    found = header(data)
    del found["avro.schema"], found["avro.codec"]
    expected = {"snapshot-id": "7", "sequence-number": "3", "format-version": str(version)}
    expected["parent-snapshot-id"] = "null" if parent is None else "5"
    assert found == (expected | {"first-row-id": "11"} if version > 2 else expected)
    assert json.loads(header(data)["avro.schema"]) == avro.manifest_list_schema(version)


def test_counts_that_are_not_recorded_cannot_be_written(tmp_path):
    manifests = live_files(filled(tmp_path / "t", 3)).manifests
    manifests = replaced(manifests, {"added_files": pa.nulls(len(manifests), pa.int64())})
    with pytest.raises(FormatError, match="added_files_count is null in 1 records"):
        write_manifest_list(
            manifests, snapshot_id=7, parent_id=None, sequence_number=3, first_row_id=0, format_version=3
        )


def test_manifests_get_row_ids():
    """Those of data files that have none, one after the other; deleted files count for nothing."""
    rows = [
        {"content": DATA, "added_rows": 5, "existing_rows": 2, "deleted_rows": 100, "first_row_id": None},
        {"content": DELETES, "added_rows": 50, "existing_rows": 50, "deleted_rows": 0, "first_row_id": None},
        {"content": DATA, "added_rows": 9, "existing_rows": 9, "deleted_rows": 0, "first_row_id": 3},
        {"content": DATA, "added_rows": 0, "existing_rows": 4, "deleted_rows": 0, "first_row_id": None},
    ]
    found, next_row_id = with_row_ids(pa.Table.from_pylist(rows, schema=MANIFESTS_SCHEMA), 1000)
    assert found.column("first_row_id").to_pylist() == [1000, None, 3, 1007]
    assert next_row_id == 1011
    assert found.schema == MANIFESTS_SCHEMA
    empty = MANIFESTS_SCHEMA.empty_table()
    assert with_row_ids(empty, 5) == (empty, 5)
