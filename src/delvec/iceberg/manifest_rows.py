"""What the nodes of manifests are made of: the files of each manifest, and short names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.chunked import one_chunk

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot


def rows_by_manifest(files: pa.Table) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The ascending rows of ``files`` of each manifest."""
    manifests = pc.struct_field(one_chunk(files.column("entry")), "manifest").dictionary_encode()
    codes = manifests.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(manifests.dictionary)), side="right")
    parts = np.split(order, ends[:-1]) if len(ends) else []
    return dict(zip(manifests.dictionary.to_pylist(), parts, strict=True))


def short_place(snapshot: Snapshot, path: str | None) -> str | None:
    """The place of a recorded path, relative to the table if it is inside."""
    if path is None:
        return None
    place = snapshot.locations.resolve(path)
    return location.relative(snapshot.location, place) or place
