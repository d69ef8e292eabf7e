"""A table's next metadata file: the last one with updates applied, or the first one.

    apply_updates(metadata, updates, now_ms=…, file=…)      the JSON object of the next file
    new_metadata(updates, now_ms=…)                         that of the first file of a new table

The logs are kept as Iceberg's library keeps them: ``metadata-log`` names the last files, ``snapshot-log``
says when a snapshot became the current one. The entry of a removed snapshot goes with all entries before it,
because time travel would otherwise find a wrong snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg.metadata import BRANCH, MAIN, TableMetadata, parse_metadata
from delvec.iceberg.metadata_draft import DRAFT_VERSIONS, MetadataDraft
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.metadata_upgrade import without_version_1
from delvec.iceberg.property_values import whole_number

PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"

_DEFAULT_PREVIOUS_VERSIONS = 100
_DEFAULT_VERSION = 2
_NEW_TABLE: Mapping[str, Any] = {
    "format-version": _DEFAULT_VERSION,
    "last-sequence-number": 0,
    "last-updated-ms": 0,
    "last-column-id": 0,
    "current-schema-id": -1,
    "schemas": [],
    "default-spec-id": -1,
    "partition-specs": [],
    "last-partition-id": 999,
    "default-sort-order-id": -1,
    "sort-orders": [],
    "properties": {},
    "current-snapshot-id": None,
    "refs": {},
    "snapshots": [],
    "statistics": [],
    "partition-statistics": [],
    "snapshot-log": [],
    "metadata-log": [],
}


def apply_updates(
    metadata: TableMetadata, updates: Sequence[Update], *, now_ms: int, file: str | None
) -> dict[str, Any]:
    """The JSON object of the metadata after the updates, with members that delvec does not know.

    ``file``: the location of the metadata file that has ``metadata``, for the log. Updates that Iceberg does
    not allow are refused. Version 1 is refused unless the first update upgrades it.
    """
    draft = MetadataDraft(_writable(metadata, updates), now_ms)
    for update in updates:
        draft.apply(update)
    _finish(draft)
    if file is not None:
        draft.members["metadata-log"] = _metadata_log(draft, metadata, file)
    return draft.members


def new_metadata(updates: Sequence[Update], *, now_ms: int) -> dict[str, Any]:
    """The JSON object of the first metadata file. The updates give it all that a table must have."""
    draft = MetadataDraft(_NEW_TABLE, now_ms)
    for update in updates:
        draft.apply(update)
    for key in ("table-uuid", "location"):
        if key not in draft.members:
            raise InvalidOperationError(f"a new table has no {key}, expected one")
    for key in ("current-schema-id", "default-spec-id", "default-sort-order-id"):
        if draft.members[key] < 0:
            raise InvalidOperationError(f"{key} of a new table is not set: {draft.members['location']}")
    _finish(draft)
    first = ("format-version", "table-uuid", "location")
    return {**{key: draft.members[key] for key in first}, **draft.members}


def metadata_bytes(members: Mapping[str, Any]) -> bytes:
    """The content of a metadata file."""
    return orjson.dumps(members)


def parsed(members: Mapping[str, Any], path: str) -> TableMetadata:
    """The object as values; what a reader would refuse is refused before it is written."""
    return parse_metadata(metadata_bytes(members), path)


def _writable(metadata: TableMetadata, updates: Sequence[Update]) -> dict[str, Any]:
    members = dict(metadata.raw)
    if metadata.format_version not in DRAFT_VERSIONS:
        upgrades = bool(updates) and updates[0]["action"] == "upgrade-format-version"
        if not upgrades or updates[0]["format-version"] not in DRAFT_VERSIONS:
            raise UnsupportedFeatureError(
                f"tables of format version {metadata.format_version} are not written, expected 2, 3 or 4: "
                f"upgrade(format_version=2) makes this one a table of version 2: {metadata.location}",
                feature=f"writing format version {metadata.format_version}",
            )
        members = without_version_1(metadata)
    # A branch main that only current-snapshot-id names, and -1 for none, are spellings of older writers.
    members["current-snapshot-id"] = metadata.current_snapshot_id
    if MAIN in metadata.refs:
        main = {"snapshot-id": metadata.current_snapshot_id, "type": BRANCH}
        members["refs"] = {MAIN: main, **(members.get("refs") or {})}
    return members


def _finish(draft: MetadataDraft) -> None:
    members = draft.members
    members["last-updated-ms"] = draft.updated_ms
    current = members.get("current-snapshot-id")
    passed = {number for number in draft.added_snapshots if number != current}
    if passed or draft.removed_snapshots:
        members["snapshot-log"] = _snapshot_log(draft, passed)


def _snapshot_log(draft: MetadataDraft, passed: set[int]) -> list[dict[str, Any]]:
    """Without snapshots that this commit adds and replaces, and without what is before one that is gone."""
    present = {item["snapshot-id"] for item in draft.items("snapshots")}
    log: list[dict[str, Any]] = []
    for entry in draft.items("snapshot-log"):
        if entry["snapshot-id"] not in present:
            log = []
        elif entry["snapshot-id"] not in passed:
            log.append(entry)
    return log


def _metadata_log(draft: MetadataDraft, old: TableMetadata, file: str) -> list[dict[str, Any]]:
    properties = draft.members.get("properties") or {}
    kept = max(1, whole_number(properties, PREVIOUS_VERSIONS, default=_DEFAULT_PREVIOUS_VERSIONS))
    entry = {"timestamp-ms": old.last_updated_ms, "metadata-file": file}
    return [*draft.items("metadata-log"), entry][-kept:]
