"""Values of Arrow columns as Avro encodes them, without a Python object for each value.

The encoded values of a column are a binary array with one item for each row, so that a record is the items of
its fields joined.

    int, long         zigzag varint                  boolean         1 byte
    float, double     4 and 8 bytes, little-endian   fixed           the bytes; decimals are big-endian
    string, bytes     length, then the bytes         record          its fields, one after the other
    union with null   0, or 2 and the value          array           number of items, the items, 0
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.errors import FormatError
from delvec.iceberg.avro_schema import Json
from delvec.iceberg.single_values import Digits, Numbers, decimal_digits, integers, ragged

_NULL, _VALUE, _END = (pa.scalar(bytes([byte]), pa.large_binary()) for byte in (0, 2, 0))
_NOTHING = pa.scalar(b"", pa.large_binary())


def encode(values: pa.Array, kind: Json, where: str) -> pa.LargeBinaryArray:
    """The values as Avro's type ``kind``. ``where``: the field, for errors.

    A null in a field that is not a union is a FormatError.
    """
    if isinstance(kind, list):
        return _optional(values, kind[1], where)
    if values.null_count:
        raise FormatError(f"field {where} is null in {values.null_count} records, expected none")
    name = kind if isinstance(kind, str) else kind["type"]
    match name:
        case "int" | "long":
            return _varints(integers(values))
        case "string" | "bytes":
            data = _binary(values)
            return joined([_varints(pc.binary_length(data).to_numpy()), data])
        case "boolean":
            return _of_fixed_size(integers(values).astype(np.uint8).reshape(-1, 1))
        case "float" | "double":
            numbers = values.to_numpy().astype("<f4" if name == "float" else "<f8", copy=False)
            return _of_fixed_size(np.frombuffer(numbers.tobytes(), np.uint8).reshape(-1, numbers.itemsize))
        case "fixed" if pa.types.is_decimal(values.type):
            return _of_fixed_size(decimal_digits(values)[:, -kind["size"] :])
        case "fixed":
            return _binary(values)
        case "array":
            return _arrays(values, kind["items"], where)
        case "record":
            fields = enumerate(kind["fields"])
            return joined([encode(values.field(at), field["type"], where) for at, field in fields])
    raise FormatError(f"field {where} has the Avro type {name!r}, which delvec does not write")


def joined(parts: Sequence[pa.LargeBinaryArray]) -> pa.LargeBinaryArray:
    """The items of all arrays, joined row by row."""
    return pc.binary_join_element_wise(*parts, _NOTHING)


def _optional(values: pa.Array, kind: Json, where: str) -> pa.LargeBinaryArray:
    """A union of null and ``kind``, in this order."""
    if kind == "null" or values.null_count == len(values):
        return pa.repeat(_NULL, len(values))
    present = values.drop_null() if values.null_count else values
    written = joined([_VALUE, encode(present, kind, where)])
    if len(present) == len(values):
        return written
    return pc.replace_with_mask(pa.repeat(_NULL, len(values)), values.is_valid(), written)


def _arrays(values: pa.LargeListArray, kind: Json, where: str) -> pa.LargeBinaryArray:
    offsets = values.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    items = encode(values.values.slice(first, last - first), kind, where)
    lists = pa.LargeListArray.from_arrays(pa.array(offsets - first), items)
    counts = np.diff(offsets)
    ends = pc.if_else(pa.array(counts > 0), _END, _NOTHING)
    return joined([_varints(counts), pc.binary_join(lists, _NOTHING), ends])


def _varints(values: Numbers) -> pa.LargeBinaryArray:
    """Each number as a zigzag varint: 7 bits a byte, the lowest first; the last byte is below 0x80."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    lengths = np.ones(len(values), np.int64)
    for bits in range(7, 64, 7):
        more = zigzag >= np.uint64(1 << bits)
        if not more.any():
            break
        lengths += more
    width = int(lengths.max(initial=1))
    digits = np.empty((len(values), width), np.uint8)
    for at in range(width):
        digits[:, at] = (zigzag >> np.uint64(7 * at)) & np.uint64(0x7F)
        digits[lengths > at + 1, at] |= 0x80
    return ragged(digits[np.arange(width) < lengths[:, None]], lengths)


def _of_fixed_size(digits: Digits) -> pa.LargeBinaryArray:
    count, size = digits.shape
    return ragged(digits.reshape(-1), np.full(count, size, np.int64))


def _binary(values: pa.Array) -> pa.LargeBinaryArray:
    is_text = pa.types.is_string(values.type)
    return (values.cast(pa.binary()) if is_text else values).cast(pa.large_binary())
