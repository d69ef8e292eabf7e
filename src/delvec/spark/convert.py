"""CONVERT: a folder of Parquet files becomes a table. The files stay where they are and as they are.

Partition values come from the names of ``column=value`` folders. The columns are those of all files together
(`parquet_columns`), and the footers give the statistics that files of other statements have too.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from delvec import conflicts, formats, location
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.footers.statistics import measure
from delvec.partition_spec import identity_fields
from delvec.row_delta import (
    Execution,
    Operation,
    Read,
    Request,
    RowDelta,
    Verb,
    WriteRules,
    added_schema,
    with_statistics,
)
from delvec.schema import DataType, Field, Schema, Struct
from delvec.spark.commit_and_rerun import StatementProbe
from delvec.spark.hive_partitions import partition_values
from delvec.spark.parquet_columns import read_columns
from delvec.spark.reserved_names import verify_new_names
from delvec.spark.session import sql_settings
from delvec.spark.target import Target
from delvec.spark.types import schema_from
from delvec.storage import Entry, Storage

PartitionColumns = str | T.StructType | Sequence[str]
"""Partition columns with their types: DDL text, a schema, or a list in which a name alone is a string."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a conversion commits: the table before its first commit, and its data files."""

    target: Target
    files: pa.Table
    statistics: bool

    @property
    def rules(self) -> WriteRules:
        return self.target.rules


def plan_conversion(
    spark: SparkSession,
    table: formats.Table,
    partition_by: PartitionColumns,
    properties: Mapping[str, str] | None,
    *,
    statistics: bool = True,
) -> Conversion:
    """Read the names and the footers of all files. Writes nothing."""
    started = time.monotonic()
    storage, declared = table.storage, declared_columns(partition_by)
    entries = _data_files(storage)
    values = partition_values(
        spark, storage.root, [entry.path for entry in entries], declared, case_sensitive=_case(spark)
    )
    places = [location.join(storage.root, entry.path) for entry in entries]
    schema = _with_partitions(read_columns(spark, storage, places), declared)
    draft = table.draft(
        schema,
        partition_by=identity_fields(schema, [field.name for field in declared]),
        properties=properties,
    )
    target = replace(Target.of(spark, table, Verb.APPEND, snapshot=draft), started=started)
    _verify_convertible(target.rules)
    files = pa.table(
        {
            "location": pa.array(places, pa.string()),
            "size": pa.array([entry.size for entry in entries], pa.int64()),
            "modified_ms": pa.array([_millis(entry) for entry in entries], pa.int64()),
            "partition": values,
        }
    )
    measured = measure(storage, places, target.rules.measured if statistics else ())
    files = with_statistics(files, measured)
    # A file without rows has told its columns, and holds nothing else.
    files = files.filter(pc.greater(files.column("record_count"), 0))
    return Conversion(target, _ordered(files, target.rules), statistics)


def convert(conversion: Conversion) -> int:
    """Commit the first version of the table; returns its number."""
    target = conversion.target
    request = Request(Operation.CONVERT, statistics=conversion.statistics)
    duration = int((time.monotonic() - target.started) * 1000)
    delta = RowDelta(
        *(target.base, request, Read(), Verb.ALTER), added=conversion.files, execution=Execution(duration)
    )
    settled = conflicts.commit(target.table, target.snapshot, delta, StatementProbe(target))
    assert isinstance(settled, conflicts.Settled)  # a conflict with another new table is an error
    return settled.version


def declared_columns(partition_by: PartitionColumns) -> Schema:
    """The partition columns, with their types."""
    if isinstance(partition_by, str | T.StructType):
        return schema_from(partition_by) if partition_by else Struct(())
    texts = [text if " " in text.strip() else f"{text} STRING" for text in partition_by]
    return schema_from(", ".join(texts)) if texts else Struct(())


def _data_files(storage: Storage) -> list[Entry]:
    entries = [entry for entry in storage.list() if not any(map(_is_hidden, entry.path.split("/")))]
    if not entries:
        raise InvalidOperationError(f"there are no Parquet files, expected at least one: {storage.root}")
    return entries


def _is_hidden(name: str) -> bool:
    """Whether other engines skip a file or folder of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _case(spark: SparkSession) -> bool:
    return sql_settings(spark).case_sensitive


def _with_partitions(columns: Schema, declared: Schema) -> Schema:
    """The columns of the files, and the partition columns after them. A partition column that files have too
    stays at its place; its values are those of the folders.
    """
    by_name = {field.name: Field(field.name, field.type) for field in declared}
    stored = tuple(by_name.get(field.name, field) for field in columns)
    names = {field.name for field in columns}
    return Struct((*stored, *(field for name, field in by_name.items() if name not in names)))


def _verify_convertible(rules: WriteRules) -> None:
    verify_new_names(rules.schema)
    for constraint in rules.constraints:
        raise UnsupportedFeatureError(
            f"convert does not check rows, so the new table cannot have the constraint {constraint.name}",
            feature="convert with constraints",
        )
    for field in _all_fields(rules.schema):
        if field.physical_name != field.name:
            raise UnsupportedFeatureError(
                f"column {field.name} would be stored as {field.physical_name}, but the files have its own "
                "name: convert without column mapping",
                feature="convert with column mapping",
            )


def _all_fields(data_type: DataType) -> list[Field]:
    fields = list(data_type) if isinstance(data_type, Struct) else []
    return [*fields, *(inner for field in fields for inner in _all_fields(field.type))]


def _ordered(files: pa.Table, rules: WriteRules) -> pa.Table:
    """The columns in the order of ``RowDelta.added``."""
    names = added_schema(rules.spec).names
    return files.select([*names, *(name for name in files.column_names if name not in names)])


def _millis(entry: Entry) -> int:
    return int((entry.modified - _EPOCH) / dt.timedelta(milliseconds=1))
