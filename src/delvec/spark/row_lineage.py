"""Row ids that stay with their rows: found where the file has them, and written with rows that move.

A row's id is the value of a stored column of the table's choosing, where that has one; else the file's first
id plus the row's position. Likewise the version that last changed it: the file's, where none is stored.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delvec.plan import ScanPlan
from delvec.row_delta import WriteRules
from delvec.schema import Field, Primitive, Struct
from delvec.spark.file_paths import file_path
from delvec.spark.scan import own_prefix, place_columns, scan_parts
from delvec.spark.scan_part import ScanPart
from delvec.spark.types import quoted
from delvec.storage import Storage


def lineage_columns(rules: WriteRules) -> tuple[str, ...]:
    """The stored columns for a row's id and version; none where the table does not keep them."""
    if rules.row_id_column is None or rules.row_version_column is None:
        return ()
    return (rules.row_id_column, rules.row_version_column)


def parts_with_lineage(
    spark: SparkSession, plan: ScanPlan, storage: Storage, columns: tuple[str, ...]
) -> list[ScanPart]:
    """The parts of the scan of ``plan`` with each row's id and version, under the names ``columns``."""
    fields = tuple(Field(name, Primitive("long")) for name in columns)
    wider = replace(
        plan,
        schema=Struct((*plan.schema.fields, *fields)),
        read_schemas=tuple(
            replace(shape, schema=Struct((*shape.schema.fields, *fields))) for shape in plan.read_schemas
        ),
    )
    prefix, (path, row) = own_prefix(plan.schema), place_columns(plan.schema)
    named, first, version = (f"{prefix}lineage_{name}" for name in ("path", "first", "version"))
    files = pa.table(
        {
            named: pa.array([file_path(p) for p in plan.files.column("location").to_pylist()], pa.string()),
            first: plan.files.column("first_row_id"),
            version: plan.files.column("row_version"),
        }
    )
    of_files = F.broadcast(spark.createDataFrame(files))
    stored_id, stored_version = map(quoted, columns)
    lineage = [
        f"coalesce({stored_id}, {first} + {row}) AS {stored_id}",
        f"coalesce({stored_version}, {version}) AS {stored_version}",
    ]

    def with_lineage(part: ScanPart) -> ScanPart:
        others = [name for name in part.frame.columns if name not in columns]
        joined = part.frame.join(of_files, F.expr(f"{path} = {named}"), "left")
        return replace(part, frame=joined.selectExpr(*map(quoted, others), *lineage))

    return [with_lineage(part) for part in scan_parts(spark, wider, storage)]


def moved(frame: DataFrame, columns: tuple[str, ...], new: str, *others: str) -> DataFrame:
    """The rows in the struct ``new``, with their ids: what changed them is the commit that is to come.

    ``others`` are further columns of the frame, which stay.
    """
    if not columns:
        return frame.select(f"{new}.*", *others)
    changed_by = F.lit(None).cast("long").alias(columns[1])
    return frame.select(f"{new}.*", F.col(quoted(columns[0])), changed_by, *others)


def unborn(frame: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """New rows, which have no id yet: the commit gives them one."""
    return frame.select("*", *(F.lit(None).cast("long").alias(name) for name in columns))
