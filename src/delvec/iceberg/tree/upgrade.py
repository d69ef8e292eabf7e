"""The upgrade of a table to format version 4: the head of each branch gets a snapshot with a root manifest.

    before   snapshot ── manifest list ── manifests (Avro) ── files
    after    snapshot ── root manifest ── the same manifests, as EXISTING leaves

Only the roots and the metadata file are written. The snapshots are of the operation `replace`, without a net
change, and are committed in the swap that sets the format version, the expressions and the mark. All other
snapshots keep their manifest lists. Row ids that manifests do not have yet are assigned, as the first commit
after an upgrade to version 3 does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from delvec.errors import InvalidOperationError
from delvec.iceberg import manifest_list
from delvec.iceberg.live_files import listed_manifests
from delvec.iceberg.locations import Locations
from delvec.iceberg.manifest_list_writer import with_row_ids
from delvec.iceberg.metadata import BRANCH, MAIN, SnapshotRecord, TableMetadata
from delvec.iceberg.metadata_updates import Update, add_snapshot, set_snapshot_ref
from delvec.iceberg.snapshot_ids import new_snapshot_id
from delvec.iceberg.snapshot_summary import ENGINE, REPLACE, unchanged_summary
from delvec.iceberg.swaps import metadata_folder
from delvec.iceberg.tree.listed_manifests import leaves_of_list, with_counts
from delvec.iceberg.tree.mark import TREE_VERSION
from delvec.iceberg.tree.measured_columns import MeasuredColumns, of_metadata
from delvec.iceberg.tree.stored_tree import NewTreeFiles, Put
from delvec.iceberg.updated_metadata import apply_updates, parsed
from delvec.storage import Storage


def gets_trees(before: TableMetadata, updates: Sequence[Update]) -> bool:
    """Whether the updates are those of an upgrade to version 4."""
    return before.format_version < TREE_VERSION and any(
        update["action"] == "upgrade-format-version" and update["format-version"] >= TREE_VERSION
        for update in updates
    )


def first_roots(
    before: TableMetadata,
    updates: Sequence[Update],
    *,
    storage: Storage,
    locations: Locations,
    put: Put,
    now_ms: int,
) -> list[Update]:
    """The updates that follow those of an upgrade in the same swap: they add a snapshot with a root to each
    branch. Stores the roots.
    """
    after = parsed(apply_updates(before, updates, now_ms=now_ms, file=None), before.location)
    state = _Upgrade(after, of_metadata(after), storage, locations, put, now_ms)
    result: list[Update] = []
    for branch, record in _heads(before):
        if record is not None:
            result += state.root_of(branch, record)
    return result


def _heads(metadata: TableMetadata) -> list[tuple[str, SnapshotRecord]]:
    """The branches that have a snapshot, main first."""
    heads = {ref.name: ref.snapshot_id for ref in metadata.refs.values() if ref.kind == BRANCH}
    if metadata.current_snapshot_id is not None:
        heads[MAIN] = metadata.current_snapshot_id
    names = sorted(heads, key=lambda name: (name != MAIN, name))
    return [(name, metadata.snapshots[heads[name]]) for name in names]


@dataclass(slots=True)
class _Upgrade:
    """``after``: the metadata of version 4 before it has snapshots with roots."""

    after: TableMetadata
    columns: MeasuredColumns
    storage: Storage
    locations: Locations
    put: Put
    now_ms: int
    added: int = 0
    next_row_id: int = -1
    row_ids: dict[str, int] = field(default_factory=dict)
    ids: set[int] = field(default_factory=set)

    def root_of(self, branch: str, parent: SnapshotRecord) -> list[Update]:
        first_row_id = (self.after.next_row_id or 0) if self.next_row_id < 0 else self.next_row_id
        entries, self.next_row_id = self._entries(parent, first_row_id)
        self.added += 1
        sequence = self.after.last_sequence_number + self.added
        snapshot_id = self._new_id()
        files = NewTreeFiles(
            self.storage, self.locations, self.columns, folder=metadata_folder(self.after), put=self.put
        )
        place = files.store_root(entries, snapshot_id=snapshot_id, sequence_number=sequence)
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent.snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": max(self.now_ms, parent.timestamp_ms, self.after.last_updated_ms),
            "root-manifest": place,
            "summary": {
                "operation": REPLACE,
                **unchanged_summary(parent.summary),
                "manifests-created": "1",
                "manifests-kept": str(len(entries)),
                "manifests-replaced": "0",
                **ENGINE,
            },
            "schema-id": self.after.current_schema_id,
            "first-row-id": first_row_id,
            "added-rows": self.next_row_id - first_row_id,
        }
        retention = (self.after.raw.get("refs") or {}).get(branch) or {}
        kept = {name: value for name, value in retention.items() if name not in ("snapshot-id", "type")}
        return [add_snapshot(snapshot), set_snapshot_ref(branch, snapshot_id, retention=kept)]

    def _entries(self, record: SnapshotRecord, first_row_id: int) -> tuple[pa.Table, int]:
        """The manifests of a snapshot as leaves, and the next row id of the table."""
        manifests = with_counts(
            listed_manifests(self.storage, self.locations, record), self.storage, self.locations
        )
        manifests, next_row_id = self._with_row_ids(manifests, first_row_id)
        return leaves_of_list(manifests, self.columns), next_row_id

    def _with_row_ids(self, manifests: pa.Table, first: int) -> tuple[pa.Table, int]:
        """With row ids. A manifest of several branches has the same ones in each."""
        at = manifests.schema.get_field_index("first_row_id")
        paths = manifests.column("path").to_pylist()
        known = [
            self.row_ids.get(path, own)
            for path, own in zip(paths, manifests.column("first_row_id").to_pylist(), strict=True)
        ]
        manifests = manifests.set_column(at, manifests.schema.field(at), pa.array(known, pa.int64()))
        manifests, next_row_id = with_row_ids(manifests, first)
        for path, content, own in zip(
            paths,
            manifests.column("content").to_pylist(),
            manifests.column("first_row_id").to_pylist(),
            strict=True,
        ):
            if content == manifest_list.DATA:
                self.row_ids[path] = own
        return manifests, next_row_id

    def _new_id(self) -> int:
        while (found := new_snapshot_id(self.after)) in self.ids:
            pass
        self.ids.add(found)
        return found


def verify_alone(before: TableMetadata, updates: Sequence[Update], *, has_files: bool) -> None:
    """Refuse an upgrade to version 4 in a commit that also changes files or columns: new columns would get
    the ids of expressions.
    """
    has_columns = any(update["action"] == "add-schema" for update in updates)
    if (has_files or has_columns) and gets_trees(before, updates):
        raise InvalidOperationError(
            f"a commit changes files or columns and upgrades the table to format version {TREE_VERSION}, "
            f"expected one of them: upgrade the table first: {before.location}"
        )
