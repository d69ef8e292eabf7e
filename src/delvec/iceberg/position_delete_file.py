"""Writes position-delete files: Parquet files with a row for each deleted row of one data file.

    file_path   string   the data file, as the metadata names it; field id 2147483546
    pos         long     the row's position in it, ascending; field id 2147483545

Format version 3 has vectors instead (`vector_file`); these files are for version 2. A file deletes from one
data file only, so it goes when that file goes, and the equal bounds of ``file_path`` say which one it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from delvec import location
from delvec.bitmap import Bitmap
from delvec.deletes.position_file import FILE_PATH, POS
from delvec.iceberg.entry_maps import BOUNDS, COUNTS, maps_of
from delvec.iceberg.single_values import encode
from delvec.row_delta import new_file_id
from delvec.schema import Primitive
from delvec.storage import Storage, in_parallel

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


def store_position_deletes(
    storage: Storage, file_names: Sequence[str], bitmaps: Sequence[Bitmap], *, folder: str
) -> pa.Table:
    """Write a file for each data file to ``folder``, a path below the storage's root.

    ``file_names`` are the data files, as the metadata names them; ``bitmaps`` their deleted rows, which are
    not empty.

    Returns a row for each file, in the given order: its ``location``, and of the columns of its entry in a
    manifest ``file_size``, ``record_count``, ``referenced_data_file``, ``value_counts``,
    ``null_value_counts``, ``lower_bounds`` and ``upper_bounds``.
    """

    def store(deletes: tuple[str, Bitmap]) -> tuple[str, int]:
        path = f"{folder}/deletes-{new_file_id()}.parquet".lstrip("/")
        data = _file(*deletes)
        storage.put(path, data)
        return location.join(storage.root, path), len(data)

    stored = in_parallel(store, zip(file_names, bitmaps, strict=True))
    places = {
        "location": pa.array([place for place, _ in stored], pa.string()),
        "file_size": pa.array([size for _, size in stored], pa.int64()),
        "record_count": pa.array([bitmap.cardinality for bitmap in bitmaps], pa.int64()),
        "referenced_data_file": pa.array(file_names, pa.string()),
    }
    return pa.table(places | _statistics(file_names, bitmaps))


def _file(name: str, rows: Bitmap) -> bytes:
    positions = pa.array(rows.to_numpy(), pa.int64())
    names = pa.repeat(pa.scalar(name, pa.string()), len(positions))
    table = pa.Table.from_arrays([names, positions], schema=_SCHEMA)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression=_CODEC, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(_DELETE_TYPE)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _statistics(names: Sequence[str], bitmaps: Sequence[Bitmap]) -> dict[str, pa.Array]:
    count = len(names)
    paths = pa.array(names, pa.string())
    counts = pa.array([bitmap.cardinality for bitmap in bitmaps], pa.int64())
    zeros = pa.repeat(pa.scalar(0, pa.int64()), count)
    return {
        "value_counts": maps_of({FILE_PATH_ID: counts, POS_ID: counts}, count, COUNTS),
        "null_value_counts": maps_of({FILE_PATH_ID: zeros, POS_ID: zeros}, count, COUNTS),
        "lower_bounds": _bounds(paths, [bitmap.min() for bitmap in bitmaps]),
        "upper_bounds": _bounds(paths, [bitmap.max() for bitmap in bitmaps]),
    }


def _bounds(paths: pa.Array, positions: Sequence[int | None]) -> pa.LargeListArray:
    encoded = {
        FILE_PATH_ID: encode(paths, Primitive("string")),
        POS_ID: encode(pa.array(positions, pa.int64()), Primitive("long")),
    }
    return maps_of(encoded, len(paths), BOUNDS)
