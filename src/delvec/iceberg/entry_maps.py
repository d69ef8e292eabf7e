"""Statistics of files by column id, as entries of a manifest have them: a map for each file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from delvec.iceberg.manifest import ENTRIES_SCHEMA

COUNTS = ENTRIES_SCHEMA.field("value_counts").type
BOUNDS = ENTRIES_SCHEMA.field("lower_bounds").type


def maps_of(columns: Mapping[int, pa.Array], count: int, kind: pa.DataType) -> pa.LargeListArray:
    """A map of type ``kind`` for each of ``count`` files. A column that has no value for a file is not in the
    file's map; a map without columns is null.
    """
    if not columns:
        return pa.nulls(count, kind)
    value_type = kind.value_type.field(1).type
    arrays = [array.cast(value_type) for array in columns.values()]
    present = np.column_stack([array.is_valid().to_numpy(zero_copy_only=False) for array in arrays])
    files, positions = np.nonzero(present)
    keys = pa.array(np.array(list(columns), np.int32)[positions])
    values = pa.concat_arrays(arrays).take(pa.array(positions * count + files))
    sizes = present.sum(axis=1)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    items = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    return pa.LargeListArray.from_arrays(pa.array(offsets), items, type=kind, mask=pa.array(sizes == 0))
