"""Partition specs of Iceberg's metadata, bound to a schema.

A partition field names its source column by id. The column may have been renamed or dropped since, so specs
are bound to the schema of the plan; the types of dropped columns come from older schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from delvec.errors import FormatError, InvalidOperationError
from delvec.file_facts import ColumnPath
from delvec.iceberg.json_object import JsonObject
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.schema import DataType, Primitive, Schema, Struct
from delvec.transforms import VOID, Transform, parse_transform

FIRST_FIELD_ID = 1000
"""The id of the first partition field. Version 1 records no ids: the fields of each spec count from here."""

_KNOWN_RESULTS = {
    "bucket": "integer",
    "year": "integer",
    "month": "integer",
    "hour": "integer",
    "day": "date",
}


@dataclass(frozen=True, slots=True)
class SpecField:
    """A partition field as the metadata has it. ``source_ids`` are several if the transform has several
    arguments, which delvec does not know. ``expr_id``: its expression, in version 4.
    """

    name: str
    field_id: int
    source_ids: tuple[int, ...]
    transform: Transform
    expr_id: int | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """A partition spec as the metadata has it."""

    spec_id: int
    fields: tuple[SpecField, ...]


def parse_spec(spec: JsonObject) -> Spec:
    """An item of ``partition-specs``."""
    spec_id = spec.number("spec-id")
    return Spec(spec_id, parse_spec_fields(spec, "fields", f"partition spec {spec_id}"))


def parse_spec_fields(parent: JsonObject, key: str, where: str) -> tuple[SpecField, ...]:
    """The list ``key`` of partition fields; also version 1's ``partition-spec``, which is only the list."""
    fields = [_parse_field(field, at, where) for at, field in enumerate(parent.children(key))]
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        raise FormatError(f"{where} has fields {', '.join(map(repr, names))}, expected different names")
    return tuple(fields)


def _parse_field(field: JsonObject, position: int, where: str) -> SpecField:
    name = field.text("name")
    field = JsonObject(field.members, f"field {name!r} of {where}")
    source_ids = tuple(field.numbers("source-ids")) or (field.number("source-id"),)
    transform = parse_transform(field.text("transform"))
    if len(source_ids) > 1 and transform.is_known:  # none of the known ones has several arguments
        raise FormatError(f"transform of {field.where} has {len(source_ids)} sources, expected one")
    return SpecField(name, field.number("field-id", FIRST_FIELD_ID + position), source_ids, transform)


def bind_specs(
    specs: Iterable[Spec], default_spec_id: int, schema: Schema, older: Sequence[Schema]
) -> dict[int, PartitionSpec]:
    """The specs by id, with paths and types of source columns as ``schema`` has them, or else ``older``
    schemas, of which the first counts.

    A name that stands for partition fields of different ids or types gets the id added in all but one of
    them, so that the values of all specs fit into one struct.
    """
    places = _places(schema)
    types: dict[int, DataType] = {}
    for known in (*reversed(older), schema):
        types |= {field_id: data_type for field_id, (_, data_type) in _places(known).items()}
    bound = {
        spec.spec_id: [_bind(field, places, types, f"partition spec {spec.spec_id}") for field in spec.fields]
        for spec in specs
    }
    _unite_void_types(bound)
    order = sorted(bound, key=lambda spec_id: (spec_id != default_spec_id, -spec_id))
    names = _UniqueNames()
    renamed = {spec_id: tuple(map(names.renamed, bound[spec_id])) for spec_id in order}
    return {spec_id: PartitionSpec(spec_id, renamed[spec_id]) for spec_id in bound}


def _bind(
    field: SpecField,
    places: Mapping[int, tuple[ColumnPath, DataType]],
    types: Mapping[int, DataType],
    where: str,
) -> PartitionField:
    source_id = field.source_ids[0] if len(field.source_ids) == 1 else None
    path = () if source_id is None or source_id not in places else places[source_id][0]
    result = _result_type(field.transform, None if source_id is None else types.get(source_id), where)
    return PartitionField(field.name, path, field.transform, result, field.field_id)


def _result_type(transform: Transform, source: DataType | None, where: str) -> DataType:
    """The type of the partition values. Values whose type no schema says are compared as text."""
    if not transform.is_known:
        return Primitive("string")
    if source is None:
        return Primitive(_KNOWN_RESULTS.get(transform.name, "string"))
    try:
        return transform.result_type(source)
    except InvalidOperationError as error:
        raise FormatError(f"{where}: {error}") from None


def _unite_void_types(bound: Mapping[int, list[PartitionField]]) -> None:
    """A void field replaces a dropped field of the same id. Its values are null, so it gets that field's
    type, and both are one field of the struct of all values.
    """
    types = {
        (field.field_id, field.name): field.type
        for fields in bound.values()
        for field in fields
        if field.transform != VOID
    }
    for fields in bound.values():
        for at, field in enumerate(fields):
            if field.transform == VOID:
                fields[at] = replace(field, type=types.get((field.field_id, field.name), field.type))


class _UniqueNames:
    """Gives each pair of partition field id and type a name of its own."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[int | None, DataType]] = {}

    def renamed(self, field: PartitionField) -> PartitionField:
        key = field.field_id, field.type
        name = field.name
        while self._taken.setdefault(name, key) != key:
            name = f"{name}_{field.field_id}"
        return field if name == field.name else replace(field, name=name)


def _places(schema: Schema, parent: ColumnPath = ()) -> dict[int, tuple[ColumnPath, DataType]]:
    """Path and type of each column and each field of a struct, by field id."""
    places: dict[int, tuple[ColumnPath, DataType]] = {}
    for field in schema:
        path = (*parent, field.name)
        if field.field_id is not None:
            places[field.field_id] = path, field.type
        if isinstance(field.type, Struct):
            places |= _places(field.type, path)
    return places
