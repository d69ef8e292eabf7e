"""The JSON object of a metadata file while updates are applied to it: one method for each kind of update.

What Iceberg's own library refuses is refused here: two snapshots with one id, a sequence number or a row id
that the table has given before, a ref at a snapshot that is not there, the removal of the current schema.
Members that delvec does not know stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg.metadata import BRANCH, MAIN, TAG
from delvec.iceberg.metadata_updates import LAST_ADDED, Update
from delvec.iceberg.tree.expressions import with_expressions, with_spec_expressions
from delvec.iceberg.tree.mark import TREE_VERSION, marks, verify_marks_unchanged
from delvec.iceberg.version_features import verify_schema_version

DRAFT_VERSIONS = (2, 3, TREE_VERSION)

_RETENTION = ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")


class MetadataDraft:
    """``members`` is the object. ``updated_ms``: the time of the change, never before the last one."""

    def __init__(self, members: Mapping[str, Any], now_ms: int) -> None:
        self.members = dict(members)
        self.updated_ms = max(now_ms, self.members.get("last-updated-ms", 0))
        self.added_snapshots: dict[int, int] = {}
        self.removed_snapshots: set[int] = set()
        self._last_added: dict[str, int] = {}

    @property
    def version(self) -> int:
        return int(self.members["format-version"])

    def apply(self, update: Update) -> None:
        """Apply one update; an action that delvec does not know is refused."""
        action = str(update.get("action"))
        if action not in _ACTIONS:
            raise UnsupportedFeatureError(f"metadata update {action!r} is unknown", feature=action)
        _ACTIONS[action](self, update)

    def items(self, key: str) -> list[dict[str, Any]]:
        """The objects of a list; none if it is missing."""
        return list(self.members.get(key) or [])

    def properties(self) -> dict[str, str]:
        return dict(self.members.get("properties") or {})

    def refs(self) -> dict[str, dict[str, Any]]:
        return dict(self.members.get("refs") or {})

    def assign_uuid(self, update: Update) -> None:
        self.members["table-uuid"] = update["uuid"]

    def upgrade_format_version(self, update: Update) -> None:
        version = update["format-version"]
        if version not in DRAFT_VERSIONS:
            self._refuse(f"format version is {version}, expected 2, 3 or 4")
        if version < self.version:
            self._refuse(f"format version is {version}, expected at least the table's, {self.version}")
        if version >= TREE_VERSION and self.version < TREE_VERSION:
            self.members = with_expressions(self.members)
            new = marks(self.members.get("last-sequence-number", 0))
            self.members["properties"] = {**self.properties(), **new}
        self.members["format-version"] = version
        if version >= 3:
            self.members.setdefault("next-row-id", 0)

    def add_schema(self, update: Update) -> None:
        schema = update["schema"]
        verify_schema_version(schema, self.version)
        schemas = self.items("schemas")
        self._last_added["schema-id"] = self._reused_or_added("schemas", "schema-id", schemas, schema)
        last = max(self.members.get("last-column-id", 0), update.get("last-column-id", 0))
        self.members["last-column-id"] = max(last, _highest_id(schema))

    def set_current_schema(self, update: Update) -> None:
        self._set_current("schemas", "schema-id", "current-schema-id", update["schema-id"])

    def remove_schemas(self, update: Update) -> None:
        self._remove("schemas", "schema-id", update["schema-ids"], self.members["current-schema-id"])

    def add_spec(self, update: Update) -> None:
        spec, specs = update["spec"], self.items("partition-specs")
        ids = [field["field-id"] for field in spec["fields"]]
        if self.version >= TREE_VERSION:
            self.members, spec = with_spec_expressions(self.members, spec)
        self._last_added["spec-id"] = self._reused_or_added("partition-specs", "spec-id", specs, spec)
        self.members["last-partition-id"] = max(self.members.get("last-partition-id", 999), *ids, 999)

    def set_default_spec(self, update: Update) -> None:
        self._set_current("partition-specs", "spec-id", "default-spec-id", update["spec-id"])

    def remove_partition_specs(self, update: Update) -> None:
        self._remove("partition-specs", "spec-id", update["spec-ids"], self.members["default-spec-id"])

    def add_sort_order(self, update: Update) -> None:
        order, orders = update["sort-order"], self.items("sort-orders")
        self._last_added["order-id"] = self._reused_or_added("sort-orders", "order-id", orders, order)

    def set_default_sort_order(self, update: Update) -> None:
        self._set_current("sort-orders", "order-id", "default-sort-order-id", update["sort-order-id"])

    def add_snapshot(self, update: Update) -> None:
        snapshot = update["snapshot"]
        self._verify_snapshot(snapshot)
        self.members["snapshots"] = [*self.items("snapshots"), snapshot]
        self.members["last-sequence-number"] = snapshot["sequence-number"]
        if self.version >= 3:
            self.members["next-row-id"] = snapshot["first-row-id"] + snapshot["added-rows"]
        self.added_snapshots[snapshot["snapshot-id"]] = snapshot["timestamp-ms"]
        self.updated_ms = max(self.updated_ms, snapshot["timestamp-ms"])

    def remove_snapshots(self, update: Update) -> None:
        removed = set(update["snapshot-ids"])
        snapshots = self.items("snapshots")
        missing = removed - {item["snapshot-id"] for item in snapshots}
        if missing:
            self._refuse(f"snapshot {min(missing)} does not exist, expected a snapshot of the table")
        self.members["snapshots"] = _without(snapshots, removed)
        for key in ("statistics", "partition-statistics"):
            if key in self.members:
                self.members[key] = _without(self.items(key), removed)
        for name, ref in self.refs().items():
            if ref["snapshot-id"] in removed:
                self.remove_snapshot_ref({"ref-name": name})
        self.removed_snapshots |= removed

    def set_snapshot_ref(self, update: Update) -> None:
        name, snapshot_id, kind = update["ref-name"], update["snapshot-id"], update["type"]
        if not any(item["snapshot-id"] == snapshot_id for item in self.items("snapshots")):
            self._refuse(f"ref {name!r} is set to snapshot {snapshot_id}, expected a snapshot of the table")
        if kind not in (BRANCH, TAG) or (name == MAIN and kind != BRANCH):
            self._refuse(
                f"type of ref {name!r} is {kind!r}, expected {BRANCH if name == MAIN else 'branch or tag'}"
            )
        ref = {"snapshot-id": snapshot_id, "type": kind}
        ref |= {key: update[key] for key in _RETENTION if update.get(key) is not None}
        refs = self.refs()
        if refs.get(name) == ref:
            return
        self.members["refs"] = {**refs, name: ref}
        if name == MAIN:
            self.members["current-snapshot-id"] = snapshot_id
            at = self.added_snapshots.get(snapshot_id, self.updated_ms)
            log = self.items("snapshot-log")
            at = max(at, log[-1]["timestamp-ms"]) if log else at
            self.members["snapshot-log"] = [*log, {"timestamp-ms": at, "snapshot-id": snapshot_id}]

    def remove_snapshot_ref(self, update: Update) -> None:
        name, refs = update["ref-name"], self.refs()
        refs.pop(name, None)
        self.members["refs"] = refs
        if name == MAIN:
            self.members["current-snapshot-id"] = None
            self.members["snapshot-log"] = []

    def set_location(self, update: Update) -> None:
        self.members["location"] = update["location"]

    def set_properties(self, update: Update) -> None:
        verify_marks_unchanged(self.properties(), update["updates"])
        self.members["properties"] = {**self.properties(), **update["updates"]}

    def remove_properties(self, update: Update) -> None:
        names, old = set(update["removals"]), self.properties()
        verify_marks_unchanged(old, dict.fromkeys(names))
        self.members["properties"] = {name: value for name, value in old.items() if name not in names}

    def set_statistics(self, update: Update) -> None:
        self._replace_statistics("statistics", update["statistics"])

    def remove_statistics(self, update: Update) -> None:
        self.members["statistics"] = _without(self.items("statistics"), {update["snapshot-id"]})

    def set_partition_statistics(self, update: Update) -> None:
        self._replace_statistics("partition-statistics", update["partition-statistics"])

    def remove_partition_statistics(self, update: Update) -> None:
        key = "partition-statistics"
        self.members[key] = _without(self.items(key), {update["snapshot-id"]})

    def _replace_statistics(self, key: str, statistics: dict[str, Any]) -> None:
        others = _without(self.items(key), {statistics["snapshot-id"]})
        self.members[key] = [*others, statistics]

    def _reused_or_added(
        self, key: str, id_key: str, existing: Sequence[dict[str, Any]], new: dict[str, Any]
    ) -> int:
        """The id of the item: that of an equal one, or of the new one, which is added."""
        for item in existing:
            if _content(item, id_key) == _content(new, id_key):
                return int(item[id_key])
        if any(item[id_key] == new[id_key] for item in existing):
            self._refuse(
                f"{id_key} of the new item of {key} is {new[id_key]}, expected one that is not taken"
            )
        self.members[key] = [*existing, new]
        return int(new[id_key])

    def _set_current(self, key: str, id_key: str, current_key: str, requested: int) -> None:
        found = self._last_added.get(id_key) if requested == LAST_ADDED else requested
        ids = [item[id_key] for item in self.items(key)]
        if found not in ids:
            self._refuse(f"{current_key} is {found}, expected one of {', '.join(map(str, ids))}")
        self.members[current_key] = found

    def _remove(self, key: str, id_key: str, removed: Sequence[int], current: int) -> None:
        ids = {item[id_key] for item in self.items(key)}
        for number in removed:
            if number not in ids or number == current:
                self._refuse(
                    f"{id_key} to remove is {number}, expected one of {key} that is not the current one"
                )
        self.members[key] = [item for item in self.items(key) if item[id_key] not in set(removed)]

    def _verify_snapshot(self, snapshot: Mapping[str, Any]) -> None:
        snapshot_id, sequence = snapshot["snapshot-id"], snapshot["sequence-number"]
        where = f"of new snapshot {snapshot_id}"
        if any(item["snapshot-id"] == snapshot_id for item in self.items("snapshots")):
            self._refuse(f"snapshot {snapshot_id} exists already, expected a new id")
        last = self.members.get("last-sequence-number", 0)
        if sequence <= last:
            self._refuse(
                f"sequence number {where} is {sequence}, expected more than the table's last, {last}"
            )
        if self.version < 3:
            return
        first, added, next_id = (
            snapshot.get("first-row-id"),
            snapshot.get("added-rows"),
            self.members["next-row-id"],
        )
        if first is None or first < next_id:
            self._refuse(
                f"first-row-id {where} is {first}, expected at least the table's next one, {next_id}"
            )
        if added is None or added < 0:
            self._refuse(f"added-rows {where} is {added}, expected a number of rows")

    def _refuse(self, message: str) -> NoReturn:
        raise InvalidOperationError(f"{message}: {self.members.get('location', 'a new table')}")


_ACTIONS: Mapping[str, Callable[[MetadataDraft, Update], None]] = {
    "assign-uuid": MetadataDraft.assign_uuid,
    "upgrade-format-version": MetadataDraft.upgrade_format_version,
    "add-schema": MetadataDraft.add_schema,
    "set-current-schema": MetadataDraft.set_current_schema,
    "remove-schemas": MetadataDraft.remove_schemas,
    "add-spec": MetadataDraft.add_spec,
    "set-default-spec": MetadataDraft.set_default_spec,
    "remove-partition-specs": MetadataDraft.remove_partition_specs,
    "add-sort-order": MetadataDraft.add_sort_order,
    "set-default-sort-order": MetadataDraft.set_default_sort_order,
    "add-snapshot": MetadataDraft.add_snapshot,
    "remove-snapshots": MetadataDraft.remove_snapshots,
    "set-snapshot-ref": MetadataDraft.set_snapshot_ref,
    "remove-snapshot-ref": MetadataDraft.remove_snapshot_ref,
    "set-location": MetadataDraft.set_location,
    "set-properties": MetadataDraft.set_properties,
    "remove-properties": MetadataDraft.remove_properties,
    "set-statistics": MetadataDraft.set_statistics,
    "remove-statistics": MetadataDraft.remove_statistics,
    "set-partition-statistics": MetadataDraft.set_partition_statistics,
    "remove-partition-statistics": MetadataDraft.remove_partition_statistics,
}


def _without(items: Sequence[dict[str, Any]], snapshot_ids: set[int]) -> list[dict[str, Any]]:
    return [item for item in items if item["snapshot-id"] not in snapshot_ids]


def _content(item: Mapping[str, Any], id_key: str) -> dict[str, Any]:
    """What makes two schemas, specs or sort orders equal: all but the id, and no empty lists."""
    return {key: value for key, value in item.items() if key != id_key and value != []}


def _highest_id(tree: Any) -> int:
    """The highest field id in a schema's JSON."""
    if isinstance(tree, list):
        return max(map(_highest_id, tree), default=0)
    if not isinstance(tree, dict):
        return 0
    own = (tree.get(key, 0) for key in ("id", "element-id", "key-id", "value-id"))
    parts = (tree.get(key) for key in ("fields", "type", "element", "key", "value"))
    return max((*own, *map(_highest_id, parts)), default=0)
