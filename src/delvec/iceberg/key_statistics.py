"""Statistics of the key columns of equality deletes, as their entries in a manifest have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.equality_bounds import is_integer
from delvec.deletes.model import DeleteFile
from delvec.footers.statistics import measure
from delvec.iceberg.entry_maps import BOUNDS, COUNTS, maps_of
from delvec.iceberg.metrics_modes import DEFAULT_PROPERTY, measured_fields
from delvec.iceberg.single_values import encode
from delvec.iceberg.stats_writer import entry_statistics, measured_columns
from delvec.schema import Field, Schema, arrow_type
from delvec.storage import Storage

_KEY_METRICS = {DEFAULT_PROPERTY: "truncate(16)"}
"""The bounds of key columns are always recorded: scans leave out deletes by them."""


def key_statistics(storage: Storage, files: Sequence[DeleteFile], schema: Schema) -> dict[str, pa.Array]:
    """Counts and bounds of the key columns: of full rows from the footers, of vectors as they are given."""
    is_row = [file.encoding is DeleteEncoding.FULL_ROW for file in files]
    places = [file.location for file, row in zip(files, is_row, strict=True) if row]
    measured = measure(storage, places, measured_columns(schema, _KEY_METRICS))
    of_rows = entry_statistics(measured, schema=schema, properties=_KEY_METRICS)
    of_vectors = _vector_statistics(
        [file for file, row in zip(files, is_row, strict=True) if not row], schema
    )
    order = np.argsort(np.argsort(~np.array(is_row), kind="stable"), kind="stable")
    return {
        name: pa.concat_arrays([of_rows[name], of_vectors[name]]).take(pa.array(order)) for name in of_rows
    }


def _vector_statistics(files: Sequence[DeleteFile], schema: Schema) -> Mapping[str, pa.Array]:
    """A vector has no null. Bounds are left out of a column that the table no longer has, and of one whose
    codec is not delvec's: what its numbers mean is the codec's matter.
    """
    fields = {each.field.field_id: each.field for each in measured_fields(schema, _KEY_METRICS)}
    values: dict[int, pa.Array] = {}
    nulls: dict[int, pa.Array] = {}
    lower: dict[int, pa.Array] = {}
    upper: dict[int, pa.Array] = {}
    for field_id in dict.fromkeys(file.field_ids[0] for file in files):
        of_field = [file if file.field_ids[0] == field_id else None for file in files]
        values[field_id] = pa.array(
            [None if file is None else file.record_count for file in of_field], pa.int64()
        )
        nulls[field_id] = pc.multiply(values[field_id], 0)
        if field_id in fields and is_integer(fields[field_id].type):
            bounds = [(None, None) if file is None else (file.lower, file.upper) for file in of_field]
            lower[field_id] = _encoded([bound for bound, _ in bounds], fields[field_id])
            upper[field_id] = _encoded([bound for _, bound in bounds], fields[field_id])
    return {
        "value_counts": maps_of(values, len(files), COUNTS),
        "null_value_counts": maps_of(nulls, len(files), COUNTS),
        "lower_bounds": maps_of(lower, len(files), BOUNDS),
        "upper_bounds": maps_of(upper, len(files), BOUNDS),
    }


def _encoded(numbers: Sequence[int | None], field: Field) -> pa.Array:
    """Numbers that stand for values of the field, as bounds."""
    kind = arrow_type(field.type)
    values = pa.array(numbers, pa.int64())
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    return encode(values.cast(kind), field.type)
