"""Values of columns as data files store them, as SQL expressions for the table's values.

A cast renames the fields of structs and widens types. The value is built field by field where a cast cannot:

    where a struct in the file lacks a field that has an initial default, or has a field that was dropped
    where a type is stored in a form that Spark cannot cast: a uuid is 16 bytes and shown as text
    where a field has the type ``void``, which is in no file
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from delvec.errors import FormatError
from delvec.field_names import is_absent
from delvec.file_facts import ColumnPath
from delvec.schema import Array, DataType, Decimal, Field, Fixed, Map, Primitive, Struct, arrow_type
from delvec.spark.file_paths import sql_text
from delvec.spark.types import quoted, spark_field, spark_type, type_text

_UUID, _VOID = Primitive("uuid"), Primitive("void")
_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
_EPOCH = dt.datetime(1970, 1, 1)


def is_cast(field: Field, stored: Field) -> bool:
    """Whether a cast turns the file's values into those of the table; ``stored`` is the field in the file."""
    has_default = is_absent(stored) and field.initial_default is not None
    return not has_default and _is_cast(field.type, stored.type)


def _is_cast(data_type: DataType, stored: DataType) -> bool:
    match data_type, stored:
        case Struct(fields), Struct(others):
            return len(fields) == len(others) and all(
                field.name == other.name and is_cast(field, other)
                for field, other in zip(fields, others, strict=True)
            )
        case Array(element), Array(other):
            return _is_cast(element, other)
        case Map(key, value), Map(other_key, other_value):
            return _is_cast(key, other_key) and _is_cast(value, other_value)
    return data_type not in (_UUID, _VOID)


def table_value(field: Field, stored: Field) -> str:
    """An expression for the table's value; ``stored`` is the field in the file."""
    if is_absent(stored):
        return default_value(field)
    return _value(quoted(stored.physical_name), field.type, stored.type)


def stored_value(stored: Field, path: ColumnPath) -> str:
    """An expression for the value as the file has it, or for its default; ``path``: of a field inside it."""
    value, in_file = quoted(stored.physical_name), not is_absent(stored)
    for name in path:
        if not in_file and stored.initial_default is None:
            return "NULL"
        assert isinstance(stored.type, Struct)
        (stored,) = stored.type.find(name, case_sensitive=True)
        value, in_file = f"{value}.{quoted(stored.physical_name)}", in_file and not is_absent(stored)
    return value if in_file else _raw_default(stored)


def _raw_default(field: Field) -> str:
    """The initial default in the form that files store."""
    kind = raw_type(field.type)
    if isinstance(field.type, Struct):
        return "NULL" if field.initial_default is None else "0"  # only compared with null
    if kind is None:
        return f"CAST({default_value(field)} AS {type_text(field.type)})"
    if field.initial_default is None:
        return f"CAST(NULL AS {kind.simpleString()})"
    value = pa.scalar(field.initial_default, arrow_type(field.type))
    if isinstance(kind, spark.BinaryType):
        return f"X'{value.as_py().hex()}'"
    return f"{value.cast(pa.int64()).as_py()}L"


def _value(value: str, data_type: DataType, stored: DataType, depth: int = 0) -> str:
    match data_type, stored:
        case _ if _is_cast(data_type, stored):
            return value
        case Struct(fields), Struct(others):
            return _struct(value, fields, {other.name: other for other in others}, depth)
        case Array(element), Array(other):
            one = f"e{depth}"
            return f"transform({value}, {one} -> {_value(one, element, other, depth + 1)})"
        case Map(key, item), Map(other_key, other_item):
            one = f"e{depth}"
            keys = f"transform(map_keys({value}), {one} -> {_value(one, key, other_key, depth + 1)})"
            items = f"transform(map_values({value}), {one} -> {_value(one, item, other_item, depth + 1)})"
            return f"map_from_arrays({keys}, {items})"
        case Primitive("uuid"), _:
            digits = f"lower(hex({value}))"
            parts = ", ".join(f"substr({digits}, {start}, {length})" for start, length in _UUID_PARTS)
            return f"if({value} IS NULL, NULL, concat_ws('-', {parts}))"
        case Primitive("void"), _:
            return "NULL"
    return value


