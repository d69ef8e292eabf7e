"""Iceberg's binary form of single values, as bounds and partition summaries have it, by columns.

    boolean                       1 byte, 0 is false
    int, date; long, time, timestamps     4 and 8 bytes, little-endian
    float, double                 4 and 8 bytes, little-endian
    string, binary, fixed, uuid   the bytes
    decimal                       the unscaled value, big-endian two's complement, as few bytes as suffice

A column's type may have been promoted since a value was written, so the value's length says its type: 4 bytes
of a long are an int, 4 bytes of a double a float, 4 bytes of a timestamp a date. A value of any other length
is not known, nor is a date that the timestamp cannot hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.schema import DataType, Decimal, Fixed, Primitive, arrow_type

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
Digits = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
"""A row of bytes for each value."""

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
_MAX_LONG = 2**63 - 1
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


def encode(values: pa.Array, data_type: DataType) -> pa.LargeBinaryArray:
    """The values, which have the Arrow type of ``data_type``, in binary form; null stays null.

    Types without single values (structs, lists, maps, variant, geometry) are all null.
    """
    present = values.drop_null()
    match data_type:
        case Decimal():
            written = _shortest(decimal_digits(present))
        case Fixed() | Primitive("string" | "binary" | "uuid"):
            written = present.cast(pa.large_binary())
        case Primitive("float" | "double" as name):
            written = _of_one_size(present.to_numpy(zero_copy_only=False).astype(_widest(name)))
        case Primitive(name) if name in _FORMS:
            written = _of_one_size(integers(present).astype(_widest(name)))
        case _:
            return pa.nulls(len(values), pa.large_binary())
    if len(present) == len(values):
        return written
    return pc.replace_with_mask(pa.nulls(len(values), pa.large_binary()), values.is_valid(), written)


def integers(values: pa.Array) -> Numbers:
    """The numbers that stand for the values: days since 1970 for dates, for example. No value is null."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    numbers: Numbers = values.cast(pa.int64()).to_numpy()
    return numbers


def decimal_digits(values: pa.Decimal128Array) -> Digits:
    """The unscaled values as big-endian two's complement: 16 bytes a row."""
    data = np.frombuffer(values.buffers()[1] or b"", np.uint8).reshape(-1, _DECIMAL_BYTES)
    return data[values.offset : values.offset + len(values), ::-1]


def ragged(data: np.ndarray[tuple[int], np.dtype[np.uint8]], lengths: Numbers) -> pa.LargeBinaryArray:
    """The binary values of these lengths that follow one another in ``data``."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def _widest(name: str) -> str:
    forms = _FORMS[name]
    return forms[max(forms)]


def _of_one_size(numbers: np.ndarray[tuple[int], Any]) -> pa.LargeBinaryArray:
    data = np.frombuffer(numbers.tobytes(), np.uint8)
    return ragged(data, np.full(len(numbers), numbers.itemsize, np.int64))


def _shortest(digits: Digits) -> pa.LargeBinaryArray:
    """Without the leading bytes that only repeat the sign, which is the highest bit of what is left."""
    sign = np.where(digits[:, :1] > 0x7F, 0xFF, 0)
    repeats = (digits[:, :-1] == sign) & ((digits[:, 1:] > 0x7F) == (sign > 0))
    dropped = np.logical_and.accumulate(repeats, axis=1).sum(axis=1)
    kept = np.arange(_DECIMAL_BYTES) >= dropped[:, None]
    return ragged(digits[kept], _DECIMAL_BYTES - dropped)


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
            fits = np.ones(len(rows), np.bool_)
            if length < widest.itemsize and name.startswith("timestamp"):
                day = _DAY[name.replace("_ntz", "")]
                fits = np.abs(found) <= _MAX_LONG // day
                found = np.where(fits, found, 0) * day
            numbers[rows] = found
            known[rows] = fits
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


def _lengths(values: pa.Array) -> Numbers:
    """The length of each value; -1 for a null."""
    lengths: Numbers = (
        pc.fill_null(pc.binary_length(values), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return lengths


def _joined(values: pa.Array, rows: Numbers) -> memoryview:
    """The bytes of the values at ``rows``, one after the other."""
    chosen = values if len(rows) == len(values) else values.take(pa.array(rows))
    chosen = chosen.cast(pa.large_binary())
    _, offset_bytes, data = chosen.buffers()
    offsets = np.frombuffer(offset_bytes, np.int64)[chosen.offset : chosen.offset + len(chosen) + 1]
    return memoryview(data)[offsets[0] : offsets[-1]]
