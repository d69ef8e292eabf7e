"""Equality-delete files: Parquet files whose rows are values of deleted rows.

Columns are found by field id. A file without field ids has them under the names of the table's name mapping.
Columns that are not compared are ignored. So the metadata says which columns count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delvec.deletes.equality import KeyColumn
from delvec.errors import FormatError, ObjectNotFoundError
from delvec.field_names import has_field_ids, parquet_field_id
from delvec.schema import arrow_type
from delvec.storage import Storage

StoredPath = tuple[str, ...]
"""A column by its names in a file, outermost first."""


def read_keys(
    storage: Storage, place: str, columns: Sequence[KeyColumn], *, rows: int | None = None
) -> list[pa.ChunkedArray]:
    """The values of the columns in the equality file at ``place``, in the table's types.

    ``rows`` is the recorded number of rows, if it is known.
    """
    try:
        with storage.open_input(place) as source:
            file = pq.ParquetFile(source, pre_buffer=True, coerce_int96_timestamp_unit="us")
            _verify_count(file.metadata.num_rows, rows)
            paths = [stored_path(file.schema_arrow, column) for column in columns]
            needed = [path for path, column in zip(paths, columns, strict=True) if not column.is_null]
            table = file.read(columns=[".".join(path) for path in needed])
            return [_values(table, path, column) for path, column in zip(paths, columns, strict=True)]
    except FormatError as error:
        raise error.at(place) from None
    except ObjectNotFoundError:
        raise FormatError("equality file is missing, expected values of deleted rows", path=place) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(f"equality file cannot be read as Parquet: {reason}", path=place) from error


def stored_path(schema: pa.Schema, column: KeyColumn) -> StoredPath:
    """The names of the column in an equality file with this schema."""
    by_id = has_field_ids(schema)
    path = _by_id(schema, column.field_id) if by_id else _by_names(schema, column.names)
    if path is None:
        name, way = ".".join(column.path), "field id" if by_id else "name"
        raise FormatError(
            f"equality file has no column {name} (field id {column.field_id}), by {way}; expected one, "
            "because its values are compared"
        )
    return path


def _by_id(fields: Iterable[pa.Field], field_id: int) -> StoredPath | None:
    for field in fields:
        if parquet_field_id(field) == field_id:
            return (field.name,)
        if pa.types.is_struct(field.type) and (below := _by_id(field.type, field_id)) is not None:
            return (field.name, *below)
    return None


def _by_names(fields: Iterable[pa.Field], names: Sequence[Sequence[str]]) -> StoredPath | None:
    found = [field for field in fields if field.name in names[0]]
    if len(found) != 1:
        return None
    if len(names) == 1:
        return (found[0].name,)
    below = _by_names(found[0].type, names[1:]) if pa.types.is_struct(found[0].type) else None
    return None if below is None else (found[0].name, *below)


def _values(table: pa.Table, path: StoredPath, column: KeyColumn) -> pa.ChunkedArray:
    values = table.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, name)
    try:
        return key_values(values, column)
    except (pa.ArrowException, NotImplementedError) as error:
        name = ".".join(column.path)
        raise FormatError(
            f"column {name} of an equality file is {values.type}, expected {column.type} ({error})"
        ) from None


def key_values(values: pa.Array | pa.ChunkedArray, column: KeyColumn) -> pa.Array | pa.ChunkedArray:
    """The values in the Arrow type of the table's column."""
    if column.is_null:
        return pc.is_null(values)
    target = arrow_type(column.type)
    if isinstance(values.type, pa.BaseExtensionType):
        values = (
            values.cast(values.type.storage_type) if isinstance(values, pa.ChunkedArray) else values.storage
        )
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(values.type) and values.type.tz is None:
        values = values.cast(pa.timestamp(target.unit))  # a file stores it in UTC
    return values.cast(target)


def _verify_count(rows: int, recorded: int | None) -> None:
    if recorded is not None and rows != recorded:
        raise FormatError(f"equality file has {rows} rows, expected {recorded}")
