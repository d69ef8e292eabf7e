"""The live entries of a snapshot: by its manifest list, or by its root manifest."""

from __future__ import annotations

from delvec.iceberg.live_entries import LiveEntries
from delvec.iceberg.live_files import LiveFiles
from delvec.iceberg.locations import Locations
from delvec.iceberg.metadata import SnapshotRecord, TableMetadata
from delvec.iceberg.tree.live_tree import LiveTree
from delvec.iceberg.tree.mark import TREE_VERSION
from delvec.iceberg.tree.measured_columns import of_metadata
from delvec.iceberg.tree.stored_tree import StoredTree
from delvec.schema import Schema
from delvec.storage import Storage


def live_entries(
    storage: Storage,
    locations: Locations,
    record: SnapshotRecord | None,
    metadata: TableMetadata,
    schema: Schema,
) -> LiveEntries:
    """The live files of a snapshot, in a schema of the table; of a table without a snapshot, none."""
    if metadata.format_version < TREE_VERSION or (record is not None and record.root_manifest is None):
        return LiveFiles(storage, locations, record, metadata.specs_in(schema))
    columns = of_metadata(metadata, schema)
    return LiveTree(StoredTree(storage, locations, columns), record, columns)


def needs_tree(record: SnapshotRecord | None, metadata: TableMetadata) -> bool:
    """Whether a commit on top of the snapshot must carry its manifest list into a root."""
    is_list = record is not None and record.root_manifest is None
    return is_list and metadata.format_version >= TREE_VERSION
