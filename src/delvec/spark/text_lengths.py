"""Columns of type ``char(n)`` and ``varchar(n)``: padding and length checks that Spark does not do for
delvec.

When Spark reads files, it pads ``char`` values and compares them as padded (`types.column_metadata`). A
session setting turns these columns into plain strings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from delvec.schema import Array, DataType, Map, Schema, Struct, Text, has_length, varchar
from delvec.spark.types import column_metadata, quoted

_AS_STRING = "spark.sql.legacy.charVarcharAsString"
_PAD_ON_READ = "spark.sql.readSideCharPadding"
_CHAR_AS_VARCHAR = "spark.sql.charAsVarchar"


def are_strings(spark: SparkSession) -> bool:
    """Whether the session treats ``char`` and ``varchar`` as plain strings."""
    return _is_on(spark, _AS_STRING, "false")


def as_read(spark: SparkSession, column: Column, data_type: DataType) -> Column:
    """The value with ``char`` padded, as if Spark read it from a file."""
    if are_strings(spark) or not _is_on(spark, _PAD_ON_READ, "true"):
        return column
    return padded(column, data_type)


def with_padding(frame: DataFrame, schema: Schema) -> DataFrame:
    """Rows to be written, with padded ``char`` values, as Spark's own tables store them.

    Some engines store the values unpadded, but their UPDATE and DELETE find only padded values.
    """
    fields = {field.name: field for field in schema if has_length(field.type)}
    if not fields or are_strings(frame.sparkSession):
        return frame
    columns = [F.col(quoted(name)) for name in frame.columns]
    for index, name in enumerate(frame.columns):
        if name in fields:
            column = padded(columns[index], fields[name].type)
            columns[index] = column.alias(name, metadata=column_metadata(fields[name]))
    return frame.select(*columns)


def padded(column: Column, data_type: DataType) -> Column:
    """The value with each ``char`` in it padded with spaces to its declared length."""
    if _without_char(data_type) == data_type:
        return column
    match data_type:
        case Text(length=length):
            return F.when(F.length(column) < length, F.rpad(column, length, " ")).otherwise(column)
        case Array(element):
            return F.transform(column, lambda item: padded(item, element))
        case Map(key, value):
            column = F.transform_keys(column, lambda item, _: padded(item, key))
            return F.transform_values(column, lambda _, item: padded(item, value))
        case Struct(fields):
            parts = [padded(column[field.name], field.type).alias(field.name) for field in fields]
            return F.when(column.isNotNull(), F.struct(*parts))
    return column


def as_created(spark: SparkSession, schema: Schema) -> Schema:
    """The schema of a new table. A session setting can replace ``char`` by ``varchar``."""
    if not (has_length(schema) and _is_on(spark, _CHAR_AS_VARCHAR, "false")):
        return schema
    changed = _without_char(schema)
    assert isinstance(changed, Struct)
    return changed


def fits(column: Column, data_type: DataType) -> Column:
    """Whether no string in the value is longer than its declared length."""
    match data_type:
        case Text():
            return column.isNull() | (F.length(column) <= data_type.length)
        case Array(element):
            return column.isNull() | F.forall(column, lambda item: fits(item, element))
        case Map(key, value):
            parts = ((F.map_keys(column), key), (F.map_values(column), value))
            conditions = [F.forall(part, _test(kind)) for part, kind in parts if has_length(kind)]
        case Struct(fields):
            conditions = [fits(column[field.name], field.type) for field in fields if has_length(field.type)]
        case _:
            conditions = []
    return column.isNull() | reduce(and_, conditions, F.lit(True))  # noqa: FBT003


def _test(data_type: DataType) -> Callable[[Column], Column]:
    return lambda item: fits(item, data_type)


def _without_char(data_type: DataType) -> DataType:
    match data_type:
        case Text():
            return varchar(data_type.length)
        case Array(element):
            return replace(data_type, element=_without_char(element))
        case Map(key, value):
            return replace(data_type, key=_without_char(key), value=_without_char(value))
        case Struct(fields):
            return Struct(tuple(replace(field, type=_without_char(field.type)) for field in fields))
    return data_type


def _is_on(spark: SparkSession, name: str, default: str) -> bool:
    return str(spark.conf.get(name, default)).lower() == "true"
