"""A second reader of metadata trees, entry by entry in plain Python, to compare delvec's own with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delvec import blob

EXISTING, ADDED, DELETED = range(3)
DATA, VECTOR, EQUALITY, DATA_MANIFEST, DELETE_MANIFEST, MASK = range(6)
ROOT = "root"

Entry = dict[str, Any]
ReadLeaf = Callable[[str], Sequence[Entry]]
ReadBlob = Callable[[str, int, int], bytes]


@dataclass(frozen=True)
class Live:
    """A live entry, with what it inherits, and where it is: a leaf or the root, and the position there."""

    name: str
    content: int
    manifest: str
    position: int
    rows: int
    snapshot_id: int
    sequence: int
    file_sequence: int
    first_row_id: int | None
    referenced: str | None


@cache
def parquet_entries(data: bytes) -> list[Entry]:
    """The entries of a manifest file, the fields of structs in one dictionary. Absent fields are None."""
    entries = []
    for row in pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False).to_pylist():
        vector = row.pop("deletion_vector", None) or {}
        entry = defaultdict(lambda: None, {f"dv_{name}": value for name, value in vector.items()})
        entry["dv_inline"] = entry.pop("dv_inline_content", None)
        for struct in (row.pop("tracking"), row.pop("manifest_stats", None), row):
            entry.update(struct or {})
        entries.append(entry)
    return entries


def live_entries(root: Sequence[Entry], read_leaf: ReadLeaf, read_blob: ReadBlob) -> list[Live]:
    """All live files and deletes of a snapshot."""
    masks = {entry["referenced_file"]: mask_of(entry, read_blob) for entry in root if _is_live(entry, MASK)}
    found = []
    for row, entry in enumerate(root):
        if _is_live(entry, DATA, VECTOR, EQUALITY):
            found.append(_live(entry, ROOT, row, entry))
        if _is_live(entry, DATA_MANIFEST, DELETE_MANIFEST):
            found += _of_leaf(entry, read_leaf(entry["location"]), masks.get(entry["location"], set()))
    return found


def affinities(root: Sequence[Entry]) -> Mapping[str, str | None]:
    """The data manifest that each live delete manifest is affiliated with."""
    return {e["location"]: e["referenced_file"] for e in root if _is_live(e, DELETE_MANIFEST)}


def _of_leaf(leaf: Entry, entries: Sequence[Entry], mask: set[int]) -> Iterator[Live]:
    next_row_id = leaf["first_row_id"]
    for position, entry in enumerate(entries):
        if entry["status"] == DELETED:
            continue
        inherited = entry.copy()
        if entry["snapshot_id"] is None:
            inherited["snapshot_id"] = leaf["snapshot_id"]
        for name in ("sequence_number", "file_sequence_number"):
            if entry[name] is None:
                assert entry["status"] == ADDED, f"EXISTING entry without {name}"
                inherited[name] = leaf["sequence_number"]
        if entry["content_type"] == DATA and entry["first_row_id"] is None and next_row_id is not None:
            inherited["first_row_id"] = next_row_id
            next_row_id += entry["record_count"]
        if position not in mask:
            yield _live(inherited, leaf["location"], position, entry)


def _live(inherited: Entry, manifest: str, position: int, entry: Entry) -> Live:
    return Live(
        entry["location"],
        entry["content_type"],
        manifest,
        position,
        entry["record_count"],
        inherited["snapshot_id"],
        inherited["sequence_number"],
        inherited["file_sequence_number"],
        inherited["first_row_id"],
        entry["referenced_file"],
    )


def mask_of(entry: Entry, read_blob: ReadBlob) -> set[int]:
    """The positions that a manifest vector masks."""
    framed = entry["dv_inline"]
    if framed is None:
        framed = read_blob(entry["location"], entry["dv_offset"], entry["dv_size_in_bytes"])
    return set(blob.decode(framed))


def _is_live(entry: Entry, *types: int) -> bool:
    return entry["status"] != DELETED and entry["content_type"] in types
