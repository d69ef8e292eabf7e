"""What entries of a table have statistics of: columns, and expressions of partition specs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.metrics_modes import measured_fields
from delvec.iceberg.partitions import Spec
from delvec.iceberg.tree.content_stats import stats_type
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.schema import Array, DataType, Map, Primitive, Schema, Struct, arrow_type

_WITHOUT_BOUNDS = frozenset({"variant", "geometry", "geography"})


@dataclass(frozen=True, slots=True)
class PartitionExpression:
    """A partition field with the id that its statistics have: that of its expression."""

    expr_id: int
    field: PartitionField


@dataclass(frozen=True)
class MeasuredColumns:
    """What entries of a table have statistics of.

    expressions    of each spec, in the order of its fields
    sorted_ids     columns that a sort order of the table sorts by
    """

    schema: Schema
    properties: Mapping[str, str]
    specs: Mapping[int, PartitionSpec]
    expressions: Mapping[int, tuple[PartitionExpression, ...]]
    sorted_ids: frozenset[int] = frozenset()

    @cached_property
    def expression_ids(self) -> frozenset[int]:
        """The ids of the expressions of all specs."""
        return frozenset(item.expr_id for fields in self.expressions.values() for item in fields)

    @cached_property
    def types(self) -> dict[int, pa.DataType]:
        """The types of the bounds by field id; null where a column has no bounds."""
        found = {}
        for item in self.all_expressions:
            found[item.expr_id] = bound_type(item.field.type)
        for column in measured_fields(self.schema, self.properties):
            if column.field.field_id is not None:
                found[column.field.field_id] = bound_type(column.field.type)
        for field_id, kind in _leaf_types(self.schema).items():
            if field_id in self.sorted_ids:
                found[field_id] = kind
        return found

    @property
    def all_expressions(self) -> list[PartitionExpression]:
        """The expressions of all specs, each once."""
        found = {item.expr_id: item for fields in self.expressions.values() for item in fields}
        return list(found.values())

    @cached_property
    def stats_type(self) -> pa.StructType:
        """The type of ``content_stats`` in entries of the table."""
        return stats_type(dict(sorted(self.types.items())))


def of_metadata(metadata: TableMetadata, schema: Schema | None = None) -> MeasuredColumns:
    """The columns of a table of version 4, as ``schema`` or the current schema has them."""
    chosen = metadata.schema if schema is None else schema
    specs = metadata.specs_in(chosen)
    return MeasuredColumns(
        schema=chosen,
        properties=metadata.properties,
        specs=specs,
        expressions={
            spec_id: partition_expressions(metadata.raw_specs[spec_id], spec)
            for spec_id, spec in specs.items()
        },
        sorted_ids=frozenset(
            field["source-id"]
            for order in metadata.raw.get("sort-orders") or []
            for field in order.get("fields") or []
            if "source-id" in field
        ),
    )


def partition_expressions(raw: Spec, spec: PartitionSpec) -> tuple[PartitionExpression, ...]:
    """The fields of a spec with the ids of their expressions."""
    found = []
    for raw_field, field in zip(raw.fields, spec.fields, strict=True):
        assert raw_field.expr_id is not None, "specs of version 4 have expressions"
        found.append(PartitionExpression(raw_field.expr_id, field))
    return tuple(found)


def bound_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of bounds of a column; null if it has none."""
    if isinstance(data_type, Struct | Array | Map):
        return pa.null()
    if isinstance(data_type, Primitive) and data_type.name in _WITHOUT_BOUNDS:
        return pa.null()
    return arrow_type(data_type)


def _leaf_types(schema: Schema) -> dict[int, pa.DataType]:
    types: dict[int, pa.DataType] = {}
    for field in schema:
        if isinstance(field.type, Struct):
            types |= _leaf_types(field.type)
        elif field.field_id is not None:
            types[field.field_id] = bound_type(field.type)
    return types
