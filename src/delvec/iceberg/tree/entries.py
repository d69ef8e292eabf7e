"""Content entries of the metadata tree as Arrow columns: the form that is independent of the layout on disk.

The root manifest and the leaves have the same columns. A row is one entry: a data file, a delete, a leaf
manifest, or a manifest vector. Structs of the specification are flat here, statistics are not:

    tracking          status, snapshot_id, sequence_number, file_sequence_number, first_row_id
    deletion_vector   dv_offset, dv_size_in_bytes, dv_inline: null in all three is "no vector"
    manifest_stats    ``MANIFEST_STATS``: null in all of them is "no leaf"
    content_stats     a struct with a field for each column and expression, named by its field id. Each is a
                      struct of ``STATISTICS``. Its type depends on the table (`content_stats`)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from delvec.chunked import Mask, Rows, one_chunk
from delvec.iceberg.tree.content_stats import NO_STATS, conformed_stats, null_stats

EXISTING, ADDED, DELETED = 0, 1, 2
STATUSES = (EXISTING, ADDED, DELETED)

DATA, POSITION_DELETES, EQUALITY_DELETES, DATA_MANIFEST, DELETE_MANIFEST, MANIFEST_DV = range(6)
CONTENT_TYPES = (DATA, POSITION_DELETES, EQUALITY_DELETES, DATA_MANIFEST, DELETE_MANIFEST, MANIFEST_DV)
CONTENT_NAMES = (
    "DATA",
    "POSITION_DELETES",
    "EQUALITY_DELETES",
    "DATA_MANIFEST",
    "DELETE_MANIFEST",
    "MANIFEST_DV",
)
MANIFESTS = (DATA_MANIFEST, DELETE_MANIFEST)

ROOT_CONTENT, DATA_CONTENT, DELETE_CONTENT = "root", "data", "delete"
"""What a manifest file says it holds."""

MIXED_SPECS = -1
"""``partition_spec_id`` of a leaf whose entries have several specs."""

MANIFEST_STATS = (
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
    "min_sequence_number",
)

CONTENT_STATS = "content_stats"
POSITION = "position"

ENTRIES_SCHEMA = pa.schema(
    [
        pa.field("status", pa.int32()),
        pa.field("snapshot_id", pa.int64()),
        pa.field("sequence_number", pa.int64()),
        pa.field("file_sequence_number", pa.int64()),
        pa.field("first_row_id", pa.int64()),
        pa.field("content_type", pa.int32()),
        pa.field("location", pa.string()),
        pa.field("file_format", pa.string()),
        pa.field("record_count", pa.int64()),
        pa.field("file_size_in_bytes", pa.int64()),
        pa.field("partition_spec_id", pa.int32()),
        pa.field("sort_order_id", pa.int32()),
        pa.field("referenced_file", pa.string()),
        pa.field("dv_offset", pa.int64()),
        pa.field("dv_size_in_bytes", pa.int64()),
        pa.field("dv_inline", pa.binary()),
        *(pa.field(name, pa.int64()) for name in MANIFEST_STATS),
        pa.field("key_metadata", pa.binary()),
        pa.field("split_offsets", pa.list_(pa.int64())),
        pa.field("equality_ids", pa.list_(pa.int32())),
        pa.field("encoding", pa.int32()),
    ]
)
"""Columns of entries without ``content_stats``, which is the last column of every table of entries.

status                 EXISTING, ADDED or DELETED
snapshot_id            the snapshot that added the entry, or deleted it; null in a leaf: that of the leaf
sequence_number        of the data; null in a leaf for ADDED entries: that of the leaf
file_sequence_number   of the commit that added the file; null in a leaf as sequence_number
first_row_id           of data files and data manifests; null in a leaf: counted from that of the leaf
content_type           one of ``CONTENT_TYPES``
location               as the metadata records it; null only for an inline manifest vector
file_format            in lower case: parquet, avro, orc, puffin
record_count           rows of a file, entries of a leaf (DELETED ones too), cardinality of a vector
file_size_in_bytes     of the file at ``location``; null without a location
partition_spec_id      of files and deletes; of leaves, ``MIXED_SPECS`` if their entries have several
sort_order_id          of data files
referenced_file        of position deletes and manifest vectors: the data file or the leaf they apply to; of a
                       delete manifest: the data manifest that it is affiliated with, null if it has none
