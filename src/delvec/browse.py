"""The tree of a version, for every format that has one."""

from __future__ import annotations

from delvec.errors import UnsupportedFeatureError
from delvec.formats import Browsable, Snapshot, Table
from delvec.metadata_tree import DEFAULT_LIMIT, MetadataTree


def metadata_tree(table: Table, snapshot: Snapshot, *, limit: int = DEFAULT_LIMIT) -> MetadataTree:
    """How the snapshot is stored. ``limit``: how many children of each node are shown; 0 shows all."""
    if not isinstance(table, Browsable):
        raise UnsupportedFeatureError(f"{table.format} tables have no tree: {table.location}", feature="tree")
    return MetadataTree(table.location, table.tree(snapshot), limit)
