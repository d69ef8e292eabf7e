"""Partition values: texts in the log, typed columns in plans and deltas.

The log has a map from physical column name to text. The empty text and an absent key are NULL. Timestamps are
ISO 8601 with ``Z``, which delvec writes, or local times without a zone, which are read in the reader's time
zone. The names of folders have the same texts, except that timestamps are in the form of SQL, as those
without a zone are in the log.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.errors import FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.hive_folders import folder
from delvec.schema import DataType, Decimal, Field, Primitive, Schema, arrow_type

SPEC_ID = 0
"""The id of the only partition spec: the partitioning of a Delta table never changes."""


def partition_texts(maps: pa.ChunkedArray, physical_name: str) -> pa.ChunkedArray:
    """The text of one partition column for each file; null if the value is NULL."""
    chunks = [pc.map_lookup(chunk, physical_name, "first") for chunk in maps.chunks]
    texts = pa.chunked_array(chunks, pa.string())
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def partition_values(maps: pa.ChunkedArray, field: Field, *, time_zone: str = "UTC") -> pa.Array:
    """The typed values of one partition column. A text that is not a value of its type is refused."""
    texts = partition_texts(maps, field.physical_name)
    # Many files share few distinct values: parse each value once.
    encoded = texts.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    parse = _parser(field.type, time_zone)
    values = [_parsed(text, field, parse) for text in encoded.dictionary.to_pylist()]
    return pa.array(values, arrow_type(field.type)).take(encoded.indices)


def partition_maps(values: pa.ChunkedArray, fields: Sequence[Field]) -> list[dict[str, str | None]]:
    """The log's maps for files with these partition values, which are structs of ``fields``."""
    columns = [_texts(column, field) for column, field in _by_field(values, fields)]
    names = [field.physical_name for field in fields]
    return [dict(zip(names, row, strict=True)) for row in _rows(columns, len(values))]


def verify_partitions_writable(schema: Schema, names: Sequence[str]) -> None:
    """Refuse new rows in a table that is partitioned by a binary column."""
    for field in schema:
        if field.name in names and field.type == Primitive("binary"):
            raise UnsupportedFeatureError(
                f"partition column {field.name} is binary, which cannot be written",
                feature="binary partition",
            )


def partition_folders(schema: Schema, names: Sequence[str], values: pa.Array | pa.ChunkedArray) -> list[str]:
    """The folder, below the table's location, for each file with these partition values.

    ``names`` are the partition columns.
    """
    verify_partitions_writable(schema, names)
    by_name = {field.name: field for field in schema}
    fields = [by_name[name] for name in names]
    columns = [_texts(column, field, in_folder=True) for column, field in _by_field(values, fields)]
    return [
        "/".join(folder(field.physical_name, text) for field, text in zip(fields, row, strict=True))
        for row in _rows(columns, len(values))
    ]


def _rows(columns: Sequence[Sequence[str | None]], count: int) -> list[tuple[str | None, ...]]:
    return list(zip(*columns, strict=True)) if columns else [()] * count


def _by_field(values: pa.Array | pa.ChunkedArray, fields: Sequence[Field]) -> list[tuple[pa.Array, Field]]:
    """The partition values of each field; refused if they have other fields or types."""
    expected = pa.struct([pa.field(field.name, arrow_type(field.type)) for field in fields])
    if values.type != expected:
        raise InvalidOperationError(f"partition values of new files are {values.type}, expected {expected}")
    structs = one_chunk(values)
    return [(structs.field(position), field) for position, field in enumerate(fields)]


def _texts(values: pa.Array, field: Field, *, in_folder: bool = False) -> list[str | None]:
    """The texts of one field's values. The empty text is NULL for every reader of the log."""
    try:
        plain = values.to_pylist()
    except (ValueError, OverflowError) as error:
        raise InvalidOperationError(
            f"a partition value of column {field.name} cannot be written, expected a {field.type} "
            f"between the years 1 and 9999 ({error})"
        ) from None
    return [None if value is None else _text(value, field, in_folder=in_folder) or None for value in plain]


