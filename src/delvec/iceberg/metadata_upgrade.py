"""Metadata of version 1 in the form of version 2, without a change of the format version.

Version 1 may have one ``schema`` and one ``partition-spec`` instead of lists, partition fields without ids,
no table uuid, no sort orders and no sequence numbers.
"""

from __future__ import annotations

import uuid
from typing import Any

from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.partitions import FIRST_FIELD_ID

_ONLY_IN_VERSION_1 = ("schema", "partition-spec")
_UNSORTED = {"order-id": 0, "fields": []}


def without_version_1(metadata: TableMetadata) -> dict[str, Any]:
    """The JSON object with every member that version 2 requires, and none that only version 1 has."""
    members = {key: value for key, value in metadata.raw.items() if key not in _ONLY_IN_VERSION_1}
    members.setdefault("table-uuid", metadata.table_uuid or str(uuid.uuid4()))
    members["last-sequence-number"] = metadata.last_sequence_number
    if not members.get("schemas"):
        members["schemas"] = [{"schema-id": metadata.current_schema_id, **metadata.raw["schema"]}]
    members["current-schema-id"] = metadata.current_schema_id
    members["partition-specs"] = _specs(metadata)
    members["default-spec-id"] = metadata.default_spec_id
    ids = [field["field-id"] for spec in members["partition-specs"] for field in spec["fields"]]
    members["last-partition-id"] = max(members.get("last-partition-id", 0), FIRST_FIELD_ID - 1, *ids)
    if not members.get("sort-orders"):
        members["sort-orders"], members["default-sort-order-id"] = [_UNSORTED], 0
    members["snapshots"] = [{"sequence-number": 0, **item} for item in members.get("snapshots") or []]
    return members


def _specs(metadata: TableMetadata) -> list[dict[str, Any]]:
    """The partition specs; fields without an id get the ids that readers of version 1 count."""
    listed = metadata.raw.get("partition-specs")
    specs = listed or [{"spec-id": metadata.default_spec_id, "fields": metadata.raw["partition-spec"]}]
    return [
        {
            **spec,
            "fields": [{"field-id": FIRST_FIELD_ID + at, **field} for at, field in enumerate(spec["fields"])],
        }
        for spec in specs
    ]
