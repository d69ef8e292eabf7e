"""Changes of a table's metadata, in the JSON form of the REST catalog's specification.

    {"action": "add-snapshot", "snapshot": {…}}

One commit is a list of updates. A REST catalog gets the list; for other tables `updated_metadata` applies it.
``LAST_ADDED`` as the id of a schema, a partition spec or a sort order means the one that the list adds. The
catalog may give it another id if the table has an equal one already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from delvec.iceberg.metadata import BRANCH

Update = dict[str, Any]

LAST_ADDED = -1


def assign_uuid(table_uuid: str) -> Update:
    return {"action": "assign-uuid", "uuid": table_uuid}


def upgrade_format_version(version: int) -> Update:
    return {"action": "upgrade-format-version", "format-version": version}


def add_schema(schema: Mapping[str, Any], last_column_id: int) -> Update:
    """Add a schema, as its JSON object. ``last_column_id``: the highest id that a column has had so far."""
    return {"action": "add-schema", "schema": dict(schema), "last-column-id": last_column_id}


def set_current_schema(schema_id: int = LAST_ADDED) -> Update:
    return {"action": "set-current-schema", "schema-id": schema_id}


def remove_schemas(schema_ids: Sequence[int]) -> Update:
    return {"action": "remove-schemas", "schema-ids": list(schema_ids)}


def add_spec(spec: Mapping[str, Any]) -> Update:
    return {"action": "add-spec", "spec": dict(spec)}


def set_default_spec(spec_id: int = LAST_ADDED) -> Update:
    return {"action": "set-default-spec", "spec-id": spec_id}


def remove_partition_specs(spec_ids: Sequence[int]) -> Update:
    return {"action": "remove-partition-specs", "spec-ids": list(spec_ids)}


def add_sort_order(order: Mapping[str, Any]) -> Update:
    return {"action": "add-sort-order", "sort-order": dict(order)}


def set_default_sort_order(order_id: int = LAST_ADDED) -> Update:
    return {"action": "set-default-sort-order", "sort-order-id": order_id}


def add_snapshot(snapshot: Mapping[str, Any]) -> Update:
    """Add a snapshot, as its JSON object. No branch has it before ``set_snapshot_ref``.

    Members without a value are left out: Iceberg's library cannot read a null as ``parent-snapshot-id``.
    """
    present = {key: value for key, value in snapshot.items() if value is not None}
    return {"action": "add-snapshot", "snapshot": present}


def remove_snapshots(snapshot_ids: Sequence[int]) -> Update:
    """Remove snapshots, their statistics, and the refs that are at them."""
    return {"action": "remove-snapshots", "snapshot-ids": list(snapshot_ids)}


def set_snapshot_ref(
    name: str,
    snapshot_id: int,
    *,
    kind: str = BRANCH,
    retention: Mapping[str, int] | None = None,
) -> Update:
    """Set a branch or a tag to a snapshot. The retention of the old ref is kept only if it is given again.

    ``retention``: ``min-snapshots-to-keep``, ``max-snapshot-age-ms`` and ``max-ref-age-ms``
    """
    ref = {"ref-name": name, "type": kind, "snapshot-id": snapshot_id}
    return {"action": "set-snapshot-ref", **ref, **(retention or {})}


def remove_snapshot_ref(name: str) -> Update:
    return {"action": "remove-snapshot-ref", "ref-name": name}


def set_location(location: str) -> Update:
    return {"action": "set-location", "location": location}


def set_properties(properties: Mapping[str, str]) -> Update:
    return {"action": "set-properties", "updates": dict(properties)}


def remove_properties(names: Sequence[str]) -> Update:
    return {"action": "remove-properties", "removals": list(names)}


def set_statistics(statistics: Mapping[str, Any]) -> Update:
    return {
        "action": "set-statistics",
        "snapshot-id": statistics["snapshot-id"],
        "statistics": dict(statistics),
    }


def remove_statistics(snapshot_id: int) -> Update:
    return {"action": "remove-statistics", "snapshot-id": snapshot_id}


def set_partition_statistics(statistics: Mapping[str, Any]) -> Update:
    return {"action": "set-partition-statistics", "partition-statistics": dict(statistics)}


def remove_partition_statistics(snapshot_id: int) -> Update:
    return {"action": "remove-partition-statistics", "snapshot-id": snapshot_id}
