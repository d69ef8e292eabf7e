"""The rules that every entry follows, in the root and in leaves: one function for each rule.

A rule returns the problem with the first entry that breaks it, as text, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows, one_chunk
from delvec.iceberg.tree.entries import (
    ADDED,
    CONTENT_NAMES,
    CONTENT_TYPES,
    DATA,
    DATA_MANIFEST,
    DELETE_MANIFEST,
    DELETED,
    EQUALITY_DELETES,
    MANIFEST_DV,
    MANIFEST_STATS,
    MANIFESTS,
    MIXED_SPECS,
    POSITION_DELETES,
    STATUSES,
    numbers,
)

DATA_FORMATS = ("parquet", "avro", "orc")
LEAF_FORMATS = ("parquet", "avro")
VECTOR_FORMATS = ("puffin",)
_FORMATS = {
    DATA: DATA_FORMATS,
    POSITION_DELETES: VECTOR_FORMATS,
    EQUALITY_DELETES: (*DATA_FORMATS, *VECTOR_FORMATS),
    DATA_MANIFEST: LEAF_FORMATS,
    DELETE_MANIFEST: LEAF_FORMATS,
    MANIFEST_DV: VECTOR_FORMATS,
}

_VECTORS = (POSITION_DELETES, MANIFEST_DV)
_SIZES = ("record_count", "file_size_in_bytes", "dv_offset", "dv_size_in_bytes", *MANIFEST_STATS)


class CheckedEntries:
    """A table of entries, with the masks that rules share."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.types = numbers(table, "content_type")
        self.statuses = numbers(table, "status")

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def is_live(self) -> Mask:
        live: Mask = self.statuses != DELETED
        return live

    @cached_property
    def has_inline(self) -> Mask:
        return self.has("dv_inline")

    @cached_property
    def has_stored(self) -> Mask:
        return self.has("dv_offset") | self.has("dv_size_in_bytes")

    def of(self, *content_types: int) -> Mask:
        """Which entries are of these content types."""
        found: Mask = np.isin(self.types, content_types)
        return found

    def has(self, name: str) -> Mask:
        """Which entries have a value in the column."""
        found: Mask = one_chunk(self.table.column(name)).is_valid().to_numpy(zero_copy_only=False)
        return found

    def numbers(self, name: str) -> Rows:
        """A column of numbers, -1 for nulls."""
        return numbers(self.table, name)

    def first(self, wrong: Mask, problem: str | Callable[[int], str]) -> str | None:
        """The problem with the first wrong entry, and which one that is; None if no entry is wrong."""
        rows = np.flatnonzero(wrong)
        if not len(rows):
            return None
        row = int(rows[0])
        text = problem if isinstance(problem, str) else problem(row)
        return f"{text}: entry {row} ({self.name(row)})"

    def name(self, row: int) -> str:
        """The entry for a message: its content type and its location."""
        kind = int(self.types[row])
        label = CONTENT_NAMES[kind] if kind in CONTENT_TYPES else f"type {kind}"
        location = self.value(row, "location")
        if location is None and kind == MANIFEST_DV:
            return f"{label} of {self.value(row, 'referenced_file')}"
        return label if location is None else f"{label} {location}"

    def value(self, row: int, name: str) -> object:
        return self.table.column(name)[row].as_py()


Rule = Callable[[CheckedEntries], str | None]


def known_status(entries: CheckedEntries) -> str | None:
    wrong = ~np.isin(entries.statuses, STATUSES)
    return entries.first(wrong, lambda row: f"status is {entries.statuses[row]}, expected 0, 1 or 2")


def known_content_type(entries: CheckedEntries) -> str | None:
    wrong = ~np.isin(entries.types, CONTENT_TYPES)
    return entries.first(wrong, lambda row: f"content_type is {entries.types[row]}, expected 0 to 5")


def file_format_of_content(entries: CheckedEntries) -> str | None:
    formats = one_chunk(entries.table.column("file_format"))
    wrong = np.zeros(len(entries), np.bool_)
    for content_type, known in _FORMATS.items():
        is_known = pc.is_in(formats, value_set=pa.array(known)).to_numpy(zero_copy_only=False)
        wrong |= entries.of(content_type) & ~is_known
    return entries.first(
        wrong,
        lambda row: (
            f"file_format is {formats[row].as_py()!r}, expected "
            f"{' or '.join(_FORMATS[int(entries.types[row])])}"
        ),
    )


