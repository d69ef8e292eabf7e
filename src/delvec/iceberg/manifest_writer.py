"""Writes manifests, as `manifest` and `live_files` read them, in the form that Iceberg's own library writes.

A manifest has one partition spec. Partition values are in the columns ``partition.<name>`` of the entries, by
the names of the bound spec; in the file their field has the name that the table's metadata has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.errors import UnsupportedFeatureError
from delvec.iceberg.avro_schema import Json
from delvec.iceberg.avro_types import (
    TypeNames,
    avro_name,
    avro_type,
    list_of,
    map_of,
    optional,
    record,
    required,
)
from delvec.iceberg.avro_writer import write_table
from delvec.iceberg.manifest import ADDED, DELETED, ENCODING_ID, EXISTING
from delvec.iceberg.manifest_list import DATA, DELETES
from delvec.iceberg.single_values import encode
from delvec.iceberg.stats import PARTITION
from delvec.partition_spec import PartitionSpec
from delvec.schema import DataType

_STATUS_NAMES = {ADDED: "added", EXISTING: "existing", DELETED: "deleted"}
_CONTENT_NAMES = {DATA: "data", DELETES: "deletes"}

_ENTRY = (
    required(0, "status", "int"),
    optional(1, "snapshot_id", "long"),
    optional(3, "sequence_number", "long"),
    optional(4, "file_sequence_number", "long"),
)
_PLACE = (
    required(134, "content", "int"),
    required(100, "file_path", "string"),
    required(101, "file_format", "string"),
)
_FILE = (
    required(103, "record_count", "long"),
    required(104, "file_size_in_bytes", "long"),
    optional(108, "column_sizes", map_of(117, 118, "long")),
    optional(109, "value_counts", map_of(119, 120, "long")),
    optional(110, "null_value_counts", map_of(121, 122, "long")),
    optional(137, "nan_value_counts", map_of(138, 139, "long")),
    optional(125, "lower_bounds", map_of(126, 127, "bytes")),
    optional(128, "upper_bounds", map_of(129, 130, "bytes")),
    optional(131, "key_metadata", "bytes"),
    optional(132, "split_offsets", list_of(133, "long")),
    optional(135, "equality_ids", list_of(136, "int")),
    optional(140, "sort_order_id", "int"),
)
_REFERENCED = optional(143, "referenced_data_file", "string")
_NEWER = {
    2: (_REFERENCED,),
    3: (
        optional(142, "first_row_id", "long"),
        _REFERENCED,
        optional(144, "content_offset", "long"),
        optional(145, "content_size_in_bytes", "long"),
    ),
}
"""The last fields of a file, by format version."""
_ENCODING = optional(ENCODING_ID, "encoding", "int")
_COLUMNS = {"file_size_in_bytes": "file_size", "content_size_in_bytes": "content_size"}
"""Columns of the entries that have other names than the fields."""


def write_manifest(
    entries: pa.Table,
    *,
    spec: PartitionSpec,
    schema_json: Mapping[str, Any],
    spec_json: Mapping[str, Any],
    format_version: int,
    content: int,
    with_encoding: bool = False,
) -> bytes:
    """A manifest file of version 2 or 3. ``with_encoding``: it has delvec's own field ``encoding``.

    ``entries`` have the columns of `live_files.LiveFiles.schema`; ``file_id``, ``spec_id`` and ``position``
    are not needed. What an entry would inherit is written as it is, nulls too. ``schema_json`` and
    ``spec_json``: the table's schema and the spec as the metadata has them. ``content``: of the manifest, as
    in `manifest_list`.
    """
    _verify_transforms(spec)
    names = [field["name"] for field in spec_json["fields"]]
    facts = (*_FILE, *_NEWER[format_version], *((_ENCODING,) if with_encoding else ()))
    fields = [*_PLACE, required(102, "partition", _partition_record(spec, names)), *facts]
    partition = [entries.column(PARTITION + field.name) for field in spec.fields]
    return write_table(
        record("manifest_entry", [*_ENTRY, required(2, "data_file", record("r2", fields))]),
        [*_columns(entries, (*_ENTRY, *_PLACE)), *partition, *_columns(entries, facts)],
        {
            "schema": _json(dict(schema_json)),
            "schema-id": str(schema_json.get("schema-id", 0)),
            "partition-spec": _json(spec_json["fields"]),
            "partition-spec-id": str(spec.spec_id),
            "format-version": str(format_version),
            "content": _CONTENT_NAMES[content],
        },
    )


def manifest_row(
    entries: pa.Table,
    *,
    path: str,
    length: int,
    spec: PartitionSpec,
    content: int,
    sequence_number: int,
    snapshot_id: int,
    first_row_id: int | None = None,
) -> dict[str, Any]:
    """The row of a new manifest in the manifest list (`manifest_list.MANIFESTS_SCHEMA`).

    ``sequence_number`` is the commit's, which entries without one will have.
    """
    statuses = entries.column("status")
    files, rows = {}, {}
    for status, name in _STATUS_NAMES.items():
        counts = entries.column("record_count").filter(pc.equal(statuses, status))
        files[f"{name}_files"], rows[f"{name}_rows"] = len(counts), pc.sum(counts, min_count=0).as_py()
    live = entries.column("sequence_number").filter(pc.not_equal(statuses, DELETED))
    least = pc.min(pc.fill_null(live, sequence_number)).as_py()
    return {
        "path": path,
        "length": length,
        "spec_id": spec.spec_id,
        "content": content,
        "sequence_number": sequence_number,
        "min_sequence_number": sequence_number if least is None else least,
        "added_snapshot_id": snapshot_id,
        **files,
        **rows,
        "partitions": [
            _summary(one_chunk(entries.column(PARTITION + field.name)), field.type) for field in spec.fields
        ],
        "key_metadata": None,
        "first_row_id": first_row_id,
    }


def _verify_transforms(spec: PartitionSpec) -> None:
    for field in spec.fields:
        if not field.transform.is_known:
            raise UnsupportedFeatureError(
                f"transform of partition field {field.name} is {field.transform}, expected one that delvec "
                "knows: the type of its values is not known, and they cannot be written",
                feature=f"transform {field.transform}",
            )


def _partition_record(spec: PartitionSpec, names: list[str]) -> Json:
    """The type of partition values; ``names`` are the recorded names of the spec's fields."""
    types, fields, taken = TypeNames(), [], set[str]()
    for field, name in zip(spec.fields, names, strict=True):
        written = avro_name(name)
        if written in taken:
            written = f"{written}_{field.field_id}"
        taken.add(written)
        item = optional(field.field_id or 0, written, types.once(avro_type(field.type)))
        fields.append(item if written == name else {**item, "iceberg-field-name": name})
    return record("r102", fields)


