"""Values of Spark SQL literals, if the value is certain."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Context
from decimal import Decimal as Number
from typing import Any

import numpy as np
from sqlglot import exp

from delvec.predicate.date_times import day_number, instant, session_zone, wall_clock
from delvec.predicate.settings import SqlSettings

_INTEGER = re.compile(r"\d+", re.ASCII)
_DECIMAL = re.compile(r"\d+\.\d*|\.\d+", re.ASCII)
_EXPONENT = re.compile(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d+", re.ASCII)
_HEX = re.compile(r"([0-9a-fA-F]{2})*")

_CAST_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TIMESTAMP = "TIMESTAMPTZ"  # sqlglot's name for Spark's TIMESTAMP

DECIMAL_DIGITS = 38
"""The most digits that a decimal of Spark has."""

WIDE = Context(prec=120)
"""For arithmetic on decimals that must not round."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value and its kind.

    ``kind``: null, boolean, integer, decimal, double, float, string, binary, date, timestamp or
    timestamp_ntz. Dates are days and timestamps microseconds since 1970.
    """

    kind: str
    value: Any


@dataclass(frozen=True, slots=True)
class Reading:
    """The settings that the meaning of a literal depends on.

    ``plain_strings``: the text has no escapes in strings; settings change how Spark reads these.
    ``zone`` is None if Java and Python may differ about the session's time zone.
    ``zoned_timestamps``: TIMESTAMP is the type with a time zone.
    """

    zone: tzinfo | None
    ansi: bool
    plain_strings: bool = True
    zoned_timestamps: bool = True

    @classmethod
    def of(cls, text: str, settings: SqlSettings) -> Reading:
        """How the literals of a condition are read."""
        return cls(
            session_zone(settings.time_zone),
            settings.ansi,
            plain_strings="\\" not in text,
            zoned_timestamps=settings.zoned_timestamps,
        )


def read_literal(node: exp.Expr, reading: Reading) -> Literal | None:
    """The literal ``node``; None if it is not a literal or its value is not certain."""
    node = node.unnest()
    match node:
        case exp.Null():
            return Literal("null", None)
        case exp.Boolean():
            return Literal("boolean", bool(node.this))
        case exp.Literal(is_string=True):
            return _string(node.this, reading)
        case exp.Literal():
            return _number(node.this)
        case exp.Neg():
            return _negated(node.this, reading)
        case exp.HexString():
            text = str(node.this)
            return Literal("binary", bytes.fromhex(text)) if _HEX.fullmatch(text) else None
        case exp.Cast():
            return _cast(node, reading)
    return None


def _string(text: str, reading: Reading) -> Literal | None:
    # The quote was doubled in the text. How Spark reads that depends on a setting.
    if not reading.plain_strings or "'" in text or '"' in text:
        return None
    return Literal("string", text)


def _number(text: str) -> Literal | None:
    if _INTEGER.fullmatch(text):
        value = int(text)
        return Literal("integer", value) if fits(value, 64) else _decimal(text)
    if _DECIMAL.fullmatch(text):
        return _decimal(text)
    return _double(float(text)) if _EXPONENT.fullmatch(text) else None


def _decimal(text: str) -> Literal | None:
    value = Number(text)
    return Literal("decimal", value) if sum(digits(value)) <= DECIMAL_DIGITS else None


def _double(value: float) -> Literal | None:
    return None if math.isinf(value) else Literal("double", value)


def _negated(node: exp.Expr, reading: Reading) -> Literal | None:
    inner = node.unnest()
    if isinstance(inner, exp.Neg):
        return None  # may overflow
    literal = read_literal(inner, reading)
    if literal is None or literal.kind not in ("integer", "decimal", "double", "float"):
        return None
    return Literal(literal.kind, WIDE.minus(literal.value) if literal.kind == "decimal" else -literal.value)


def _cast(node: exp.Cast, reading: Reading) -> Literal | None:
    if {name for name, value in node.args.items() if value} - {"this", "to", "safe"}:
        return None
    source = read_literal(node.this, reading)
    if source is None:
        return None
    target = node.to.this.name
    if source.kind == "string":
        return _cast_string(source.value, target, node.to, reading)
    if source.kind in ("integer", "decimal", "double") and not is_nan(source.value):
        return _cast_number(source.value, target, node.to)
    return None


def _cast_string(text: str, target: str, to: exp.DataType, reading: Reading) -> Literal | None:
    if to.expressions and target != "DECIMAL":
        return None  # a type with a length or a precision
    if target == "DATE":
        return _literal("date", day_number(text))
    if target == _TIMESTAMP:
        target = "TIMESTAMPLTZ" if reading.zoned_timestamps else "TIMESTAMPNTZ"
    if target == "TIMESTAMPLTZ":
        return _literal("timestamp", instant(text, reading.zone))
    if target == "TIMESTAMPNTZ":
        return _literal("timestamp_ntz", wall_clock(text))
    if target == "DOUBLE" and text == "NaN":
        return Literal("double", math.nan)
    if target == "DECIMAL" and (_INTEGER.fullmatch(text) or _DECIMAL.fullmatch(text)):
        return _cast_number(Number(text), target, to)
    return None


def _cast_number(value: Any, target: str, to: exp.DataType) -> Literal | None:
    """The result of the cast, if it keeps the value (or rounds a decimal to a double, as Spark does)."""
    exact = Number(value)
    if target == "DOUBLE":
        return _double(float(value))
    if target == "FLOAT":
        narrow = float_floor(float(value))
        return Literal("float", narrow) if Number(narrow) == exact else None
    if target in _CAST_BITS:
        integer = int(exact)
        return Literal("integer", integer) if integer == exact and fits(integer, _CAST_BITS[target]) else None
    if target == "DECIMAL":
        return _cast_decimal(exact, to)
    return None


def _cast_decimal(value: Number, to: exp.DataType) -> Literal | None:
    sizes = [int(size.name) for size in to.expressions if size.name.isdecimal()]
    if len(sizes) != len(to.expressions) or len(sizes) > 2:
        return None
    precision, scale = [*sizes, *(10, 0)[len(sizes) :]]
    integer_digits, fraction = digits(value)
    if (
        precision > DECIMAL_DIGITS
        or scale > precision
        or fraction > scale
        or integer_digits > precision - scale
    ):
        return None
    return Literal("decimal", value.quantize(Number((0, (1,), -scale)), context=WIDE))


def _literal(kind: str, value: Any) -> Literal | None:
    return None if value is None else Literal(kind, value)


def is_nan(value: Any) -> bool:
    """Whether ``value`` is the float NaN."""
    return isinstance(value, float) and math.isnan(value)


def fits(value: int, bits: int) -> bool:
    """Whether ``value`` fits a signed integer with this number of bits."""
    half = 1 << (bits - 1)
    return -half <= value < half


def float_floor(value: float) -> float:
    """The greatest 32-bit float that is not above ``value``."""
    with np.errstate(over="ignore"):
        nearest = np.float32(value)
        return float(nearest if float(nearest) <= value else np.nextafter(nearest, np.float32(-np.inf)))


def digits(value: Number) -> tuple[int, int]:
    """Digits before and after the point."""
    parts = value.as_tuple()
    scale = max(-int(parts.exponent), 0)
    return max(len(parts.digits) + int(parts.exponent), 0), scale
