"""Row lineage: the ids that rows keep when they move to another file, and the version that changed them last.

A row's id is stored in a column of its file. If that is null, or the file has no such column, the id is the
first id of the file plus the row's position. In the same way, the version is the stored one or else that of
the file.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delvec.deletes.loader import DeleteLoader
from delvec.plan import ScanPlan
from delvec.row_delta import WriteRules
from delvec.schema import Field, Struct
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.file_paths import file_path
from delvec.spark.scan import own_prefix, place_columns, scan_parts
from delvec.spark.scan_part import ScanPart, united, unknown_file
from delvec.spark.types import quoted
from delvec.storage import Storage


def lineage_fields(rules: WriteRules) -> tuple[Field, ...]:
    """The stored columns for a row's id and version; empty if the table does not keep them."""
    if rules.row_id is None or rules.row_version is None:
        return ()
    return (rules.row_id, rules.row_version)


def parts_with_lineage(
    spark: SparkSession,
    plan: ScanPlan,
    storage: Storage,
    fields: tuple[Field, ...],
    loader: DeleteLoader | None = None,
    *,
    only_with_first: bool = False,
) -> list[ScanPart]:
    """The parts of the scan of ``plan`` with each row's id and version, in the two columns ``fields``.

    ``only_with_first``: both are null in files without a first id, also if the file stores them.
    """
    columns = tuple(field.name for field in fields)
    wider = replace(
        plan,
        schema=Struct((*plan.schema.fields, *fields)),
        read_schemas=tuple(
            replace(shape, schema=Struct((*shape.schema.fields, *fields))) for shape in plan.read_schemas
        ),
    )
    prefix, (path, row) = own_prefix(plan.schema), place_columns(plan.schema)
    path_column, first, version = (f"{prefix}lineage_{name}" for name in ("path", "first", "version"))
    files = pa.table(
        {
            path_column: pa.array(
                [file_path(p) for p in plan.files.column("location").to_pylist()], pa.string()
            ),
            first: plan.files.column("first_row_id"),
            version: plan.files.column("row_version"),
        }
    )
    file_table = F.broadcast(frame_of_table(spark, files))
    stored_id, stored_version = map(quoted, columns)
    unknown = (
        f"{path_column} IS NULL, CAST({unknown_file(path)} AS BIGINT)"  # else its rows would get new ids
    )
    known = f"{first} IS NULL" if only_with_first else "false"
    lineage = [
        f"if({unknown}, if({known}, NULL, coalesce({stored_id}, {first} + {row}))) AS {stored_id}",
        f"if({unknown}, if({known}, NULL, coalesce({stored_version}, {version}))) AS {stored_version}",
    ]

    def with_lineage(part: ScanPart) -> ScanPart:
        other_columns = [name for name in part.frame.columns if name not in columns]
        joined = part.frame.join(file_table, F.expr(f"{path} = {path_column}"), "left")
        return replace(part, frame=joined.selectExpr(*map(quoted, other_columns), *lineage))

    return [with_lineage(part) for part in scan_parts(spark, wider, storage, loader)]


def scan_with_lineage(spark: SparkSession, plan: ScanPlan, storage: Storage) -> DataFrame:
    """The live rows of the plan's files, with the columns ``ScanPlan.lineage``."""
    parts = parts_with_lineage(spark, plan, storage, plan.lineage, only_with_first=True)
    return united([part.live() for part in parts]).drop(*place_columns(plan.schema))


def moved(frame: DataFrame, columns: tuple[str, ...], new: str, *others: str) -> DataFrame:
    """The updated rows, which are in the struct ``new``, with their old ids and a null version: their version
    is that of the next commit.

    ``others`` are further columns of the frame to keep.
    """
    if not columns:
        return frame.select(f"{new}.*", *others)
    version = F.lit(None).cast("long").alias(columns[1])
    return frame.select(f"{new}.*", F.col(quoted(columns[0])), version, *others)


def with_null_lineage(frame: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """Inserted rows, which have no id yet: the commit assigns it."""
    return frame.select("*", *(F.lit(None).cast("long").alias(name) for name in columns))
