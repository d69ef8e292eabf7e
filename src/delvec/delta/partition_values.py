"""Partition values: texts in the log, typed columns here.

The log keeps a map from physical column name to text; the empty text and an absent key are NULL.
Timestamps are ISO 8601 with ``Z``, or local time of the writer, read in the reader's time zone; delvec writes
the former.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from delvec.errors import FormatError, InvalidOperationError
from delvec.schema import DataType, Decimal, Field, Primitive, arrow_type


def partition_texts(maps: pa.ChunkedArray, physical_name: str) -> pa.ChunkedArray:
    """The text of one partition column for each file, null where NULL."""
    chunks = [pc.map_lookup(chunk, physical_name, "first") for chunk in maps.chunks]
    texts = pa.chunked_array(chunks, pa.string())
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def partition_values(maps: pa.ChunkedArray, field: Field, *, time_zone: str = "UTC") -> pa.Array:
    """The typed values of one partition column; a text that is no such value is refused."""
    texts = partition_texts(maps, field.physical_name)
    # Few distinct values stand for many files: each is parsed once.
    encoded = texts.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    parse = _parser(field.type, time_zone)
    values = [_parsed(text, field, parse) for text in encoded.dictionary.to_pylist()]
    return pa.array(values, arrow_type(field.type)).take(encoded.indices)


def partition_maps(
    rows: Sequence[Sequence[str | None]], fields: Sequence[Field]
) -> list[dict[str, str | None]]:
    """The log's maps for files whose texts are ``rows``, one text for each of ``fields``.

    The empty text is NULL in the log, so it is written as such. A text that is no value of its column's
    type is refused (InvalidOperationError).
    """
    for row in rows:
        _verify_as_many(row, fields)
    for position, field in enumerate(fields):
        parse = _parser(field.type, "UTC")
        for text in {row[position] for row in rows} - {None, ""}:
            _verify_value(str(text), field, parse)
    return [
        {field.physical_name: _recorded(text, field.type) for field, text in zip(fields, row, strict=True)}
        for row in rows
    ]


def _recorded(text: str | None, data_type: DataType) -> str | None:
    if not text:
        return None
    # Without a zone the log wants a space between date and time.
    return text.replace("T", " ", 1) if data_type == Primitive("timestamp_ntz") else text


def _verify_as_many(row: Sequence[str | None], fields: Sequence[Field]) -> None:
    if len(row) != len(fields):
        names = ", ".join(field.name for field in fields) or "none"
        raise InvalidOperationError(
            f"a new file has {len(row)} partition values, expected one for each of: {names}"
        )


def _verify_value(text: str, field: Field, parse: Callable[[str], Any]) -> None:
    try:
        _parsed(text, field, parse)
    except FormatError as error:
        raise InvalidOperationError(str(error)) from None


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
            # A column widened from date to timestamp, or the reverse, leaves the time part to ignore.
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
