"""Columns of manifests and manifest lists under fixed names and types, found by field id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import one_chunk
from delvec.errors import FormatError
from delvec.iceberg.avro_columns import AvroTable


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of the specification.

    path      field ids from the outermost record on: ``2.100``
    type      as delvec keeps it. The fields of a struct inside of a list are found by their order.
    default   for files of older versions that do not have the field, and for nulls
    """

    path: str
    name: str
    type: pa.DataType
    required: bool = False
    default: int | None = None


def typed_columns(file: AvroTable, fields: Sequence[AvroField]) -> dict[str, pa.Array]:
    """The column of each field. FormatError if one is missing or has values of another type."""
    return {field.name: _column(file, field) for field in fields}


def _column(file: AvroTable, field: AvroField) -> pa.Array:
    column = file.columns.get(field.path)
    if column is None:
        if field.required:
            raise FormatError(f"Avro schema has no field {_place(field)}")
        return pa.nulls(file.count, field.type) if field.default is None else _repeated(field, file.count)
    array = typed(one_chunk(column), field.type, _place(field))
    if field.default is not None and array.null_count:
        array = pc.fill_null(array, field.default)
    if field.required and array.null_count:
        raise FormatError(f"field {_place(field)} is null in {array.null_count} records, expected none")
    return array


def typed(array: pa.Array, kind: pa.DataType, place: str) -> pa.Array:
    """The array as ``kind``; FormatError if its values do not fit. ``place`` names it in the error."""
    if array.type == kind:
        return array
    try:
        return _renamed(array, kind) if pt.is_nested(kind) else array.cast(kind)
    except (pa.ArrowException, TypeError):
        raise FormatError(f"field {place} has the type {array.type}, expected {kind}") from None


def _renamed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """A list or a struct whose fields get the names and types of ``kind``, without a copy of the values."""
    if pt.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pt.is_struct(kind):
        if not pt.is_struct(array.type) or array.type.num_fields != kind.num_fields:
            raise TypeError(array.type)
        children = [_renamed(array.field(at), kind.field(at).type) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pt.is_large_list(kind):
        if not (pt.is_large_list(array.type) or pt.is_list(array.type)):
            raise TypeError(array.type)
        values = _renamed(array.values, kind.value_type)
        offsets = array.offsets.cast(pa.int64())
        return pa.LargeListArray.from_arrays(offsets, values, type=kind, mask=array.is_null())
    return array.cast(kind)


def _repeated(field: AvroField, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(field.default, field.type), count)


def _place(field: AvroField) -> str:
    return f"{field.path} ({field.name})"
