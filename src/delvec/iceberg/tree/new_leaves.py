"""Leaves that a commit writes, and their entries in the root.

Entries of older snapshots go to EXISTING leaves with all that they inherited. Those of this commit go to
ADDED leaves without what they will inherit, so the leaves stay valid if the commit is tried again as another
snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.iceberg.tree.aggregated_stats import aggregated_stats
from delvec.iceberg.tree.entries import (
    ADDED,
    CONTENT_STATS,
    DATA,
    DATA_MANIFEST,
    DELETED,
    ENTRIES_SCHEMA,
    EXISTING,
    MIXED_SPECS,
    entries_table,
    with_columns,
    with_value,
)
from delvec.iceberg.tree.manifest_files import ManifestFiles, StoredManifest
from delvec.iceberg.tree.new_root import Commit

_PARQUET = "parquet"
_COUNTED = {ADDED: "added", EXISTING: "existing", DELETED: "deleted"}


class LeafWriter:
    """Writes leaves of at most ``leaf_entries`` entries for a commit.

    ``leaves`` are their entries in the root so far. ``next_row_id`` is the first row id that is free.
    """

    def __init__(
        self,
        files: ManifestFiles,
        commit: Commit,
        *,
        next_row_id: int,
        leaf_entries: int,
        stats: pa.StructType,
    ) -> None:
        self.files = files
        self.commit = commit
        self.next_row_id = next_row_id
        self.leaves: list[pa.Table] = []
        self._leaf_entries = leaf_entries
        self._stats = stats

    def existing(self, entries: pa.Table, content_type: int, affinity: str | None = None) -> None:
        """Write older entries, which have all that they inherited, to EXISTING leaves."""
        for part in self._parts(with_value(entries, "status", EXISTING)):
            self._write(part, content_type, EXISTING, affinity)

    def added(self, entries: pa.Table, content_type: int, affinity: str | None = None) -> None:
        """Write this commit's entries, whose sequence numbers are explicit, to ADDED leaves."""
        for part in self._parts(self._uninherited(entries)):
            first = self.next_row_id if content_type == DATA_MANIFEST else None
            self._write(part, content_type, ADDED, affinity, first_row_id=first)
            self.next_row_id += rows_without_ids(part)

    def _parts(self, entries: pa.Table) -> Iterator[pa.Table]:
        """The entries in pieces of about the same size."""
        count = len(entries)
        pieces = -(-count // self._leaf_entries)
        for piece in range(pieces):
            first, last = (at * count // pieces for at in (piece, piece + 1))
            yield entries.slice(first, last - first)

    def _uninherited(self, entries: pa.Table) -> pa.Table:
        """The entries without what they will inherit. An older sequence number stays."""
        sequence = one_chunk(entries.column("sequence_number"))
        is_own = pc.equal(sequence, self.commit.sequence_number)
        entries = with_columns(
            entries, {"sequence_number": pc.if_else(is_own, pa.scalar(None, pa.int64()), sequence)}
        )
        for name in ("snapshot_id", "file_sequence_number"):
            entries = with_value(entries, name, None)
        return entries

    def _write(
        self,
        entries: pa.Table,
        content_type: int,
        status: int,
        affinity: str | None,
        first_row_id: int | None = None,
    ) -> None:
        stored = self.files.store(entries, content_type)
        leaf = leaf_entry(
            entries,
            stored,
            commit=self.commit,
            content_type=content_type,
            status=status,
            stats=self._stats,
            referenced_file=affinity,
            first_row_id=first_row_id,
        )
        self.leaves.append(leaf)


def rows_without_ids(entries: pa.Table) -> int:
    """How many row ids the data files among the entries will inherit."""
    missing = pc.and_(
        pc.is_null(entries.column("first_row_id")), pc.equal(entries.column("content_type"), DATA)
    )
    return int(pc.sum(entries.column("record_count").filter(missing)).as_py() or 0)


def leaf_entry(
    entries: pa.Table,
    stored: StoredManifest,
    *,
    commit: Commit,
    content_type: int,
    status: int,
    stats: pa.StructType,
    referenced_file: str | None = None,
    first_row_id: int | None = None,
) -> pa.Table:
    """The entry in the root of a leaf with these entries."""
    specs = entries.column("partition_spec_id").unique().to_pylist()
    sequences = pc.fill_null(entries.column("sequence_number"), commit.sequence_number)
    is_live = pc.not_equal(entries.column("status"), DELETED)
    values = {
        "status": status,
        "snapshot_id": commit.snapshot_id,
        "sequence_number": commit.sequence_number,
        "file_sequence_number": commit.sequence_number,
        "first_row_id": first_row_id,
        "content_type": content_type,
        "location": stored.location,
        "file_format": _PARQUET,
        "record_count": len(entries),
        "file_size_in_bytes": stored.size,
        "partition_spec_id": specs[0] if len(specs) == 1 else MIXED_SPECS,
        "referenced_file": referenced_file,
        "min_sequence_number": pc.min(sequences.filter(is_live)).as_py(),
        **_counts(entries),
    }
    columns: dict[str, pa.Array] = {
        field.name: pa.array([values[field.name]], field.type)
        for field in ENTRIES_SCHEMA
        if field.name in values
    }
    columns[CONTENT_STATS] = aggregated_stats(entries, stats)
    return entries_table(columns, 1, stats)


def _counts(entries: pa.Table) -> dict[str, int]:
    statuses, counts = entries.column("status"), {}
    for status, name in _COUNTED.items():
        records = entries.column("record_count").filter(pc.equal(statuses, status))
        counts[f"{name}_files_count"] = len(records)
        counts[f"{name}_rows_count"] = pc.sum(records, min_count=0).as_py()
    return counts
