"""The live files of a snapshot with a manifest list, as a commit to a table with trees needs them: as a tree
whose leaves are the manifests of the list.

Such a snapshot is the head of a branch after a restore, or if the branch was made at an older snapshot. Files
have the ids that `live_files` gives them, as the leaves are in the order of the list.
"""

from __future__ import annotations

from delvec.iceberg.live_files import listed_manifests
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest_list_writer import with_row_ids
from delvec.iceberg.metadata import SnapshotRecord, TableMetadata
from delvec.iceberg.tree.listed_manifests import leaves_of_list, with_counts
from delvec.iceberg.tree.live_tree import LiveTree
from delvec.iceberg.tree.measured_columns import of_metadata
from delvec.iceberg.tree.root import Root
from delvec.iceberg.tree.stored_tree import StoredTree
from delvec.schema import Schema
from delvec.storage import Storage


class CarriedTree(LiveTree):
    """``next_row_id``: the table's, after manifests that have no row ids have got some."""

    def __init__(
        self,
        storage: Storage,
        locations: Locations,
        record: SnapshotRecord,
        metadata: TableMetadata,
        schema: Schema,
    ) -> None:
        columns = of_metadata(metadata, schema)
        listed = with_counts(listed_manifests(storage, locations, record), storage, locations)
        manifests, self.next_row_id = with_row_ids(listed, metadata.next_row_id or 0)
        root = Root(leaves_of_list(manifests, columns))
        super().__init__(StoredTree(storage, locations, columns), record, columns, root=root)