def _columns(entries: pa.Table, fields: Sequence[Json]) -> list[pa.ChunkedArray]:
    columns = {field["name"]: _COLUMNS.get(field["name"], field["name"]) for field in fields}
    return [
        pc.utf8_upper(entries.column(column)) if name == "file_format" else entries.column(column)
        for name, column in columns.items()
    ]


def _summary(values: pa.Array, data_type: DataType) -> dict[str, Any]:
    """What a manifest list says of the values of a partition field (`manifest_list.SUMMARY`)."""
    present = values.drop_null()
    numbers = present.filter(pc.equal(present, present)) if pa.types.is_floating(values.type) else present
    lower, upper = _bounds(numbers, data_type)
    return {
        "contains_null": values.null_count > 0,
        "contains_nan": len(numbers) < len(present),
        "lower": lower,
        "upper": upper,
    }


def _bounds(values: pa.Array, data_type: DataType) -> tuple[bytes | None, bytes | None]:
    if not len(values) or pa.types.is_null(values.type):
        return None, None
    extremes = pc.min_max(values)
    lower, upper = extremes["min"].as_py(), extremes["max"].as_py()
    if pa.types.is_floating(values.type):  # -0.0 is below 0.0 for Iceberg, equal to it for Arrow
        lower, upper = lower or -0.0, upper or 0.0
    encoded = encode(pa.array([lower, upper], values.type), data_type)
    return encoded[0].as_py(), encoded[1].as_py()


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
