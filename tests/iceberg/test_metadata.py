"""Metadata files as values, and what is refused in them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.metadata import Ref, parse_metadata
from delvec.iceberg.name_mapping import table_name_mapping
from delvec.schema import Primitive
from delvec.transforms import VOID, Transform
from iceberg_tables.writer import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("name", pa.string())])
PLACE = "/lake/t/metadata/v1.metadata.json"


@pytest.fixture
def document(tmp_path):
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=3, partition_by=["bucket[4](id)"])
    table.append([{"id": 1, "day": None, "name": "a"}])
    table.set_tag("first", table.head.id)
    table.append([{"id": 2, "day": None, "name": "b"}])
    return table.metadata()


def parsed(document, **changes):
    return parse_metadata(json.dumps({**document, **changes}).encode(), PLACE)


def problem(document, **changes):
    with pytest.raises(FormatError) as raised:
        parsed(document, **changes)
    assert raised.value.path == PLACE
    return raised.value.message


def test_version_3(document):
    metadata = parsed(document, **{"something-new": {"a": [1]}})
    assert (metadata.format_version, metadata.next_row_id, metadata.last_sequence_number) == (3, 2, 2)
    newest = metadata.snapshots[metadata.current_snapshot_id]
    first = metadata.snapshots[newest.parent_id]
    assert (first.sequence_number, first.first_row_id, first.added_rows, first.parent_id) == (1, 0, 1, None)
    assert newest.summary["operation"] == "append"
    assert metadata.refs == {
        "main": Ref("main", newest.snapshot_id, "branch"),
        "first": Ref("first", first.snapshot_id, "tag"),
    }
    assert [number for _, number in metadata.snapshot_log] == [first.snapshot_id, newest.snapshot_id]
    assert metadata.raw["something-new"] == {"a": [1]}


def test_version_1_with_one_schema_and_one_spec(document):
    """The oldest form: no lists of schemas and specs, no ids of schemas and partition fields, no uuid."""
    schema = {key: value for key, value in document["schemas"][0].items() if key != "schema-id"}
    snapshot = {
        "snapshot-id": 5,
        "timestamp-ms": 1,
        "manifests": ["/lake/t/metadata/a.avro", "/lake/t/metadata/b.avro"],
    }
    old = {
        "format-version": 1,
        "location": "/lake/t",
        "last-updated-ms": 1,
        "last-column-id": 3,
        "schema": schema,
        "partition-spec": [
            {"name": "day_day", "transform": "day", "source-id": 2},
            {"name": "name", "transform": "identity", "source-id": 3},
        ],
        "current-snapshot-id": 5,
        "snapshots": [snapshot],
    }
    metadata = parsed(old)
    assert (metadata.current_schema_id, metadata.default_spec_id) == (0, 0)
    assert [(f.field_id, f.source) for f in metadata.specs[0].fields] == [(1000, ("day",)), (1001, ("name",))]
    record = metadata.snapshots[5]
    assert (record.manifest_list, record.manifests) == (None, tuple(snapshot["manifests"]))
    assert (record.sequence_number, record.schema_id) == (0, None)
    assert metadata.refs == {"main": Ref("main", 5, "branch")}
    assert parsed(old, **{"current-snapshot-id": -1}).current_snapshot_id is None


@pytest.mark.parametrize("version", [5, 0])
def test_other_format_versions_are_refused_by_name(document, version):
    with pytest.raises(
        UnsupportedFeatureError, match=f"format version is {version}, expected 1, 2"
    ) as raised:
        parsed(document, **{"format-version": version})
    assert raised.value.feature == f"format version {version}"
    assert PLACE in str(raised.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"encryption-keys": [{"key-id": "k1", "encrypted-key-metadata": "AAAA"}]},
        {"properties": {"encryption.key-id": "k1"}},
        {"snapshots": "with a key"},
    ],
)
def test_encrypted_tables_are_refused_by_name(document, changes):
    if "snapshots" in changes:
        changes = {"snapshots": [{**snapshot, "key-id": "k1"} for snapshot in document["snapshots"]]}
    with pytest.raises(UnsupportedFeatureError, match="the table is encrypted") as raised:
        parsed(document, **changes)
    assert raised.value.feature == "encryption"


def test_damaged_metadata_is_named(document):
    assert "is not JSON" in problem_of(b'{"format-version": 2')
    assert "is not JSON" in problem_of(b"")
    assert problem_of(b"[]") == "table metadata is [], expected an object"
    assert problem(document, location=None) == "location of table metadata is None, expected a text"
    assert "current-schema-id is 9, expected one of 0" in problem(document, **{"current-schema-id": 9})
    assert "default-spec-id is 9, expected one of 0" in problem(document, **{"default-spec-id": 9})
    assert "current-snapshot-id is 9" in problem(document, **{"current-snapshot-id": 9})
    assert "branch main is at snapshot" in problem(
        document, **{"current-snapshot-id": document["snapshots"][0]["snapshot-id"]}
    )
    assert "expected branch or tag" in problem(document, refs={"x": {"snapshot-id": 1, "type": "fork"}})
    assert "ref 'x' is at snapshot 1" in problem(document, refs={"x": {"snapshot-id": 1, "type": "tag"}})
    assert "is listed twice" in problem(document, snapshots=document["snapshots"][:1] * 2)
    bare = [{"snapshot-id": 7, "timestamp-ms": 1}]
    assert "snapshot 7 has no manifest-list" in problem(document, snapshots=bare)
    assert "expected an object of texts" in problem(document, properties={"a": 1})


def problem_of(data):
    with pytest.raises(FormatError) as raised:
        parse_metadata(data, PLACE)
    assert raised.value.path == PLACE
    return raised.value.message


def specs(document, *fields_of_specs):
    listed = [{"spec-id": number, "fields": fields} for number, fields in enumerate(fields_of_specs)]
    return parsed(document, **{"partition-specs": listed, "default-spec-id": len(listed) - 1}).specs


def part(name, source, transform, number):
    return {"name": name, "source-id": source, "transform": transform, "field-id": number}


def test_specs_of_renamed_and_dropped_columns(tmp_path):
    table = IcebergWriter(tmp_path / "t", COLUMNS, partition_by=["day(day)", "name", "bucket[4](id)"])
    table.rename_column("name", "title")
    table.drop_column("day")
    metadata = parsed(table.metadata())
    day, name, bucket = metadata.specs[0].fields
    assert (day.source, day.type) == ((), Primitive("date"))  # dropped: an older schema has its type
    assert (name.name, name.source, name.type) == ("name", ("title",), Primitive("string"))
    assert (bucket.source, bucket.transform) == (("id",), Transform("bucket", 4))
    older = metadata.specs_in(metadata.schemas[0])[0]
    assert [field.source for field in older.fields] == [("day",), ("name",), ("id",)]


def test_names_that_two_specs_use_differently(document):
    """The values of all specs are one struct: a name means one field id and one type there."""
    found = specs(
        document,
        [part("p", 1, "identity", 1000), part("q", 3, "identity", 1001)],
        [part("p", 3, "identity", 1002), part("q", 3, "identity", 1001)],
    )
    assert [field.name for field in found[1].fields] == ["p", "q"]
    assert [field.name for field in found[0].fields] == ["p_1000", "q"]


def test_a_dropped_field_of_version_1_becomes_void(document):
    found = specs(document, [part("p", 1, "bucket[4]", 1000)], [part("p", 1, "void", 1000)])
    assert found[0].fields[0].name == found[1].fields[0].name == "p"
    assert found[0].fields[0].type == found[1].fields[0].type == Primitive("integer")
    assert found[1].fields[0].transform == VOID


def test_unknown_transforms_are_kept(document):
    several = {"name": "z", "source-ids": [1, 3], "transform": "zorder", "field-id": 1001}
    (found,) = specs(document, [part("p", 1, "geohash[8]", 1000), several]).values()
    assert [str(field.transform) for field in found.fields] == ["geohash[8]", "zorder"]
    assert not any(field.transform.is_known for field in found.fields)
    assert found.fields[1].source == ()


def test_damaged_specs(document):
    def refused(*fields):
        with pytest.raises(FormatError) as raised:
            specs(document, list(fields))
        return str(raised.value)

    assert "not defined for type string" in refused(part("p", 3, "day", 1000))
    assert "expected different names" in refused(part("p", 1, "void", 1000), part("p", 3, "void", 1001))
    assert "transform of field 'p'" in refused({"name": "p", "source-id": 1, "field-id": 1000})
    two = {"name": "p", "source-ids": [1, 3], "transform": "identity", "field-id": 1000}
    assert "has 2 sources, expected one" in refused(two)


def test_name_mapping():
    text = json.dumps(
        [
            {"field-id": 1, "names": ["id", "order_id"]},
            {"field-id": 2, "names": ["place"], "fields": [{"field-id": 3, "names": ["city"]}]},
            {"names": ["ignored"]},
        ]
    )
    mapping = table_name_mapping({"schema.name-mapping.default": text})
    assert mapping is not None
    assert mapping.find("order_id").field_id == mapping.find("id").field_id == 1
    assert mapping.find("place").inside.find("city").field_id == 3
    assert mapping.find("ignored").field_id is None
    assert mapping.find("absent") is None
    assert table_name_mapping({}) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is not JSON"),
        ("{}", "expected a list"),
        ('[{"names": [1]}]', "expected a list of texts"),
        ('[{"names": ["a"]}, {"names": ["a"]}]', "maps the name 'a' twice"),
    ],
)
def test_damaged_name_mappings(text, expected):
    with pytest.raises(FormatError, match=expected):
        table_name_mapping({"schema.name-mapping.default": text})
