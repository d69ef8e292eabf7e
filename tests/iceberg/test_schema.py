"""Iceberg's schema JSON: types, ids, defaults, comments."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid

import pyarrow as pa
import pytest

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.schema import field_ids, parse_schema
from delvec.schema import (
    Array,
    Decimal,
    Fixed,
    Geospatial,
    Map,
    Primitive,
    Struct,
    arrow_type,
)

LIST = {"type": "list", "element-id": 21, "element": "string", "element-required": True}
MAP = {
    "type": "map",
    "key-id": 21,
    "key": "string",
    "value-id": 22,
    "value": "int",
    "value-required": False,
}


def column(number, name, kind, *, required=False, **more):
    return {"id": number, "name": name, "required": required, "type": kind, **more}


def struct(*columns):
    return {"type": "struct", "fields": list(columns)}


def only(kind, **more):
    (field,) = parse_schema(struct(column(1, "c", kind, **more)))
    return field


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("boolean", Primitive("boolean")),
        ("int", Primitive("integer")),
        ("long", Primitive("long")),
        ("float", Primitive("float")),
        ("double", Primitive("double")),
        ("date", Primitive("date")),
        ("time", Primitive("time")),
        ("timestamp", Primitive("timestamp_ntz")),
        ("timestamptz", Primitive("timestamp")),
        ("timestamp_ns", Primitive("timestamp_ntz_ns")),
        ("timestamptz_ns", Primitive("timestamp_ns")),
        ("string", Primitive("string")),
        ("uuid", Primitive("uuid")),
        ("binary", Primitive("binary")),
        ("variant", Primitive("variant")),
        ("unknown", Primitive("void")),
        ("decimal(9,2)", Decimal(9, 2)),
        ("decimal(38, 0)", Decimal(38, 0)),
        ("fixed[16]", Fixed(16)),
        ("geometry", Geospatial("geometry")),
        ("geometry(srid:3857)", Geospatial("geometry", "srid:3857")),
        ("geography(OGC:CRS84, karney)", Geospatial("geography", "OGC:CRS84, karney")),
    ],
)
def test_types(kind, expected):
    field = only(kind)
    assert field.type == expected
    assert isinstance(arrow_type(field.type), pa.DataType)


def test_nested_types_have_ids():
    schema = parse_schema(
        struct(
            column(1, "l", LIST),
            column(2, "s", struct(column(3, "m", {**MAP, "key-id": 4, "value-id": 5}))),
        )
    )
    first, second = schema.fields
    assert first.type == Array(Primitive("string"), contains_null=False)
    assert first.type.element_id == 21
    (inner,) = second.type.fields
    assert inner.type == Map(Primitive("string"), Primitive("integer"), value_contains_null=True)
    assert (inner.type.key_id, inner.type.value_id) == (4, 5)
    assert sorted(field_ids(schema)) == [1, 2, 3, 4, 5, 21]


def test_required_and_comment():
    field = only("int", required=True, doc="the key", **{"write-default": 7})
    assert (field.nullable, field.comment, field.field_id) == (False, "the key", 1)
    assert field.metadata["write-default"] == 7
    assert field.initial_default is None  # the write default is for new rows only


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("boolean", True, True),
        ("int", 34, 34),
        ("long", -(2**63), -(2**63)),
        ("float", 1, 1.0),
        ("double", 1.5, 1.5),
        ("decimal(9,2)", "14.20", decimal.Decimal("14.20")),
        ("decimal(9,2)", "-7", decimal.Decimal(-7)),
        ("date", "2017-11-16", dt.date(2017, 11, 16)),
        ("time", "22:31:08.123456", dt.time(22, 31, 8, 123456)),
        ("timestamp", "2017-11-16T22:31:08.123456", dt.datetime(2017, 11, 16, 22, 31, 8, 123456)),
        ("timestamptz", "2017-11-16T22:31:08+00:00", dt.datetime(2017, 11, 16, 22, 31, 8, tzinfo=dt.UTC)),
        ("timestamp_ns", "1970-01-01T00:00:01.000000007", 1_000_000_007),
        ("timestamptz_ns", "1969-12-31T23:59:59.999999999+00:00", -1),
        ("string", "iceberg", "iceberg"),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", uuid.UUID("f79c3e09677c4bbda4793f349cb785e7").bytes),
        ("fixed[4]", "00010203", b"\x00\x01\x02\x03"),
        ("binary", "ff", b"\xff"),
        (LIST, ["a", "b"], ("a", "b")),
        (MAP, {"keys": ["a"], "values": [1]}, (("a", 1),)),
        (struct(column(31, "x", "int", **{"initial-default": 3}), column(32, "y", "int")), {}, (3, None)),
    ],
)
def test_initial_defaults(kind, text, value):
    field = only(kind, **{"initial-default": text})
    assert field.initial_default == value
    assert hash(field) is not None
    scalar = pa.scalar(field.initial_default, arrow_type(field.type))
    assert scalar.is_valid


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "34"),
        ("int", 2**31),
        ("int", True),
        ("long", 1.5),
        ("boolean", 1),
        ("decimal(4,2)", "1.234"),
        ("decimal(4,2)", "123.4"),
        ("decimal(4,2)", "NaN"),
        ("date", "yesterday"),
        ("date", 17),
        ("timestamp_ns", "2017-11-16"),
        ("timestamp_ns", "9999-01-01T00:00:00"),
        ("uuid", "f79c"),
        ("fixed[4]", "0001"),
        ("binary", "xyz"),
        ("variant", {}),
        ("unknown", 1),
        (struct(column(31, "x", "int")), {"31": 1}),
        (MAP, {"keys": ["a"]}),
        (LIST, 5),
    ],
)
def test_defaults_that_do_not_fit_are_refused(kind, text):
    with pytest.raises(FormatError, match=r"default of column c is .*, expected a value of type"):
        only(kind, **{"initial-default": text})


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ({"type": "list"}, "expected a struct with a list of fields"),
        (struct({"id": 1}), "name of an item of fields of schema is missing"),
        (struct(column("1", "a", "int")), "id of column a is '1', expected a number"),
        (struct({"id": 1, "name": "a", "type": "int"}), "required of column a is missing"),
        (struct(column(1, "a", "int"), column(1, "b", "int")), "field ids of schema have 1 twice"),
        (struct(column(1, "a", "int"), column(2, "a", "int")), "have 'a' twice"),
        (struct(column(1, "a", LIST), column(21, "b", "int")), "field ids of schema have 21 twice"),
        (struct(column(1, "a", "decimal(39,1)")), "expected 1 to 38 digits"),
        (struct(column(1, "a", {"type": "set"})), "expected struct, list or map"),
        (struct(column(1, "a", 5)), "type of a is 5, expected an object"),
        ("int", "schema is 'int', expected an object"),
    ],
)
def test_damaged_schemas(tree, problem):
    with pytest.raises(FormatError) as raised:
        parse_schema(tree)
    assert problem in str(raised.value)


def test_unknown_types_are_named():
    with pytest.raises(UnsupportedFeatureError, match="type of c is int256") as raised:
        only("int256")
    assert raised.value.feature == "type int256"


def test_deep_nesting_is_an_error_of_delvec():
    kind = "int"
    for number in range(400):
        kind = struct(column(number + 10, "x", kind))
    with pytest.raises(FormatError, match="nested more than 100 times"):
        only(kind)


def test_schema_is_a_struct_of_delvec():
    assert parse_schema(struct()) == Struct(())
