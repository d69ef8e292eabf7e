"""A small Parquet file in memory as Arrow columns, found by Parquet field id, never by name.

Pages have checksums where the writer wrote them, and these are verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from delvec.chunked import one_chunk
from delvec.errors import FormatError

FIELD_ID = b"PARQUET:field_id"

Path = tuple[int, ...]
"""Field ids from the outermost column on: ``(147, 0)``."""

# What pyarrow raises for bytes that are damaged or not Parquet.
_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, OverflowError)
_MAX_DEPTH = 3
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class _Place:
    """A column or a field of a struct: its names, and its positions in the file's schema."""

    names: tuple[str, ...]
    positions: tuple[int, ...]


class ParquetColumns:
    """The columns of the Parquet file ``data`` whose paths are ``wanted``, each with all that it contains.

    FormatError if the file is damaged, or has an id twice.
    """

    def __init__(self, data: bytes, wanted: Callable[[Path], bool]) -> None:
        try:
            file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
            self.key_values = _key_values(file.metadata.metadata)
            self._places = _places(file.schema_arrow)
            names = [".".join(place.names) for path, place in self._places.items() if wanted(path)]
            table = file.read(columns=names, use_threads=False)
            table.validate(full=True)
        except _UNREADABLE as error:
            raise FormatError(f"manifest cannot be read as Parquet: {_reason(error)}") from None
        self.count: int = file.metadata.num_rows
        if table.num_columns and len(table) != self.count:
            raise FormatError(f"manifest has {len(table)} rows, expected {self.count} by its footer")
        self._table: pa.Table = table.combine_chunks()
        self._read = _places(self._table.schema)

    def column(self, path: Path) -> pa.Array | None:
        """The values of a column, null where its struct is null; None if the file does not have it."""
        place = self._read.get(path)
        if place is None:
            return None
        column = one_chunk(self._table.column(place.positions[0]))
        return column if len(path) == 1 else pc.struct_field(column, list(place.positions[1:]))

    def children(self, field_id: int) -> list[int]:
        """The ids of the fields of a struct in the file, read or not."""
        return [path[1] for path in self._places if len(path) == 2 and path[0] == field_id]


def typed(array: pa.Array, kind: pa.DataType, place: str) -> pa.Array:
    """The values as ``kind``; FormatError if they do not fit. ``place`` names the field in the error."""
    if array.type.equals(kind):
        return array
    if _is_alike(array.type, kind):
        with suppress(pa.ArrowException):
            return array.cast(kind)
    raise FormatError(f"field {place} has the type {array.type}, expected {kind}")


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that delvec has for values of this one."""
    if pt.is_dictionary(kind):
        return plain_type(kind.value_type)
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


def _is_alike(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of the type that a file has may be of type ``kind``, if they fit."""
    if pt.is_dictionary(found):
        return _is_alike(found.value_type, kind)
    if pt.is_list(kind):
        return (pt.is_list(found) or pt.is_large_list(found)) and _is_alike(found.value_type, kind.value_type)
    if pt.is_string(kind):
        return bool(pt.is_large_string(found))
    if pt.is_binary(kind):
        return bool(pt.is_large_binary(found) or pt.is_fixed_size_binary(found))
    return bool(pt.is_integer(kind) and pt.is_integer(found))


def with_id(field: pa.Field, field_id: int) -> pa.Field:
    """The field with a Parquet field id."""
    return field.with_metadata({FIELD_ID: str(field_id).encode()})


def _places(schema: pa.Schema) -> dict[Path, _Place]:
    """Columns and fields of structs by their paths of ids. Fields without an id are left out."""
    places: dict[Path, _Place] = {}
    for path, place in _walk(schema, (), _Place((), ())):
        if path in places:
            raise FormatError(f"manifest has two fields with the id {path[-1]}, expected one")
        places[path] = place
    return places


def _walk(fields: Iterable[pa.Field], parents: Path, parent: _Place) -> Iterator[tuple[Path, _Place]]:
    for position, field in enumerate(fields):
        text = (field.metadata or {}).get(FIELD_ID)
        if text is None:
            continue
        path = (*parents, int(text))
        place = _Place((*parent.names, field.name), (*parent.positions, position))
        yield path, place
        if pt.is_struct(field.type) and len(path) < _MAX_DEPTH:
            yield from _walk(field.type, path, place)


def _key_values(pairs: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (pairs or {}).items() if key != b"ARROW:schema"}


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else text[: _LONGEST_REASON - 1] + "…"
