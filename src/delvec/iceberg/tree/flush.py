"""Moves entries from the root to leaves where the root has more of them than its limits allow.

    older entries         go to EXISTING leaves
    this commit's entries go to separate ADDED leaves, and only if they alone are too many
    data files            to data manifests
    vectors               to delete manifests, see `flush_deletes`

Nothing here changes which files are live.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from delvec.iceberg.tree.entries import DATA, DATA_MANIFEST, EQUALITY_DELETES, POSITION_DELETES, is_of
from delvec.iceberg.tree.flush_deletes import DeleteFlush
from delvec.iceberg.tree.limits import TreeLimits
from delvec.iceberg.tree.manifest_files import ManifestFiles
from delvec.iceberg.tree.new_leaves import LeafWriter
from delvec.iceberg.tree.new_root import Commit, NewRoot

_DELETES = (POSITION_DELETES, EQUALITY_DELETES)


def flushed(
    root: NewRoot, commit: Commit, *, files: ManifestFiles, limits: TreeLimits, stats: pa.StructType
) -> NewRoot:
    """The root within its limits. Stores the leaves."""
    old, new = _over_limit(root, (DATA,), limits.root_data_files)
    if len(old) or len(new):
        root = _without(root, (DATA,), old=len(old) > 0, new=len(new) > 0)
        writer = _writer(root, commit, files, limits, stats)
        writer.added(new, DATA_MANIFEST)
        writer.existing(old, DATA_MANIFEST)
        root = root.with_leaves(writer.leaves, writer.next_row_id)
    old, new = _over_limit(root, _DELETES, limits.root_deletes)
    root = _without(root, _DELETES, old=len(old) > 0, new=len(new) > 0)
    deletes = DeleteFlush(root, _writer(root, commit, files, limits, stats), limits, stats)
    return deletes.flushed(old, new)


def _writer(
    root: NewRoot, commit: Commit, files: ManifestFiles, limits: TreeLimits, stats: pa.StructType
) -> LeafWriter:
    return LeafWriter(
        files, commit, next_row_id=root.next_row_id, leaf_entries=limits.leaf_entries, stats=stats
    )


def _over_limit(root: NewRoot, content_types: tuple[int, ...], limit: int) -> tuple[pa.Table, pa.Table]:
    """The older and the new entries of these types to flush."""
    old, new = (part.filter(pa.array(is_of(part, content_types))) for part in (root.kept, root.added))
    flushes_new = len(new) > limit
    stays = 0 if flushes_new else len(new)
    flushes_old = len(old) + stays > limit
    return old if flushes_old else old.slice(0, 0), new if flushes_new else new.slice(0, 0)


def _without(root: NewRoot, content_types: tuple[int, ...], *, old: bool, new: bool) -> NewRoot:
    """The root without the older or the new entries of these types."""
    kept, added = (part.filter(pa.array(~is_of(part, content_types))) for part in (root.kept, root.added))
    return replace(root, kept=kept if old else root.kept, added=added if new else root.added)
