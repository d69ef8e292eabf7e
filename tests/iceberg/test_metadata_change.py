"""Changes of an Iceberg table's metadata: the updates of new columns, properties and versions."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema as TheirSchema
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.table.name_mapping import create_mapping_from_schema

from delvec.detect import open_table
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg.field_ids import fresh_ids
from delvec.iceberg.mapping_update import covering_mapping
from delvec.iceberg.metadata_change import state_after, updates_of
from delvec.iceberg.new_columns import iceberg_schema
from delvec.iceberg.schema import parse_schema
from delvec.iceberg.schema_json import render_schema
from delvec.row_delta import MetadataChange, Verb
from delvec.schema import Array, Decimal, Field, Map, Primitive, Struct, char
from iceberg_tables import IcebergWriter

INT, LONG, STRING = Primitive("integer"), Primitive("long"), Primitive("string")
ID = Field("id", LONG)
MAPPING = "schema.name-mapping.default"


@pytest.fixture
def table_of(tmp_path):
    def create(*columns, version=3, properties=None):
        columns = columns or (("id", pa.int64()),)
        writer = IcebergWriter(tmp_path / "t", pa.schema(columns), format_version=version)
        if properties:
            writer.set_properties(properties)
        return writer

    return create


def snapshot(writer):
    return open_table(str(writer.root)).snapshot()


def grown(writer, *fields):
    return MetadataChange(schema=Struct((*snapshot(writer).schema, *fields)))


def updates(writer, change=None, **options):
    return updates_of(snapshot(writer).metadata, change, **options)


def test_nothing_changes(table_of):
    writer = table_of()
    assert updates(writer) == updates(writer, MetadataChange()) == updates(writer, grown(writer)) == []
    assert updates(writer, adds_files=True) == []


def test_new_columns(table_of):
    writer = table_of()
    inner = Struct((Field("x", INT), Field("y", Array(STRING))))
    new = (Field("s", inner), Field("m", Map(STRING, char(3))), Field("b", Primitive("byte")))
    added, current = updates(writer, grown(writer, *new))
    assert current == {"action": "set-current-schema", "schema-id": -1}
    assert (added["action"], added["schema"]["schema-id"], added["last-column-id"]) == ("add-schema", 1, 9)
    assert [(field["id"], field["name"]) for field in added["schema"]["fields"]] == [
        (1, "id"),
        (2, "s"),
        (6, "m"),
        (9, "b"),
    ]
    struct, mapping = added["schema"]["fields"][1]["type"], added["schema"]["fields"][2]["type"]
    assert [field["id"] for field in struct["fields"]] == [3, 4]
    assert struct["fields"][1]["type"]["element-id"] == 5
    assert mapping == {
        "type": "map",
        "key-id": 7,
        "key": "string",
        "value-id": 8,
        "value": "string",
        "value-required": False,
    }
    assert added["schema"]["fields"][3]["type"] == "int"


def test_a_resolved_change_is_the_same_change(table_of):
    writer = table_of()
    change = grown(writer, Field("v", Array(STRING)))
    resolved = snapshot(writer).rules(Verb.APPEND, change).change
    assert [field.field_id for field in resolved.schema] == [1, 2]
    assert updates(writer, resolved) == updates(writer, change)


def test_ids_of_dropped_columns_are_not_used_again(table_of):
    writer = table_of(("id", pa.int64()), ("v", pa.string()))
    writer.drop_column("v")
    (added, _) = updates(writer, grown(writer, Field("w", STRING)))
    assert added["schema"]["fields"][-1]["id"] == added["last-column-id"] == 3
    with pytest.raises(InvalidOperationError, match="new column has the field id 2, expected one above 2"):
        updates(writer, grown(writer, Field("w", STRING, field_id=2)))


def test_an_identical_schema_is_used_again(table_of):
    writer = table_of(("id", pa.int32()))
    writer.promote_column("id", "long")
    writer.edit_metadata = lambda metadata: {**metadata, "current-schema-id": 0}
    writer.write_metadata()
    change = MetadataChange(schema=Struct((ID,)))
    assert updates(writer, change) == [{"action": "set-current-schema", "schema-id": 1}]


def test_promotions(table_of):
    columns = [("i", pa.int32()), ("f", pa.float32()), ("d", pa.decimal128(5, 2)), ("t", pa.date32())]
    writer = table_of(*columns)
    kinds = (LONG, Primitive("double"), Decimal(9, 2), Primitive("timestamp_ntz"))
    schema = Struct(tuple(Field(name, kind) for (name, _), kind in zip(columns, kinds, strict=True)))
    added, _ = updates(writer, MetadataChange(schema=schema))
    assert [(field["id"], field["type"]) for field in added["schema"]["fields"]] == [
        (1, "long"),
        (2, "double"),
        (3, "decimal(9, 2)"),
        (4, "timestamp"),
    ]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (Field("id", INT), "column id is of type integer, expected long as in the table"),
        (Field("id", Primitive("double")), "column id is of type double, expected long"),
        (Field("id", STRING), "column id is of type string, expected long"),
        (Field("id", LONG, nullable=False), "column id cannot become NOT NULL"),
        (Field("other", LONG), "column id is missing in the new schema"),
    ],
)
def test_changes_that_are_refused(table_of, field, message):
    with pytest.raises(InvalidOperationError, match=message):
        updates(table_of(), MetadataChange(schema=Struct((field,))))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (Field("v", LONG, nullable=False), "new column v is NOT NULL, expected nullable"),
        (Field("", LONG), "column '' has an empty name"),
        (Field("v", Struct((Field("a", INT), Field("A", INT)))), r"column 'v.A' appears twice \(as 'v.a'\)"),
    ],
)
def test_new_columns_that_are_refused(table_of, field, message):
    writer = table_of()
    with pytest.raises(InvalidOperationError, match=message):
        updates(writer, grown(writer, field))


@pytest.mark.parametrize(
    ("field", "feature"),
    [
        (Field("v", LONG, metadata={"CURRENT_DEFAULT": "3"}), "column default"),
        (Field("_ROW_ID", LONG), "column _ROW_ID"),
    ],
)
def test_new_columns_that_delvec_cannot_add(table_of, field, feature):
    writer = table_of()
    with pytest.raises(UnsupportedFeatureError) as found:
        updates(writer, grown(writer, field))
    assert found.value.feature == feature


def test_names_that_dots_confuse(table_of):
    writer = table_of(("s", pa.struct([("x", pa.int32())])))
    with pytest.raises(InvalidOperationError, match=r"column 's\.x' appears twice"):
        updates(writer, grown(writer, Field("s.x", LONG)))


@pytest.mark.parametrize("name", ["variant", "void", "timestamp_ns"])
def test_types_of_version_3(table_of, name):
    writer = table_of(version=2)
    with pytest.raises(UnsupportedFeatureError, match="needs format version 3") as found:
        updates(writer, grown(writer, Field("v", Primitive(name))))
    assert found.value.feature == f"type {name}"
    change = MetadataChange(grown(writer, Field("v", Primitive(name))).schema, {"format-version": "3"})
    assert [update["action"] for update in updates(writer, change)][:2] == [
        "upgrade-format-version",
        "add-schema",
    ]


def test_members_that_delvec_does_not_know_stay(table_of):
    writer = table_of()

    def edit(metadata):
        for schema in metadata["schemas"]:
            schema["identifier-field-ids"] = [1]
            schema["fields"][0] |= {"future": [1], "doc": "the key", "required": True}
        return metadata

    writer.edit_metadata = edit
    writer.write_metadata()
    added, _ = updates(writer, grown(writer, Field("v", LONG, metadata={"comment": "new", "other": 1})))
    assert added["schema"]["identifier-field-ids"] == [1]
    assert added["schema"]["fields"] == [
        {"future": [1], "doc": "the key", "id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "v", "required": False, "type": "long", "doc": "new"},
    ]


def test_properties(table_of):
    writer = table_of(properties={"a": "1", "b": "2", "c": "3"})
    change = MetadataChange(properties={"a": None, "b": "2", "c": "4", "d": "5", "none": None})
    assert updates(writer, change) == [
        {"action": "set-properties", "updates": {"c": "4", "d": "5"}},
        {"action": "remove-properties", "removals": ["a"]},
    ]
    for properties, message in [
        ({"uuid": "x"}, "property uuid is reserved"),
        ({"a": 1}, "property a is 1, expected a string"),
        ({"write.metadata.compression-codec": "zstd"}, "compression-codec is 'zstd', expected none or gzip"),
        (
            {"commit.manifest.min-count-to-merge": "few"},
            "min-count-to-merge is 'few', expected a whole number",
        ),
        ({"commit.manifest.target-size-bytes": "8MB"}, "target-size-bytes is '8MB', expected a whole number"),
        (
            {"history.expire.max-snapshot-age-ms": "5d"},
            "snapshot-age-ms is '5d', expected a whole number, 0 or",
        ),
        ({"history.expire.min-snapshots-to-keep": "0"}, "to-keep is '0', expected a whole number, 1 or more"),
        (
            {"history.expire.max-ref-age-ms": "-1"},
            "max-ref-age-ms is '-1', expected a whole number, 0 or more",
        ),
        ({"write.target-file-size-bytes": "0"}, "file-size-bytes is '0', expected a whole number, 1 or more"),
    ]:
        with pytest.raises(InvalidOperationError, match=message):
            updates(writer, MetadataChange(properties=properties))


def test_upgrades(table_of):
    writer = table_of(version=1)
    for version in (2, 3, 4):
        change = MetadataChange(properties={"format-version": str(version)})
        expected = [{"action": "upgrade-format-version", "format-version": version}]
        assert updates(writer, change) == expected


@pytest.mark.parametrize("text", ["5", "1", "three", None])
def test_versions_that_cannot_be_written(table_of, text):
    with pytest.raises(UnsupportedFeatureError, match=r"format-version is .*, expected 2, 3 or 4"):
        updates(table_of(), MetadataChange(properties={"format-version": text}))


def test_a_table_gets_no_older_version(table_of):
    with pytest.raises(InvalidOperationError, match="format-version is 2, expected 3 or more"):
        updates(table_of(), MetadataChange(properties={"format-version": "2"}))
    assert updates(table_of(), MetadataChange(properties={"format-version": "3"})) == []


def mapping_of(found):
    return json.loads(found[-1]["updates"][MAPPING])


def test_files_of_tables_with_lists_need_a_name_mapping(table_of):
    struct = pa.struct([("x y", pa.map_(pa.string(), pa.list_(pa.int32())))])
    writer = table_of(("id", pa.int64()), ("s", struct))
    assert updates(writer) == []
    found = mapping_of(updates(writer, adds_files=True))
    assert found[2:] == [
        {"field-id": 2147483540, "names": ["_row_id"]},
        {"field-id": 2147483539, "names": ["_last_updated_sequence_number"]},
    ]
    schema = TheirSchema.model_validate(snapshot(writer).metadata.raw["schemas"][0])
    assert found[:2] == json.loads(create_mapping_from_schema(schema).model_dump_json())


def test_no_lineage_in_the_mapping_of_version_2(table_of):
    writer = table_of(("t", pa.list_(pa.string())), version=2)
    found = mapping_of(updates(writer, adds_files=True))
    assert found == [{"field-id": 1, "names": ["t"], "fields": [{"field-id": 2, "names": ["element"]}]}]


def test_a_name_mapping_is_kept_true(table_of):
    old = [{"field-id": 1, "names": ["id", "key"], "other": 1}, {"field-id": 9, "names": ["gone"]}]
    writer = table_of(properties={MAPPING: json.dumps(old)})
    found = mapping_of(updates(writer, grown(writer, Field("v", LONG))))
    assert found[:3] == [*old, {"field-id": 2, "names": ["v"]}]
    writer.rename_column("id", "name")
    found = mapping_of(updates(writer, grown(writer, Field("v", LONG))))
    assert found[0] == {"field-id": 1, "names": ["id", "key", "name"], "other": 1}


def test_a_name_of_another_column_is_refused(table_of):
    old = [{"field-id": 1, "names": ["id"]}, {"field-id": 7, "names": ["v"]}]
    writer = table_of(properties={MAPPING: json.dumps(old)})
    with pytest.raises(
        UnsupportedFeatureError, match="has the name 'v' for the field id 7, expected 2"
    ) as found:
        updates(writer, grown(writer, Field("v", LONG)))
    assert found.value.feature == "reused column name"


def test_a_mapping_that_does_not_cover_a_column_is_extended_or_refused(table_of):
    writer = table_of(("id", pa.int64()), ("t", pa.list_(pa.string())))
    writer.set_properties({MAPPING: json.dumps([{"field-id": 1, "names": ["id"]}])})
    assert [item["field-id"] for item in mapping_of(updates(writer, adds_files=True))][:2] == [1, 2]
    writer.set_properties({MAPPING: json.dumps([{"field-id": 1, "names": ["id", "t"]}])})
    with pytest.raises(UnsupportedFeatureError, match="the name 't' for the field id 1, expected 2"):
        snapshot(writer).rules(Verb.APPEND)


def test_ids_of_new_tables_are_those_of_pyiceberg():
    schema = Struct(
        (
            Field(
                "s", Struct((Field("x", Map(INT, Array(Struct((Field("z", LONG),))))), Field("y", STRING)))
            ),
            Field("a", Array(Array(LONG))),
            Field("id", LONG, nullable=False),
        )
    )
    found, last = fresh_ids(schema)
    rendered = render_schema(found, schema_id=0)
    theirs = assign_fresh_schema_ids(TheirSchema.model_validate(rendered))
    assert last == 11
    assert json.loads(theirs.model_dump_json())["fields"] == rendered["fields"]
    assert parse_schema(rendered) == found


def test_schemas_of_new_tables():
    schema = Struct(
        (Field("b", Primitive("short")), Field("c", Array(char(2))), Field("v", Primitive("void")))
    )
    found = iceberg_schema(schema, 3)
    assert [str(field.type) for field in found] == ["integer", "array<string>", "void"]
    assert render_schema(fresh_ids(found)[0], schema_id=0)["fields"][2]["type"] == "unknown"


def test_damaged_mappings_are_refused():
    with pytest.raises(Exception, match="expected a list"):
        covering_mapping({MAPPING: "{}"}, Struct((ID,)), lineage=False)


def test_state_without_a_change(table_of):
    metadata = snapshot(table_of()).metadata
    assert state_after(metadata, None).schema is metadata.schema