def no_negative_sizes(entries: CheckedEntries) -> str | None:
    for name in _SIZES:
        numbers = entries.numbers(name)
        problem = entries.first(entries.has(name) & (numbers < 0), f"{name} is negative, expected 0 or more")
        if problem:
            return problem
    return None


def vector_exactly_on_vectors(entries: CheckedEntries) -> str | None:
    is_vector, has_vector = entries.of(*_VECTORS), entries.has_inline | entries.has_stored
    return entries.first(is_vector & ~has_vector, "deletion_vector is null, expected a vector") or (
        entries.first(
            has_vector & ~is_vector, "deletion_vector is set, expected null: only types 1 and 5 have one"
        )
    )


def inline_or_stored(entries: CheckedEntries) -> str | None:
    wrong = entries.has_inline & entries.has_stored
    return entries.first(wrong, "vector is inline and stored, expected one of them")


def offset_with_size(entries: CheckedEntries) -> str | None:
    wrong = entries.has("dv_offset") != entries.has("dv_size_in_bytes")
    return entries.first(wrong, "vector has only one of offset and size_in_bytes, expected both")


def vector_within_file(entries: CheckedEntries) -> str | None:
    size = entries.numbers("file_size_in_bytes")
    end = entries.numbers("dv_offset") + entries.numbers("dv_size_in_bytes")
    wrong = entries.has_stored & entries.has("file_size_in_bytes") & (end > size)
    return entries.first(
        wrong, lambda row: f"vector ends at byte {end[row]}, expected at most {size[row]}, the file's size"
    )


def no_inline_data_vector(entries: CheckedEntries) -> str | None:
    wrong = entries.has_inline & entries.of(POSITION_DELETES)
    return entries.first(wrong, "vector of a data file is inline, expected it in a Puffin file")


def location_unless_inline(entries: CheckedEntries) -> str | None:
    may_lack = entries.of(MANIFEST_DV) & entries.has_inline
    return entries.first(~entries.has("location") & ~may_lack, "location is null, expected one")


def file_size_with_location(entries: CheckedEntries) -> str | None:
    has_location, has_size = entries.has("location"), entries.has("file_size_in_bytes")
    return entries.first(has_location & ~has_size, "file_size_in_bytes is null, expected a number") or (
        entries.first(has_size & ~has_location, "file_size_in_bytes is set without a location, expected null")
    )


def manifest_stats_exactly_on_manifests(entries: CheckedEntries) -> str | None:
    has_counts = [entries.has(name) for name in MANIFEST_STATS]
    has_stats, has_all = np.logical_or.reduce(has_counts), np.logical_and.reduce(has_counts)
    is_manifest = entries.of(*MANIFESTS)
    return entries.first(is_manifest & ~has_all, "manifest_stats is null or incomplete, expected counts") or (
        entries.first(
            has_stats & ~is_manifest, "manifest_stats is set, expected null: only types 3 and 4 have it"
        )
    )


def counts_of_manifests_add_up(entries: CheckedEntries) -> str | None:
    """What is live in a leaf is told from its counts without reading it."""
    counts = np.add.reduce([entries.numbers(name) for name in MANIFEST_STATS[:3]])
    records = entries.numbers("record_count")
    wrong = entries.of(*MANIFESTS) & (counts != records)
    return entries.first(
        wrong,
        lambda row: (
            f"files_counts of manifest_stats add up to {counts[row]}, expected the record_count "
            f"{records[row]}"
        ),
    )


def min_sequence_number_not_above(entries: CheckedEntries) -> str | None:
    """Deletes that are not newer than the oldest file of a leaf are not looked for."""
    least, own = entries.numbers("min_sequence_number"), entries.numbers("sequence_number")
    wrong = entries.of(*MANIFESTS) & entries.has("sequence_number") & (least > own)
    return entries.first(
        wrong,
        lambda row: f"min_sequence_number is {least[row]}, expected at most the sequence_number {own[row]}",
    )