dv_offset, dv_size_in_bytes   where a stored vector is in the Puffin file at ``location``
dv_inline              the blob of an inline manifest vector
added_files_count …    ``MANIFEST_STATS``: entries and rows of the leaf by status, manifest vectors ignored
min_sequence_number    the least data sequence number of the live entries in the leaf
encoding               how a delete file stores its deletes (`delvec.deletes`); null: by the file's format
"""


def entries_schema(stats: pa.StructType = NO_STATS) -> pa.Schema:
    """The columns of a table of entries."""
    return ENTRIES_SCHEMA.append(pa.field(CONTENT_STATS, stats))


def entries_table(
    columns: Mapping[str, pa.Array | pa.ChunkedArray], count: int, stats: pa.StructType = NO_STATS
) -> pa.Table:
    """A table of ``count`` entries. Columns that are not given are null; ``content_stats`` may have fewer
    fields than ``stats``, or others.
    """
    unknown = set(columns) - {*ENTRIES_SCHEMA.names, CONTENT_STATS}
    assert not unknown, f"no columns of entries: {', '.join(sorted(unknown))}"
    arrays = [
        one_chunk(columns[field.name]).cast(field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in ENTRIES_SCHEMA
    ]
    given = columns.get(CONTENT_STATS)
    statistics = null_stats(count, stats) if given is None else conformed_stats(one_chunk(given), stats)
    return pa.table([*arrays, statistics], schema=entries_schema(stats))


FROM_LIVE = {
    "status": "status",
    "snapshot_id": "snapshot_id",
    "sequence_number": "sequence_number",
    "file_sequence_number": "file_sequence_number",
    "content_type": "content",
    "location": "file_path",
    "file_format": "file_format",
    "record_count": "record_count",
    "file_size_in_bytes": "file_size",
}
"""Columns that entries of all content types have, and their names in manifests of versions 1 to 3 and in live
entries (`delvec.iceberg.manifest`).
"""


def no_entries(stats: pa.StructType = NO_STATS) -> pa.Table:
    """A table of entries without rows."""
    return entries_schema(stats).empty_table()


def conformed(entries: pa.Table, stats: pa.StructType) -> pa.Table:
    """The entries with ``content_stats`` of another type, so that tables can be united.

    A column that the new type lacks is left out. A column whose type was promoted since is promoted; one
    whose bounds do not fit the new type loses them.
    """
    if entries.schema.field(CONTENT_STATS).type.equals(stats):
        return entries
    at = entries.schema.get_field_index(CONTENT_STATS)
    column = conformed_stats(one_chunk(entries.column(at)), stats)
    return entries.set_column(at, pa.field(CONTENT_STATS, stats), column)


def united(tables: Iterable[pa.Table], stats: pa.StructType) -> pa.Table:
    """The entries of all tables, in order, with ``content_stats`` of type ``stats``."""
    parts = [conformed(table, stats) for table in tables]
    return pa.concat_tables(parts) if parts else no_entries(stats)


def with_columns(entries: pa.Table, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    """The entries with some columns replaced."""
    for name, column in columns.items():
        at = entries.schema.get_field_index(name)
        field = entries.schema.field(at)
        entries = entries.set_column(at, field, one_chunk(column).cast(field.type))
    return entries


def with_value(entries: pa.Table, name: str, value: object) -> pa.Table:
    """The entries with one value in all rows of a column."""
    kind = entries.schema.field(name).type
    return with_columns(entries, {name: pa.repeat(pa.scalar(value, kind), len(entries))})


def with_positions(entries: pa.Table) -> pa.Table:
    """All entries of a manifest file with the column ``position``: the ordinal of the record in the file,
    which is what manifest vectors count. To be called before any filter.
    """
    return entries.append_column(POSITION, pa.array(np.arange(len(entries), dtype=np.int64)))


def is_live(entries: pa.Table) -> Mask:
    """Which entries are not DELETED."""
    live: Mask = numbers(entries, "status") != DELETED
    return live


def is_of(entries: pa.Table, content_types: Sequence[int]) -> Mask:
    """Which entries are of these content types."""
    found: Mask = np.isin(numbers(entries, "content_type"), content_types)
    return found


def numbers(entries: pa.Table, name: str) -> Rows:
    """A column of whole numbers; -1 for nulls."""
    column = one_chunk(entries.column(name)).cast(pa.int64())
    values: Rows = column.fill_null(-1).to_numpy(zero_copy_only=False)
    return values
