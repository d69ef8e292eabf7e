"""Manifests as Parquet files, in the layout of `profile_seed`.

Fields are found by id. Unknown fields are ignored, and optional ones may be missing; a column without values
is not written. Whether entries follow the rules is not judged here (`validation`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delvec.chunked import one_chunk
from delvec.errors import FormatError, UnsupportedFeatureError
from delvec.iceberg.tree.content_stats import (
    LOWER,
    STATISTICS,
    UPPER,
    null_stats,
    statistics_type,
    stats_type,
)
from delvec.iceberg.tree.entries import (
    CONTENT_STATS,
    DATA_CONTENT,
    DELETE_CONTENT,
    ROOT_CONTENT,
    entries_table,
)
from delvec.iceberg.tree.parquet_columns import ParquetColumns, Path, plain_type, typed, with_id
from delvec.iceberg.tree.profile_seed import (
    CONTENT_KEY,
    FORMAT_VERSION,
    LAYOUT,
    STATISTIC_OFFSETS,
    STATS_ID,
    VERSION_KEY,
    DiskField,
    DiskStruct,
    measured_field_id,
    stats_id,
)

CONTENTS = (ROOT_CONTENT, DATA_CONTENT, DELETE_CONTENT)

Written = tuple[pa.Field, pa.Array]


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest: what it says it holds (one of ``CONTENTS``), and all its entries in their order."""

    content: str
    entries: pa.Table


def write_manifest(manifest: ManifestFile) -> bytes:
    """The manifest as a Parquet file of one row group."""
    entries = manifest.entries.combine_chunks()
    written = [_written(entries, item) for item in LAYOUT]
    written.append(_written_stats(one_chunk(entries.column(CONTENT_STATS))))
    columns = [column for column in written if column is not None]
    schema = pa.schema([field for field, _ in columns])
    table = pa.table([array for _, array in columns], schema=schema)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        store_schema=False,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        writer.add_key_value_metadata({VERSION_KEY: FORMAT_VERSION, CONTENT_KEY: manifest.content})
        writer.write_table(table, row_group_size=max(1, len(entries)))
    return bytes(sink.getvalue())


def read_manifest(data: bytes, path: str, *, stats_of: Collection[int] | None = None) -> ManifestFile:
    """The manifest in the Parquet file ``data``. Errors name ``path``: FormatError if the file is damaged.

    ``stats_of``: the columns and expressions whose statistics are read; None: all. Bounds have the types that
    the file has.
    """
    try:
        return _manifest(data, stats_of)
    except FormatError as error:
        raise error.at(path) from None
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(f"{error}: {path}", feature=error.feature) from None


def _manifest(data: bytes, stats_of: Collection[int] | None) -> ManifestFile:

    def is_wanted(path: Path) -> bool:
        if path[0] != STATS_ID:
            return len(path) == 1
        field_id = measured_field_id(path[1]) if len(path) == 2 else None
        return field_id is not None and (stats_of is None or field_id in stats_of)

    file = ParquetColumns(data, is_wanted)
    content = _verified_content(file.key_values)
    columns: dict[str, pa.Array] = {}
    for item in LAYOUT:
        columns |= _read(file, item)
    columns["file_format"] = pc.utf8_lower(columns["file_format"])
    ids = [number for number in file.children(STATS_ID) if is_wanted((STATS_ID, number))]
    statistics = _read_stats(file, ids)
    entries = entries_table({**columns, CONTENT_STATS: statistics}, file.count, statistics.type)
    return ManifestFile(content, entries)


def _verified_content(key_values: Mapping[str, str]) -> str:
    version = key_values.get(VERSION_KEY)
    if version is None:
        raise FormatError(f"manifest has no {VERSION_KEY} in its file metadata, expected {FORMAT_VERSION}")
    if version != FORMAT_VERSION:
        raise UnsupportedFeatureError(
            f"{VERSION_KEY} of a manifest is {version!r}, expected {FORMAT_VERSION}",
            feature=f"manifest of format version {version}",
        )
    content = key_values.get(CONTENT_KEY, "missing")
    if content not in CONTENTS:
        raise FormatError(f"{CONTENT_KEY} of a manifest is {content!r}, expected {', '.join(CONTENTS)}")
    return content


def _written(entries: pa.Table, item: DiskField | DiskStruct) -> Written | None:
    if isinstance(item, DiskField):
        return _written_field(item, one_chunk(entries.column(item.column)), is_nullable=not item.required)
    arrays = {field: one_chunk(entries.column(field.column)) for field in item.fields}
    parts = [
        _written_field(field, array, is_nullable=not (item.required and field.required))
        for field, array in arrays.items()
    ]
    columns = [part for part in parts if part is not None]
    if not columns and not item.required:
        return None
    missing = None
    if not item.required:
        missing = reduce(pc.and_, (array.is_null() for array in arrays.values()))
    fields = [field for field, _ in columns]
    struct = pa.StructArray.from_arrays([array for _, array in columns], fields=fields, mask=missing)
    return with_id(pa.field(item.name, struct.type, nullable=not item.required), item.field_id), struct


