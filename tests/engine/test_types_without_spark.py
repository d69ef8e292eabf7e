"""Columns of types that Spark does not have: refused by name where they are needed, and only there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from delvec import Table
from delvec.errors import UnsupportedFeatureError
from delvec.row_delta import Verb
from delvec.schema import Array, Field, Fixed, Primitive, Struct, arrow_type
from delvec.spark.scan import scan
from delvec.spark.types import from_spark, logical, parse_ddl, verify_spark_type
from delvec.spark.write_rows import write_rows
from delvec.storage import open_storage

TYPES = {
    "uuid": Primitive("uuid"),
    "time": Primitive("time"),
    "timestamp_ns": Primitive("timestamp_ns"),
    "timestamp_ntz_ns": Primitive("timestamp_ntz_ns"),
    "fixed(5)": Fixed(5),
    "array<uuid>": Array(Primitive("uuid")),
    "struct<x:fixed(2)>": Struct((Field("x", Fixed(2)),)),
}


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    return Table.create(spark, str(tmp_path_factory.mktemp("types") / "t"), spark.range(3).coalesce(1))


def widened(table, data_type):
    """A plan of the table with one more column, as a format with such a type would have it."""
    plan = table._table.snapshot().plan()
    schema = Struct((*plan.schema.fields, Field("odd", data_type)))
    shapes = tuple(replace(shape, schema=schema) for shape in plan.read_schemas)
    return replace(plan, schema=schema, read_schemas=shapes)


@pytest.mark.parametrize("name", ["time", "timestamp_ns", "timestamp_ntz_ns"])
def test_other_columns_can_be_read(spark, table, name):
    plan = widened(table, TYPES[name])
    frame = scan(spark, plan, open_storage(table.location))
    assert frame.columns == ["id", "odd"]
    assert frame.where("id > 0").select("id").count() == 2
    with pytest.raises(Exception, match=r"column odd is of type .*, which Spark cannot read or write"):
        frame.select("odd").collect()


@pytest.mark.parametrize("name", TYPES)
def test_such_a_column_is_not_written(spark, table, name):
    rules = replace(table._table.snapshot().rules(Verb.APPEND), schema=widened(table, TYPES[name]).schema)
    frame = spark.createDataFrame([], logical(rules.schema))
    with pytest.raises(UnsupportedFeatureError, match="column odd is of type") as error:
        write_rows(frame, open_storage(table.location), rules)
    assert error.value.feature == f"type {name}"


def test_every_type_has_a_text_and_an_arrow_type():
    assert [str(data_type) for data_type in TYPES.values()] == list(TYPES)
    for data_type in TYPES.values():
        arrow_type(data_type)


def test_all_types_of_spark_can_be_used():
    ddl = "a array<map<string, struct<x: timestamp_ntz>>>, b binary, v varchar(3), n decimal(5, 2)"
    for field in from_spark(parse_ddl(ddl)):
        verify_spark_type(field)
