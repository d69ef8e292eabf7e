"""Snapshots, their manifests and entries, and the records that Avro files have of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_tables.avro import ADDED, DATA, DELETED, EQUALITY_DELETES, EXISTING, POSITION_DELETES
from iceberg_tables.files import File, Spec, SpecField
from iceberg_tables.values import to_bytes


@dataclass(frozen=True)
class Entry:
    """A file in a manifest, with what is inherited already filled in."""

    file: File
    status: int
    snapshot_id: int
    sequence: int
    file_sequence: int
    first_row_id: int | None = None


@dataclass(frozen=True)
class Manifest:
    path: str
    length: int
    spec: Spec
    content: int
    sequence: int
    snapshot_id: int
    entries: tuple[Entry, ...]
    first_row_id: int | None = None

    @property
    def live(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.status != DELETED]


@dataclass(frozen=True)
class Snapshot:
    id: int
    json: dict[str, Any]
    schema_id: int
    manifests: tuple[Manifest, ...]

    def entries(self, *contents: int) -> list[Entry]:
        return [
            entry
            for manifest in self.manifests
            for entry in manifest.live
            if not contents or entry.file.content in contents
        ]


def entry_record(entry: Entry) -> dict[str, Any]:
    added = entry.status == ADDED
    inherits = added and entry.sequence == entry.file_sequence
    return {
        "status": entry.status,
        "snapshot_id": entry.snapshot_id,
        "sequence_number": None if inherits else entry.sequence,
        "file_sequence_number": None if added else entry.file_sequence,
        "data_file": entry.file.record(entry.first_row_id),
    }


def manifest_record(manifest: Manifest) -> dict[str, Any]:
    def of(status: int) -> list[Entry]:
        return [entry for entry in manifest.entries if entry.status == status]

    names = {ADDED: "added", EXISTING: "existing", DELETED: "deleted"}
    sequences = [entry.sequence for entry in manifest.live] or [manifest.sequence]
    return {
        "manifest_path": manifest.path,
        "manifest_length": manifest.length,
        "partition_spec_id": manifest.spec.id,
        "content": manifest.content,
        "sequence_number": manifest.sequence,
        "min_sequence_number": min(sequences),
        "added_snapshot_id": manifest.snapshot_id,
        **{f"{name}_files_count": len(of(status)) for status, name in names.items()},
        **{f"{name}_rows_count": sum(e.file.records for e in of(s)) for s, name in names.items()},
        "partitions": [
            _summary_of(part, [entry.file.partition[at] for entry in manifest.entries])
            for at, part in enumerate(manifest.spec.fields)
        ],
        "first_row_id": manifest.first_row_id,
    }


def _summary_of(part: SpecField, values: Sequence[Any]) -> dict[str, Any]:
    """What a manifest list says of the values of a partition field."""
    held = [value for value in values if value is not None]
    plain = [value for value in held if value == value]  # noqa: PLR0124
    return {
        "contains_null": len(held) < len(values),
        "contains_nan": len(plain) < len(held) if part.type in ("float", "double") else None,
        "lower_bound": to_bytes(part.type, min(plain)) if plain else None,
        "upper_bound": to_bytes(part.type, max(plain)) if plain else None,
    }


def summary_of(operation: str | None, manifests: Sequence[Manifest], snapshot_id: int) -> dict[str, str]:
    live = [entry.file for manifest in manifests for entry in manifest.live]
    changed = [e for m in manifests for e in m.entries if e.snapshot_id == snapshot_id]
    added = [entry.file for entry in changed if entry.status == ADDED]
    if operation is None:
        contents = {file.content for file in added}
        removed = any(e.status == DELETED and e.file.content == DATA for e in changed)
        deletes = removed or contents - {DATA}
        operation = "append" if not deletes else "overwrite" if DATA in contents else "delete"
    counts = {f"total-{name}": number for name, number in _counts(live).items()}
    counts |= {f"added-{name}": number for name, number in _counts(added).items() if number}
    return {"operation": operation, **{name: str(number) for name, number in counts.items()}}


def _counts(files: Sequence[File]) -> dict[str, int]:
    data = [file for file in files if file.content == DATA]
    positions = [file for file in files if file.content == POSITION_DELETES]
    keys = [file for file in files if file.content == EQUALITY_DELETES]
    return {
        "data-files": len(data),
        "records": sum(file.records for file in data),
        "files-size": sum(file.length or file.size for file in files),
        "delete-files": len(positions) + len(keys),
        "position-deletes": sum(file.records for file in positions),
        "equality-deletes": sum(file.records for file in keys),
    }
