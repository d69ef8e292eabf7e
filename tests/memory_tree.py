"""A metadata tree in memory: leaves by name, and entries in a short form that tests can read.

M1, M2      data manifests, in the order in which they were stored
DM1, DM2    delete manifests
P1          Puffin files of manifest vectors
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from delvec import blob
from delvec.iceberg.tree.commit import TreeChange, TreeCommit, next_root
from delvec.iceberg.tree.content_stats import NO_STATS
from delvec.iceberg.tree.entries import (
    DATA,
    DATA_CONTENT,
    DATA_MANIFEST,
    DELETE_CONTENT,
    DELETE_MANIFEST,
    EQUALITY_DELETES,
    MANIFEST_DV,
    POSITION_DELETES,
    ROOT_CONTENT,
    entries_table,
    united,
)
from delvec.iceberg.tree.limits import TreeLimits
from delvec.iceberg.tree.manifest_file import ManifestFile, read_manifest, write_manifest
from delvec.iceberg.tree.manifest_files import StoredBlob, StoredManifest
from delvec.iceberg.tree.new_root import Commit
from delvec.iceberg.tree.root import Root, empty_root
from delvec.iceberg.tree.validation import verify_leaf, verify_root
from naive_tree import ROOT, live_entries, parquet_entries

STATUS = ("EXISTING", "ADDED", "DELETED")


@dataclass
class MemoryFiles:
    """The files of a tree. ``stored`` and ``read``: the names of files, in order."""

    leaves: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[tuple[str, int], bytes] = field(default_factory=dict)
    stored: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)

    def entries(self, location: str, _size: int | None, _content_type: int) -> pa.Table:
        self.read.append(location)
        return self.leaf(location)

    def leaf(self, name: str) -> pa.Table:
        return _parsed(self.leaves[name], name)

    def blob(self, location: str, offset: int, _length: int) -> bytes:
        self.read.append(location)
        return self.blobs[location, offset]

    def store(self, entries: pa.Table, content_type: int) -> StoredManifest:
        kind = "M" if content_type == DATA_MANIFEST else "DM"
        number = sum(name.startswith(kind) for name in self.leaves) + 1
        content = DATA_CONTENT if content_type == DATA_MANIFEST else DELETE_CONTENT
        leaf = ManifestFile(content, entries)
        verify_leaf(leaf, content, f"{kind}{number}")
        data = write_manifest(leaf)
        self.leaves[f"{kind}{number}"] = data
        self.stored.append(f"{kind}{number}")
        return StoredManifest(f"{kind}{number}", len(data))

    def store_blobs(self, blobs: Sequence[bytes], _leaves: Sequence[str]) -> list[StoredBlob]:
        name = f"P{len({place for place, _ in self.blobs}) + 1}"
        self.stored.append(name)
        places, offset = [], 4
        for framed in blobs:
            self.blobs[name, offset] = framed
            places.append((offset, len(framed)))
            offset += len(framed)
        return [StoredBlob(name, offset, start, length) for start, length in places]


@cache
def _parsed(data: bytes, name: str) -> pa.Table:
    return read_manifest(data, name).entries


@dataclass
class MemoryTree:
    """A table's snapshots: each commit makes the next root."""

    limits: TreeLimits = field(default_factory=TreeLimits)
    files: MemoryFiles = field(default_factory=MemoryFiles)
    root: Root = field(default_factory=empty_root)
    sequence: int = 0
    next_row_id: int = 0
    last: TreeCommit | None = None
    root_file: bytes = b""

    def commit(
        self,
        *added: pa.Table,
        removed: Iterable[int] = (),
        masked: dict[str, Sequence[int]] | None = None,
        limits: TreeLimits | None = None,
    ) -> list[str]:
        """Commit a change, and return the entries of the new root as texts."""
        self.files.stored.clear()
        self.files.read.clear()
        self.sequence += 1
        change = TreeChange(
            united(added, NO_STATS),
            np.array(sorted(removed), np.int64),
            {place: np.array(positions, np.int64) for place, positions in (masked or {}).items()},
        )
        commit = Commit(100 + self.sequence, self.sequence, self.next_row_id)
        self.last = next_root(self.root, change, commit, files=self.files, limits=limits or self.limits)
        root = ManifestFile(ROOT_CONTENT, self.last.root)
        verify_root(root, "root", snapshot_id=commit.snapshot_id, sequence_number=self.sequence)
        self.root_file = write_manifest(root)
        self.root, self.next_row_id = (
            Root(read_manifest(self.root_file, "root").entries),
            self.last.next_row_id,
        )
        return texts(self.root.entries, self.files)

    def row(self, name: str) -> int:
        """The row of the root with the live file of this name."""
        places = self.root.entries.column("location").to_pylist()
        return next(row for row in self.root.files.tolist() if places[row] == name)

    def live(self) -> list[str]:
        """The live entries, as the naive reader finds them in the stored root: ``D1``, or ``M1[0] D2`` of a
        leaf.
        """
        if not self.root_file:
            return []
        found = live_entries(
            parquet_entries(self.root_file),
            lambda place: parquet_entries(self.files.leaves[place]),
            lambda place, offset, _: self.files.blobs[place, offset],
        )
        places = {ROOT: "{0}"}
        return sorted(
            places.get(one.manifest, "{1}[{2}] {0}").format(one.name, one.manifest, one.position)
            for one in found
        )

    def leaf(self, name: str) -> list[str]:
        return texts(self.files.leaf(name), self.files)


def data(*names: str, rows: int = 10, **columns: Any) -> pa.Table:
    """Entries of data files."""
    return _entries(
        len(names),
        location=list(names),
        content_type=DATA,
        file_format="parquet",
        record_count=rows,
        **columns,
    )


def vectors(names: dict[str, str], **columns: Any) -> pa.Table:
    """Entries of vectors, by name: the data file that each applies to."""
    return _entries(
        len(names),
        location=list(names),
        content_type=POSITION_DELETES,
        file_format="puffin",
        record_count=1,
        referenced_file=list(names.values()),
        dv_offset=4,
        dv_size_in_bytes=40,
        **columns,
    )


def equality_deletes(*names: str, **columns: Any) -> pa.Table:
    return _entries(
        len(names),
        location=list(names),
        content_type=EQUALITY_DELETES,
        file_format="parquet",
        record_count=3,
        equality_ids=[[1]] * len(names),
        **columns,
    )


def _entries(count: int, **columns: Any) -> pa.Table:
    given = {"file_size_in_bytes": 1000, "partition_spec_id": 0, **columns}
    arrays = {
        name: pa.array(value if isinstance(value, list) else [value] * count) for name, value in given.items()
    }
    return entries_table(arrays, count)


def texts(entries: pa.Table, files: MemoryFiles) -> list[str]:
    """Entries as texts: ``M1 EXISTING``, ``V1→D1 ADDED``, ``M1−[1, 2] ADDED``."""
    return [f"{_name(entry, files)} {STATUS[entry['status']]}" for entry in entries.to_pylist()]


def _name(entry: dict[str, Any], files: MemoryFiles) -> str:
    if entry["content_type"] == MANIFEST_DV:
        framed = entry["dv_inline"]
        if framed is None:
            framed = files.blobs[entry["location"], entry["dv_offset"]]
        positions = blob.decode(framed, expected_cardinality=entry["record_count"])
        return f"{entry['referenced_file']}−{list(positions)}"
    if entry["content_type"] in (POSITION_DELETES, DELETE_MANIFEST) and entry["referenced_file"]:
        return f"{entry['location']}→{entry['referenced_file']}"
    return str(entry["location"])
