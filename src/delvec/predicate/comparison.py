"""Converts a literal to the type of the column that it is compared with.

That is possible only if Spark's comparison, after its type coercion, has the same result as a comparison in
the column's type, and cannot raise an error. Otherwise there is no answer (None):

    column          literals
    byte … long     integers; decimals, where the common decimal type loses nothing; doubles below 2^53
    decimal         integers and decimals, where the common decimal type loses nothing
    double          any number
    float           doubles and decimals (compared as doubles); integers that a float holds exactly
    string, binary  strings; X'…'
    boolean         TRUE, FALSE
    date            DATE '…' and 'yyyy-MM-dd'
    timestamp       TIMESTAMP '…', DATE '…' and strings, in ISO form; local times in the session's zone
    timestamp_ntz   TIMESTAMP_NTZ '…', DATE '…' and strings, in ISO form without a zone
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR
from decimal import Decimal as Number
from typing import Any

from delvec.predicate.date_times import day_number, instant, iso_day, wall_clock
from delvec.predicate.literals import (
    DECIMAL_DIGITS,
    WIDE,
    Literal,
    Reading,
    digits,
    fits,
    float_floor,
    is_nan,
)
from delvec.schema import DataType, Decimal, Primitive

_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_LONG_DIGITS = 20
_INT_DIGITS = 10
_EXACT_IN_DOUBLE = 2**53
_EXACT_IN_FLOAT = 2**24


@dataclass(frozen=True, slots=True)
class Point:
    """The position of a literal among the values of a type.

    ``value`` is the greatest value of the type that is not above the literal, for Arrow; None if the literal
    is below all values. ``exact``: the value equals the literal.
    """

    value: Any
    exact: bool = True

    @property
    def is_nan(self) -> bool:
        return isinstance(self.value, float) and math.isnan(self.value)


def place(literal: Literal, data_type: DataType, reading: Reading) -> Point | None:
    """The position of ``literal`` among the values of ``data_type``; None if it cannot be compared."""
    if isinstance(data_type, Decimal):
        return _place_decimal(literal, data_type)
    if not isinstance(data_type, Primitive):
        return None
    if data_type.name in _INTEGER_BITS:
        return _place_integer(literal, _INTEGER_BITS[data_type.name])
    if data_type.name in ("float", "double"):
        return _place_float(literal, data_type.name)
    if data_type.name in ("date", "timestamp", "timestamp_ntz"):
        return _place_time(literal, data_type.name, reading)
    return Point(literal.value) if literal.kind == data_type.name else None


def place_all(literals: Sequence[Literal], data_type: DataType, reading: Reading) -> list[Point] | None:
    """The positions of the literals of an IN list. Spark first converts them and the column to one type."""
    kinds = {literal.kind for literal in literals}
    numbers = kinds <= {"integer", "decimal", "double", "float"}
    if not (numbers or len(kinds) == 1):
        return None
    if "string" in kinds and data_type in (Primitive("timestamp"), Primitive("timestamp_ntz")):
        return None if not reading.ansi else _each(literals, data_type, reading)
    if isinstance(data_type, Decimal) or (
        isinstance(data_type, Primitive) and data_type.name in _INTEGER_BITS
    ):
        if not kinds <= {"integer", "decimal"}:
            return None
        sizes = [_column_digits(data_type), *(_literal_digits(literal) for literal in literals)]
        if (
            max(integer_digits for integer_digits, _ in sizes) + max(scale for _, scale in sizes)
            > DECIMAL_DIGITS
        ):
            return None
    return _each(literals, data_type, reading)


def _each(literals: Sequence[Literal], data_type: DataType, reading: Reading) -> list[Point] | None:
    points = [place(literal, data_type, reading) for literal in literals]
    return None if None in points else [point for point in points if point is not None]


def _place_integer(literal: Literal, bits: int) -> Point | None:
    if literal.kind == "decimal":
        # For a literal beyond all longs, Spark's answer is TRUE or FALSE for all rows, even for NULL.
        if (
            not fits(math.floor(literal.value), 64)
            or _LONG_DIGITS + digits(literal.value)[1] > DECIMAL_DIGITS
        ):
            return None
    elif literal.kind == "double":
        if not abs(literal.value) < _EXACT_IN_DOUBLE:
            return None
    elif literal.kind != "integer":
        return None
    floor = math.floor(literal.value)
    largest = 2 ** (bits - 1) - 1
    if floor < -largest - 1:
        return Point(None, exact=False)
    return Point(min(floor, largest), exact=floor == literal.value and floor <= largest)


def _place_decimal(literal: Literal, data_type: Decimal) -> Point | None:
    if literal.kind not in ("integer", "decimal"):
        return None
    column, other = _column_digits(data_type), _literal_digits(literal)
    if max(column[0], other[0]) + max(column[1], other[1]) > DECIMAL_DIGITS:
        return None
    value = Number(literal.value)
    step = Number((0, (1,), -data_type.scale))
    largest = Number((0, (9,) * data_type.precision, -data_type.scale))
    if value < -largest:
        return Point(None, exact=False)
    floor = min(value.quantize(step, rounding=ROUND_FLOOR, context=WIDE), largest)
    return Point(floor, exact=floor == value)


def _place_float(literal: Literal, name: str) -> Point | None:
    if literal.kind not in ("integer", "decimal", "double", "float"):
        return None
    if name == "double" or is_nan(literal.value):
        return Point(float(literal.value))
    # Spark compares a float with an integer as floats or as doubles, depending on ANSI mode.
    if literal.kind == "integer" and abs(literal.value) > _EXACT_IN_FLOAT:
        return None
    value = float(literal.value)
    floor = float_floor(value)
    return Point(floor, exact=floor == value)


def _place_time(literal: Literal, name: str, reading: Reading) -> Point | None:
    kind, value = literal.kind, literal.value
    if kind == name:
        return Point(value)
    if kind == "date":
        kind, value = "string", iso_day(value)  # midnight
    if kind != "string":
        return None
    if name == "date":
        number = day_number(value)
    else:
        number = instant(value, reading.zone) if name == "timestamp" else wall_clock(value)
    return None if number is None else Point(number)


def _literal_digits(literal: Literal) -> tuple[int, int]:
    if literal.kind == "integer":
        return (_INT_DIGITS if fits(literal.value, 32) else _LONG_DIGITS), 0
    return digits(literal.value)


def _column_digits(data_type: DataType) -> tuple[int, int]:
    if isinstance(data_type, Decimal):
        return data_type.precision - data_type.scale, data_type.scale
    return _LONG_DIGITS, 0
