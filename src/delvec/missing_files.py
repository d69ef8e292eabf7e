"""Which files of a table no longer exist in the store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.storage import Storage

_NAMED_FILES = 3
_READERS = 16
# For this many files and more, listing the table takes fewer requests than one request per file.
_LIST_FROM = 2000


def missing_files(storage: Storage, needed: pa.Array) -> pa.Array:
    """Those of the files that do not exist, in order. Many files are looked up in one listing."""
    unseen = needed
    if len(needed) >= _LIST_FROM:
        present = pa.array([location.join(storage.root, entry.path) for entry in storage.list()], pa.string())
        unseen = needed.filter(pc.invert(pc.is_in(needed, value_set=present)))
    with ThreadPoolExecutor(_READERS) as pool:
        exists = list(pool.map(storage.exists, unseen.to_pylist()))
    return unseen.filter(pc.invert(pa.array(exists, pa.bool_())))


def named(storage: Storage, missing: pa.Array) -> str:
    """The first of the files, and how many more there are, for a message."""
    names = [location.relative(storage.root, name) or name for name in missing[:_NAMED_FILES].to_pylist()]
    more = f" and {len(missing) - _NAMED_FILES:,} more" if len(missing) > _NAMED_FILES else ""
    return ", ".join(names) + more
