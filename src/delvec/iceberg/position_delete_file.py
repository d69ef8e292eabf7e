"""Stores position-delete files (`delvec.deletes.position_rows`) and describes them for manifests.

Format version 3 has vectors instead (`vector_file`); these files are for version 2. A file deletes from one
data file only, so it goes when that file goes, and the equal bounds of ``file_path`` say which one it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from delvec import location
from delvec.bitmap import Bitmap
from delvec.deletes.position_rows import FILE_PATH_ID, POS_ID, position_file
from delvec.iceberg.entry_maps import BOUNDS, COUNTS, maps_of
from delvec.iceberg.single_values import encode
from delvec.row_delta import new_file_id
from delvec.schema import Primitive
from delvec.storage import Storage, in_parallel


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
        name, rows = deletes
        data = position_file({name: rows})
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
