"""``IcebergWriter``: an Iceberg table at a path, of format version 1, 2 or 3.

    table = IcebergWriter(root, pa.schema([("id", pa.int64()), ("p", pa.int32())]), partition_by=["p"])
    file = table.add_file([{"id": 1, "p": 1}, {"id": 2, "p": 1}])
    table.commit()
    table.delete_rows(file, [0])                     # a vector in v3, a position-delete file in v2
    table.delete_keys([{"id": 7}], on=["id"], partition={"p": 1})
    snapshot = table.commit()
    table.rows(), table.rows(snapshot)               # what a reader must find

What is staged belongs to the next commit. The rows are found in the slowest and plainest way: each row of
each file, each delete. ``edit_entry``, ``edit_manifest`` and ``edit_metadata`` change what is written, for
tables that are not as they should be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from iceberg_tables import avro
from iceberg_tables.avro import ADDED, DATA, DELETED, EXISTING
from iceberg_tables.columns import schema_json
from iceberg_tables.expected import deleted_rows, live_rows
from iceberg_tables.files import Row, Spec
from iceberg_tables.snapshots import Entry, Manifest, Snapshot, entry_record, manifest_record, summary_of
from iceberg_tables.staging import Staging
from iceberg_tables.state import MAIN


class IcebergWriter(Staging):
    """The writer of a table; `TableState` has its arguments."""

    def append(self, rows: Iterable[Row], **options: Any) -> int:
        """A commit with a file for each partition of the rows."""
        parts: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            parts.setdefault(self.spec.partition(row, self.schema), []).append(row)
        for part in parts.values():
            self.add_file(part)
        return self.commit(**options)

    def commit(
        self,
        *,
        operation: str | None = None,
        at: int | None = None,
        branch: str = MAIN,
        summary: Mapping[str, str] | None = None,
    ) -> int:
        """A snapshot with what was staged; returns its id. ``at``: its time, in milliseconds since 1970."""
        head = self._head(branch)
        snapshot_id = self._rng.getrandbits(62)
        sequence = 0 if self.format_version == 1 else self.last_sequence + 1
        self.last_sequence = max(sequence, self.last_sequence)
        old = [self._retained(manifest, snapshot_id) for manifest in head.manifests]
        manifests = [manifest for manifest in old if manifest is not None]
        manifests += self._new_manifests(snapshot_id, sequence)
        first_row_id = self.next_row_id
        if self.format_version > 2:
            manifests = [self._with_row_ids(manifest) for manifest in manifests]
        self.last_updated = self.last_updated + 1000 if at is None else at
        found: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "timestamp-ms": self.last_updated,
            "summary": summary_of(operation, manifests, snapshot_id) | dict(summary or {}),
            "schema-id": self.schema_id,
        }
        if head.id:
            found["parent-snapshot-id"] = head.id
        if self.inline_manifests:
            found["manifests"] = [manifest.path for manifest in manifests]
        else:
            found["manifest-list"] = self._manifest_list(snapshot_id, sequence, head.id, manifests)
        if self.format_version > 1:
            found["sequence-number"] = sequence
        if self.format_version > 2:
            found |= {"first-row-id": first_row_id, "added-rows": self.next_row_id - first_row_id}
        self.snapshots[snapshot_id] = Snapshot(snapshot_id, found, self.schema_id, tuple(manifests))
        self._added.clear()
        self._removed.clear()
        self.set_branch(branch, snapshot_id)
        return snapshot_id

    def set_branch(self, name: str, snapshot_id: int) -> None:
        self.refs[name] = {"snapshot-id": snapshot_id, "type": "branch"}
        if name == MAIN:
            self.snapshot_log.append({"timestamp-ms": self.last_updated, "snapshot-id": snapshot_id})
        self.write_metadata()

    def set_tag(self, name: str, snapshot_id: int) -> None:
        self.refs[name] = {"snapshot-id": snapshot_id, "type": "tag"}
        self.write_metadata()

    def roll_back(self, snapshot_id: int) -> None:
        """An older snapshot is the current one again."""
        self.last_updated += 1000
        self.set_branch(MAIN, snapshot_id)

    def _retained(self, manifest: Manifest, snapshot_id: int) -> Manifest | None:
        """The manifest as the next snapshot has it: rewritten if a file in it is removed."""
        if not manifest.live:
            return None
        if not any(entry.file.key in self._removed for entry in manifest.live):
            return manifest
        entries = [
            replace(entry, status=DELETED, snapshot_id=snapshot_id)
            if entry.file.key in self._removed
            else replace(entry, status=EXISTING)
            for entry in manifest.live
        ]
        return self._write_manifest(manifest.spec, manifest.content, entries, snapshot_id)

    def _new_manifests(self, snapshot_id: int, sequence: int) -> list[Manifest]:
        parts: dict[tuple[int, bool], list[Entry]] = {}
        for file, given in self._added:
            data_sequence = sequence if given is None else given
            entry = Entry(file, ADDED, snapshot_id, data_sequence, sequence)
            parts.setdefault((file.spec.id, file.content == DATA), []).append(entry)
        return [
            self._write_manifest(self.specs[spec_id], DATA if is_data else 1, entries, snapshot_id)
            for (spec_id, is_data), entries in parts.items()
        ]

    def _write_manifest(
        self, spec: Spec, content: int, entries: Sequence[Entry], snapshot_id: int
    ) -> Manifest:
        version = self.format_version
        partition = avro.partition_type([(part.id, part.name, part.type) for part in spec.fields])
        metadata = {
            "schema": json.dumps(schema_json(self.schema, self.schema_id)),
            "schema-id": str(self.schema_id),
            "partition-spec": json.dumps(spec.json()["fields"]),
            "partition-spec-id": str(spec.id),
            "format-version": str(version),
            "content": "deletes" if content else "data",
        }
        schema = avro.manifest_schema(version, partition)
        records = [self.edit_entry(entry_record(entry)) for entry in entries]
        data = avro.avro_bytes(schema, records, metadata, self.codec)
        path = self._put(f"metadata/{self._uuid()}-m{next(self._names)}.avro", data)
        sequence = 0 if version == 1 else self.last_sequence
        return Manifest(path, len(data), spec, content, sequence, snapshot_id, tuple(entries))

    def _with_row_ids(self, manifest: Manifest) -> Manifest:
        """The first row ids of the manifest and its files, from the table's next one."""
        if manifest.content != DATA or manifest.first_row_id is not None:
            return manifest
        first = next_id = self.next_row_id
        entries = []
        for entry in manifest.entries:
            if entry.first_row_id is None and entry.status != DELETED:
                entries.append(replace(entry, first_row_id=next_id))
                next_id += entry.file.records
            else:
                entries.append(entry)
        self.next_row_id += sum(entry.file.records for entry in manifest.live)
        return replace(manifest, first_row_id=first, entries=tuple(entries))

    def _manifest_list(
        self, snapshot_id: int, sequence: int, parent: int, manifests: Sequence[Manifest]
    ) -> str:
        version = self.format_version
        metadata = {"snapshot-id": str(snapshot_id), "format-version": str(version)}
        metadata["parent-snapshot-id"] = str(parent) if parent else "null"
        if version > 1:
            metadata["sequence-number"] = str(sequence)
        records = [self.edit_manifest(manifest_record(manifest)) for manifest in manifests]
        data = avro.avro_bytes(avro.manifest_list_schema(version), records, metadata, self.codec)
        return self._put(f"metadata/snap-{snapshot_id}-1-{self._uuid()}.avro", data)

    def rows(self, snapshot_id: int | None = None, *, ref: str | None = None) -> list[dict[str, Any]]:
        """The live rows of a snapshot with its schema; of a branch, or of the newest, with the table's."""
        if snapshot_id is not None:
            snapshot = self.snapshots[snapshot_id]
            return live_rows(snapshot, self.schemas[snapshot.schema_id])
        snapshot = self._head(ref or MAIN)
        tag = ref is not None and self.refs[ref]["type"] == "tag"
        return live_rows(snapshot, self.schemas[snapshot.schema_id] if tag else self.schema)

    def deleted(self, entry: Entry, snapshot: Snapshot | None = None) -> frozenset[int]:
        """The deleted rows of a data file in a snapshot, by default the current one."""
        return deleted_rows(entry, snapshot or self.head)
