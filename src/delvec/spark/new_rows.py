"""New rows in a table's columns: matched by name, in the table's order and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from delvec.errors import InvalidOperationError
from delvec.schema import Array, DataType, Field, Map, Schema, Struct
from delvec.spark.store_assignment import assigned
from delvec.spark.types import from_spark, quoted, spark_type

_WIDER: dict[str, tuple[str, ...]] = {
    "byte": ("short", "integer", "long"),
    "short": ("integer", "long"),
    "integer": ("long", "double"),
    "float": ("double",),
}


def conformed(
    frame: DataFrame,
    schema: Schema,
    *,
    extra: Sequence[str] = (),
    absent: Mapping[str, Column] | None = None,
) -> DataFrame:
    """The frame's rows in the table's columns. A column that the frame does not have gets its value from
    ``absent``, or else null. An unknown column is refused, except for the ``extra`` columns, which stay
    unchanged.
    """
    _verify_unique(frame.schema)
    frame_fields = {field.name.lower(): field for field in frame.schema}
    allowed = {field.name.lower() for field in schema} | {name.lower() for name in extra}
    for name in frame.columns:
        if name.lower() not in allowed:
            expected = ", ".join(field.name for field in schema)
            raise InvalidOperationError(f"unknown column {name!r} in the new rows, expected {expected}")
    columns = []
    for field in schema:
        source, data_type = frame_fields.get(field.name.lower()), spark_type(field.type)
        if source is None:
            column = (absent or {}).get(field.name, F.lit(None).cast(data_type))
        else:
            column = assigned(F.col(quoted(source.name)), source.dataType, data_type, field.name)
        columns.append(column.alias(field.name))
    return frame.select(*columns, *(F.col(quoted(name)) for name in extra))


def evolved(schema: Schema, rows: T.StructType) -> Schema:
    """The schema with the new rows' additional columns, also nested ones, and with their wider types."""
    _verify_unique(rows)
    merged = _merged(schema, from_spark(rows))
    assert isinstance(merged, Struct)
    return merged


def _merged(old: DataType, new: DataType) -> DataType:
    match old, new:
        case Struct(), Struct():
            return Struct(tuple(_merged_fields(old, new)))
        case Array(element), Array(other):
            return replace(old, element=_merged(element, other))
        case Map(key, value), Map(other_key, other):
            return replace(old, key=_merged(key, other_key), value=_merged(value, other))
    # A column gets the new type only if that is wider. The format decides whether the table allows it.
    return new if str(new) in _WIDER.get(str(old), ()) else old


def _merged_fields(old: Struct, new: Struct) -> list[Field]:
    new_fields = {field.name.lower(): field for field in new}
    fields = [
        replace(field, type=_merged(field.type, new_fields[field.name.lower()].type))
        if field.name.lower() in new_fields
        else field
        for field in old
    ]
    old_names = {field.name.lower() for field in old}
    # Existing rows have no value for a new column, so it is nullable.
    return fields + [replace(field, nullable=True) for field in new if field.name.lower() not in old_names]


def _verify_unique(rows: T.StructType) -> None:
    seen: set[str] = set()
    for name in rows.names:
        if name.lower() in seen:
            raise InvalidOperationError(f"column {name!r} appears twice in the new rows")
        seen.add(name.lower())
