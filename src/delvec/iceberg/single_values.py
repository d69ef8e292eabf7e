"""Iceberg's binary form of single values, as bounds and partition summaries have it, decoded by columns.

    boolean                       1 byte, 0 is false
    int, date; long, time, timestamps     4 and 8 bytes, little-endian
    float, double                 4 and 8 bytes, little-endian
    string, binary, fixed, uuid   the bytes
    decimal                       the unscaled value, big-endian two's complement, as few bytes as suffice

A column's type may have been promoted since a value was written, so the value's length says its type: 4 bytes
of a long are an int, 4 bytes of a double a float, 4 bytes of a timestamp a date. A value of any other length
is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.schema import DataType, Decimal, Fixed, Primitive, arrow_type

_INT, _LONG, _FLOAT, _DOUBLE = "<i4", "<i8", "<f4", "<f8"
_FORMS: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "boolean": {1: "u1"},
        "integer": {4: _INT},
        "long": {8: _LONG, 4: _INT},
        "float": {4: _FLOAT},
        "double": {8: _DOUBLE, 4: _FLOAT},
        "date": {4: _INT},
        "time": {8: _LONG},
        "timestamp": {8: _LONG, 4: _INT},
        "timestamp_ntz": {8: _LONG, 4: _INT},
        "timestamp_ns": {8: _LONG, 4: _INT},
        "timestamp_ntz_ns": {8: _LONG, 4: _INT},
    }
)
"""The number that a value of this length holds, by type and length."""

_DAY = {"timestamp": 86_400_000_000, "timestamp_ns": 86_400_000_000_000}
_DECIMAL_BYTES = 16


def decode(values: pa.Array, data_type: DataType) -> pa.Array:
    """The values, which are binary, in the Arrow type of ``data_type``; null where they are not known."""
    match data_type:
        case Decimal():
            return _decimals(values, arrow_type(data_type))
        case Fixed(length):
            return _of_length(values, length)
        case Primitive("uuid"):
            return _of_length(values, 16)
        case Primitive("string"):
            return _texts(values)
        case Primitive("binary"):
            return values.cast(pa.binary())
        case Primitive(name) if name in _FORMS:
            return _numbers(values, name, arrow_type(data_type))
    return pa.nulls(len(values), arrow_type(data_type))


def _numbers(values: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    forms = _FORMS[name]
    widest = np.dtype(forms[max(forms)])
    numbers = np.zeros(len(values), widest)
    known = np.zeros(len(values), np.bool_)
    lengths = _lengths(values)
    for length, form in forms.items():
        rows = np.flatnonzero(lengths == length)
        if len(rows):
            found = np.frombuffer(_joined(values, rows), form).astype(widest)
            if length < widest.itemsize and name.startswith("timestamp"):
                found *= _DAY[name.replace("_ntz", "")]
            numbers[rows] = found
            known[rows] = True
    if name == "boolean":
        return pa.array(numbers != 0, mask=~known)
    array = pa.array(numbers, mask=~known)
    return array if array.type == kind else array.view(kind)


def _texts(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # a bound that was cut inside of a character
        return pa.array([_text(value) for value in values.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _of_length(values: pa.Array, length: int) -> pa.Array:
    right = pc.equal(pc.binary_length(values), length)
    return pc.if_else(right, values, pa.scalar(None, values.type)).cast(pa.binary(length))


def _decimals(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return decimals_of_bytes(values, kind)


def decimals_of_bytes(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decimals of big-endian two's complement numbers of 1 to 16 bytes; null for other lengths."""
    numbers = np.zeros((len(values), _DECIMAL_BYTES), np.uint8)
    known = np.zeros(len(values), np.bool_)
    lengths = _lengths(values)
    for length in np.unique(lengths):
        if not 0 < length <= _DECIMAL_BYTES:
            continue
        rows = np.flatnonzero(lengths == length)
        digits = np.frombuffer(_joined(values, rows), np.uint8).reshape(len(rows), length)
        numbers[rows, :length] = digits[:, ::-1]
        numbers[rows, length:] = np.where(digits[:, :1] > 0x7F, 0xFF, 0)
        known[rows] = True
    bits = pa.py_buffer(np.packbits(known, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(numbers.tobytes())])


def _lengths(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The length of each value; -1 for a null."""
    lengths: np.ndarray[tuple[int], np.dtype[np.int64]] = (
        pc.fill_null(pc.binary_length(values), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return lengths


def _joined(values: pa.Array, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> memoryview:
    """The bytes of the values at ``rows``, one after the other."""
    chosen = values if len(rows) == len(values) else values.take(pa.array(rows))
    chosen = chosen.cast(pa.large_binary())
    _, offset_bytes, data = chosen.buffers()
    offsets = np.frombuffer(offset_bytes, np.int64)[chosen.offset : chosen.offset + len(chosen) + 1]
    return memoryview(data)[offsets[0] : offsets[-1]]
