"""What a REST catalog must find before it applies updates, as Iceberg's own library derives it from them.

    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7}

The catalog applies the updates on top of the newest metadata if all requirements hold. So commits that do not
touch the same ref, schema or spec do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delvec.iceberg.metadata import BRANCH, TableMetadata
from delvec.iceberg.metadata_updates import Update

Requirement = dict[str, Any]


def requirements(base: TableMetadata | None, updates: Sequence[Update]) -> list[Requirement]:
    """The requirements of updates on top of ``base``; None: the updates create the table."""
    if base is None:
        return [{"type": "assert-create"}]
    found: list[Requirement] = []
    if base.table_uuid is not None:
        found.append({"type": "assert-table-uuid", "uuid": base.table_uuid})
    for update in updates:
        found += [each for each in _of_update(base, update) if each not in found]
    return found


def _of_update(base: TableMetadata, update: Update) -> list[Requirement]:
    last_partition_id = base.raw.get("last-partition-id")
    order_id = base.raw.get("default-sort-order-id", 0)
    match update["action"]:
        case "set-snapshot-ref":
            return [_ref_unchanged(base, update["ref-name"])]
        case "add-schema":
            return [{"type": "assert-last-assigned-field-id", "last-assigned-field-id": base.last_column_id}]
        case "set-current-schema":
            return [_schema_unchanged(base)]
        case "remove-schemas":
            return [_schema_unchanged(base), *_branches_unchanged(base)]
        case "add-spec":
            last = {"last-assigned-partition-id": last_partition_id}
            return [{"type": "assert-last-assigned-partition-id", **last}]
        case "set-default-spec":
            return [_spec_unchanged(base)]
        case "remove-partition-specs":
            return [_spec_unchanged(base), *_branches_unchanged(base)]
        case "set-default-sort-order":
            return [{"type": "assert-default-sort-order-id", "default-sort-order-id": order_id}]
    return []


def _ref_unchanged(base: TableMetadata, name: str) -> Requirement:
    """The ref is at the same snapshot; null: there is no such ref."""
    ref = base.refs.get(name)
    snapshot_id = None if ref is None else ref.snapshot_id
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id}


def _branches_unchanged(base: TableMetadata) -> list[Requirement]:
    return [_ref_unchanged(base, name) for name, ref in base.refs.items() if ref.kind == BRANCH]


def _schema_unchanged(base: TableMetadata) -> Requirement:
    return {"type": "assert-current-schema-id", "current-schema-id": base.current_schema_id}


def _spec_unchanged(base: TableMetadata) -> Requirement:
    return {"type": "assert-default-spec-id", "default-spec-id": base.default_spec_id}
