"""What a file action is about: the data file's path together with its deletion vector.

A vector's unique id is its storage type, its path or bytes, and ``@offset`` where it has one. One
path may stand in the log with several vectors, one after the other; (path, vector id) never does.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# Paths are URIs, so a control character cannot occur in one.
_SEPARATOR = "\x00"


def vector_ids(actions: pa.Table) -> pa.ChunkedArray:
    """The unique id of each row's vector; null where it has none."""
    storage, path = actions.column("dv_storage"), actions.column("dv_path")
    at_offset = pc.binary_join_element_wise("@", actions.column("dv_offset").cast(pa.string()), "")
    return pc.binary_join_element_wise(storage, path, pc.fill_null(at_offset, ""), "")


def file_keys(actions: pa.Table) -> pa.ChunkedArray:
    """One text per row that is equal exactly where path and vector id are."""
    paths = actions.column("path")
    if actions.column("dv_storage").null_count == len(actions):
        return paths
    ids = pc.fill_null(vector_ids(actions), "")
    separated = pc.binary_join_element_wise(paths, ids, _SEPARATOR)
    return pc.if_else(pc.equal(ids, ""), paths, separated)
