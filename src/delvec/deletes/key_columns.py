"""Columns of new deletes by key: which columns may be keys, and the keys in their types."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.schema import DataType, Decimal, Field, Primitive, Schema, arrow_type

_TYPES = (
    *("boolean", "byte", "short", "integer", "long", "string", "binary"),
    *("date", "timestamp", "timestamp_ntz"),
)


def key_fields(schema: Schema, field_ids: Sequence[int]) -> tuple[Field, ...]:
    """The columns of these ids. Refused if one is not a column of the table, or of a type that no key has."""
    by_id = {field.field_id: field for field in schema}
    if not field_ids:
        raise InvalidOperationError("a delete by key has no key column, expected at least one")
    fields = []
    for field_id in field_ids:
        if field_id not in by_id:
            raise InvalidOperationError(
                f"key column has the field id {field_id}, expected the id of a top-level column"
            )
        verify_key_type(by_id[field_id])
        fields.append(by_id[field_id])
    if len(set(field_ids)) < len(field_ids):
        raise InvalidOperationError(f"key columns {list(field_ids)} repeat one, expected each once")
    return tuple(fields)


def verify_key_type(field: Field) -> None:
    """Refuse a column by which rows cannot be deleted: floating-point numbers have no certain equality."""
    if not is_key_type(field.type):
        raise UnsupportedFeatureError(
            f"key column {field.name!r} is of type {field.type}, expected an integer, a decimal, a boolean, "
            "a string, binary, a date or a timestamp",
            feature=f"key of type {field.type}",
        )


def key_array(values: pa.Array | pa.ChunkedArray, field: Field) -> pa.Array:
    """The keys in the Arrow type of the column. Refused if their type is another one or a value does not
    fit: a key that is changed would delete other rows.
    """
    target = arrow_type(field.type)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.type == target:
        return values
    if not _is_same_kind(values.type, target):
        raise InvalidOperationError(
            f"keys of column {field.name!r} are {values.type}, expected {field.type} ({target})"
        )
    try:
        return values.cast(target)
    except pa.ArrowInvalid as error:
        raise InvalidOperationError(
            f"a key of column {field.name!r} does not fit into {field.type}: {error}"
        ) from None


def is_key_type(data_type: DataType) -> bool:
    """Whether values of the type are equal exactly if they are stored alike."""
    return isinstance(data_type, Decimal) or (isinstance(data_type, Primitive) and data_type.name in _TYPES)


def _is_same_kind(actual: pa.DataType, expected: pa.DataType) -> bool:
    """Whether values of both types mean the same where the cast is exact."""
    if pt.is_null(actual):
        return True
    if pt.is_timestamp(expected):
        return bool(pt.is_timestamp(actual)) and (actual.tz is None) == (expected.tz is None)
    for is_kind in (pt.is_integer, pt.is_decimal, _is_text, _is_bytes):
        if is_kind(expected):
            return bool(is_kind(actual))
    return False


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind))


def keys_of(batch: pa.RecordBatch | pa.Table, fields: Sequence[Field]) -> list[pa.Array]:
    """The key columns of a batch, in the order of ``fields``; other columns are ignored."""
    names = batch.schema.names
    columns = []
    for field in fields:
        if names.count(field.name) != 1:
            raise InvalidOperationError(
                f"the keys have {names.count(field.name)} columns {field.name!r}, expected one; they have: "
                f"{', '.join(names)}"
            )
        columns.append(key_array(batch.column(field.name), field))
    return columns