def _text(value: Any, field: Field, *, in_folder: bool) -> str:
    match field.type:
        case Primitive("boolean"):
            return "true" if value else "false"
        case Primitive("float"):
            return _float_text(str(np.float32(value)), float(np.float32(value)))
        case Primitive("double"):
            return _float_text(repr(value), value)
        case Decimal():
            return format(value, "f")
        case Primitive("timestamp") if not in_folder:
            return _timestamp_text(value, "T") + "Z"
        case Primitive("timestamp" | "timestamp_ntz"):
            return _timestamp_text(value, " ").rstrip("0").rstrip(".")
        case Primitive("binary"):
            return _decoded(value, field)
    return str(value)


def _timestamp_text(value: dt.datetime, separator: str) -> str:
    return value.replace(tzinfo=None).isoformat(sep=separator, timespec="microseconds")


def _decoded(value: bytes, field: Field) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidOperationError(
            f"a partition value of column {field.name} is {value!r}, expected UTF-8: the log has texts only"
        ) from None


def _float_text(shortest: str, exact: float) -> str:
    """The number as Java writes it, and so Spark and Delta: ``0.5``, ``1.0E10``, ``-Infinity``."""
    number = decimal.Decimal(shortest)
    if not number.is_finite():
        return "NaN" if number.is_nan() else ("-Infinity" if number < 0 else "Infinity")
    if number and len(number.normalize().as_tuple().digits) == 1:
        number = decimal.Decimal(f"{float(exact):.1e}")  # Java writes two digits at least: 4.9E-324
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    minus, digits_text = "-" * sign, "".join(map(str, digits)).rstrip("0")
    if not digits_text:
        return f"{minus}0.0"
    power = len(digits) - 1 + exponent
    if -3 <= power < 7:
        plain = format(decimal.Decimal((0, tuple(map(int, digits_text)), power - len(digits_text) + 1)), "f")
        return minus + (plain if "." in plain else f"{plain}.0")
    return f"{minus}{digits_text[0]}.{digits_text[1:] or '0'}E{power}"


def _parsed(text: str, field: Field, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except (ValueError, ArithmeticError, OverflowError) as error:
        raise FormatError(
            f"partition value of column {field.name} is {text!r}, expected a {field.type} ({error})"
        ) from None


def _parser(data_type: DataType, time_zone: str) -> Callable[[str], Any]:
    match data_type:
        case Primitive("string"):
            return str
        case Primitive("binary"):
            return str.encode
        case Primitive("byte" | "short" | "integer" | "long"):
            return lambda text: pa.scalar(int(text), arrow_type(data_type)).as_py()
        case Primitive("float" | "double"):
            return _parse_float
        case Primitive("boolean"):
            return _parse_boolean
        case Primitive("date"):
            # After widening from date to timestamp, or the reverse, ignore the time part.
            return lambda text: dt.date.fromisoformat(text[:10])
        case Primitive("timestamp"):
            return lambda text: _parse_timestamp(text, ZoneInfo(time_zone))
        case Primitive("timestamp_ntz"):
            return lambda text: dt.datetime.fromisoformat(text).replace(tzinfo=None)
        case Decimal(precision, scale):
            return lambda text: _parse_decimal(text, precision, scale)
    raise FormatError(f"a partition column is of type {data_type}, expected a primitive type")


def _parse_float(text: str) -> float:
    return float({"Infinity": "inf", "-Infinity": "-inf"}.get(text, text))


def _parse_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("neither true nor false")


def _parse_timestamp(text: str, zone: ZoneInfo) -> dt.datetime:
    value = dt.datetime.fromisoformat(text)
    return value if value.tzinfo is not None else value.replace(tzinfo=zone)


def _parse_decimal(text: str, precision: int, scale: int) -> decimal.Decimal:
    exact = decimal.Context(prec=precision, traps=[decimal.Inexact, decimal.InvalidOperation])
    value = decimal.Decimal(text)
    if not value.is_finite():
        raise ValueError("not a number")
    return value.quantize(decimal.Decimal(1).scaleb(-scale), context=exact)
