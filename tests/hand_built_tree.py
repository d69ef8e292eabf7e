"""Metadata trees built by hand, from entries in the short form of `memory_tree`: ``M1 EXISTING``,
``V1→D1 ADDED``, ``M1−[0, 2] ADDED``. Each data file has 10 rows. What a commit adds is inherited, what was
there before is explicit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.iceberg.tree.entries import (
    DATA,
    DATA_CONTENT,
    DATA_MANIFEST,
    DELETE_CONTENT,
    DELETE_MANIFEST,
    ENTRIES_SCHEMA,
    EQUALITY_DELETES,
    MANIFEST_DV,
    POSITION_DELETES,
    ROOT_CONTENT,
    entries_table,
)
from delvec.iceberg.tree.live import live_leaf, root_files
from delvec.iceberg.tree.manifest_file import ManifestFile, read_manifest, write_manifest
from delvec.iceberg.tree.root import Root
from delvec.iceberg.tree.validation import verify_leaf, verify_root
from memory_tree import STATUS, MemoryFiles
from naive_tree import live_entries, parquet_entries

SNAPSHOT, SEQUENCE = 108, 8
ROWS = 10

_ENTRY = re.compile(r"(?P<name>\w+)(?:→(?P<owner>\w+))?(?:−\[(?P<mask>[\d, ]*)\])? (?P<status>[A-Z]+)")
_TYPES = ((r"DVM\d", DELETE_MANIFEST), (r"D?M\d", DATA_MANIFEST), (r"D\d", DATA), (r"V\d", POSITION_DELETES))


@dataclass(frozen=True)
class BuiltTree:
    root_file: bytes
    files: MemoryFiles


def built(root: Sequence[str], **leaves: Sequence[str]) -> BuiltTree:
    """The tree with these entries of the root and of its leaves. Both follow the rules of manifests."""
    files, tables = MemoryFiles(), {}
    for name, texts in leaves.items():
        content = DELETE_CONTENT if _type_of(name) == DELETE_MANIFEST else DATA_CONTENT
        tables[name] = _entries([_row(text, is_root=False) for text in texts])
        leaf = ManifestFile(content, tables[name])
        verify_leaf(leaf, content, name)
        files.leaves[name] = write_manifest(leaf)
    rows, first_row_id = [], 0
    for text in root:
        row = _row(text, is_root=True)
        if row["location"] in tables:
            row |= _of_leaf(row, tables[row["location"]], len(files.leaves[row["location"]]))
        if row["content_type"] in (DATA, DATA_MANIFEST):
            row["first_row_id"] = first_row_id
            first_row_id += 1000
        rows.append(row)
    manifest = ManifestFile(ROOT_CONTENT, _entries(rows))
    verify_root(manifest, "root", snapshot_id=SNAPSHOT, sequence_number=SEQUENCE)
    return BuiltTree(write_manifest(manifest), files)


def live_names(tree: BuiltTree) -> list[str]:
    """The names of the live files and deletes, as delvec reads them, which is what the naive reader says."""
    root, files = Root(read_manifest(tree.root_file, "root").entries), tree.files
    tables = [root_files(root, (DATA, POSITION_DELETES, EQUALITY_DELETES))]
    tables += [live_leaf(root, leaf, files) for leaf in root.leaves]
    names = sorted(name for table in tables for name in table.column("location").to_pylist())
    found = live_entries(
        parquet_entries(tree.root_file),
        lambda place: parquet_entries(files.leaves[place]),
        lambda place, offset, _: files.blobs[place, offset],
    )
    assert names == sorted(one.name for one in found)
    return names


def _type_of(name: str) -> int:
    return next(kind for pattern, kind in _TYPES if re.fullmatch(pattern, name))


def _row(text: str, *, is_root: bool) -> dict[str, Any]:
    found = _ENTRY.fullmatch(text)
    assert found, text
    name, status = found["name"], STATUS.index(found["status"])
    is_new = found["status"] != "EXISTING"
    row: dict[str, Any] = {
        "status": status,
        "content_type": _type_of(name),
        "location": name,
        "file_format": "parquet",
        "record_count": ROWS,
        "file_size_in_bytes": 1000,
        "partition_spec_id": 0,
        "referenced_file": found["owner"],
    }
    if is_root or found["status"] != "ADDED":
        sequence = SEQUENCE if found["status"] == "ADDED" else SEQUENCE - 1
        row["snapshot_id"] = SNAPSHOT if is_new else SNAPSHOT - 1
        row["sequence_number"] = row["file_sequence_number"] = sequence
    if row["content_type"] == POSITION_DELETES:
        row |= {"file_format": "puffin", "record_count": 1, "dv_offset": 4, "dv_size_in_bytes": 40}
    if found["mask"] is not None:
        positions = [int(at) for at in found["mask"].split(",")]
        row |= {
            "content_type": MANIFEST_DV,
            "location": None,
            "file_format": "puffin",
            "record_count": len(positions),
            "file_size_in_bytes": None,
            "referenced_file": name,
            "dv_inline": blob.encode(Bitmap.from_numpy(np.array(positions, np.int64))),
        }
    return row


def _of_leaf(row: dict[str, Any], entries: pa.Table, size: int) -> dict[str, Any]:
    statuses = entries.column("status").to_pylist()
    counts = entries.column("record_count").to_pylist()
    stats: dict[str, Any] = {"min_sequence_number": 1}
    for number, label in enumerate(("existing", "added", "deleted")):
        chosen = [rows for rows, status in zip(counts, statuses, strict=True) if status == number]
        stats |= {f"{label}_files_count": len(chosen), f"{label}_rows_count": sum(chosen)}
    return {**stats, "record_count": len(entries), "file_size_in_bytes": size, "location": row["location"]}


def _entries(rows: Iterable[dict[str, Any]]) -> pa.Table:
    listed = list(rows)
    columns = {
        field.name: pa.array([row.get(field.name) for row in listed], field.type) for field in ENTRIES_SCHEMA
    }
    return entries_table(columns, len(listed))
