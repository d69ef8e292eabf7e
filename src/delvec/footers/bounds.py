"""The least and the greatest value of a column, from Parquet's types to the type of the table's column.

A footer holds raw values. They are read by the type that the file has, and converted to the type of the
table's column, which may have been widened since. A value that cannot be read for sure is unknown (None).

    column's type             a value here
    integers, floats          the number
    decimal                   a ``Decimal``
    string                    the UTF-8 bytes, in which Parquet orders strings
    binary, boolean           the value
    uuid, fixed               the bytes
    date                      days since 1970
    time                      microseconds since midnight
    timestamps                microseconds (nanoseconds for the ``_ns`` types) since 1970, in UTC or local
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from delvec.footers.footer import Footer
from delvec.schema import DataType, Decimal, Fixed, Primitive, arrow_type

_DAY = 24 * 60 * 60 * 1000 * 1000
_NANOSECONDS = {"milliseconds": 1_000_000, "microseconds": 1000, "nanoseconds": 1}
_MICROSECOND = 1000  # in nanoseconds
_ANY_DIGITS = decimal.Context(prec=100)
_FLOATS = ("FLOAT", "DOUBLE")
_CALENDAR_TYPES = (Primitive("date"), Primitive("timestamp"))
# What Arrow raises for a value that does not fit a type.
_DOES_NOT_FIT = (pa.ArrowException, OverflowError, ValueError, TypeError)

Read = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a column, for each row group of a file; None where a bound is unknown.

    No value that is neither null nor NaN lies outside. ``covers_nan``: no NaN lies above ``upper`` either, in
    the order in which NaN is the largest number.
    """

    lower: list[Any]
    upper: list[Any]
    covers_nan: bool


def read_bounds(footer: Footer, position: int, data_type: DataType) -> Bounds:
    """The bounds of the column at ``position``, for a column of the table that has ``data_type``."""
    column = footer.metadata.schema.column(position)
    covers_nan = column.physical_type not in _FLOATS or footer.orders_nan
    read = value_reader(column.physical_type, column.logical_type.to_json(), data_type)
    if read is None or (footer.has_old_calendar and data_type in _CALENDAR_TYPES):
        unknown = [None] * len(footer.row_groups)
        return Bounds(unknown, unknown, covers_nan)
    pairs = [_bounds(group.column(position).statistics, read) for group in footer.row_groups]
    return Bounds([lower for lower, _ in pairs], [upper for _, upper in pairs], covers_nan)


def file_bounds(bounds: Bounds, has_values: Sequence[bool]) -> tuple[Any, Any]:
    """The bounds of a column over the whole file, from those of its row groups.

    ``has_values`` is false for row groups in which all values are null. If any other row group has
    no bounds, the file has none.
    """
    lowers = list(compress(bounds.lower, has_values))
    uppers = list(compress(bounds.upper, has_values))
    if not lowers or None in lowers:
        return None, None
    return min(lowers), None if None in uppers else max(uppers)


def typed_array(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """Bounds as an Arrow array of the column's type; a value that does not fit the type becomes null."""
    try:
        return _typed(values, data_type)
    except _DOES_NOT_FIT:
        return pa.concat_arrays([_typed_or_null(value, data_type) for value in values])


def value_reader(physical_type: str, logical_type: str, data_type: DataType) -> Read | None:
    """How a raw value of these Parquet types (the logical one in JSON) becomes a value of ``data_type``.

    None if the file's type is not one of those that a column of ``data_type`` can be stored in.
    """
    logical = orjson.loads(logical_type)
    match physical_type, logical.get("Type"):
        case "INT32" | "INT64", "None":
            return _integers(data_type)
        case "INT32" | "INT64", "Int" if logical["isSigned"]:
            return _integers(data_type)
        case "FLOAT" | "DOUBLE", "None":
            return float if data_type in (Primitive("float"), Primitive("double")) else None
        case "BYTE_ARRAY", "String":
            return bytes if _is(data_type, "string") else None
        case "BYTE_ARRAY", "None":
            return bytes if _is(data_type, "binary") else None
        case "BOOLEAN", "None":
            return bool if _is(data_type, "boolean") else None
        case "INT32", "Date":
            return _dates(data_type)
        case "INT64", "Timestamp":
            return _timestamps(logical["timeUnit"], data_type, zoned=logical["isAdjustedToUTC"])
        case "INT32" | "INT64", "Time":
            return _scaled(logical["timeUnit"], _MICROSECOND) if _is(data_type, "time") else None
        case "FIXED_LEN_BYTE_ARRAY", "UUID":
            return bytes if _is(data_type, "uuid") else None
        case "FIXED_LEN_BYTE_ARRAY", "None":
            return bytes if isinstance(data_type, Fixed) else None
        case "INT32" | "INT64" | "BYTE_ARRAY" | "FIXED_LEN_BYTE_ARRAY", "Decimal":
            return _decimals(logical["scale"]) if isinstance(data_type, Decimal) else None
    return None


def _bounds(statistics: pq.Statistics | None, read: Read) -> tuple[Any, Any]:
    if statistics is None or not statistics.has_min_max:
        return None, None
    lower, upper = _known(read(statistics.min_raw)), _known(read(statistics.max_raw))
    # A writer may give 0.0 for -0.0, and the reverse.
    if isinstance(lower, float) and lower == 0:
        lower = -0.0
    if isinstance(upper, float) and upper == 0:
        upper = 0.0
    return lower, upper


def _known(value: Any) -> Any:
    """The value; None for NaN, which cannot be a bound."""
    return None if value != value else value  # noqa: PLR0124


def _is(data_type: DataType, name: str) -> bool:
    return isinstance(data_type, Primitive) and data_type.name == name


def _integers(data_type: DataType) -> Read | None:
    match data_type:
        case Primitive("byte" | "short" | "integer" | "long"):
            return int
        case Primitive("float" | "double"):
            return float
        case Decimal():
            return decimal.Decimal
    return None


def _dates(data_type: DataType) -> Read | None:
    match data_type:
        case Primitive("date"):
            return int
        case Primitive("timestamp_ntz"):
            return lambda days: days * _DAY
    return None


def _timestamps(unit: str, data_type: DataType, *, zoned: bool) -> Read | None:
    name = "timestamp" if zoned else "timestamp_ntz"
    if _is(data_type, name):
        return _scaled(unit, _MICROSECOND)
    return _scaled(unit, 1) if _is(data_type, f"{name}_ns") else None


def _scaled(unit: str, target: int) -> Read:
    """From ``unit`` to a unit of ``target`` nanoseconds, rounded down as values are when they are read."""
    return lambda raw: raw * _NANOSECONDS[unit] // target


def _decimals(scale: int) -> Read:
    def read(raw: Any) -> decimal.Decimal:
        digits = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
        return decimal.Decimal(digits).scaleb(-scale, context=_ANY_DIGITS)

    return read


def _typed(values: Sequence[Any], data_type: DataType) -> pa.Array:
    target = arrow_type(data_type)
    match data_type:
        case Primitive("date"):
            return pa.array(values, pa.int32()).view(target)
        case Primitive("timestamp" | "timestamp_ntz" | "timestamp_ns" | "timestamp_ntz_ns" | "time"):
            return pa.array(values, pa.int64()).view(target)
        case Primitive("string"):
            return pa.array(values, pa.binary()).cast(target)
    return pa.array(values, target)


def _typed_or_null(value: Any, data_type: DataType) -> pa.Array:
    try:
        return _typed([value], data_type)
    except _DOES_NOT_FIT:
        return pa.nulls(1, arrow_type(data_type))
