"""Tables with damage: each is refused by an error that names the file, or read right; never read wrong."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connector_rows import connector_rows
from delvec.detect import open_table
from delvec.errors import (
    CorruptVectorError,
    DelvecError,
    FormatError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from iceberg_tables import IcebergWriter
from iceberg_tables.avro import rewritten
from iceberg_tables.vectors import Blob, puffin, vector
from plans import plan_where
from rows import multiset

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32())])


def numbers(first, count=10, p=1):
    return [{"id": n, "p": p} for n in range(first, first + count)]


def written(root, version=3, **options):
    """Two data files; rows of the first are deleted: a vector in v3, a position-delete file in v2."""
    table = IcebergWriter(root, COLUMNS, format_version=version, **options)
    table.first = table.add_file(numbers(0))
    table.second = table.add_file(numbers(100))
    table.commit()
    table.delete = table.delete_rows(table.first, [0, 7])
    table.commit()
    return table


def refused(table, match, kind=DelvecError):
    with pytest.raises(kind, match=match) as raised:
        connector_rows(table.root)
    assert str(table.root) in str(raised.value) or kind is UnsupportedFeatureError, raised.value
    return raised.value


def is_right(table):
    assert multiset(connector_rows(table.root)) == multiset(table.rows())


def metadata_path(table, version=None):
    return table.root / f"metadata/v{version or table.metadata_version}.metadata.json"


def changed(path, change):
    """The metadata file with another value."""
    tree = json.loads(path.read_text())
    change(tree)
    path.write_text(json.dumps(tree))


def manifest_list(table):
    return table.place(table.head.json["manifest-list"])


def manifests(table):
    return [table.place(manifest.path) for manifest in table.head.manifests]


# Metadata


def test_the_table_as_it_is_written(tmp_path):
    for version in (1, 2, 3):
        table = IcebergWriter(tmp_path / f"v{version}", COLUMNS, format_version=version)
        table.append(numbers(0))
        is_right(table)
    is_right(written(tmp_path / "with a vector"))
    is_right(written(tmp_path / "with position deletes", 2))


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_truncated_metadata(tmp_path, cut):
    table = written(tmp_path / "t")
    path = metadata_path(table)
    path.write_bytes(path.read_bytes()[:cut])
    refused(table, re.escape(path.name), FormatError)


def test_no_metadata(tmp_path):
    table = written(tmp_path / "t")
    for path in (table.root / "metadata").glob("v*.json"):
        path.unlink()
    refused(table, "metadata", (FormatError, TableNotFoundError))


def test_a_stale_hint(tmp_path):
    table = written(tmp_path / "t")
    hint = table.root / "metadata/version-hint.text"
    for text in ("2", "x", ""):
        hint.write_text(text)
        is_right(table)
    hint.write_text("99")  # a newer version was there: an older one would have other rows
    refused(table, "version-hint.text is '99'", FormatError)
    hint.unlink()
    is_right(table)


@pytest.mark.parametrize("version", [0, 4, 5, 99])
def test_other_format_versions(tmp_path, version):
    table = written(tmp_path / "t")
    changed(metadata_path(table), lambda tree: tree.update({"format-version": version}))
    refused(table, f"version is {version}", UnsupportedFeatureError)


def test_encrypted_tables(tmp_path):
    table = written(tmp_path / "t")
    keys = [{"key-id": "a", "encrypted-key-metadata": "YQ=="}]
    changed(metadata_path(table), lambda tree: tree.update({"encryption-keys": keys}))
    refused(table, "encrypted", UnsupportedFeatureError)


@pytest.mark.parametrize(
    ("member", "value", "match"),
    [
        ("schemas", [], "schema"),
        ("current-schema-id", 9, "current-schema-id"),
        ("current-snapshot-id", 9, "current-snapshot-id"),
        ("partition-specs", [{"spec-id": 0, "fields": [{"source-id": 1}]}], "partition"),
        ("default-spec-id", 9, "default-spec-id"),
        ("snapshots", {}, "snapshots"),
        ("location", None, "location"),
        ("refs", {"main": {"snapshot-id": 1, "type": "branch"}}, "main"),
    ],
)
def test_metadata_that_contradicts_itself(tmp_path, member, value, match):
    table = written(tmp_path / "t")
    changed(metadata_path(table), lambda tree: tree.update({member: value}))
    error = refused(table, match, FormatError)
    assert metadata_path(table).name in str(error)


# Manifest lists and manifests


@pytest.mark.parametrize("find", [manifest_list, lambda t: manifests(t)[0], lambda t: manifests(t)[-1]])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "last byte", "other bytes", "not avro"])
def test_damaged_avro_files(tmp_path, find, damage):
    table = written(tmp_path / "t")
    path = find(table)
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        middle = len(data) // 2
        path.write_bytes(
            {
                "empty": b"",
                "cut": data[:middle],
                "last byte": data[:-1],
                "other bytes": data[:-40] + bytes(40),
                "not avro": b"{}" * 200,
            }[damage]
        )
    refused(table, re.escape(path.name))


@pytest.mark.parametrize(
    ("member", "value"),
    [("manifest_path", ""), ("manifest_path", "x"), ("content", 7), ("partition_spec_id", 9)],
)
def test_manifest_lists_that_say_what_cannot_be(tmp_path, member, value):
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=3)
    table.edit_manifest = lambda record: record | {member: value}
    table.append(numbers(0))
    refused(table, "manifest|content|spec|location")


@pytest.mark.parametrize(
    ("member", "value", "match"),
    [
        ("status", 3, "status"),
        ("content", 3, "content"),
        ("file_format", "ORC", "ORC"),
        ("file_format", "AVRO", "AVRO"),
        ("file_format", "CSV", "CSV"),
        ("record_count", -1, "record_count|rows|records"),
        ("file_path", "", "path|location"),
    ],
)
def test_entries_of_data_files_that_say_what_cannot_be(tmp_path, member, value, match):
    table = IcebergWriter(tmp_path / "t", COLUMNS)

    def edit(record):
        if member == "status":
            return record | {member: value}
        return record | {"data_file": record["data_file"] | {member: value}}

    table.edit_entry = edit
    table.append(numbers(0))
    refused(table, f"(?i){match}", (FormatError, UnsupportedFeatureError))


def edit_deletes(**members):
    """Changes what manifests say of delete files."""

    def edit(record):
        if record["data_file"]["content"] == 0:
            return record
        return record | {"data_file": record["data_file"] | members}

    return edit


@pytest.mark.parametrize("kind", ["ORC", "AVRO", "LANCE"])
@pytest.mark.parametrize("equality", [False, True])
def test_delete_files_of_other_formats(tmp_path, kind, equality):
    table = IcebergWriter(tmp_path / "t", COLUMNS)
    file = table.add_file(numbers(0))
    table.commit()
    table.edit_entry = edit_deletes(file_format=kind)
    if equality:
        table.delete_keys([{"id": 3}], on=["id"])
    else:
        table.delete_rows(file, [3])
    table.commit()
    refused(table, f"(?i){kind}", UnsupportedFeatureError)


def test_an_equality_delete_in_a_puffin_file(tmp_path):
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=3)
    table.append(numbers(0))
    table.edit_entry = edit_deletes(file_format="PUFFIN")
    table.delete_keys([{"id": 3}], on=["id"])
    table.commit()
    refused(table, "not a Puffin file", FormatError)


@pytest.mark.parametrize("ids", [None, [], [99]])
def test_equality_deletes_without_their_columns(tmp_path, ids):
    table = IcebergWriter(tmp_path / "t", COLUMNS)
    table.append(numbers(0))
    table.edit_entry = edit_deletes(equality_ids=ids)
    table.delete_keys([{"id": 3}], on=["id"])
    table.commit()
    refused(table, "(?i)equality|field|column", FormatError)


def test_an_unknown_transform_filters_nothing(tmp_path):
    table = IcebergWriter(tmp_path / "t", COLUMNS, partition_by=["p"], stats=False)
    unknown = IcebergWriter(tmp_path / "u", COLUMNS, partition_by=["zorder[3](p)"], stats=False)
    for each in (table, unknown):
        each.append(numbers(0))
        each.append(numbers(100, p=2))
    deleted = unknown.head.entries()[0].file
    unknown.delete_rows(deleted, [1])
    unknown.delete_keys([{"id": 5}], on=["id"], partition={"p": 1})
    unknown.commit()
    for each in (table, unknown):
        is_right(each)
    assert len(plan_where(open_table(str(table.root)).snapshot(), "p = 1").files) == 1
    for where in ("p = 7", "p IS NULL", "p = 1"):
        assert len(plan_where(open_table(str(unknown.root)).snapshot(), where).files) == 2


# Vectors


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "flipped"])
def test_damaged_puffin_files(tmp_path, damage):
    table = written(tmp_path / "t")
    path = table.place(table.delete.path)
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        data[table.delete.offset + 10] ^= 1
        kept = table.delete.offset + 12
        path.write_bytes({"empty": b"", "cut": bytes(data[:kept]), "flipped": bytes(data)}[damage])
    refused(table, re.escape(path.name), CorruptVectorError)


@pytest.mark.parametrize(
    "members",
    [
        {"record_count": 3},
        {"record_count": 1},
        {"content_offset": 5},
        {"content_offset": 3},
        {"content_offset": -4},
        {"content_offset": 10**9},
        {"content_size_in_bytes": 7},
        {"content_size_in_bytes": 41},
        {"content_size_in_bytes": 10**9},
        {"content_size_in_bytes": 2**62},
        {"content_size_in_bytes": -1},
    ],
)
def test_vectors_that_are_not_where_or_what_the_manifest_says(tmp_path, members):
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=3)
    file = table.add_file(numbers(0))
    table.commit()
    table.edit_entry = edit_deletes(**members)
    delete = table.delete_rows(file, [0, 7])
    table.commit()
    error = refused(table, None, FormatError)
    manifest = table.place(table.head.manifests[-1].path)
    assert table.place(delete.path).name in str(error) or manifest.name in str(error)


@pytest.mark.parametrize(
    ("member", "match"),
    [
        ("content_offset", "no.* content_offset"),
        ("content_size_in_bytes", "no.* content_size"),
        ("referenced_data_file", "no.* data.file"),
    ],
)
def test_vectors_without_a_place(tmp_path, member, match):
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=3)
    file = table.add_file(numbers(0))
    table.commit()
    table.edit_entry = edit_deletes(**{member: None})
    table.delete_rows(file, [0, 7])
    table.commit()
    refused(table, match, FormatError)


def test_a_blob_of_another_type(tmp_path):
    table = written(tmp_path / "t")
    path = table.place(table.delete.path)
    other = Blob(b"\x01" * table.delete.length, {"ndv": "3"}, "apache-datasketches-theta-v1")
    path.write_bytes(puffin([other])[0])
    refused(table, re.escape(path.name), CorruptVectorError)


def test_vectors_without_a_footer_are_read(tmp_path):
    """Bare blobs exist: a vector is read by its place in the manifest."""
    table = written(tmp_path / "t")
    path = table.place(table.delete.path)
    data = path.read_bytes()
    path.write_bytes(data[: table.delete.offset + table.delete.length])
    is_right(table)


def test_two_vectors_on_one_file(tmp_path):
    table = written(tmp_path / "t")
    table.delete_by_vectors({table.first: [3]}, united=False)
    table.commit()
    refused(table, re.escape(table.first.path), FormatError)


def test_a_vector_of_a_file_that_is_not_there_deletes_nothing(tmp_path):
    table = written(tmp_path / "t")
    table.edit_entry = edit_deletes(referenced_data_file=f"{table.root}/data/other.parquet")
    table.delete_by_vectors({table.second: [3]})
    table.commit()
    rows = connector_rows(table.root)
    assert len(rows) == 18


def test_a_vector_beyond_the_rows_of_its_file(tmp_path):
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=3)
    file = table.add_file(numbers(0))
    table.commit()
    delete = table.delete_rows(file, [3, 10])
    table.commit()
    path = table.place(delete.path)
    refused(table, re.escape(path.name), CorruptVectorError)


def test_vectors_in_v2(tmp_path):
    """Version 2 has no vectors: readers of it would not apply them."""
    table = written(tmp_path / "t", 2)
    data, (blob,) = puffin([vector([1], table.second.path)])
    path = table.root / "data/v.puffin"
    path.write_bytes(data)
    table.edit_entry = edit_deletes(file_format="PUFFIN", file_path=str(path))
    table.delete_positions({table.second: [1]})
    table.commit()
    assert blob.offset == 4
    refused(table, "(?i)puffin|vector", (FormatError, UnsupportedFeatureError))


# Position-delete files


@pytest.mark.parametrize("damage", ["missing", "cut", "no file_path", "other types"])
def test_damaged_position_delete_files(tmp_path, damage):
    table = written(tmp_path / "t", 2)
    path = table.place(table.delete.path)
    match damage:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(path.read_bytes()[:-9])
        case "no file_path":
            pq.write_table(pa.table({"pos": pa.array([0, 7])}), path)
        case "other types":
            pq.write_table(pa.table({"file_path": [1, 2], "pos": ["0", "7"]}), path)
    refused(table, re.escape(path.name))


def test_position_deletes_of_null_rows_are_refused(tmp_path):
    table = written(tmp_path / "t", 2)
    path = table.place(table.delete.path)
    columns = {"file_path": [table.first.path, None], "pos": pa.array([0, 7])}
    pq.write_table(pa.table(columns), path)
    refused(table, re.escape(path.name))


# Records of older and other writers


def test_manifests_of_an_unknown_field_and_codecs(tmp_path):
    for codec in ("null", "deflate"):
        table = IcebergWriter(tmp_path / codec, COLUMNS, codec=codec)
        table.append(numbers(0))
        is_right(table)
    path = manifests(table)[0]
    path.write_bytes(rewritten(path.read_bytes(), lambda records: records))
    is_right(table)
