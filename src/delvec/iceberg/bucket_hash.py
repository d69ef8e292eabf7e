"""The hash of Iceberg's bucket transform: 32-bit Murmur3 with the seed 0.

int, long, date, time, timestamps   the number as 8 bytes, little-endian; nanoseconds as microseconds
decimal                             the unscaled value, big-endian, in as few bytes as suffice
string                              UTF-8
binary, fixed, uuid                 the bytes
"""

from __future__ import annotations

import struct
from decimal import Decimal as Number
from typing import Any

from delvec.schema import DataType, Decimal, Fixed, Primitive

_MASK = 0xFFFFFFFF
_C1, _C2 = 0xCC9E2D51, 0x1B873593

_NUMBERS = frozenset({"byte", "short", "integer", "long", "date", "time", "timestamp", "timestamp_ntz"})
_NANOSECONDS = frozenset({"timestamp_ns", "timestamp_ntz_ns"})
_BYTES = frozenset({"binary", "uuid"})


def bucket(value: Any, data_type: DataType, count: int) -> int | None:
    """The bucket of a value, of ``count`` buckets; None if the transform is not defined for the type.

    Dates, times and timestamps are numbers (days, microseconds, nanoseconds since 1970).
    """
    data = hashed_bytes(value, data_type)
    return None if data is None else (murmur3(data) & 0x7FFFFFFF) % count


def hashed_bytes(value: Any, data_type: DataType) -> bytes | None:
    """The bytes of the value that are hashed; None if the transform is not defined for the type."""
    match data_type:
        case Primitive(name) if name in _NUMBERS:
            return struct.pack("<q", value)
        case Primitive(name) if name in _NANOSECONDS:
            return struct.pack("<q", value // 1000)
        case Primitive("string"):
            return str(value).encode()
        case Primitive(name) if name in _BYTES:
            return bytes(value)
        case Fixed():
            return bytes(value)
        case Decimal(_, scale):
            return _unscaled(value, scale)
    return None


def _unscaled(value: Number, scale: int) -> bytes | None:
    """None if the value has digits below the scale."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number, rest = int("".join(map(str, digits))), 0
    if exponent + scale >= 0:
        number *= 10 ** (exponent + scale)
    else:
        number, rest = divmod(number, 10 ** -(exponent + scale))
    if rest:
        return None
    number = -number if sign else number
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return int(number).to_bytes(length, "big", signed=True)


def murmur3(data: bytes) -> int:
    """The 32-bit Murmur3 hash (x86 variant, seed 0), as an unsigned number."""
    whole = len(data) // 4
    state = 0
    for block in struct.unpack(f"<{whole}I", data[: whole * 4]):
        state ^= _mixed(block)
        state = (_rotated(state, 13) * 5 + 0xE6546B64) & _MASK
    if tail := data[whole * 4 :]:
        state ^= _mixed(int.from_bytes(tail, "little"))
    state ^= len(data)
    state = ((state ^ state >> 16) * 0x85EBCA6B) & _MASK
    state = ((state ^ state >> 13) * 0xC2B2AE35) & _MASK
    return state ^ state >> 16


def _mixed(block: int) -> int:
    return (_rotated((block * _C1) & _MASK, 15) * _C2) & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
