"""A plan cut into tasks: which files, or which parts of a file, are read together.

A large file is read by several tasks, each of which reads some of the row groups. Small files are read
together. Each task gets the description of its own files only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from delvec.deletes.sets import DATA_FILE, DeleteSets
from delvec.partition_spec import column_values
from delvec.plan import ReadSchema, ScanPlan
from delvec.schema import Array, DataType, Field, Map, Schema, Struct

_MIB = 1024 * 1024
LARGEST_PIECE = 128 * _MIB
TOGETHER = 32 * _MIB
OPENING = _MIB  # opening a file takes as long as reading this many bytes


@dataclass(frozen=True, slots=True)
class FilePart:
    """A data file, or piece ``piece`` of ``pieces`` of it.

    ``constants`` are the values of columns that are not in the file. ``deletes`` are the file's rows of
    `delvec.deletes.sets.DESCRIPTION_SCHEMA`, without the file's location; empty if no row is deleted.
    """

    location: str
    size: int
    read_schema: int
    constants: Mapping[str, Any] = field(default_factory=dict)
    deletes: tuple[Mapping[str, Any], ...] = ()
    piece: int = 0
    pieces: int = 1


def file_parts(plan: ScanPlan, columns: Sequence[str]) -> Iterator[FilePart]:
    """The files of the plan, large ones in pieces, with the partition values of ``columns``.

    A delete that delvec does not apply is refused.
    """
    deletes = DeleteSets.of(plan).describe_by_file()
    constants = [set(shape.constants).intersection(columns) for shape in plan.read_schemas]
    partitions = plan.files.column("partition").combine_chunks()
    values = column_values(partitions, plan.specs.values(), sorted(set().union(*constants)))
    files = plan.files.select(["location", "size", "read_schema"]).append_column("values", values)
    for batch in files.append_column("deletes", deletes).to_batches():
        for row in batch.to_pylist():
            part = FilePart(
                row["location"],
                row["size"],
                row["read_schema"],
                {name: row["values"][name] for name in constants[row["read_schema"]]},
                tuple(_without_location(delete) for delete in row["deletes"]),
            )
            pieces = max(1, -(-part.size // LARGEST_PIECE))
            yield from (replace(part, piece=piece, pieces=pieces) for piece in range(pieces))


def _without_location(delete: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in delete.items() if name != DATA_FILE}


def described_deletes(part: FilePart) -> list[dict[str, Any]]:
    """The rows of the part's deletes, as `delvec.deletes.sets.described` takes them."""
    return [{DATA_FILE: part.location, **delete} for delete in part.deletes]


def packed(parts: Iterator[FilePart]) -> Iterator[tuple[FilePart, ...]]:
    """The parts of each task: one piece of a large file, or several small files."""
    pending: list[FilePart] = []
    filled = 0
    for part in parts:
        cost = part.size // part.pieces + OPENING
        if cost >= TOGETHER:
            yield (part,)
            continue
        if pending and filled + cost > TOGETHER:
            yield tuple(pending)
            pending, filled = [], 0
        pending.append(part)
        filled += cost
    if pending:
        yield tuple(pending)


def shapes(plan: ScanPlan, columns: Sequence[str]) -> tuple[ReadSchema, ...]:
    """How the files store ``columns``, in this order, without the metadata that only the format reads."""
    return tuple(
        replace(shape, schema=_selected_fields(shape.schema, columns)) for shape in plan.read_schemas
    )


def bare(schema: Schema) -> Schema:
    """The schema without the metadata that only the format reads: small, and can be pickled."""
    return Struct(tuple(_bare_field(column) for column in schema))


def _selected_fields(schema: Schema, columns: Sequence[str]) -> Schema:
    by_name = {column.name: column for column in schema}
    return bare(Struct(tuple(by_name[name] for name in columns)))


def _bare_field(column: Field) -> Field:
    return replace(column, type=_bare_type(column.type), metadata={})


def _bare_type(data_type: DataType) -> DataType:
    match data_type:
        case Struct():
            return bare(data_type)
        case Array(element):
            return replace(data_type, element=_bare_type(element))
        case Map(key, value):
            return replace(data_type, key=_bare_type(key), value=_bare_type(value))
    return data_type