def _struct(value: str, fields: Sequence[Field], stored: dict[str, Field], depth: int) -> str:
    parts = []
    for field in fields:
        other = stored[field.name]
        part = (
            default_value(field)
            if is_absent(other)
            else _value(f"{value}.{quoted(other.physical_name)}", field.type, other.type, depth)
        )
        parts.append(f"{sql_text(field.name)}, CAST({part} AS {type_text(field.type)})")
    return f"if({value} IS NULL, NULL, named_struct({', '.join(parts)}))"


def default_value(field: Field) -> str:
    """An expression for the value of a field that a file does not have: its initial default, or null."""
    if field.initial_default is None:
        return "NULL"
    return _literal(field.initial_default, field.type, field.name)


def _literal(value: Any, data_type: DataType, name: str) -> str:
    if value is None:
        return "NULL"
    match data_type:
        case Struct(fields):  # each field has a default of its own
            parts = (f"{sql_text(f.name)}, CAST({default_value(f)} AS {type_text(f.type)})" for f in fields)
            return f"named_struct({', '.join(parts)})"
        case Array(element):
            items = ", ".join(_literal(item, element, name) for item in value)
            return f"CAST(array({items}) AS {type_text(data_type)})"
        case Map(key, item):
            pairs = value.items() if hasattr(value, "items") else value
            texts = [f"{_literal(k, key, name)}, {_literal(v, item, name)}" for k, v in pairs]
            return f"CAST(map({', '.join(texts)}) AS {type_text(data_type)})"
    try:
        typed = pa.scalar(value, arrow_type(data_type)).as_py()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise FormatError(
            f"initial default of column {name} is {value!r}, expected a value of type {data_type} ({error})"
        ) from None
    return _primitive(typed, data_type)


def _primitive(value: Any, data_type: DataType) -> str:
    match data_type, value:
        case Primitive("uuid"), bytes():
            return sql_text(str(uuid.UUID(bytes=value)))
        case (Primitive("binary") | Fixed(), bytes()):
            return f"X'{value.hex()}'"
        case Primitive("timestamp"), dt.datetime():
            return f"timestamp_micros({_micros(value.astimezone(dt.UTC).replace(tzinfo=None))}L)"
        case Primitive("timestamp_ntz"), dt.datetime():
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        case Primitive("date"), dt.date():
            return f"DATE '{value.isoformat()}'"
        case Decimal(), decimal.Decimal():
            return f"CAST({sql_text(format(value, 'f'))} AS {spark_type(data_type).simpleString()})"
        case Primitive("boolean"), bool():
            return str(value).upper()
    return f"CAST({sql_text(str(value))} AS {type_text(data_type)})"


def _micros(value: dt.datetime) -> int:
    return (value - _EPOCH) // dt.timedelta(microseconds=1)


def read_field(field: Field) -> spark.StructField:
    """The column as Spark reads it from a file, with the names in the file. It is null in other files."""
    if _is_spark(field.type):
        return spark_field(field, physical=True)
    return spark.StructField(field.physical_name, _read_type(field.type))


def _is_spark(data_type: DataType) -> bool:
    """Whether Spark reads the type under its own name."""
    match data_type:
        case Struct(fields):
            return all(_is_spark(field.type) for field in fields)
        case Array(element):
            return _is_spark(element)
        case Map(key, value):
            return _is_spark(key) and _is_spark(value)
    return raw_type(data_type) is None and data_type != _VOID


def _read_type(data_type: DataType) -> spark.DataType:
    match data_type:
        case Struct(fields):
            stored = [field for field in fields if field.type != _VOID]
            return spark.StructType([read_field(field) for field in stored])
        case Array(element):
            return spark.ArrayType(_read_type(element))
        case Map(key, value):
            return spark.MapType(_read_type(key), _read_type(value))
    return raw_type(data_type) or spark_type(data_type, physical=True)


def raw_type(data_type: DataType) -> spark.DataType | None:
    """The type under which Spark reads a column as it is stored, if Spark lacks the type itself."""
    match data_type:
        case Primitive("uuid") | Fixed():
            return spark.BinaryType()
        case Primitive("time" | "timestamp_ns" | "timestamp_ntz_ns"):
            return spark.LongType()
    return None
