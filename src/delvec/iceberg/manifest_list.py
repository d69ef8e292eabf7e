"""The manifest list of a snapshot: a row for each manifest.

Version 1 has no content and no sequence numbers: all manifests are of data, with the sequence number 0. It
may also list the paths of manifests in the metadata itself, without a manifest list.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.avro_columns import read_table
from delvec.iceberg.avro_fields import AvroField, typed_columns

DATA, DELETES = 0, 1

SUMMARY = pa.struct(
    [
        ("contains_null", pa.bool_()),
        ("contains_nan", pa.bool_()),
        ("lower", pa.large_binary()),
        ("upper", pa.large_binary()),
    ]
)
"""What a manifest's entries have in one partition field: bounds of the values that are neither null nor NaN,
as single values (`single_values`).
"""

_FIELDS = (
    AvroField("500", "path", pa.string(), required=True),
    AvroField("501", "length", pa.int64(), required=True),
    AvroField("502", "spec_id", pa.int32(), required=True),
    AvroField("517", "content", pa.int32(), default=DATA),
    AvroField("515", "sequence_number", pa.int64(), default=0),
    AvroField("516", "min_sequence_number", pa.int64(), default=0),
    AvroField("503", "added_snapshot_id", pa.int64()),
    AvroField("504", "added_files", pa.int64()),
    AvroField("505", "existing_files", pa.int64()),
    AvroField("506", "deleted_files", pa.int64()),
    AvroField("512", "added_rows", pa.int64()),
    AvroField("513", "existing_rows", pa.int64()),
    AvroField("514", "deleted_rows", pa.int64()),
    AvroField("507", "partitions", pa.large_list(SUMMARY)),
    AvroField("519", "key_metadata", pa.large_binary()),
    AvroField("520", "first_row_id", pa.int64()),
)
_SUMMARY_IDS = ("509", "518", "510", "511")

MANIFESTS_SCHEMA = pa.schema([pa.field(field.name, field.type) for field in _FIELDS])
"""Columns of a manifest list.

path, length         the manifest file; length is null where only the path is recorded
spec_id              the partition spec of all its entries
content              0: data files, 1: delete files
sequence_number      of the commit that wrote the manifest; min_sequence_number: the least of live entries
added_snapshot_id    the snapshot that wrote the manifest
added_files, …       numbers of entries and rows by status; null where not recorded
partitions           a `SUMMARY` for each field of the spec, in order; null where not recorded
first_row_id         the row id of the first row whose file has none of its own; null: no row ids
"""


def read_manifest_list(data: bytes) -> pa.Table:
    """The manifests of a manifest list file, as ``MANIFESTS_SCHEMA``. FormatError if it is damaged."""
    file = read_table(data, lambda name: name.partition(".")[0] in _IDS)
    columns = typed_columns(file, [field for field in _FIELDS if field.name != "partitions"])
    columns["partitions"] = _summaries(file.columns.get("507"), file.count)
    table = pa.table([columns[name] for name in MANIFESTS_SCHEMA.names], schema=MANIFESTS_SCHEMA)
    _verify(table)
    return table


def of_paths(paths: Sequence[str], spec_ids: Sequence[int], snapshot_id: int) -> pa.Table:
    """The manifests that version 1's metadata lists by path."""
    count = len(paths)
    columns = {
        "path": pa.array(paths, pa.string()),
        "spec_id": pa.array(spec_ids, pa.int32()),
        "added_snapshot_id": pa.repeat(pa.scalar(snapshot_id, pa.int64()), count),
    }
    for name in ("content", "sequence_number", "min_sequence_number"):
        columns[name] = pa.repeat(pa.scalar(0, MANIFESTS_SCHEMA.field(name).type), count)
    return pa.table(
        [columns.get(field.name, pa.nulls(count, field.type)) for field in MANIFESTS_SCHEMA],
        schema=MANIFESTS_SCHEMA,
    )


_IDS = frozenset(field.path for field in _FIELDS)


def _summaries(column: pa.Array | pa.ChunkedArray | None, count: int) -> pa.Array:
    """The field summaries, whose fields are found by id. Writers differ in whether they have contains_nan."""
    kind = MANIFESTS_SCHEMA.field("partitions").type
    if column is None or pa.types.is_null(column.type):
        return pa.nulls(count, kind)
    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not (pa.types.is_large_list(lists.type) and pa.types.is_struct(lists.type.value_type)):
        raise FormatError(f"field 507 (partitions) has the type {lists.type}, expected {kind}")
    items = lists.values
    try:
        children = [
            items.field(name).cast(field.type)
            if items.type.get_field_index(name) >= 0
            else pa.nulls(len(items), field.type)
            for name, field in zip(_SUMMARY_IDS, SUMMARY, strict=True)
        ]
    except pa.ArrowException:
        raise FormatError(f"field 507 (partitions) has the type {lists.type}, expected {kind}") from None
    values = pa.StructArray.from_arrays(children, fields=list(SUMMARY))
    return pa.LargeListArray.from_arrays(lists.offsets, values, type=kind, mask=lists.is_null())


def _verify(table: pa.Table) -> None:
    for content in table.column("content").unique().to_pylist():
        if content not in (DATA, DELETES):
            raise UnsupportedFeatureError(
                f"a manifest has the content {content}, expected 0 (data) or 1 (deletes)",
                feature=f"manifest content {content}",
            )
    keys = table.column("key_metadata")
    if keys.null_count != len(keys):
        path = table.filter(pc.is_valid(keys)).column("path")[0].as_py()
        raise UnsupportedFeatureError(f"manifest is encrypted: {path}", feature="encryption")
