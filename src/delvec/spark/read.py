"""Reads of a snapshot for users: its rows, and the list of its data files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from delvec import predicate
from delvec.chunked import one_chunk
from delvec.errors import InvalidOperationError
from delvec.formats import Snapshot
from delvec.missing_files import missing_files, named
from delvec.plan import ScanPlan
from delvec.schema import Field, Struct
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.row_lineage import scan_with_lineage
from delvec.spark.scan import scan
from delvec.spark.session import sql_settings
from delvec.spark.types import quoted, verify_readable
from delvec.storage import Storage

_FILE_COLUMNS = ["location", "size", "record_count", "partition"]


def rows(
    spark: SparkSession,
    snapshot: Snapshot,
    storage: Storage,
    where: str | Column | None,
    columns: Sequence[str] | str | None,
    *,
    newest: int | None = None,
) -> DataFrame:
    """The live rows for which ``where`` is true, with these columns. ``newest``: the table's newest version,
    if ``snapshot`` may be an older one: files of an older one may be gone.
    """
    settings = sql_settings(spark)
    condition, problem = None, None
    if isinstance(where, str):
        try:
            condition = predicate.parse(where, snapshot.schema, settings)
        except InvalidOperationError as error:
            problem = error
    plan = snapshot.plan(condition, time_zone=settings.time_zone)
    names = [columns] if isinstance(columns, str) else columns
    selected = [] if names is None else _selected(names, plan, case_sensitive=settings.case_sensitive)
    if newest is not None and snapshot.version != newest:
        _verify_not_vacuumed(storage, plan, snapshot.version)
    needs_lineage = any(field in plan.lineage for field in selected)
    frame = (
        scan_with_lineage(spark, plan, storage)
        if needs_lineage
        else scan(spark, plan, storage, condition=condition)
    )
    if where is not None:
        frame = _filtered(frame, where, problem)
    return frame if names is None else frame.select(*map(quoted, names))


def _verify_not_vacuumed(storage: Storage, plan: ScanPlan, version: int) -> None:
    """Refuse a version whose files are gone: Spark would only notice when the rows are read."""
    vectors = one_chunk(plan.deletes.column("location")).drop_null().unique()
    needed = pa.concat_arrays([one_chunk(plan.files.column("location")), vectors])
    missing = missing_files(storage, needed)
    if len(missing):
        raise InvalidOperationError(
            f"version {version} can no longer be read: {len(missing):,} of its {len(needed):,} files are "
            f"gone ({named(storage, missing)}), perhaps after a vacuum: {storage.root}"
        )


def files(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The plan's files: location, size, rows, deleted rows, partition values."""
    table = plan.files.select(_FILE_COLUMNS).add_column(3, "deleted_count", plan.deleted_rows)
    if not any(spec.fields for spec in plan.specs.values()):
        table = table.drop_columns(["partition"])  # Spark has no struct without fields
    # Otherwise Spark would read a timestamp without a zone as one in the session's zone.
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    return frame_of_table(spark, table, schema)


def _filtered(frame: DataFrame, where: str | Column, problem: InvalidOperationError | None) -> DataFrame:
    """The rows for which ``where`` is true. ``problem``: why delvec could not parse it; raised only if Spark
    refuses the condition too.
    """
    if problem is None:
        return frame.where(where)
    try:
        filtered = frame.where(where)
        _ = filtered.schema
    except PySparkException:
        raise problem from None
    return filtered


def _selected(names: Sequence[str], plan: ScanPlan, *, case_sensitive: bool) -> list[Field]:
    """The fields of these names: columns of the table, or of row lineage."""
    selected = []
    for name in names:
        fields = plan.schema.find(name, case_sensitive=case_sensitive)
        fields = fields or Struct(plan.lineage).find(name, case_sensitive=case_sensitive)
        if len(fields) != 1:
            column_names = ", ".join(field.name for field in (*plan.schema, *plan.lineage))
            raise InvalidOperationError(
                f"unknown column {name!r} in columns, expected some of {column_names}"
            )
        verify_readable(fields[0])
        selected.append(fields[0])
    return selected
