"""A plan cut into tasks: which files, or which parts of a file, are read together.

A large file is read by several tasks, each of which reads some of the row groups. Small files are read
together. Each task gets the description of its own files only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from delvec.deletes.equality import EqualityDeletes
from delvec.deletes.sets import DATA_FILE, DeleteSets
from delvec.partition_spec import UNPARTITIONED, column_values
from delvec.plan import ReadSchema, ScanPlan
from delvec.schema import Schema, Struct, bare

_MIB = 1024 * 1024
LARGEST_PIECE = 128 * _MIB
TOGETHER = 32 * _MIB
OPENING = _MIB  # opening a file takes as long as reading this many bytes


@dataclass(frozen=True, slots=True)
class FilePart:
    """A data file, or piece ``piece`` of ``pieces`` of it.

    ``constants`` are the values of columns that are not in the file. ``deletes`` are the file's rows of
    `delvec.deletes.sets.DESCRIPTION_SCHEMA`, without the file's location; empty if no row is deleted by
    position. ``scopes`` are the file's scope and sequence in each layer of `delvec.deletes.equality`.
    """

    location: str
    size: int
    read_schema: int
    constants: Mapping[str, Any] = field(default_factory=dict)
    deletes: tuple[Mapping[str, Any], ...] = ()
    scopes: tuple[tuple[int, int], ...] = ()
    piece: int = 0
    pieces: int = 1


def file_parts(
    plan: ScanPlan, columns: Sequence[str], equality: EqualityDeletes | None = None
) -> Iterator[FilePart]:
    """The files of the plan, large ones in pieces, with the partition values of ``columns``.

    ``equality``: the plan's deletes by value. A delete that delvec does not apply is refused.
    """
    deletes = DeleteSets.of(plan).describe_by_file()
    equality = equality or EqualityDeletes.of(plan)
    needed = {*columns, *(column.path[0] for layer in equality.layers for column in layer.columns)}
    constants = _constants(plan, needed)
    scopes = _scopes(equality)
    partitions = plan.files.column("partition").combine_chunks()
    values = column_values(partitions, plan.specs.values(), sorted(set().union(*constants.values())))
    files = plan.files.select(["location", "size", "read_schema", "spec_id"]).append_column("values", values)
    for batch in files.append_column("deletes", deletes).to_batches():
        for row in batch.to_pylist():
            part = FilePart(
                row["location"],
                row["size"],
                row["read_schema"],
                {name: row["values"][name] for name in constants[row["read_schema"], row["spec_id"]]},
                tuple(_without_location(delete) for delete in row["deletes"]),
                next(scopes),
            )
            pieces = max(1, -(-part.size // LARGEST_PIECE))
            yield from (replace(part, piece=piece, pieces=pieces) for piece in range(pieces))


def _constants(plan: ScanPlan, columns: set[str]) -> dict[tuple[int, int], set[str]]:
    """By read schema and spec, those of the columns whose values come from the partition values: in all
    files, or in files that do not have the column.
    """
    pairs = plan.files.select(["read_schema", "spec_id"]).group_by(["read_schema", "spec_id"]).aggregate([])
    constants = {}
    for row in pairs.to_pylist():
        shape, spec = plan.read_schemas[row["read_schema"]], plan.specs.get(row["spec_id"], UNPARTITIONED)
        of_spec = set(shape.from_partition).intersection(spec.identity_columns)
        constants[row["read_schema"], row["spec_id"]] = columns & {*shape.constants, *of_spec}
    return constants


def _scopes(equality: EqualityDeletes) -> Iterator[tuple[tuple[int, int], ...]]:
    """For each file its scope and sequence in each layer."""
    layers = [zip(layer.scope.tolist(), layer.sequence.tolist(), strict=True) for layer in equality.layers]
    return zip(*layers, strict=True) if layers else iter([()] * equality.files)


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
        replace(
            shape,
            schema=_selected_fields(shape.schema, columns),
            names=None if shape.names is None else dict(shape.names),
        )
        for shape in plan.read_schemas
    )


def _selected_fields(schema: Schema, columns: Sequence[str]) -> Schema:
    by_name = {column.name: column for column in schema}
    return bare(Struct(tuple(by_name[name] for name in columns)))
