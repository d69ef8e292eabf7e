"""Bounds of the keys of equality deletes, as numbers, from their manifest entries. No file is opened."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.deletes.equality_bounds import is_integer
from delvec.iceberg.delete_scopes import PUFFIN
from delvec.iceberg.manifest import EQUALITY_DELETES
from delvec.iceberg.single_values import decode, integers
from delvec.iceberg.stats import values_of
from delvec.schema import DataType, Schema, Struct


def key_bounds(deletes: pa.Table, schema: Schema) -> tuple[pa.Array, pa.Array]:
    """The smallest and the largest key of each delete; null where it is not known, where a key may be null,
    and where several columns or one of another type are compared.
    """
    ids = one_chunk(deletes.column("equality_ids"))
    is_one = pc.equal(pc.list_value_length(ids), 1)
    is_key = pc.and_(is_one, pc.equal(one_chunk(deletes.column("content")), EQUALITY_DELETES))
    rows = np.flatnonzero(pc.fill_null(is_key, fill_value=False).to_numpy(zero_copy_only=False))
    lower, upper = (np.zeros(len(deletes), np.int64) for _ in range(2))
    known = np.zeros(len(deletes), np.bool_)
    if len(rows):
        types = _types(schema)
        field_ids = pc.list_flatten(ids.take(pa.array(rows))).to_numpy()
        for field_id in np.unique(field_ids).tolist():
            data_type = types.get(field_id)
            if data_type is not None and is_integer(data_type):
                of_field = rows[field_ids == field_id]
                found = _of_column(deletes.take(pa.array(of_field)), field_id, data_type)
                lower[of_field], upper[of_field], known[of_field] = found
    return pa.array(lower, mask=~known), pa.array(upper, mask=~known)


def _of_column(
    deletes: pa.Table, field_id: int, data_type: DataType
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    nulls = values_of(deletes.column("null_value_counts"), field_id)
    no_null = pc.or_(pc.equal(one_chunk(deletes.column("file_format")), PUFFIN), pc.equal(nulls, 0))
    known = pc.fill_null(no_null, fill_value=False).to_numpy(zero_copy_only=False)
    bounds = []
    for name in ("lower_bounds", "upper_bounds"):
        values = decode(values_of(deletes.column(name), field_id), data_type)
        is_known = values.is_valid().to_numpy(zero_copy_only=False)
        numbers = np.zeros(len(values), np.int64)
        numbers[is_known] = integers(values.drop_null())
        bounds.append(numbers)
        known &= is_known
    return bounds[0], bounds[1], known


def _types(schema: Schema) -> dict[int, DataType]:
    """The type of each column and of each field of structs, by field id."""
    types: dict[int, DataType] = {}
    for field in schema:
        if field.field_id is not None:
            types[field.field_id] = field.type
        if isinstance(field.type, Struct):
            types |= _types(field.type)
    return types
