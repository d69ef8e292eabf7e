"""A plan cut into tasks: which files, or which parts of one, are read together.

A large file is read by several tasks, each taking its share of the row groups; small files are read together.
What a task needs of its files goes with it, and nothing of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from delvec.deletes.applied import VECTOR_COLUMNS, verify_applied
from delvec.plan import DELETES_SCHEMA, ReadSchema, ScanPlan
from delvec.schema import Array, DataType, Field, Map, Schema, Struct

_MIB = 1024 * 1024
LARGEST_PIECE = 128 * _MIB
TOGETHER = 32 * _MIB
OPENING = _MIB  # what opening a file costs, in bytes that could be read instead

VECTORS_SCHEMA = pa.schema([DELETES_SCHEMA.field(name) for name in VECTOR_COLUMNS])


@dataclass(frozen=True, slots=True)
class FilePart:
    """A data file, or piece ``piece`` of ``pieces`` of it.

    ``constants`` are the values of columns that are not in the file; ``vector`` is the row of
    ``VECTORS_SCHEMA`` that says where its vector is, None where no row is deleted.
    """

    location: str
    size: int
    read_schema: int
    constants: Mapping[str, Any] = field(default_factory=dict)
    vector: Mapping[str, Any] | None = None
    piece: int = 0
    pieces: int = 1


def file_parts(plan: ScanPlan, columns: Sequence[str]) -> Iterator[FilePart]:
    """The files of the plan, large ones in pieces; of the partition values, those of ``columns``."""
    verify_applied(plan)
    vectors = plan.deletes.select(VECTOR_COLUMNS).to_pylist()
    wanted = [set(shape.constants).intersection(columns) for shape in plan.read_schemas]
    names = ["location", "size", "read_schema", "vector", "partition"]
    for batch in plan.files.select(names).to_batches():
        for row in batch.to_pylist():
            part = FilePart(
                row["location"],
                row["size"],
                row["read_schema"],
                {name: row["partition"][name] for name in wanted[row["read_schema"]]},
                None if row["vector"] is None else vectors[row["vector"]],
            )
            pieces = max(1, -(-part.size // LARGEST_PIECE))
            yield from (replace(part, piece=piece, pieces=pieces) for piece in range(pieces))


def packed(parts: Iterator[FilePart]) -> Iterator[tuple[FilePart, ...]]:
    """The parts by task: a piece of a large file alone, small files together."""
    waiting: list[FilePart] = []
    filled = 0
    for part in parts:
        cost = part.size // part.pieces + OPENING
        if cost >= TOGETHER:
            yield (part,)
            continue
        if waiting and filled + cost > TOGETHER:
            yield tuple(waiting)
            waiting, filled = [], 0
        waiting.append(part)
        filled += cost
    if waiting:
        yield tuple(waiting)


def shapes(plan: ScanPlan, columns: Sequence[str]) -> tuple[ReadSchema, ...]:
    """How files hold the columns, in the order asked for, without what only the format reads."""
    return tuple(replace(shape, schema=_chosen(shape.schema, columns)) for shape in plan.read_schemas)


def bare(schema: Schema) -> Schema:
    """The schema without what only the format reads, small and fit to be pickled."""
    return Struct(tuple(_bare_field(column) for column in schema))


def _chosen(schema: Schema, columns: Sequence[str]) -> Schema:
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
