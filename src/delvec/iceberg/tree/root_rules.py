"""The rules of a root manifest, besides those of every entry: one function for each rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, one_chunk
from delvec.iceberg.tree.entries import (
    ADDED,
    DATA,
    DATA_MANIFEST,
    DELETE_MANIFEST,
    EXISTING,
    MANIFEST_DV,
    MANIFESTS,
    POSITION_DELETES,
)
from delvec.iceberg.tree.entry_rules import CheckedEntries, Rule

_TRACKING = ("snapshot_id", "sequence_number", "file_sequence_number")


def explicit_tracking(entries: CheckedEntries) -> str | None:
    """Entries of the root have nothing to inherit from."""
    for name in _TRACKING:
        problem = entries.first(~entries.has(name), f"{name} is null in the root, expected a number")
        if problem:
            return problem
    return None


def one_live_vector_per_manifest(entries: CheckedEntries) -> str | None:
    wrong = _repeated(entries, entries.of(MANIFEST_DV) & entries.is_live, "referenced_file")
    return entries.first(
        wrong,
        lambda row: f"{entries.value(row, 'referenced_file')} has two live manifest vectors, expected one",
    )


def one_replaced_vector_per_manifest(entries: CheckedEntries) -> str | None:
    """The vector that a commit replaces stays for one snapshot."""
    wrong = _repeated(entries, entries.of(MANIFEST_DV) & ~entries.is_live, "referenced_file")
    return entries.first(
        wrong,
        lambda row: f"{entries.value(row, 'referenced_file')} has two DELETED manifest vectors, expected one",
    )


def no_deleted_manifests(entries: CheckedEntries) -> str | None:
    """A leaf has no net change: what a commit removes of it is in a manifest vector."""
    wrong = entries.of(*MANIFESTS) & ~entries.is_live
    return entries.first(wrong, "manifest is DELETED, expected a manifest vector that masks its entries")


def row_ids_of_data_files(entries: CheckedEntries) -> str | None:
    wrong = entries.of(DATA) & entries.is_live & ~entries.has("first_row_id")
    return entries.first(wrong, "first_row_id is null in the root, expected a number")


def one_live_vector_per_data_file(entries: CheckedEntries) -> str | None:
    wrong = _repeated(entries, entries.of(POSITION_DELETES) & entries.is_live, "referenced_file")
    return entries.first(
        wrong, lambda row: f"{entries.value(row, 'referenced_file')} has two live vectors, expected one"
    )


def each_file_once(entries: CheckedEntries) -> str | None:
    wrong = _repeated(entries, entries.of(DATA, *MANIFESTS) & entries.is_live, "location")
    return entries.first(
        wrong, lambda row: f"{entries.value(row, 'location')} has two live entries, expected one"
    )


def vectors_of_live_manifests(entries: CheckedEntries) -> str | None:
    wrong = entries.of(MANIFEST_DV) & entries.is_live & ~_names_live(entries, MANIFESTS)
    return entries.first(wrong, "manifest vector is of a file that is no live manifest of the root")


def affinity_to_live_data_manifests(entries: CheckedEntries) -> str | None:
    affiliated = entries.of(DELETE_MANIFEST) & entries.is_live & entries.has("referenced_file")
    wrong = affiliated & ~_names_live(entries, (DATA_MANIFEST,))
    return entries.first(
        wrong,
        lambda row: (
            f"referenced_file is {entries.value(row, 'referenced_file')}, expected a live data manifest of "
            "the root"
        ),
    )


def vector_within_manifest(entries: CheckedEntries) -> str | None:
    """A manifest vector has no more positions than its leaf has entries that are not DELETED."""
    manifests = np.flatnonzero(entries.of(*MANIFESTS) & entries.is_live)
    names = one_chunk(entries.table.column("location")).take(pa.array(manifests))
    index = pc.index_in(one_chunk(entries.table.column("referenced_file")), value_set=names)
    at = index.fill_null(-1).to_numpy(zero_copy_only=False)
    files = entries.numbers("added_files_count") + entries.numbers("existing_files_count")
    counts = entries.numbers("record_count")
    limits = np.where(at >= 0, files[manifests[at]] if len(manifests) else 0, 0)
    wrong = entries.of(MANIFEST_DV) & entries.is_live & (at >= 0) & (counts > limits)
    return entries.first(
        wrong,
        lambda row: (
            f"manifest vector has {counts[row]} positions, expected at most {limits[row]}, the "
            "entries of its manifest that are not DELETED"
        ),
    )


ROOT_RULES: Sequence[Rule] = (
    explicit_tracking,
    one_live_vector_per_manifest,
    one_replaced_vector_per_manifest,
    no_deleted_manifests,
    row_ids_of_data_files,
    one_live_vector_per_data_file,
    each_file_once,
    vectors_of_live_manifests,
    affinity_to_live_data_manifests,
    vector_within_manifest,
)


def changes_of_snapshot(entries: CheckedEntries, snapshot_id: int, sequence_number: int) -> str | None:
    """What a snapshot added or deleted has its id; nothing is newer than the snapshot."""
    snapshots = entries.numbers("snapshot_id")
    wrong = (entries.statuses != EXISTING) & (snapshots != snapshot_id)
    problem = entries.first(
        wrong,
        lambda row: (
            f"snapshot_id of {'an ADDED' if entries.statuses[row] == ADDED else 'a DELETED'} entry is "
            f"{snapshots[row]}, expected that of the snapshot, {snapshot_id}"
        ),
    )
    if problem:
        return problem
    sequences = np.maximum(entries.numbers("sequence_number"), entries.numbers("file_sequence_number"))
    return entries.first(
        sequences > sequence_number,
        lambda row: (
            f"sequence number is {sequences[row]}, expected at most that of the snapshot, {sequence_number}"
        ),
    )


def _names_live(entries: CheckedEntries, content_types: Sequence[int]) -> Mask:
    """Whether ``referenced_file`` is the location of a live entry of these types."""
    rows = np.flatnonzero(entries.of(*content_types) & entries.is_live)
    names = one_chunk(entries.table.column("location")).take(pa.array(rows))
    found: Mask = pc.is_in(one_chunk(entries.table.column("referenced_file")), value_set=names).to_numpy(
        zero_copy_only=False
    )
    return found


def _repeated(entries: CheckedEntries, among: Mask, name: str) -> Mask:
    """Which of the entries ``among`` have a value that an earlier one of them has."""
    rows = np.flatnonzero(among)
    values = one_chunk(entries.table.column(name)).take(pa.array(rows))
    codes = pc.dictionary_encode(values).indices.fill_null(-1).to_numpy(zero_copy_only=False)
    _, first = np.unique(codes, return_index=True)
    again = np.ones(len(rows), np.bool_)
    again[first] = False
    wrong = np.zeros(len(entries), np.bool_)
    wrong[rows[again & (codes >= 0)]] = True
    return wrong
