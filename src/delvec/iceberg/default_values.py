"""Default values of columns: Iceberg's JSON form of a single value, as Python values.

The result is what ``pyarrow.scalar(value, arrow_type(type))`` accepts, and it can be hashed:

    decimal, date, time, timestamp   decimal.Decimal, datetime.date, datetime.time, datetime.datetime
    nanosecond timestamps            nanoseconds since 1970-01-01 00:00, UTC
    uuid, fixed, binary              bytes
    struct, list                     a tuple of the values of the fields, or of the elements
    map                              a tuple of pairs of key and value
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid
from typing import Any

from delvec.errors import FormatError
from delvec.iceberg.json_object import short_text
from delvec.schema import Array, DataType, Decimal, Fixed, Map, Primitive, Struct

_NANOSECONDS = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|[+-]00:00)?"  # defaults are always in UTC
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECOND = dt.timedelta(seconds=1)
_BILLION = 1_000_000_000


def parse_value(value: Any, data_type: DataType, where: str) -> Any:
    """The value of a column ``where`` with this type; None for null. FormatError if it does not fit."""
    if value is None:
        return None
    try:
        return _parse(value, data_type, where)
    except (ValueError, TypeError, ArithmeticError, KeyError, AttributeError):
        raise FormatError(
            f"default of column {where} is {short_text(value)}, expected a value of type {data_type}"
        ) from None


def _parse(value: Any, data_type: DataType, where: str) -> Any:
    match data_type:
        case Primitive("boolean") if isinstance(value, bool):
            return value
        case Primitive("integer" | "long" as name) if isinstance(value, int) and not isinstance(value, bool):
            return _within(value, 31 if name == "integer" else 63)
        case Primitive("float" | "double") if not isinstance(value, bool):
            return float(value)
        case Primitive("string") if isinstance(value, str):
            return value
        case Primitive("binary") | Fixed():
            return _bytes(value, data_type)
        case Primitive("uuid"):
            return uuid.UUID(value).bytes
        case Decimal(precision, scale):
            return _decimal(value, precision, scale)
        case Primitive(name):
            return _time_value(value, name)
        case Struct():
            return _struct(value, data_type)
        case Array(element):
            return tuple(parse_value(item, element, where) for item in value)
        case Map(key_type, value_type):
            keys = [parse_value(item, key_type, where) for item in value["keys"]]
            values = [parse_value(item, value_type, where) for item in value["values"]]
            return tuple(zip(keys, values, strict=True))
    raise ValueError(value)


def _time_value(value: Any, name: str) -> Any:
    match name:
        case "date":
            return dt.date.fromisoformat(value)
        case "time":
            return dt.time.fromisoformat(value)
        case "timestamp_ntz":
            return dt.datetime.fromisoformat(value).replace(tzinfo=None)
        case "timestamp":
            parsed = dt.datetime.fromisoformat(value)
            return parsed.replace(tzinfo=dt.UTC) if parsed.tzinfo is None else parsed.astimezone(dt.UTC)
        case "timestamp_ns" | "timestamp_ntz_ns":
            return _nanoseconds(value)
    raise ValueError(value)


def _within(value: int, bits: int) -> int:
    if not -(1 << bits) <= value < 1 << bits:
        raise ValueError(value)
    return value


def _bytes(value: str, data_type: DataType) -> bytes:
    data = bytes.fromhex(value)
    if isinstance(data_type, Fixed) and len(data) != data_type.length:
        raise ValueError(value)
    return data


def _decimal(value: str, precision: int, scale: int) -> decimal.Decimal:
    parsed = decimal.Decimal(value)
    _, digits, exponent = parsed.as_tuple()
    if not isinstance(exponent, int) or exponent < -scale or len(digits) + exponent > precision - scale:
        raise ValueError(value)
    return parsed


def _nanoseconds(value: str) -> int:
    parts = _NANOSECONDS.fullmatch(value)
    if parts is None:
        raise ValueError(value)
    seconds = (dt.datetime.fromisoformat(parts[1]).replace(tzinfo=dt.UTC) - _EPOCH) // _SECOND
    return _within(seconds * _BILLION + int((parts[2] or "").ljust(9, "0")), 63)


def _struct(value: dict[str, Any], struct: Struct) -> Any:
    """A struct's default is an empty object: each field has its own default."""
    if value != {}:
        raise ValueError(value)
    return tuple(field.initial_default for field in struct)
