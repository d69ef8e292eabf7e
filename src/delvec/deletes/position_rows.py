"""Full-row deletes by position: Parquet files with a row for each deleted row.

    file_path   string   the data file, as the metadata names it; field id 2147483546
    pos         long     the row's position in it; field id 2147483545

Rows are sorted by both, as Iceberg's specification asks. `position_file` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delvec.bitmap import Bitmap
from delvec.deletes.position_file import FILE_PATH, POS

FILE_PATH_ID, POS_ID = 2147483546, 2147483545
_FIELD_ID = "PARQUET:field_id"
_SCHEMA = pa.schema(
    [
        pa.field(FILE_PATH, pa.string(), nullable=False, metadata={_FIELD_ID: str(FILE_PATH_ID)}),
        pa.field(POS, pa.int64(), nullable=False, metadata={_FIELD_ID: str(POS_ID)}),
    ]
)
_DELETE_TYPE = {"delete-type": "position"}
_CODEC = "zstd"


def position_file(positions: Mapping[str, Bitmap]) -> bytes:
    """A position file with the deleted rows of data files, by their names in the metadata."""
    names = sorted(positions)
    rows = [positions[name].to_numpy() for name in names]
    numbers = np.repeat(np.arange(len(names)), [len(part) for part in rows])
    columns = [
        pa.array(names, pa.string()).take(pa.array(numbers)),
        pa.array(np.concatenate(rows) if rows else np.array([], np.int64)),
    ]
    table = pa.Table.from_arrays(columns, schema=_SCHEMA)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression=_CODEC, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(_DELETE_TYPE)
    data: bytes = sink.getvalue().to_pybytes()
    return data