def _written_field(item: DiskField, array: pa.Array, *, is_nullable: bool) -> Written | None:
    if array.null_count == len(array) and is_nullable:
        return None
    return with_id(pa.field(item.name, item.type, nullable=is_nullable), item.field_id), array.cast(item.type)


def _written_stats(statistics: pa.StructArray) -> Written | None:
    columns = []
    for field in statistics.type:
        column = pc.struct_field(statistics, [field.name])
        parts = [(name, pc.struct_field(column, [name])) for name in STATISTICS]
        parts = [(name, array) for name, array in parts if array.null_count < len(array)]
        if parts:
            number = stats_id(int(field.name))
            fields = [
                with_id(pa.field(name, array.type), number + STATISTIC_OFFSETS[name]) for name, array in parts
            ]
            arrays = [array for _, array in parts]
            struct = pa.StructArray.from_arrays(arrays, fields=fields, mask=column.is_null())
            columns.append((with_id(pa.field(field.name, struct.type), number), struct))
    if not columns:
        return None
    fields = [field for field, _ in columns]
    arrays = [array for _, array in columns]
    struct = pa.StructArray.from_arrays(arrays, fields=fields, mask=statistics.is_null())
    return with_id(pa.field(CONTENT_STATS, struct.type), STATS_ID), struct


def _read(file: ParquetColumns, item: DiskField | DiskStruct) -> dict[str, pa.Array]:
    if isinstance(item, DiskField):
        return {item.column: _read_field(file, (item.field_id,), item, is_required=item.required)}
    struct = file.column((item.field_id,))
    if struct is None and item.required:
        raise FormatError(f"manifest has no field {item.field_id} ({item.name})")
    if struct is not None and not pa.types.is_struct(struct.type):
        raise FormatError(
            f"field {item.field_id} ({item.name}) has the type {struct.type}, expected a struct"
        )
    columns = {
        field.column: _read_field(
            file, (item.field_id, field.field_id), field, is_required=field.required and struct is not None
        )
        for field in item.fields
    }
    if struct is not None:
        _verify_struct(item, struct, columns)
    return columns


def _read_field(file: ParquetColumns, path: Path, item: DiskField, *, is_required: bool) -> pa.Array:
    place = f"{path[-1]} ({item.name})"
    array = file.column(path)
    if array is None:
        if is_required:
            raise FormatError(f"manifest has no field {place}")
        return pa.nulls(file.count, item.type)
    array = typed(array, item.type, place)
    if is_required and len(path) == 1 and array.null_count:
        raise FormatError(f"field {place} is null in {array.null_count} entries, expected none")
    return array


def _verify_struct(item: DiskStruct, struct: pa.StructArray, columns: Mapping[str, pa.Array]) -> None:
    """A struct that is present has its required fields, and at least one field that is not null."""
    present = struct.is_valid() if not item.required else pa.repeat(pa.scalar(value=True), len(struct))
    for field in item.fields:
        if field.required:
            count = pc.sum(pc.and_(present, columns[field.column].is_null())).as_py()
            if count:
                raise FormatError(
                    f"field {field.field_id} ({field.name}) is null in {count} entries that have "
                    f"{item.name}, expected none"
                )
    empty = reduce(pc.and_, (columns[field.column].is_null() for field in item.fields))
    if pc.any(pc.and_(present, empty)).as_py():
        raise FormatError(f"field {item.field_id} ({item.name}) has no value in an entry, expected null")


def _read_stats(file: ParquetColumns, numbers: Collection[int]) -> pa.StructArray:
    """``content_stats`` with the statistics of these ids."""
    columns: dict[int, pa.StructArray] = {}
    for number in numbers:
        field_id = measured_field_id(number)
        array = file.column((STATS_ID, number))
        assert field_id is not None
        if array is None or not pa.types.is_struct(array.type):
            raise FormatError(f"field {number} (statistics of {field_id}) is no struct")
        columns[field_id] = _read_column_stats(file, number, array)
    if not columns:
        return null_stats(file.count, stats_type({}))
    fields = [pa.field(str(field_id), array.type) for field_id, array in columns.items()]
    missing = reduce(pc.and_, (array.is_null() for array in columns.values()))
    return pa.StructArray.from_arrays(list(columns.values()), fields=fields, mask=missing)


def _read_column_stats(file: ParquetColumns, number: int, struct: pa.StructArray) -> pa.StructArray:
    found = {
        name: file.column((STATS_ID, number, number + offset)) for name, offset in STATISTIC_OFFSETS.items()
    }
    lower, upper = found[LOWER], found[UPPER]
    bounds = [array for array in (lower, upper) if array is not None]
    kind = plain_type(bounds[0].type) if bounds else pa.null()
    parts = []
    for field in statistics_type(kind):
        array = found[field.name]
        place = f"{number + STATISTIC_OFFSETS[field.name]} ({field.name})"
        parts.append(pa.nulls(file.count, field.type) if array is None else typed(array, field.type, place))
    return pa.StructArray.from_arrays(parts, fields=list(statistics_type(kind)), mask=struct.is_null())
