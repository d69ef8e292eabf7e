"""Manifest vectors that a commit writes: which positions of a leaf are no longer live.

A small vector is inline in its entry; larger ones are in one Puffin file of the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.chunked import Rows
from delvec.errors import FormatError
from delvec.iceberg.tree.entries import ADDED, MANIFEST_DV, entries_table
from delvec.iceberg.tree.manifest_files import ManifestFiles, StoredBlob
from delvec.iceberg.tree.new_root import Commit
from delvec.iceberg.tree.root import Leaf, Root

_PUFFIN = "puffin"


def new_vectors(
    root: Root,
    masked: Mapping[str, Rows],
    commit: Commit,
    *,
    files: ManifestFiles,
    inline_bytes: int,
    stats: pa.StructType,
) -> pa.Table:
    """The entries of the manifest vectors for ``masked`` positions of leaves, by location, of ``root``.

    Each is united with the leaf's old one.
    """
    leaves = [root.leaf_at[place] for place in sorted(masked)]
    masks = [_united_mask(root, leaf, masked[leaf.location], files) for leaf in leaves]
    blobs = [blob.encode(mask) for mask in masks]
    places = _places(blobs, leaves, files, inline_bytes)
    inline = [framed if place is None else None for framed, place in zip(blobs, places, strict=True)]
    count = len(leaves)
    repeated = {
        "status": ADDED,
        "snapshot_id": commit.snapshot_id,
        "sequence_number": commit.sequence_number,
        "file_sequence_number": commit.sequence_number,
        "content_type": MANIFEST_DV,
        "file_format": _PUFFIN,
    }
    columns = {name: pa.array([value] * count) for name, value in repeated.items()}
    columns |= {
        "location": _of_stored(places, "location", pa.string()),
        "record_count": pa.array([mask.cardinality for mask in masks], pa.int64()),
        "file_size_in_bytes": _of_stored(places, "file_size", pa.int64()),
        "partition_spec_id": pa.array([max(leaf.spec_id, 0) for leaf in leaves], pa.int32()),
        "referenced_file": pa.array([leaf.location for leaf in leaves], pa.string()),
        "dv_offset": _of_stored(places, "offset", pa.int64()),
        "dv_size_in_bytes": _of_stored(places, "length", pa.int64()),
        "dv_inline": pa.array(inline, pa.binary()),
    }
    return entries_table(columns, count, stats)


def _united_mask(root: Root, leaf: Leaf, positions: Rows, files: ManifestFiles) -> Bitmap:
    new, old = Bitmap.from_numpy(positions), root.mask(leaf, files)
    last = new.max()
    if new & old or last is None or last >= leaf.record_count:
        raise FormatError("removed entry is masked already or is not in the leaf", path=leaf.location)
    return new | old


def _places(
    blobs: Sequence[bytes], leaves: Sequence[Leaf], files: ManifestFiles, inline_bytes: int
) -> list[StoredBlob | None]:
    """Where each blob is stored; None for those that are small enough to be inline."""
    large = [at for at, framed in enumerate(blobs) if len(framed) > inline_bytes]
    places: list[StoredBlob | None] = [None] * len(blobs)
    if large:
        stored = files.store_blobs([blobs[at] for at in large], [leaves[at].location for at in large])
        for at, place in zip(large, stored, strict=True):
            places[at] = place
    return places


def _of_stored(places: Sequence[StoredBlob | None], name: str, kind: pa.DataType) -> pa.Array:
    return pa.array([None if place is None else getattr(place, name) for place in places], kind)
