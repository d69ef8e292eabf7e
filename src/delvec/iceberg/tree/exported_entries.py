"""Live entries of a tree as entries of Avro manifests: statistics as maps, equality deletes as full rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delvec.chunked import one_chunk
from delvec.deletes.equality_set import top_level
from delvec.deletes.key_rows import key_file
from delvec.deletes.stored_keys import stored_keys
from delvec.errors import UnsupportedFeatureError
from delvec.iceberg.delete_scopes import PUFFIN
from delvec.iceberg.entry_maps import BOUNDS, COUNTS, maps_of
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest import DATA_FILE, EQUALITY_DELETES, EXISTING
from delvec.iceberg.metrics_modes import DEFAULT_PROPERTY, measured_fields
from delvec.iceberg.single_values import encode
from delvec.iceberg.tree.content_stats import LOWER, NANS, NULLS, UPPER, VALUES, promoted, statistic
from delvec.iceberg.tree.entries import CONTENT_STATS
from delvec.iceberg.tree.measured_columns import bound_type
from delvec.plan import DELETION_VECTOR
from delvec.schema import Field, Schema
from delvec.storage import Storage

Put = Callable[[str, bytes], str]
"""Stores a file at a path of the new table; the location as its metadata records it."""

_ALL = {DEFAULT_PROPERTY: "full"}
_MAPS = {
    VALUES: ("value_counts", COUNTS),
    NULLS: ("null_value_counts", COUNTS),
    NANS: ("nan_value_counts", COUNTS),
    LOWER: ("lower_bounds", BOUNDS),
    UPPER: ("upper_bounds", BOUNDS),
}


def data_files(live: pa.Table, schema: Schema, locations: Locations) -> pa.Table:
    """The live data files as EXISTING entries, with their statistics as maps."""
    return _existing(_with_maps(live, schema), locations)


def delete_files(
    live: pa.Table, schema: Schema, locations: Locations, *, storage: Storage, put: Put
) -> pa.Table:
    """The live deletes as EXISTING entries. Vectors of keys are stored as files of full rows."""
    entries = _existing(live, locations)
    is_vector = pc.and_(
        pc.equal(live.column("content"), EQUALITY_DELETES), pc.equal(live.column("file_format"), PUFFIN)
    )
    rows = np.flatnonzero(one_chunk(is_vector).to_numpy(zero_copy_only=False)).tolist()
    if not rows:
        return entries
    listed = entries.to_pylist()
    for row in rows:
        listed[row] |= _full_rows(listed[row], schema, locations, storage, put)
    return pa.Table.from_pylist(listed, schema=entries.schema)


def _existing(live: pa.Table, locations: Locations) -> pa.Table:
    """The entries with all that they inherited, where they are now."""
    entries = _with(live, "status", pa.repeat(pa.scalar(EXISTING, pa.int32()), len(live)))
    if locations.root is None:
        return entries
    for name in ("file_path", "referenced_data_file"):
        column = one_chunk(entries.column(name))
        entries = _with(
            entries, name, locations.resolve_many(column) if column.null_count < len(column) else column
        )
    return entries


def _with_maps(live: pa.Table, schema: Schema) -> pa.Table:
    if CONTENT_STATS not in live.column_names:
        return live  # a snapshot from before the upgrade: its manifests have maps
    found: dict[str, dict[int, pa.Array]] = {name: {} for name in _MAPS}
    for measured in measured_fields(schema, _ALL):
        field = measured.field
        kind = bound_type(field.type)
        if field.field_id is None:
            continue
        for name, by_id in found.items():
            values = statistic(live.column(CONTENT_STATS), field.field_id, name)
            if values is None or (name in (LOWER, UPPER) and pt.is_null(kind)):
                continue
            by_id[field.field_id] = (
                encode(promoted(values, kind), field.type) if name in (LOWER, UPPER) else values
            )
    is_data = pc.equal(one_chunk(live.column("content")), DATA_FILE)
    for name, (column, kind) in _MAPS.items():
        maps = maps_of(found[name], len(live), kind)
        live = _with(live, column, pc.if_else(is_data, maps, pa.scalar(None, kind)))
    return live


def _full_rows(
    delete: Mapping[str, Any], schema: Schema, locations: Locations, storage: Storage, put: Put
) -> dict[str, Any]:
    """The file of full rows with the keys of a vector."""
    place = locations.resolve(delete["file_path"])
    (field_id,) = delete["equality_ids"]
    column = _column(schema, field_id, place)
    described = {
        "location": place,
        "encoding": DELETION_VECTOR,
        "offset": delete["content_offset"],
        "length": delete["content_size"],
        "cardinality": delete["record_count"],
    }
    keys = [one_chunk(values) for values in stored_keys(storage, described, [top_level(column)])]
    data = key_file(keys, [column])
    return {
        "file_path": put(f"data/deletes-{uuid.uuid4()}.parquet", data),
        "file_format": "parquet",
        "record_count": len(keys[0]),
        "file_size": len(data),
        "content_offset": None,
        "content_size": None,
        "encoding": None,
    }


def _column(schema: Schema, field_id: int, place: str) -> Field:
    for field in schema:
        if field.field_id == field_id:
            return field
    raise UnsupportedFeatureError(
        f"vector of keys is of column {field_id}, which is dropped or in a struct, expected a column of the "
        f"table: rewrite_deletes() replaces it: {place}",
        feature="export of keys of nested or dropped columns",
    )


def _with(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), column)
