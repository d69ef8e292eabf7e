"""The files that roots name: their own files, leaves, Puffin files of manifest vectors.

Snapshots may share a leaf and mask different entries of it. A file of the leaf is needed unless all of them
mask it, so the masks of a leaf are the positions that are masked in all snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from delvec.bitmap import Bitmap
from delvec.iceberg.tree.entries import MANIFEST_DV, is_live, is_of, with_positions
from delvec.iceberg.tree.live import unmasked
from delvec.iceberg.tree.manifest_file import read_manifest
from delvec.iceberg.tree.root import Root
from delvec.iceberg.tree.stored_tree import StoredTree

PARQUET_MAGIC = b"PAR1"

LeafMasks = Mapping[str, Bitmap]
"""By the recorded location of a leaf: the positions that are masked."""


@dataclass(frozen=True, slots=True)
class RootFiles:
    """What a root names: rows with ``location``, ``size`` and ``content_type`` for its files and leaves, the
    Puffin files of its live manifest vectors, and the masks of its leaves.
    """

    files: pa.Table
    leaves: pa.Table
    vectors: frozenset[str]
    masks: LeafMasks


def root_files_of(root: Root, stored: StoredTree) -> RootFiles:
    """The files that a root names."""
    named = root.entries.select(["location", "file_size_in_bytes", "content_type"])
    named = named.rename_columns(["location", "size", "content_type"])
    stored_vectors = root.entries.filter(
        pa.array(is_live(root.entries) & is_of(root.entries, [MANIFEST_DV]))
    ).column("location")
    return RootFiles(
        files=named.take(pa.array(root.files)),
        leaves=named.take(pa.array([leaf.row for leaf in root.leaves], pa.int64())),
        vectors=frozenset(place for place in stored_vectors.to_pylist() if place is not None),
        masks={leaf.location: root.mask(leaf, stored) for leaf in root.leaves if leaf.vector is not None},
    )


def masked_in_all(roots: Iterable[RootFiles]) -> dict[str, Bitmap]:
    """The positions of leaves that all of these roots mask which have the leaf."""
    found: dict[str, Bitmap] = {}
    for root in roots:
        for leaf in root.leaves.column("location").to_pylist():
            mask = root.masks.get(leaf, Bitmap())
            found[leaf] = mask if leaf not in found else found[leaf] & mask
    return {leaf: mask for leaf, mask in found.items() if mask}


def live_files_of_leaf(data: bytes, place: str, mask: Bitmap | None) -> pa.Table:
    """The columns ``content``, ``file_path`` and ``file_size`` of the live files in a leaf."""
    entries = with_positions(read_manifest(data, place, stats_of=()).entries)
    entries = entries.filter(pa.array(is_live(entries)))
    live = unmasked(entries, mask or Bitmap())
    return live.select(["content_type", "location", "file_size_in_bytes"]).rename_columns(
        ["content", "file_path", "file_size"]
    )
