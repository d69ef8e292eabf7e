"""How the data files of a snapshot store its columns.

    by name   if names alone cannot mislead: no column was ever renamed or its name used again, every writer
              stores the names unchanged, and the metadata still has the snapshot that added the file. Then
              no footer is read
    by id     otherwise. The footer of each file says which column has which id; files without ids have the
              names of the name mapping

A column that a file does not have is, in this order: the partition value, if the file's spec has the column
unchanged; its initial default; null.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Rows, one_chunk, rows_of
from delvec.iceberg.stats import values_of
from delvec.partition_spec import PartitionSpec
from delvec.plan import ReadSchema
from delvec.schema import NO_FIELDS, Array, DataType, Field, Map, Primitive, Schema, Struct, united

if TYPE_CHECKING:
    from delvec.iceberg.metadata import TableMetadata
    from delvec.iceberg.name_mapping import NameMapping

LINEAGE = (
    Field("_row_id", Primitive("long"), field_id=2147483540),
    Field("_last_updated_sequence_number", Primitive("long"), field_id=2147483539),
)
"""The columns for a row's id and for the sequence number of its last change, since version 3."""

BY_NAME, BY_ID = 0, 1
"""Indices into ``read_schemas``."""

_LINEAGE_VERSION = 3
# Java stores other names in a form of its own: "a b" as "a_x20b".
_STORED_UNCHANGED = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_DROPPED = "__delvec_dropped_"
_COUNTS = ["value_counts", "column_sizes"]


@dataclass(frozen=True, slots=True)
class ReadSchemas:
    """The two ways in which files are read (`BY_NAME`, `BY_ID`), and which files are read by id.

    by_name        names cannot mislead, as far as the metadata has the past
    snapshots      the snapshots that the metadata has. When a snapshot expires, its schema may be removed
                   too, and the schema's id be used again: a file that it added may have any names
    identity_ids   columns that files may lack because their values are partition values
    """

    both: tuple[ReadSchema, ReadSchema]
    by_name: bool
    snapshots: pa.Array
    identity_ids: tuple[int, ...]

    def of_files(self, entries: pa.Table, rows: Rows) -> pa.Array:
        """For some entries of data files the index into ``both``.

        A file whose snapshot is gone is read by id, and so is one that may lack a column with a partition
        value. It has the column if its statistics mention it.
        """
        if not self.by_name:
            return pa.repeat(pa.scalar(BY_ID, pa.int32()), len(rows))
        added_by = one_chunk(rows_of(entries.select(["snapshot_id"]), rows).column("snapshot_id"))
        by_id = pc.invert(pc.is_in(added_by, value_set=self.snapshots))
        if self.identity_ids:
            counts = rows_of(entries.select(_COUNTS), rows)
            for field_id in self.identity_ids:
                in_counts = [pc.is_valid(one_chunk(values_of(counts.column(n), field_id))) for n in _COUNTS]
                by_id = pc.or_(by_id, pc.invert(pc.or_(*in_counts)))
        return pc.if_else(by_id, BY_ID, BY_NAME).cast(pa.int32())


def read_schemas(
    metadata: TableMetadata,
    schema: Schema,
    specs: Mapping[int, PartitionSpec],
    mapping: NameMapping | None,
) -> ReadSchemas:
    """How the files of a snapshot with this schema are read; ``mapping``: the table's name mapping."""
    is_certain = _names_are_certain(metadata)
    has_default = any(field.initial_default is not None for field in _fields(schema))
    names = None
    if mapping is not None:
        names = _names_by_id(mapping)
    elif is_certain:  # a file without ids cannot be misread
        names = _own_names(schema)
    identity = tuple(dict.fromkeys(name for spec in specs.values() for name in spec.identity_columns))
    ids = (field.field_id for field in schema if field.name in identity)
    return ReadSchemas(
        (
            ReadSchema(schema, by_id=False, constants=()),
            ReadSchema(schema, by_id=True, constants=(), names=names, from_partition=identity),
        ),
        by_name=is_certain and mapping is None and not has_default,
        snapshots=pa.array(list(metadata.snapshots), pa.int64()),
        identity_ids=tuple(field_id for field_id in ids if field_id is not None),
    )


