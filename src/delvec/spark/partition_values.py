"""Partition values of new rows: computed by Spark, carried by the names of staging folders, typed in the
driver.

The text in a folder's name is delvec's own and independent of session settings: a number for dates (days) and
timestamps (microseconds); for strings a mark and the string, for bytes the mark and hexadecimal digits. So
the empty string differs from null, and no string can be mistaken for Spark's name of the null folder.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delvec.errors import UnsupportedFeatureError
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.row_delta import WriteRules
from delvec.schema import DataType, Decimal, Primitive, Schema, Struct, arrow_type, is_string
from delvec.spark.byte_buckets import bucket, is_by_bytes, preparation
from delvec.spark.row_checks import violation
from delvec.spark.scan import own_prefix
from delvec.spark.transforms import micros, partition_value, source_column
from delvec.transforms import VOID

_MARK = "v"
"""Starts the text of a string, so that it is neither empty nor the name of Spark's folder for null."""


def with_hashes(frame: DataFrame, rules: WriteRules) -> DataFrame:
    """The rows of the table with the columns that `partition_texts` needs in addition."""
    steps = [
        preparation(source_column(field), source, name)
        for name, field in _fields(rules)
        if is_by_bytes(field, source := _source_type(rules.schema, field))
    ]
    for columns in zip(*steps, strict=True):
        frame = frame.selectExpr("*", *columns)
    return frame


def partition_texts(rules: WriteRules) -> list[Column]:
    """The partition values of a row of `with_hashes`, as texts: one for each field of the spec."""
    return [_text(field, rules, name) for name, field in _fields(rules)]


def _fields(rules: WriteRules) -> list[tuple[str, PartitionField]]:
    """The fields of the spec, each with a name that begins no column of the table."""
    prefix = own_prefix(rules.schema)
    return [(f"{prefix}hash{number}", field) for number, field in enumerate(rules.spec.fields)]


def typed_values(spec: PartitionSpec, texts: Sequence[Sequence[str | None]]) -> pa.StructArray:
    """The partition values that ``texts`` state, which has one row for each file."""
    if not spec.fields:
        return pa.array([{}] * len(texts), pa.struct([]))
    columns = [
        _typed([row[position] for row in texts], field.type) for position, field in enumerate(spec.fields)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(spec.value_type))


def _text(field: PartitionField, rules: WriteRules, name: str) -> Column:
    if field.transform == VOID:
        return F.lit(None).cast("string")
    source = _source_type(rules.schema, field)
    if is_by_bytes(field, source):
        return F.expr(f"CAST({bucket(name, field.transform.width or 0)} AS STRING)")
    value = partition_value(field, source)
    match field.type:
        case _ if is_string(field.type):
            return _string_text(value, field, rules)
        case Primitive("binary"):
            return F.expr(f"concat('{_MARK}', hex({value}))")
        case Primitive("date"):
            return F.expr(f"CAST(unix_date({value}) AS STRING)")
        case Primitive("timestamp" | "timestamp_ntz"):
            return F.expr(f"CAST({micros(value, field.type)} AS STRING)")
        case Decimal() | Primitive("byte" | "short" | "integer" | "long" | "float" | "double" | "boolean"):
            return F.expr(f"CAST({value} AS STRING)")
    raise UnsupportedFeatureError(
        f"rows cannot be partitioned by {field}, which is of type {field.type}", feature=f"type {field.type}"
    )


def _string_text(value: str, field: PartitionField, rules: WriteRules) -> Column:
    text = f"nullif({value}, '')" if rules.empty_partition_is_null else value
    marked = F.expr(f"concat('{_MARK}', {text})")
    reserved = rules.refused_partition_text
    if reserved is None:
        return marked
    message = f"partition column {field.name} has the value {reserved!r}, which means null in a partition"
    failure = F.raise_error(F.lit(violation(message))).cast("string")
    return F.when(F.expr(value) == reserved, failure).otherwise(marked)


def _source_type(schema: Schema, field: PartitionField) -> DataType:
    data_type: DataType = schema
    for name in field.source:
        assert isinstance(data_type, Struct)
        data_type = next(inner.type for inner in data_type if inner.name == name)
    return data_type


def _typed(texts: Sequence[str | None], data_type: DataType) -> pa.Array:
    parse = _parser(data_type)
    values = [None if text is None else parse(text) for text in texts]
    if data_type == Primitive("date"):
        return pa.array(values, pa.int32()).cast(pa.date32())
    if data_type in (Primitive("timestamp"), Primitive("timestamp_ntz")):
        return pa.array(values, pa.int64()).cast(arrow_type(data_type))
    return pa.array(values, arrow_type(data_type))


def _parser(data_type: DataType) -> Callable[[str], Any]:
    match data_type:
        case _ if is_string(data_type):
            return lambda text: text.removeprefix(_MARK)
        case Primitive("binary"):
            return lambda text: bytes.fromhex(text.removeprefix(_MARK))
        case Primitive("float" | "double"):
            return float
        case Primitive("boolean"):
            return lambda text: text == "true"
        case Decimal():
            return decimal.Decimal
    return int
