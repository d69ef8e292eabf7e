"""How a table is partitioned: fields, each a transform of a column.

Partition values are typed: an Arrow struct with one field for each field of the spec, by the field's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delvec.errors import InvalidOperationError
from delvec.file_facts import ColumnPath
from delvec.schema import Array, DataType, Map, Primitive, Schema, Struct, arrow_type
from delvec.transforms import IDENTITY, Transform


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A partition value: the path of its source column in the schema, the transform, the resulting type.

    ``source`` is empty if the schema no longer has the column: the value then says nothing about the rows,
    but still tells partitions apart. ``field_id`` is the id of the partition field, in formats that have one.
    """

    name: str
    source: ColumnPath
    transform: Transform
    type: DataType
    field_id: int | None = None

    def __str__(self) -> str:
        return self.transform.of(".".join(self.source))

    @property
    def is_identity(self) -> bool:
        """Whether the partition value is the value of a top-level column."""
        return self.transform == IDENTITY and len(self.source) == 1


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """The partitioning of data files. A table can have several specs over time, each with its ``spec_id``."""

    spec_id: int
    fields: tuple[PartitionField, ...] = ()

    @property
    def identity_columns(self) -> tuple[str, ...]:
        """The top-level columns that have one value in all rows of a file."""
        return tuple(field.source[0] for field in self.fields if field.is_identity)

    @property
    def value_type(self) -> pa.StructType:
        """The Arrow type of the partition values of a file."""
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in self.fields])


UNPARTITIONED = PartitionSpec(0)


def column_values(
    partitions: pa.StructArray, specs: Iterable[PartitionSpec], columns: Sequence[str]
) -> pa.StructArray:
    """The values of top-level columns in files with these partition values, by the names of the columns.

    ``partitions`` has the fields of all ``specs``; those that a file's spec does not have are null.
    """
    if not columns:
        return pa.array([{}] * len(partitions), pa.struct([]))
    fields = [field for spec in specs for field in spec.fields if field.is_identity]
    values = []
    for column in columns:
        names = dict.fromkeys(field.name for field in fields if field.source == (column,))
        values.append(pc.coalesce(*(partitions.field(name) for name in names)))
    return pa.StructArray.from_arrays(values, names=list(columns))


def identity_fields(schema: Schema, columns: Sequence[str]) -> tuple[PartitionField, ...]:
    """The fields of a partitioning by the values of these columns."""
    by_name = {field.name: field for field in schema}
    fields: list[PartitionField] = []
    for name in columns:
        if name not in by_name:
            raise InvalidOperationError(
                f"partition column {name!r} is not in the schema, expected one of {', '.join(by_name)}"
            )
        data_type = by_name[name].type
        if isinstance(data_type, Struct | Array | Map) or data_type == Primitive("variant"):
            raise InvalidOperationError(
                f"partition column {name!r} is of type {data_type}, expected a primitive type"
            )
        field = PartitionField(name, (name,), IDENTITY, data_type)
        if field in fields:
            raise InvalidOperationError(f"partition column {name!r} is named twice, expected once")
        fields.append(field)
    return tuple(fields)
