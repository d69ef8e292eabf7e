"""Keys of file actions: the path of the data file and the id of its deletion vector.

A vector's unique id is its storage type, its path or bytes, and ``@offset`` if it has an offset. A log may
have a path several times, with one vector after the other, but never the same (path, vector id) twice.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# Paths are URIs, which cannot contain control characters.
_SEPARATOR = "\x00"


def vector_ids(actions: pa.Table) -> pa.ChunkedArray:
    """The unique id of each row's vector; null for a row without one."""
    storage, path = actions.column("dv_storage"), actions.column("dv_path")
    at_offset = pc.binary_join_element_wise("@", actions.column("dv_offset").cast(pa.string()), "")
    return pc.binary_join_element_wise(storage, path, pc.fill_null(at_offset, ""), "")


def file_keys(actions: pa.Table) -> pa.ChunkedArray:
    """A text for each row; two texts are equal if and only if path and vector id are equal."""
    paths = actions.column("path")
    if actions.column("dv_storage").null_count == len(actions):
        return paths
    ids = pc.fill_null(vector_ids(actions), "")
    separated = pc.binary_join_element_wise(paths, ids, _SEPARATOR)
    return pc.if_else(pc.equal(ids, ""), paths, separated)
