"""Full-row deletes by key: Parquet files with the key columns only, as every Iceberg reader takes them.

Columns have the ids of the table's columns. Integers are sorted and stored as differences, which is a few
bytes for dense keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from delvec.schema import Field, arrow_type

_CODEC = "zstd"
_FIELD_ID = "PARQUET:field_id"
_DELTA = "DELTA_BINARY_PACKED"


def key_file(keys: Sequence[pa.Array], fields: Sequence[Field]) -> bytes:
    """A Parquet file of keys; ``keys`` has an array for each field."""
    schema = pa.schema([_stored_field(field) for field in fields])
    table = pa.Table.from_arrays(list(keys), schema=schema)
    names = [field.name for field in schema]
    order = [(name, "ascending") for name in names]
    table = table.sort_by(order)
    integers = [field.name for field in schema if pt.is_integer(field.type) or pt.is_temporal(field.type)]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        compression=_CODEC,
        use_dictionary=[name for name in names if name not in integers],
        column_encoding=dict.fromkeys(integers, _DELTA) or None,
        store_schema=False,
    ) as writer:
        writer.write_table(table)
        ids = ",".join(str(field.field_id) for field in fields)
        writer.add_key_value_metadata({"delete-type": "equality", "delete-field-ids": ids})
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _stored_field(field: Field) -> pa.Field:
    metadata = {_FIELD_ID: str(field.field_id)}
    return pa.field(field.physical_name, arrow_type(field.type), metadata=metadata)
