"""A manifest: a row for each data file or delete file, with the file's partition values and statistics.

Partition values are columns named by the id of the partition field, in the type that the file has. Nothing is
inherited yet from the manifest list (`live_files`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.bitmap import Bitmap
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.avro_columns import AvroTable, read_table
from delvec.iceberg.avro_fields import AvroField, typed_columns
from delvec.iceberg.manifest_list import DATA

EXISTING, ADDED, DELETED = 0, 1, 2
DATA_FILE, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2

ENCODING_ID = 170
"""delvec's own field of delete files: the id of their encoding (`delvec.deletes.encoding`). The specification
does not have it; the ids of partition fields start at 1000.
"""

_COUNTS = pa.large_list(pa.struct([("key", pa.int32()), ("value", pa.int64())]))
_BOUNDS = pa.large_list(pa.struct([("key", pa.int32()), ("value", pa.large_binary())]))

_FIELDS = (
    AvroField("0", "status", pa.int32(), required=True),
    AvroField("1", "snapshot_id", pa.int64()),
    AvroField("3", "sequence_number", pa.int64()),
    AvroField("4", "file_sequence_number", pa.int64()),
    AvroField("2.134", "content", pa.int32(), default=DATA_FILE),
    AvroField("2.100", "file_path", pa.string(), required=True),
    AvroField("2.101", "file_format", pa.string(), required=True),
    AvroField("2.103", "record_count", pa.int64(), required=True),
    AvroField("2.104", "file_size", pa.int64(), required=True),
    AvroField("2.108", "column_sizes", _COUNTS),
    AvroField("2.109", "value_counts", _COUNTS),
    AvroField("2.110", "null_value_counts", _COUNTS),
    AvroField("2.137", "nan_value_counts", _COUNTS),
    AvroField("2.125", "lower_bounds", _BOUNDS),
    AvroField("2.128", "upper_bounds", _BOUNDS),
    AvroField("2.131", "key_metadata", pa.large_binary()),
    AvroField("2.132", "split_offsets", pa.large_list(pa.int64())),
    AvroField("2.135", "equality_ids", pa.large_list(pa.int32())),
    AvroField("2.140", "sort_order_id", pa.int32()),
    AvroField("2.142", "first_row_id", pa.int64()),
    AvroField("2.143", "referenced_data_file", pa.string()),
    AvroField("2.144", "content_offset", pa.int64()),
    AvroField("2.145", "content_size", pa.int64()),
    AvroField(f"2.{ENCODING_ID}", "encoding", pa.int32()),
)
_PARTITION = "2.102."

POSITION = "position"
ENTRIES_SCHEMA = pa.schema([*(pa.field(f.name, f.type) for f in _FIELDS), pa.field(POSITION, pa.int64())])
"""Columns of the entries, as the specification names them, and ``position``: the entry's place in the
manifest, from 0. ``file_format`` is in lower case. ``file_size`` is file_size_in_bytes, ``content_size``
content_size_in_bytes. ``encoding`` is null unless a table with vectors of keys records it.
"""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The entries of a manifest (``ENTRIES_SCHEMA``, then a column for each partition field, by its id), and
    what the manifest's header says of them.
    """

    entries: pa.Table
    partition_ids: tuple[int, ...]
    format_version: int | None
    spec_id: int | None

    def live(self) -> Manifest:
        """The manifest without the entries of deleted files."""
        is_live = pc.not_equal(self.entries.column("status"), DELETED)
        if pc.all(is_live).as_py():
            return self
        return Manifest(self.entries.filter(is_live), self.partition_ids, self.format_version, self.spec_id)


def read_manifest(data: bytes, *, content: int | None = None) -> Manifest:
    """The entries of a manifest file. FormatError if it is damaged.

    ``content``: `manifest_list.DATA` or `DELETES`, as the manifest list says; entries of the other kind are
    refused.
    """
    file = read_table(data, lambda name: name in _PATHS or name.startswith(_PARTITION))
    columns = typed_columns(file, _FIELDS)
    columns["file_format"] = pc.utf8_lower(columns["file_format"])
    columns[POSITION] = pa.array(np.arange(file.count))
    partition = _partition_columns(file)
    table = pa.table({**columns, **{str(field_id): column for field_id, column in partition.items()}})
    _verify(table, content)
    return Manifest(
        table, tuple(partition), file.header.number("format-version"), file.header.number("partition-spec-id")
    )


def read_live_files(data: bytes, masked: Bitmap | None = None) -> pa.Table:
    """The columns ``content``, ``file_path`` and ``file_size`` of the live files in a manifest, without those
    at ``masked`` positions.
    """
    fields = [field for field in _FIELDS if field.name in _OF_LIVE_FILES]
    paths = {field.path for field in fields}
    table = pa.table(typed_columns(read_table(data, lambda name: name in paths), fields))
    _verify_values(table, "status", (EXISTING, ADDED, DELETED))
    _verify_values(table, "content", (DATA_FILE, POSITION_DELETES, EQUALITY_DELETES))
    is_live = pc.not_equal(table.column("status"), DELETED)
    if masked:
        is_live = pc.and_(is_live, pa.array(~masked.contains_many(np.arange(len(table)))))
    return table.filter(is_live).drop_columns("status")


_PATHS = frozenset(field.path for field in _FIELDS)
_OF_LIVE_FILES = ("status", "content", "file_path", "file_size")


def _partition_columns(file: AvroTable) -> dict[int, pa.Array | pa.ChunkedArray]:
    columns = {}
    for name, column in file.columns.items():
        if name.startswith(_PARTITION):
            field_id = name.removeprefix(_PARTITION)
            if not field_id.isdigit():
                raise FormatError(f"partition field {field_id!r} of the Avro schema has no field id")
            columns[int(field_id)] = column
    return columns


def _verify(entries: pa.Table, content: int | None) -> None:
    _verify_values(entries, "status", (EXISTING, ADDED, DELETED))
    contents = {None: (0, 1, 2), DATA: (DATA_FILE,)}.get(content, (POSITION_DELETES, EQUALITY_DELETES))
    _verify_values(entries, "content", contents)
    for name in ("record_count", "file_size"):
        least = pc.min(entries.column(name)).as_py()
        if least is not None and least < 0:
            raise FormatError(f"an entry has the {name} {least}, expected 0 or more")
    keys = entries.column("key_metadata")
    if keys.null_count != len(keys):
        path = entries.filter(pc.is_valid(keys)).column("file_path")[0].as_py()
        raise UnsupportedFeatureError(f"file is encrypted: {path}", feature="encryption")


def _verify_values(entries: pa.Table, name: str, expected: tuple[int, ...]) -> None:
    for value in entries.column(name).unique().to_pylist():
        if value not in expected:
            raise FormatError(f"an entry has the {name} {value}, expected {' or '.join(map(str, expected))}")
