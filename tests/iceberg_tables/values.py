"""Single values of Iceberg: as bytes of bounds, as JSON, as numbers of Avro; and partition transforms.

Own code, and no code of delvec: tests judge delvec by it.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from decimal import Decimal
from typing import Any

_EPOCH = dt.datetime(1970, 1, 1)
_FORMATS = {"int": "<i", "long": "<q", "float": "<f", "double": "<d", "date": "<i"}


def physical(kind: str, value: Any) -> Any:
    """The value as Avro and Parquet store it: dates and times as numbers."""
    match value:
        case dt.datetime():
            naive = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
            micros = (naive - _EPOCH) // dt.timedelta(microseconds=1)
            return micros * 1000 if kind.endswith("_ns") else micros
        case dt.date():
            return (value - _EPOCH.date()).days
        case dt.time():
            since = dt.datetime.combine(_EPOCH.date(), value) - _EPOCH
            return since // dt.timedelta(microseconds=1)
    return value


def to_bytes(kind: str, value: Any) -> bytes:
    """The value as bounds have it; dates and times may be numbers already."""
    value = physical(kind, value)
    if kind == "boolean":
        return b"\x01" if value else b"\x00"
    if kind.startswith(("time", "timestamp")):
        return struct.pack("<q", value)
    if kind in _FORMATS:
        return struct.pack(_FORMATS[kind], value)
    if isinstance(value, Decimal):
        return decimal_bytes(value, kind)
    return value.encode() if isinstance(value, str) else bytes(value)


def decimal_bytes(value: Decimal, kind: str) -> bytes:
    """The unscaled number, big-endian, in as few bytes as hold it."""
    number = unscaled(value, kind)
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def unscaled(value: Decimal, kind: str) -> int:
    return int(value.scaleb(scale_of(kind)))


def scale_of(kind: str) -> int:
    return int(re.findall(r"\d+", kind)[1])


def json_value(kind: str, value: Any) -> Any:
    """The value as the JSON of a schema has it."""
    match value:
        case dt.datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
            return f"{text}+00:00" if value.tzinfo else text
        case dt.date() | dt.time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case Decimal():
            return str(value)
    return value


def result_type(transform: str, source: str) -> str:
    match transform.partition("[")[0]:
        case "identity" | "truncate" | "void":
            return source
        case "bucket" | "year" | "month" | "hour":
            return "int"
        case "day":
            return "date"
    return "string"  # an unknown transform


def transformed(transform: str, kind: str, value: Any) -> Any:
    """The partition value, as Avro stores it."""
    name, _, width = transform.rstrip("]").partition("[")
    if value is None or name == "void":
        return None
    match name:
        case "identity":
            return physical(kind, value)
        case "bucket":
            return (murmur3(_hashed_bytes(kind, value)) & 0x7FFFFFFF) % int(width)
        case "truncate":
            return _truncated(kind, value, int(width))
        case "year" | "month" | "day" | "hour":
            return _unit(name, value)
    return "unknown"


def _hashed_bytes(kind: str, value: Any) -> bytes:
    if isinstance(value, Decimal):
        return decimal_bytes(value, kind)
    if isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    return struct.pack("<q", physical(kind.removesuffix("_ns"), value))


def _truncated(kind: str, value: Any, width: int) -> Any:
    if isinstance(value, Decimal):
        number = unscaled(value, kind)
        return Decimal(number - number % width).scaleb(-scale_of(kind))
    return value - value % width if isinstance(value, int) else value[:width]


def _unit(name: str, value: dt.date) -> int:
    if isinstance(value, dt.datetime) and value.tzinfo:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    match name:
        case "year":
            return value.year - 1970
        case "month":
            return (value.year - 1970) * 12 + value.month - 1
        case "hour":
            assert isinstance(value, dt.datetime)
            return (value - _EPOCH) // dt.timedelta(hours=1)
    day = value.date() if isinstance(value, dt.datetime) else value
    return (day - _EPOCH.date()).days


def murmur3(data: bytes) -> int:
    """The 32-bit hash of Austin Appleby's MurmurHash3, x86, with seed 0."""
    value, whole = 0, len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        value = _rotated(value ^ _mixed(word), 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
    value ^= _mixed(int.from_bytes(data[whole:], "little")) ^ len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        value = (value ^ value >> shift) * factor & 0xFFFFFFFF
    return value ^ value >> 16


def _mixed(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & 0xFFFFFFFF
