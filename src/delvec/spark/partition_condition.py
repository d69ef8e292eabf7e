"""Conditions that select whole partitions: they may name partition columns only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql.types import LongType, StructType

from delvec.chunked import Mask, one_chunk
from delvec.errors import InvalidOperationError
from delvec.partition_spec import column_values
from delvec.plan import MATCH_ALL, ScanPlan
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.conditions import expression, verify_condition
from delvec.spark.scan import own_prefix
from delvec.spark.session import kept_frame
from delvec.spark.target import Target
from delvec.spark.types import quoted, spark_field, type_text


def files_of_partitions(target: Target, where: str | Column | None) -> ScanPlan:
    """The files of the partitions for which ``where`` is true. It may name partition columns only."""
    if where is None:
        return target.plan(None)
    columns = target.snapshot.spec.identity_columns
    fields = [field for field in target.schema if field.name in columns]
    texts = [f"CAST(NULL AS {type_text(field.type)}) AS {quoted(field.name)}" for field in fields]
    try:
        verify_condition(kept_frame(target.spark, *texts), where, "condition")
    except InvalidOperationError as error:
        expected = f"partition columns only ({', '.join(columns)})" if columns else "none"
        reason = "" if columns else " (the table is not partitioned)"
        raise InvalidOperationError(f"{error}; expected {expected}{reason}") from None
    plan = target.plan(where)
    certain = pc.equal(plan.files.column("match"), MATCH_ALL).to_numpy()
    if certain.all():
        return plan
    return plan.at(np.flatnonzero(certain | _found_by_spark(target, plan, ~certain, where)))


def is_selected(target: Target, plan: ScanPlan, where: str | Column | None) -> Mask:
    """Which of the plan's files are in partitions for which ``where`` is true; None: all of them."""
    if where is None:
        return np.ones(len(plan.files), np.bool_)
    chosen = files_of_partitions(target, where).files.column("file_id").combine_chunks()
    selected: Mask = pc.is_in(plan.files.column("file_id"), value_set=chosen).to_numpy()
    return selected


def _found_by_spark(target: Target, plan: ScanPlan, uncertain: Mask, where: str | Column) -> Mask:
    """Whether Spark finds the condition true for the partition of each uncertain file."""
    rows, names = np.flatnonzero(uncertain), target.snapshot.spec.identity_columns
    number = f"{own_prefix(target.schema)}file"
    partitions = one_chunk(plan.files.column("partition")).take(pa.array(rows))
    values = column_values(partitions, plan.specs.values(), names)
    fields = {field.name: spark_field(field) for field in target.schema}
    schema = StructType([fields[name] for name in names]).add(number, LongType())
    columns = [values.field(at) for at in range(len(names))]
    table = pa.table([*columns, pa.array(rows)], names=[*names, number])
    found = frame_of_table(target.spark, table, schema).where(expression(where)).select(number).toArrow()
    mask = np.zeros(len(uncertain), bool)
    mask[found.column(0).to_numpy()] = True
    return mask
