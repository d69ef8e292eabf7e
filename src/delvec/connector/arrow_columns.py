"""Columns of a data file, converted to the table's names and types, which may be wider.

A column is found by its physical name, also inside structs; for columns that are found by id this is the name
in the file (`delvec.field_names`). A column that is not in the file is null, or has its initial default.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.schema import Array, DataType, Field, Fixed, Map, Primitive, Struct, arrow_type

_VARIANT = Primitive("variant")
# Spark's Arrow reader recognizes a variant by this metadata.
_VARIANT_TYPE = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
_SHREDDED = "typed_value"
_INTEGER_DIGITS = 20
_UUID_LENGTH = 36
_UUID_DIGITS = [place for place in range(_UUID_LENGTH) if place not in (8, 13, 18, 23)]


def output_field(field: Field) -> pa.Field:
    """The Arrow field that Spark expects: it compares names, types and nullability."""
    return pa.field(field.name, output_type(field.type), nullable=field.nullable)


def output_type(data_type: DataType) -> pa.DataType:
    match data_type:
        case Array(element, contains_null):
            return pa.list_(pa.field("element", output_type(element), nullable=contains_null))
        case Map(key, value, value_contains_null):
            item = pa.field("value", output_type(value), nullable=value_contains_null)
            return pa.map_(output_type(key), item)
        case Struct(fields):
            return pa.struct([output_field(field) for field in fields])
        case Fixed():
            return pa.binary()
        case Primitive("uuid"):
            return pa.string()
    return _VARIANT_TYPE if data_type == _VARIANT else arrow_type(data_type)


def find(fields: Iterable[pa.Field], field: Field) -> int | None:
    """The index of the table's ``field`` among the fields of a file; None if it is not there."""
    for index, candidate in enumerate(fields):
        if candidate.name == field.physical_name:
            return index
    return None


def absent(field: Field, count: int) -> pa.Array:
    """The column for ``count`` rows of a file that was written before the table had it."""
    if field.initial_default is None:
        return pa.nulls(count, output_type(field.type))
    if isinstance(field.type, Struct | Array | Map):
        return pa.repeat(pa.scalar(field.initial_default, output_type(field.type)), count)
    return shown(pa.repeat(pa.scalar(field.initial_default, arrow_type(field.type)), count), field.type)


def conform(stored: pa.Array, data_type: DataType) -> pa.Array:
    """The file's array with logical names and in the table's type."""
    match data_type:
        case Struct(fields):
            children = [_child(stored, field) for field in fields]
            kinds = [output_field(field) for field in fields]
            return pa.StructArray.from_arrays(children, fields=kinds, mask=stored.is_null())
        case Array(element):
            stored = stored.cast(pa.list_(stored.type.value_field))  # the file may say "large"
            values = conform(stored.values, element)
            return _nested(stored, output_type(data_type), values)
        case Map(key, value):
            kind = output_type(data_type)
            keys = conform(stored.keys, key)
            items = conform(stored.items, value)
            entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
            return _nested(stored, kind, entries)
    if data_type == _VARIANT:
        return _variant(stored)
    return shown(widen(stored, arrow_type(data_type)), data_type)


def shown(values: pa.Array, data_type: DataType) -> pa.Array:
    """Values of a primitive type in the form that Spark expects."""
    if data_type == Primitive("uuid"):
        return _uuid_texts(values)
    return values.cast(pa.binary()) if isinstance(data_type, Fixed) else values


def widen(stored: pa.Array, target: pa.DataType) -> pa.Array:
    """The values in the table's primitive type; a value that does not fit is an ArrowInvalid."""
    if isinstance(stored.type, pa.BaseExtensionType):
        stored = stored.storage
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(stored.type) and stored.type.tz is None:
        return stored.cast(pa.timestamp("us")).cast(target)  # a file stores it in UTC
    if pa.types.is_decimal(target) and pa.types.is_integer(stored.type):
        return stored.cast(pa.decimal128(_INTEGER_DIGITS, 0)).cast(target)
    return stored.cast(target)


def _uuid_texts(values: pa.Array) -> pa.Array:
    """The texts of uuids, each given by its 16 bytes."""
    filled = pc.fill_null(values, bytes(16))
    numbers = np.frombuffer(b"".join(filled.to_pylist()), np.uint8).reshape(-1, 16)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    pairs = np.stack([digits[numbers >> 4], digits[numbers & 15]], axis=2).reshape(-1, 32)
    texts = np.full((len(values), _UUID_LENGTH), ord("-"), np.uint8)
    texts[:, _UUID_DIGITS] = pairs
    offsets = np.arange(len(values) + 1, dtype=np.int32) * _UUID_LENGTH
    strings = pa.StringArray.from_buffers(
        len(values), pa.py_buffer(offsets.tobytes()), pa.py_buffer(texts.tobytes())
    )
    return pc.if_else(values.is_valid(), strings, None)


def has_not_null(data_type: DataType, *, nullable: bool) -> bool:
    """Whether the column, or anything in it, is NOT NULL in the table."""
    match data_type:
        case Struct(fields):
            in_children = any(has_not_null(field.type, nullable=field.nullable) for field in fields)
        case Array(element, contains_null):
            in_children = has_not_null(element, nullable=contains_null)
        case Map(key, value, contains_null):
            in_children = has_not_null(key, nullable=True) or has_not_null(value, nullable=contains_null)
        case _:
            in_children = False
    return in_children or not nullable


def verify_not_null(values: pa.Array, data_type: DataType, name: str, *, nullable: bool) -> None:
    """Refuse a null in a NOT NULL column: Spark would read it as some value."""
    if values.null_count and not nullable:
        raise FormatError(f"column {name} contains a null, but the column is NOT NULL")
    match data_type:
        case Struct(fields):
            non_null = values.drop_null() if values.null_count else values
            for index, field in enumerate(fields):
                path = f"{name}.{field.name}"
                verify_not_null(non_null.field(index), field.type, path, nullable=field.nullable)
        case Array(element, contains_null):
            verify_not_null(values.flatten(), element, f"{name}.element", nullable=contains_null)
        case Map(key, value, contains_null):
            first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
            verify_not_null(values.keys[first:last], key, f"{name}.key", nullable=True)
            verify_not_null(values.items[first:last], value, f"{name}.value", nullable=contains_null)


def _nested(stored: pa.Array, kind: pa.DataType, child: pa.Array) -> pa.Array:
    """The list or map with another child: nulls and offsets are the file's own."""
    return pa.Array.from_buffers(
        kind, len(stored), stored.buffers()[:2], offset=stored.offset, children=[child]
    )


def _child(stored: pa.StructArray, field: Field) -> pa.Array:
    index = find(stored.type, field)
    if index is None:
        return absent(field, len(stored))
    return conform(stored.field(index), field.type)


def _variant(stored: pa.StructArray) -> pa.Array:
    if stored.type.get_field_index(_SHREDDED) >= 0:
        message = "a variant is shredded, expected only metadata and value"
        raise UnsupportedFeatureError(message, feature="variantShredding")
    parts = [stored.field(field.name).cast(pa.binary()) for field in _VARIANT_TYPE]
    return pa.StructArray.from_arrays(parts, fields=list(_VARIANT_TYPE), mask=stored.is_null())
