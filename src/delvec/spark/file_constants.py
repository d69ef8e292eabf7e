"""Values of files as columns of their rows: a scan joins them to the rows, as it does partition values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.plan import ScanPlan
from delvec.schema import Field, Struct
from delvec.transforms import IDENTITY


def with_constants(plan: ScanPlan, constants: Mapping[Field, pa.Array]) -> ScanPlan:
    """The plan with further columns, given with a value for each file."""
    names = tuple(field.name for field in constants)
    old = plan.files.column("partition").combine_chunks()
    partition = pa.StructArray.from_arrays(
        [*old.flatten(), *constants.values()], names=[*(field.name for field in old.type), *names]
    )
    index = plan.files.schema.get_field_index("partition")
    fields = tuple(PartitionField(f.name, (f.name,), IDENTITY, f.type) for f in constants)
    wider = with_columns(plan, tuple(constants))
    return replace(
        wider,
        specs={n: PartitionSpec(n, (*spec.fields, *fields)) for n, spec in plan.specs.items()},
        read_schemas=tuple(
            replace(shape, constants=(*shape.constants, *names), unnamed=(*shape.unnamed, *names))
            for shape in wider.read_schemas
        ),
        files=plan.files.set_column(index, "partition", partition),
    )


def with_columns(plan: ScanPlan, fields: tuple[Field, ...]) -> ScanPlan:
    """The plan with further columns of its files, which are null in files that do not have them."""
    return replace(
        plan,
        schema=Struct((*plan.schema.fields, *fields)),
        read_schemas=tuple(
            replace(shape, schema=Struct((*shape.schema.fields, *fields))) for shape in plan.read_schemas
        ),
    )
