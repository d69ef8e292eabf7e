"""Updates of metadata for tests of commits: a new table, a snapshot without manifests, a property."""

from __future__ import annotations

import uuid
from typing import Any

from delvec.iceberg import metadata_updates as updates

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


def creation(location: Any, properties: Any = None, version: int = 3) -> list[Any]:
    return [
        updates.assign_uuid(str(uuid.uuid4())),
        updates.upgrade_format_version(version),
        updates.add_schema(SCHEMA, 1),
        updates.set_current_schema(),
        updates.add_spec({"spec-id": 0, "fields": []}),
        updates.set_default_spec(),
        updates.add_sort_order({"order-id": 0, "fields": []}),
        updates.set_default_sort_order(),
        updates.set_location(str(location)),
        updates.set_properties(properties or {}),
    ]


def snapshot(metadata: Any, snapshot_id: int, ref: str = "main") -> list[Any]:
    """The updates that add a snapshot to a branch."""
    record = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": metadata.current_snapshot_id,
        "sequence-number": metadata.last_sequence_number + 1,
        "timestamp-ms": metadata.last_updated_ms + 1,
        "manifest-list": f"{metadata.location}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    if metadata.format_version > 2:
        record |= {"first-row-id": metadata.next_row_id, "added-rows": 1}
    return [updates.add_snapshot(record), updates.set_snapshot_ref(ref, snapshot_id)]


def property_of(number: Any) -> list[Any]:
    return [updates.set_properties({"number": str(number)})]