def dropped_columns(metadata: TableMetadata, schema: Schema, field_ids: Iterable[int]) -> Schema:
    """Those columns of these ids that ``schema`` lacks, as the newest schema has them that has them.

    Their names are unique: a new column may have the name of a dropped one.
    """
    known = {field.field_id for field in _fields(schema)}
    newest_first = [metadata.schemas[number] for number in sorted(metadata.schemas, reverse=True)]
    dropped = []
    for field_id in sorted(set(field_ids) - known):
        paths = (_path(older, field_id) for older in newest_first)
        path = next((path for path in paths if path is not None), None)
        if path is not None:  # else the engine refuses the delete
            dropped.append(Struct((_renamed(path, schema),)))
    return reduce(united, dropped, NO_FIELDS)


def lineage_columns(metadata: TableMetadata) -> tuple[Field, ...]:
    """The columns of row lineage that a reader may ask for."""
    return LINEAGE if metadata.format_version >= _LINEAGE_VERSION else ()


def _names_are_certain(metadata: TableMetadata) -> bool:
    """Whether no name ever meant another column, and files have all names unchanged."""
    if "schemas" not in metadata.raw or sorted(metadata.schemas) != list(range(len(metadata.schemas))):
        return False  # older schemas are gone, and files with their names may be live
    names: dict[int, str] = {}
    ids: dict[tuple[int | None, str], int] = {}
    for schema in metadata.schemas.values():
        for parent, field in _with_parents(schema):
            if field.field_id is None or _STORED_UNCHANGED.fullmatch(field.name) is None:
                return False
            if names.setdefault(field.field_id, field.name) != field.name:
                return False
            # Spark ignores the case of names.
            if ids.setdefault((parent, field.name.lower()), field.field_id) != field.field_id:
                return False
    return True


def _with_parents(data_type: DataType, parent: int | None = None) -> Iterator[tuple[int | None, Field]]:
    """All fields of structs, also nested ones, each with the id of what it is in."""
    match data_type:
        case Struct(fields):
            for field in fields:
                yield parent, field
                yield from _with_parents(field.type, field.field_id)
        case Array(element):
            yield from _with_parents(element, data_type.element_id)
        case Map(key, value):
            yield from _with_parents(key, data_type.key_id)
            yield from _with_parents(value, data_type.value_id)


def _fields(schema: Schema) -> Iterator[Field]:
    return (field for _, field in _with_parents(schema))


def _names_by_id(mapping: NameMapping) -> dict[int, tuple[str, ...]]:
    """The names that each field has in the mapping."""
    names: dict[int, tuple[str, ...]] = {}
    for name, mapped in mapping.by_name.items():
        if mapped.field_id is not None:
            names[mapped.field_id] = (*names.get(mapped.field_id, ()), name)
        for field_id, inner in _names_by_id(mapped.inside).items():
            names[field_id] = tuple(dict.fromkeys((*names.get(field_id, ()), *inner)))
    return names


def _own_names(schema: Schema) -> dict[int, tuple[str, ...]]:
    fields = (*_fields(schema), *LINEAGE)
    return {field.field_id: (field.name,) for field in fields if field.field_id is not None}


def _path(schema: Schema, field_id: int) -> tuple[Field, ...] | None:
    """The field of this id and the structs around it, outermost first."""
    for field in schema:
        if field.field_id == field_id:
            return (field,)
        below = _path(field.type, field_id) if isinstance(field.type, Struct) else None
        if below is not None:
            return (field, *below)
    return None


def _renamed(path: tuple[Field, ...], schema: Schema) -> Field:
    """The field at ``path`` in the structs around it, which have no other fields. Those that ``schema`` has
    keep their names.
    """
    known = {field.field_id: field for field in schema}
    field = path[0]
    current = known.get(field.field_id)
    if len(path) > 1:
        inner = current.type if current is not None and isinstance(current.type, Struct) else NO_FIELDS
        field = replace(field, type=Struct((_renamed(path[1:], inner),)))
    if current is not None:
        return replace(field, name=current.name, physical_name=current.physical_name)
    return replace(field, name=f"{_DROPPED}{field.field_id}", physical_name=field.name)
