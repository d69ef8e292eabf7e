"""The schema as the log has it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from delta_log import column, schema_json
from delvec.delta.schema import PRIMITIVES, parse_schema
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.schema import Array, Decimal, Map, Primitive, Struct, arrow_type

PRIMITIVE_NAMES = sorted(PRIMITIVES)


@pytest.mark.parametrize("name", [*PRIMITIVE_NAMES, "decimal(10,2)", "decimal(38,38)"])
def test_every_primitive_type(name: str) -> None:
    (field,) = parse_schema(schema_json(column("a b", name, nullable=False)))
    assert (field.name, str(field.type), field.nullable, field.physical_name) == ("a b", name, False, "a b")
    arrow_type(field.type)


def test_nested_types() -> None:
    inner = {"type": "struct", "fields": [column("x", "integer"), column("y", "decimal(5,1)")]}
    array = {"type": "array", "elementType": inner, "containsNull": False}
    mapping = {"type": "map", "keyType": "string", "valueType": array, "valueContainsNull": True}
    (field,) = parse_schema(schema_json(column("m", mapping)))
    assert isinstance(field.type, Map)
    assert field.type.key == Primitive("string")
    assert isinstance(field.type.value, Array)
    assert not field.type.value.contains_null
    assert isinstance(field.type.value.element, Struct)
    assert [f.type for f in field.type.value.element] == [Primitive("integer"), Decimal(5, 1)]
    assert arrow_type(field.type).item_type.value_type == pa.struct(
        [("x", pa.int32()), ("y", pa.decimal128(5, 1))]
    )


def mapped(name: str, kind: Any, number: int) -> dict[str, Any]:
    ids = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return column(name, kind, metadata=ids)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_at_every_depth(mode: str) -> None:
    inner = {"type": "struct", "fields": [mapped("x", "integer", 2)]}
    (field,) = parse_schema(schema_json(mapped("s", inner, 1)), mapping=mode)
    assert (field.physical_name, field.field_id) == ("col-1", 1)
    assert isinstance(field.type, Struct)
    (child,) = field.type
    assert (child.name, child.physical_name, child.field_id) == ("x", "col-2", 2)


def test_without_the_mode_the_mapping_of_a_column_is_not_used() -> None:
    (field,) = parse_schema(schema_json(mapped("s", "long", 1)))
    assert field.physical_name == "s"


def test_mapping_without_a_physical_name_is_refused() -> None:
    with pytest.raises(FormatError, match=r"physicalName of column s is None, expected a name"):
        parse_schema(schema_json(column("s", "long")), mapping="name")


def test_mapping_by_id_without_an_id_is_refused() -> None:
    named = column("s", "long", metadata={"delta.columnMapping.physicalName": "c"})
    with pytest.raises(FormatError, match=r"columnMapping.id of column s is None, expected a number"):
        parse_schema(schema_json(named), mapping="id")


@pytest.mark.parametrize(
    ("field", "collated"),
    [
        (column("s", "string"), False),
        (column("s", "string", metadata={"__COLLATIONS": {"s": "spark.UTF8_LCASE"}}), True),
        (column("s", "string collate UNICODE_CI"), True),
        (column("s", "string", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}), True),
        (column("s", "string", metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}), False),
    ],
)
def test_columns_that_do_not_compare_byte_by_byte_are_marked(field: dict[str, Any], collated: bool) -> None:
    (found,) = parse_schema(schema_json(field))
    assert found.collated is collated


def widened(old: str, new: str, **more: str) -> dict[str, Any]:
    return column("w", new, metadata={"delta.typeChanges": [{"fromType": old, "toType": new, **more}]})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("byte", "long"),
        ("short", "integer"),
        ("integer", "double"),
        ("float", "double"),
        ("date", "timestamp_ntz"),
        ("integer", "decimal(12,2)"),
        ("long", "decimal(20,0)"),
        ("decimal(10,2)", "decimal(12,4)"),
    ],
)
def test_widenings_that_are_read(old: str, new: str) -> None:
    (field,) = parse_schema(schema_json(widened(old, new)))
    assert [str(found) for found in field.widened_from] == [old]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long", "integer"),
        ("string", "long"),
        ("long", "double"),
        ("decimal(10,2)", "decimal(10,4)"),
        ("date", "timestamp"),
    ],
)
def test_other_type_changes_are_refused_by_name(old: str, new: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"column w changed its type from") as caught:
        parse_schema(schema_json(widened(old, new)))
    assert old in str(caught.value)


def test_a_change_inside_an_array_is_verified_too() -> None:
    with pytest.raises(UnsupportedFeatureError):
        parse_schema(schema_json(widened("string", "long", fieldPath="element")))


def test_an_unknown_type_is_refused_by_name_and_column() -> None:
    inner = {"type": "struct", "fields": [column("g", "geometry")]}
    with pytest.raises(UnsupportedFeatureError, match=r"type of s\.g is geometry"):
        parse_schema(schema_json(column("s", inner)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"long"',
        '{"type":"struct"}',
        '{"type":"struct","fields":[{}]}',
        '{"type":"struct","fields":[{"name":"a"}]}',
        '{"type":"struct","fields":[{"name":"a","type":{"type":"list"}}]}',
        '{"type":"struct","fields":[{"name":"a","type":"decimal(99,2)"}]}',
        json.dumps({"type": "struct", "fields": [column("a", "long") | {"metadata": [1]}]}),
    ],
)
def test_a_broken_schema_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_schema(text)
