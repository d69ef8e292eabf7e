"""Bounds of columns: from the statistics of Parquet footers to what the log's JSON holds.

A footer's raw values are read by the type that the file has, then written by the type of the table's column,
which may have been widened since. What cannot be read for sure is left out.

    column            in JSON
    numbers           numbers; decimals with all their digits
    string            cut to some 32 characters, the upper bound raised by a last character
    date              "2025-01-31"
    timestamp         "2025-01-31T12:00:00.123Z", cut to milliseconds, which readers allow for
    timestamp_ntz     the same without Z
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from delvec.schema import DataType, Decimal, Primitive, is_string

_EPOCH = dt.datetime(1970, 1, 1)
_DAY = 24 * 60 * 60 * 1000 * 1000
_MICROSECONDS = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}
_LARGEST_CHARACTER = "\U0010ffff"
_LARGEST_ASCII = "\x7f"
_BEYOND_ONE_UNIT = 0xFFFF  # larger characters take two UTF-16 units
_ANY_DIGITS = decimal.Context(prec=100)

Json = Any


@dataclass(frozen=True, slots=True)
class Stored:
    """How a file stores a column: ``kind`` says what ``read`` makes of a raw value.

    integer, float    the number
    text              UTF-8
    date              days
    utc, local        microseconds, of a point in time or of a local one
    decimal           the digits as an integer, ``scale`` of them after the point
    """

    kind: str
    read: Callable[[Any], Any]
    scale: int = 0


def stored(physical_type: str, logical_type: str) -> Stored | None:
    """How a column of these Parquet types (the logical one as Arrow's JSON) holds values; None if unknown."""
    logical = orjson.loads(logical_type)
    match physical_type, logical.get("Type"):
        case "INT32" | "INT64", "None":
            return Stored("integer", int)
        case "INT32" | "INT64", "Int" if logical["isSigned"]:
            return Stored("integer", int)
        case "FLOAT" | "DOUBLE", "None":
            return Stored("float", float)
        case "BYTE_ARRAY", "String":
            return Stored("text", bytes)
        case "INT32", "Date":
            return Stored("date", int)
        case "INT64", "Timestamp":
            times, divisor = _MICROSECONDS[logical["timeUnit"]]
            kind = "utc" if logical["isAdjustedToUTC"] else "local"
            return Stored(kind, lambda raw: raw * times // divisor)
        case "INT32" | "INT64", "Decimal":
            return Stored("decimal", int, logical["scale"])
        case "BYTE_ARRAY" | "FIXED_LEN_BYTE_ARRAY", "Decimal":
            return Stored("decimal", lambda raw: int.from_bytes(raw, "big", signed=True), logical["scale"])
    return None


def lower_bound(value: Any, found: Stored, data_type: DataType, string_length: int) -> Json:
    """``value`` or something below it, for a column of ``data_type``; None where there is no saying."""
    if found.kind == "text" and is_string(data_type):
        text = _decoded(value)
        return None if text is None or string_length <= 0 else text[:string_length]
    bound = _bound(value, found, data_type)
    return -0.0 if isinstance(bound, float) and bound == 0 else bound  # 0.0 may stand for -0.0


def upper_bound(value: Any, found: Stored, data_type: DataType, string_length: int) -> Json:
    """``value`` or something above it; of timestamps, less than a millisecond below."""
    if found.kind == "text" and is_string(data_type):
        text = _decoded(value)
        return None if text is None else upper_text(text, string_length)
    bound = _bound(value, found, data_type)
    return 0.0 if isinstance(bound, float) and bound == 0 else bound


def upper_text(text: str, length: int) -> str | None:
    """A text not smaller than ``text`` in UTF-8, cut after ``length`` UTF-16 units and one character more.

    A cut before the largest character there is would leave nothing larger to put in its place, so such
    characters are kept as well; None where twice the length does not suffice.
    """
    used = kept = 0
    while used < length and kept < len(text):
        used += _units(text[kept])
        kept += 1
    while kept < len(text) and text[kept] == _LARGEST_CHARACTER and used <= 2 * length:
        used += _units(text[kept])
        kept += 1
    if length <= 0 or used > 2 * length:
        return None if len(text) else text
    if kept == len(text):
        return text
    return text[:kept] + (_LARGEST_ASCII if text[kept] < _LARGEST_ASCII else _LARGEST_CHARACTER)


def _units(character: str) -> int:
    return 2 if ord(character) > _BEYOND_ONE_UNIT else 1


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _bound(value: Any, found: Stored, data_type: DataType) -> Json:
    match data_type, found.kind:
        case Primitive("byte" | "short" | "integer" | "long"), "integer":
            return value
        case Primitive("float" | "double"), "float" | "integer":
            return float(value) if math.isfinite(value) else None
        case Decimal(), "decimal" | "integer":
            digits = decimal.Decimal(value).scaleb(-found.scale, context=_ANY_DIGITS)
            return orjson.Fragment(f"{digits:f}".encode())
        case Primitive("date"), "date":
            moment = _moment(value * _DAY)
            return None if moment is None else moment.date().isoformat()
        case Primitive("timestamp"), "utc":
            return _cut_to_milliseconds(value, "Z")
        case Primitive("timestamp_ntz"), "local":
            return _cut_to_milliseconds(value, "")
        case Primitive("timestamp_ntz"), "date":
            return _cut_to_milliseconds(value * _DAY, "")
    return None


def _cut_to_milliseconds(microseconds: int, zone: str) -> str | None:
    moment = _moment(microseconds)
    return None if moment is None else moment.isoformat(timespec="milliseconds") + zone


def _moment(microseconds: int) -> dt.datetime | None:
    """None for years that need more than four digits."""
    try:
        return _EPOCH + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        return None
