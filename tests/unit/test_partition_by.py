"""The partitioning that users give as texts."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC as UNPARTITIONED
from pyiceberg.schema import Schema as TheirSchema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.transforms import parse_transform as their_transform
from pyiceberg.types import DateType, IntegerType, NestedField, StringType, StructType

from delvec.errors import InvalidOperationError
from delvec.partition_by import partition_fields
from delvec.schema import Field, Primitive, Struct
from delvec.transforms import IDENTITY, Transform

LONG, STRING, DATE = (Primitive(name) for name in ("long", "string", "date"))
SCHEMA = Struct(
    (
        Field("id", LONG),
        Field("ts", Primitive("timestamp")),
        Field("name", STRING),
        Field("d", DATE),
        Field("a", Struct((Field("b", Struct((Field("c", LONG), Field("x.y", STRING)))),))),
        Field("days(ts)", STRING),
        Field("a.b", STRING),
        Field("größe x", LONG),
        Field("v", Primitive("variant")),
        Field("n_bucket", LONG),
        Field("n", LONG),
    )
)


def parsed(*texts):
    return [(f.name, f.source, str(f.transform), str(f.type)) for f in partition_fields(SCHEMA, texts)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id", ("id", ("id",), "identity", "long")),
        ("ID", ("id", ("id",), "identity", "long")),
        ("identity(id)", ("id", ("id",), "identity", "long")),
        ("bucket(16, id)", ("id_bucket", ("id",), "bucket[16]", "integer")),
        ("BUCKET( 16 ,id )", ("id_bucket", ("id",), "bucket[16]", "integer")),
        ("bucket(id, 16)", ("id_bucket", ("id",), "bucket[16]", "integer")),
        ("truncate(4, name)", ("name_trunc", ("name",), "truncate[4]", "string")),
        ("truncate(name, 4)", ("name_trunc", ("name",), "truncate[4]", "string")),
        ("days(`ts`)", ("ts_day", ("ts",), "day", "date")),
        ("day(TS)", ("ts_day", ("ts",), "day", "date")),
        ("years(ts)", ("ts_year", ("ts",), "year", "integer")),
        ("Month(d)", ("d_month", ("d",), "month", "integer")),
        ("hours(ts)", ("ts_hour", ("ts",), "hour", "integer")),
        ("date_hour(ts)", ("ts_hour", ("ts",), "hour", "integer")),
        ("date(ts)", ("ts_day", ("ts",), "day", "date")),
        ("bucket(2, größe x)", ("größe x_bucket", ("größe x",), "bucket[2]", "integer")),
        ("größe x", ("größe x", ("größe x",), "identity", "long")),
        ("`größe x`", ("größe x", ("größe x",), "identity", "long")),
        ("a.b.c", ("a.b.c", ("a", "b", "c"), "identity", "long")),
        ("A . `b`.c", ("a.b.c", ("a", "b", "c"), "identity", "long")),
        ("bucket(3, a.b.`x.y`)", ("a.b.x.y_bucket", ("a", "b", "x.y"), "bucket[3]", "integer")),
        ("a.b", ("a.b", ("a.b",), "identity", "string")),  # the name of a column
        ("days(ts)", ("days(ts)", ("days(ts)",), "identity", "string")),
    ],
)
def test_forms(text, expected):
    assert parsed(text) == [expected]


def test_several():
    assert [name for name, *_ in parsed("days( ts)", "bucket(4,id)", "name")] == [
        "ts_day",
        "id_bucket",
        "name",
    ]
    assert partition_fields(SCHEMA, []) == ()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["gone"], "partition column 'gone' is not in the schema, expected one of id, ts"),
        (["a.z"], r"'a\.z' has the column 'z', expected one of a: b$"),
        (["id.z"], r"'id\.z' has the column 'z', expected one of id: none"),
        (["day(gone)"], r"'day\(gone\)' has the column 'gone', expected one: id, ts"),
        (["zorder(id)"], "unknown transform zorder, expected a column, or years"),
        (["bucket(id)"], r"expected bucket\(N, column\) with a number of 1 to 2147483647"),
        (["bucket(0, id)"], r"expected bucket\(N, column\)"),
        (["bucket(-1, id)"], r"expected bucket\(N, column\)"),
        (["truncate(2147483648, name)"], r"expected truncate\(N, column\)"),
        (["bucket(2, id, name)"], "is invalid, expected a column, or years"),
        (["days()"], "is invalid, expected a column"),
        ([""], "is invalid, expected a column"),
        (["id,name"], "is invalid, expected a column"),
        (["`id"], "is invalid, expected a column"),
        (["hours(d)"], r"'hours\(d\)': partition transform hour is not defined for type date"),
        (["truncate(4, ts)"], "is not defined for type timestamp"),
        (["bucket(4, a)"], "is not defined for type struct"),
        (["v"], "is of type variant, expected a primitive type"),
        (["a"], "is of type struct"),
        (["id", "ID"], "partition column 'id' is named twice, expected once"),
        (["bucket(2, id)", "bucket(2, id)"], "partition field 'id_bucket' is named twice"),
        (["bucket(2, id)", "bucket(4, id)"], "two partition fields have the name 'id_bucket'"),
        (["day(ts)", "hour(ts)"], r"partition field hours\(ts\) is redundant beside days\(ts\)"),
        (["bucket(2, n)"], "has the name 'n_bucket', which is also the name of a column"),
    ],
)
def test_refused(texts, message):
    schema = Struct(tuple(field for field in SCHEMA if "(" not in field.name and field.name != "a.b"))
    with pytest.raises(InvalidOperationError, match=message):
        partition_fields(schema, texts)


def test_types_are_found_where_a_type_is_not_a_struct():
    assert partition_fields(SCHEMA, ["a.b.c"])[0].transform is IDENTITY
    assert partition_fields(SCHEMA, ["day(d)"])[0].transform == Transform("day")


@pytest.mark.parametrize(
    ("text", "column", "transform"),
    [
        ("bucket(4, id)", "id", "bucket[4]"),
        ("truncate(4, s)", "s", "truncate[4]"),
        ("years(d)", "d", "year"),
        ("months(d)", "d", "month"),
        ("days(d)", "d", "day"),
        ("a.x", "a.x", "identity"),
    ],
)
def test_names_of_fields_as_pyiceberg_makes_them(text, column, transform):
    """Those of pyiceberg also have the number of buckets and the width of texts."""
    struct = StructType(NestedField(5, "x", IntegerType()))
    theirs = TheirSchema(
        NestedField(1, "id", IntegerType()),
        NestedField(2, "s", StringType()),
        NestedField(3, "d", DateType()),
        NestedField(4, "a", struct),
    )
    schema = Struct(
        (
            Field("id", Primitive("integer")),
            Field("s", STRING),
            Field("d", DATE),
            Field("a", Struct((Field("x", Primitive("integer")),))),
        )
    )
    metadata = TableMetadataV2(
        location="/t",
        last_column_id=5,
        schemas=[theirs],
        partition_specs=[UNPARTITIONED],
        properties={},
    )

    class Transaction:
        table_metadata = metadata
        _table = None

    found = UpdateSpec(Transaction()).add_field(column, their_transform(transform))._apply().fields[0].name
    number = transform.partition("[")[2].rstrip("]")
    assert partition_fields(schema, [text])[0].name == found.removesuffix(f"_{number}")
