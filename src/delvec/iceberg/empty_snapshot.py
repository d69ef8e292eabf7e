"""A snapshot without files: the first one of a branch, if the table has no snapshot that it could start at.

Iceberg's own library makes one too. `main` stays without a snapshot.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from delvec.iceberg.manifest_list import MANIFESTS_SCHEMA
from delvec.iceberg.manifest_list_writer import write_manifest_list
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.metadata_updates import Update, add_snapshot
from delvec.iceberg.snapshot_ids import new_snapshot_id
from delvec.iceberg.snapshot_summary import empty_summary
from delvec.iceberg.swaps import metadata_folder
from delvec.iceberg.tree.entries import ROOT_CONTENT, no_entries
from delvec.iceberg.tree.manifest_file import ManifestFile, write_manifest
from delvec.iceberg.tree.mark import TREE_VERSION


def store_empty_snapshot(metadata: TableMetadata, put: Callable[[str, bytes], None], now_ms: int) -> Update:
    """Store the manifest list or the root of a snapshot without files, through ``put``. Returns the update
    that adds the snapshot to the table.
    """
    snapshot_id, sequence = new_snapshot_id(metadata), metadata.last_sequence_number + 1
    first_row_id = (metadata.next_row_id or 0) if metadata.format_version >= 3 else None
    member, ending = "manifest-list", "avro"
    if metadata.format_version >= TREE_VERSION:
        member, ending = "root-manifest", "parquet"
        data = write_manifest(ManifestFile(ROOT_CONTENT, no_entries()))
    else:
        data = write_manifest_list(
            MANIFESTS_SCHEMA.empty_table(),
            snapshot_id=snapshot_id,
            parent_id=None,
            sequence_number=sequence,
            first_row_id=first_row_id,
            format_version=metadata.format_version,
        )
    recorded = f"{metadata_folder(metadata)}/snap-{snapshot_id}-1-{uuid.uuid4()}.{ending}"
    put(recorded, data)
    snapshot: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence,
        "timestamp-ms": max(now_ms, metadata.last_updated_ms),
        member: recorded,
        "summary": empty_summary(),
        "schema-id": metadata.current_schema_id,
    }
    if first_row_id is not None:
        snapshot |= {"first-row-id": first_row_id, "added-rows": 0}
    return add_snapshot(snapshot)
