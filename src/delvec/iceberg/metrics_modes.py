"""Which statistics a table keeps of each column: the properties ``write.metadata.metrics.*``.

    none          nothing
    counts        numbers of values and nulls
    truncate(N)   counts, and bounds of at most N characters or bytes
    full          counts, and bounds of any length

A value that is none of these is ignored, as by Iceberg's own library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from delvec.file_facts import ColumnPath
from delvec.schema import Array, DataType, Field, Map, Primitive, Schema, Struct

DEFAULT_PROPERTY = "write.metadata.metrics.default"
COLUMN_PREFIX = "write.metadata.metrics.column."
LIMIT_PROPERTY = "write.metadata.metrics.max-inferred-column-defaults"
DEFAULT_LIMIT = 100

_TRUNCATE = re.compile(r"truncate\((\d{1,9})\)")


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """``length``: of bounds of strings and binary values; None: any."""

    counts: bool = True
    bounds: bool = True
    length: int | None = None


NONE = MetricsMode(counts=False, bounds=False)
COUNTS = MetricsMode(bounds=False)
FULL = MetricsMode()
DEFAULT = MetricsMode(length=16)

_NAMED = {"none": NONE, "counts": COUNTS, "full": FULL}


@dataclass(frozen=True, slots=True)
class MeasuredField:
    """A column with statistics. ``path`` and ``stored_path``: its names in the table and in data files."""

    field: Field
    path: ColumnPath
    stored_path: ColumnPath
    mode: MetricsMode


def parse_mode(text: str | None) -> MetricsMode | None:
    """The mode that a property names; None if it names none."""
    text = (text or "").lower()
    if match := _TRUNCATE.fullmatch(text):
        return MetricsMode(length=int(match[1])) if int(match[1]) else None
    return _NAMED.get(text)


def measured_fields(schema: Schema, properties: Mapping[str, str]) -> list[MeasuredField]:
    """The columns and fields of structs that have statistics. Lists, maps, and what is in them have none."""
    if DEFAULT_PROPERTY in properties:
        general = parse_mode(properties[DEFAULT_PROPERTY]) or DEFAULT
        inferred: set[int | None] = set()
    else:
        inferred = set(islice(_inferred_order(schema), _limit(properties)))
        general = NONE
    fields = []
    for field, path, stored_path in _leaves(schema):
        mode = DEFAULT if field.field_id in inferred else general
        own = properties.get(COLUMN_PREFIX + ".".join(path))
        if own is not None:
            mode = parse_mode(own) or general
        if mode.counts:
            fields.append(MeasuredField(field, path, stored_path, mode))
    return fields


def _limit(properties: Mapping[str, str]) -> int:
    text = properties.get(LIMIT_PROPERTY, "").strip()
    return int(text) if text.isdecimal() else DEFAULT_LIMIT


def _leaves(
    schema: Schema, path: ColumnPath = (), stored_path: ColumnPath = ()
) -> Iterator[tuple[Field, ColumnPath, ColumnPath]]:
    for field in schema:
        names = (*path, field.name), (*stored_path, field.physical_name)
        if isinstance(field.type, Struct):
            yield from _leaves(field.type, *names)
        elif not isinstance(field.type, Array | Map) and field.type != Primitive("void"):
            yield field, *names


def _inferred_order(data_type: DataType) -> Iterator[int | None]:
    """The ids of all leaves in the order in which they count towards the limit: those of a struct before
    those of its nested fields.
    """
    match data_type:
        case Struct(fields):
            children = [(field.field_id, field.type) for field in fields]
        case Array(element):
            children = [(data_type.element_id, element)]
        case Map(key, value):
            children = [(data_type.key_id, key), (data_type.value_id, value)]
        case _:
            return
    for field_id, kind in children:
        if not isinstance(kind, Struct | Array | Map):
            yield field_id
    for _, kind in children:
        yield from _inferred_order(kind)
