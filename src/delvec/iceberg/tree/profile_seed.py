"""The layout of manifests on disk, profile ``seed-1``: ids and names of Parquet fields.

    147  tracking                0 status, 1 snapshot_id, 3 sequence_number, 4 file_sequence_number,
                                 142 first_row_id
    134  content_type
    100  location                101 file_format, 103 record_count, 104 file_size_in_bytes
    141  partition_spec_id       140 sort_order_id
    148  deletion_vector         144 offset, 145 size_in_bytes, 160 inline_content
    150  manifest_stats          504 to 506 files, 512 to 514 rows: added, existing, deleted;
                                 516 min_sequence_number
    143  referenced_file
    131  key_metadata
    132  split_offsets           its elements: 133
    135  equality_ids            its elements: 136
    170  encoding
    146  content_stats           a struct for each column or expression: 10000 + 200 × its field id. In it
                                 + 1 lower_bound, + 2 upper_bound (of the column's type), + 3 tight_bounds,
                                 + 4 value_count, + 5 null_value_count, + 6 nan_value_count,
                                 + 7 avg_value_size_in_bytes

delvec chose 160 and 170 itself. It keeps 161 to 169 free for manifest vectors (the encoding of their inline
bytes, a difference to the vector before), + 8 in the statistics for a partition value, and 102 for a tuple of
partition values. The key-value metadata has ``format-version`` and ``content`` (root, data or delete).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from delvec.iceberg.tree.content_stats import LOWER, NANS, NULLS, TIGHT, UPPER, VALUE_SIZE, VALUES
from delvec.iceberg.tree.entries import MANIFEST_STATS
from delvec.iceberg.tree.parquet_columns import with_id

PROFILE = "seed-1"

VERSION_KEY, FORMAT_VERSION = "format-version", "4"
CONTENT_KEY = "content"

STATS_ID = 146
_FIRST_STATS_ID, _STATS_STEP = 10_000, 200


@dataclass(frozen=True, slots=True)
class DiskField:
    """A field. ``column``: its column in tables of entries."""

    field_id: int
    name: str
    column: str
    type: pa.DataType
    required: bool = False


@dataclass(frozen=True, slots=True)
class DiskStruct:
    """A struct whose fields are columns of entries. Unless required, it is null where all of them are."""

    field_id: int
    name: str
    fields: tuple[DiskField, ...]
    required: bool = False


def _list_of(kind: pa.DataType, element_id: int) -> pa.DataType:
    return pa.list_(with_id(pa.field("element", kind, nullable=False), element_id))


TRACKING = DiskStruct(
    147,
    "tracking",
    (
        DiskField(0, "status", "status", pa.int32(), required=True),
        DiskField(1, "snapshot_id", "snapshot_id", pa.int64()),
        DiskField(3, "sequence_number", "sequence_number", pa.int64()),
        DiskField(4, "file_sequence_number", "file_sequence_number", pa.int64()),
        DiskField(142, "first_row_id", "first_row_id", pa.int64()),
    ),
    required=True,
)
DELETION_VECTOR = DiskStruct(
    148,
    "deletion_vector",
    (
        DiskField(144, "offset", "dv_offset", pa.int64()),
        DiskField(145, "size_in_bytes", "dv_size_in_bytes", pa.int64()),
        DiskField(160, "inline_content", "dv_inline", pa.binary()),
    ),
)
_COUNTS = zip(
    (504, 505, 506, 512, 513, 514, 516), MANIFEST_STATS, [pa.int32()] * 3 + [pa.int64()] * 4, strict=True
)
MANIFEST_STATS_STRUCT = DiskStruct(
    150,
    "manifest_stats",
    tuple(DiskField(field_id, name, name, kind, required=True) for field_id, name, kind in _COUNTS),
)

LAYOUT: tuple[DiskField | DiskStruct, ...] = (
    TRACKING,
    DiskField(134, "content_type", "content_type", pa.int32(), required=True),
    DiskField(100, "location", "location", pa.string()),
    DiskField(101, "file_format", "file_format", pa.string(), required=True),
    DiskField(103, "record_count", "record_count", pa.int64(), required=True),
    DiskField(104, "file_size_in_bytes", "file_size_in_bytes", pa.int64()),
    DiskField(141, "partition_spec_id", "partition_spec_id", pa.int32(), required=True),
    DiskField(140, "sort_order_id", "sort_order_id", pa.int32()),
    DELETION_VECTOR,
    MANIFEST_STATS_STRUCT,
    DiskField(143, "referenced_file", "referenced_file", pa.string()),
    DiskField(131, "key_metadata", "key_metadata", pa.binary()),
    DiskField(132, "split_offsets", "split_offsets", _list_of(pa.int64(), 133)),
    DiskField(135, "equality_ids", "equality_ids", _list_of(pa.int32(), 136)),
    DiskField(170, "encoding", "encoding", pa.int32()),
)

STATISTIC_OFFSETS: Mapping[str, int] = {
    LOWER: 1,
    UPPER: 2,
    TIGHT: 3,
    VALUES: 4,
    NULLS: 5,
    NANS: 6,
    VALUE_SIZE: 7,
}


def stats_id(field_id: int) -> int:
    """The id of the statistics of a column or an expression."""
    return _FIRST_STATS_ID + _STATS_STEP * field_id


def measured_field_id(number: int) -> int | None:
    """The column or expression whose statistics have this id; None if it is no such id."""
    field_id, rest = divmod(number - _FIRST_STATS_ID, _STATS_STEP)
    return field_id if field_id >= 0 and rest == 0 else None