def one_sequence_number_on_manifests(entries: CheckedEntries) -> str | None:
    data, file = entries.numbers("sequence_number"), entries.numbers("file_sequence_number")
    wrong = entries.of(*MANIFESTS) & (data != file)
    return entries.first(
        wrong, lambda row: f"sequence_number is {data[row]}, expected the file_sequence_number {file[row]}"
    )


def sort_order_only_on_data(entries: CheckedEntries) -> str | None:
    wrong = entries.has("sort_order_id") & ~entries.of(DATA)
    return entries.first(wrong, "sort_order_id is set, expected null: only type 0 has one")


def equality_ids_exactly_on_equality_deletes(entries: CheckedEntries) -> str | None:
    lengths = pc.list_value_length(one_chunk(entries.table.column("equality_ids")))
    has_ids: Mask = pc.fill_null(pc.greater(lengths, 0), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    is_equality = entries.of(EQUALITY_DELETES)
    return entries.first(is_equality & ~has_ids, "equality_ids is null or empty, expected field ids") or (
        entries.first(
            entries.has("equality_ids") & ~is_equality,
            "equality_ids is set, expected null: only type 2 has it",
        )
    )


def encoding_only_on_deletes(entries: CheckedEntries) -> str | None:
    wrong = entries.has("encoding") & ~entries.of(POSITION_DELETES, EQUALITY_DELETES)
    return entries.first(wrong, "encoding is set, expected null: only types 1 and 2 have one")


def referenced_file_on_vectors(entries: CheckedEntries) -> str | None:
    has_file, is_vector = entries.has("referenced_file"), entries.of(*_VECTORS)
    may_have = is_vector | entries.of(DELETE_MANIFEST)
    return entries.first(is_vector & ~has_file, "referenced_file is null, expected a location") or (
        entries.first(
            has_file & ~may_have, "referenced_file is set, expected null: only types 1, 4 and 5 have it"
        )
    )


def row_ids_only_on_data(entries: CheckedEntries) -> str | None:
    wrong = entries.has("first_row_id") & ~entries.of(DATA, DATA_MANIFEST)
    return entries.first(wrong, "first_row_id is set, expected null: only types 0 and 3 have one")


def mixed_specs_only_on_manifests(entries: CheckedEntries) -> str | None:
    specs = entries.numbers("partition_spec_id")
    least = np.where(entries.of(*MANIFESTS), MIXED_SPECS, 0)
    return entries.first(
        specs < least,
        lambda row: f"partition_spec_id is {specs[row]}, expected a partition spec of the table",
    )


def ascending_split_offsets(entries: CheckedEntries) -> str | None:
    lists = one_chunk(entries.table.column("split_offsets"))
    if lists.null_count == len(lists):
        return None
    offsets = pc.list_flatten(lists).to_numpy(zero_copy_only=False)
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    falls = (parents[1:] == parents[:-1]) & (offsets[1:] < offsets[:-1])
    wrong = np.zeros(len(entries), np.bool_)
    wrong[parents[1:][falls]] = True
    return entries.first(wrong, "split_offsets do not ascend, expected ascending ones")


def sequence_numbers_unless_added(entries: CheckedEntries) -> str | None:
    """Only ADDED entries inherit sequence numbers."""
    for name in ("sequence_number", "file_sequence_number"):
        wrong = ~entries.has(name) & (entries.statuses != ADDED)
        problem = entries.first(wrong, f"{name} is null, expected a number: only ADDED entries inherit it")
        if problem:
            return problem
    return None


ENTRY_RULES: Sequence[Rule] = (
    known_status,
    known_content_type,
    file_format_of_content,
    no_negative_sizes,
    vector_exactly_on_vectors,
    inline_or_stored,
    offset_with_size,
    vector_within_file,
    no_inline_data_vector,
    location_unless_inline,
    file_size_with_location,
    manifest_stats_exactly_on_manifests,
    counts_of_manifests_add_up,
    min_sequence_number_not_above,
    one_sequence_number_on_manifests,
    sort_order_only_on_data,
    equality_ids_exactly_on_equality_deletes,
    encoding_only_on_deletes,
    referenced_file_on_vectors,
    row_ids_only_on_data,
    mixed_specs_only_on_manifests,
    ascending_split_offsets,
    sequence_numbers_unless_added,
)
