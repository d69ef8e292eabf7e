"""Bounds of a column as the log's JSON has them.

    column            in JSON
    numbers           numbers; decimals with all their digits; NaN and infinite ones are left out
    string            cut to the table's prefix length, the upper bound raised by one last character
    date              "2025-01-31"
    timestamp         "2025-01-31T12:00:00.123Z", cut to milliseconds: readers add up to one to upper bounds
    timestamp_ntz     the same without Z

Other types have no bounds in the log. Nor do dates and timestamps whose year does not have four digits.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pyarrow as pa

from delvec.schema import DataType, Decimal, Primitive, is_string

_EPOCH = dt.datetime(1970, 1, 1)
_DAY = 24 * 60 * 60 * 1000 * 1000
_LARGEST_CHARACTER = "\U0010ffff"
_LARGEST_ASCII = "\x7f"
_LAST_OF_ONE_UNIT = 0xFFFF  # larger characters take two UTF-16 units

BOUNDED_TEXTS = frozenset({"string", "date", "timestamp", "timestamp_ntz"})
"""The types whose bounds are JSON strings."""

BOUNDED_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})
"""The types whose bounds are JSON numbers. Decimals are too."""

Json = Any


def has_bounds(data_type: DataType) -> bool:
    """Whether the log can hold bounds of a column of this type."""
    if isinstance(data_type, Decimal):
        return True
    return isinstance(data_type, Primitive) and data_type.name in BOUNDED_TEXTS | BOUNDED_NUMBERS


def lower_bounds(values: pa.Array, data_type: DataType, string_length: int) -> list[Json]:
    """The JSON values of exact lower bounds; None where there is no bound."""
    if is_string(data_type):
        if string_length <= 0:
            return [None] * len(values)
        return [None if text is None else text[:string_length] for text in values.to_pylist()]
    return _exact_bounds(values, data_type)


def upper_bounds(values: pa.Array, data_type: DataType, string_length: int) -> list[Json]:
    """The JSON values of exact upper bounds. Those of timestamps are less than a millisecond too low."""
    if is_string(data_type):
        return [None if text is None else upper_text(text, string_length) for text in values.to_pylist()]
    return _exact_bounds(values, data_type)


def upper_text(text: str, length: int) -> str | None:
    """A text not smaller than ``text`` in UTF-8, cut after ``length`` UTF-16 units and one character more.

    The character after the cut is replaced by a larger one. There is none above U+10FFFF, so such characters
    are kept as well. None if even twice the length does not suffice.
    """
    units = end = 0
    while units < length and end < len(text):
        units += _units(text[end])
        end += 1
    while end < len(text) and text[end] == _LARGEST_CHARACTER and units <= 2 * length:
        units += _units(text[end])
        end += 1
    if length <= 0 or units > 2 * length:
        return None if len(text) else text
    if end == len(text):
        return text
    return text[:end] + (_LARGEST_ASCII if text[end] < _LARGEST_ASCII else _LARGEST_CHARACTER)


def _units(character: str) -> int:
    return 2 if ord(character) > _LAST_OF_ONE_UNIT else 1


def _exact_bounds(values: pa.Array, data_type: DataType) -> list[Json]:
    match data_type:
        case Primitive("float" | "double"):
            return _each(values.to_pylist(), _finite)
        case Decimal():
            return _each(values.to_pylist(), _digits)
        case Primitive("date"):
            return _each(values.view(pa.int32()).to_pylist(), _date)
        case Primitive("timestamp"):
            return _each(values.view(pa.int64()).to_pylist(), lambda value: _timestamp(value, "Z"))
        case Primitive("timestamp_ntz"):
            return _each(values.view(pa.int64()).to_pylist(), lambda value: _timestamp(value, ""))
        case Primitive(name) if name in BOUNDED_NUMBERS:
            return list(values.to_pylist())
    return [None] * len(values)


def _each(values: Sequence[Any], rendered: Callable[[Any], Json]) -> list[Json]:
    return [None if value is None else rendered(value) for value in values]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _digits(value: decimal.Decimal) -> orjson.Fragment:
    return orjson.Fragment(f"{value:f}".encode())


def _date(days: int) -> str | None:
    moment = _moment(days * _DAY)
    return None if moment is None else moment.date().isoformat()


def _timestamp(microseconds: int, zone: str) -> str | None:
    moment = _moment(microseconds)
    return None if moment is None else moment.isoformat(timespec="milliseconds") + zone


def _moment(microseconds: int) -> dt.datetime | None:
    """None for years that need more than four digits."""
    try:
        return _EPOCH + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        return None
