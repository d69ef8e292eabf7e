"""Writing rows: Spark's native Parquet writer writes files to a staging folder, from where they are moved.

Each job has a staging folder of its own: two Spark jobs that write to one folder lose rows without an error.

    <table>/_delvec_staging/<uuid>/…     Spark writes the files here
    <table>/<folder>/part-…              the storage layer moves them here; the format chooses the folder

In the staging folder, partition values are the texts of `partition_values`.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from delvec import location
from delvec.errors import StorageError
from delvec.footers.statistics import measure
from delvec.hive_folders import NULL_FOLDER, unescaped
from delvec.retention import STAGING
from delvec.row_delta import (
    ADDED_SCHEMA,
    WriteRules,
    added_schema,
    new_file_id,
    no_added_files,
    with_statistics,
)
from delvec.schema import Array, DataType, Field, Map, Primitive, Struct
from delvec.spark.file_paths import hadoop_path
from delvec.spark.partition_values import partition_texts, typed_values, with_hashes
from delvec.spark.progress import FILES_WRITTEN, tell
from delvec.spark.row_lineage import lineage_fields
from delvec.spark.scan import own_prefix
from delvec.spark.session import settings
from delvec.spark.types import quoted, selected, spark_type, verify_spark_type
from delvec.storage import Entry, Storage, in_parallel

_LOGGER = logging.getLogger(__name__)

_FIELD_ID = "parquet.field.id"

# Options of the write, not of the session: they change the Hadoop configuration of this job only.
_OPTIONS = {
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Files in their final place (columns as in ``row_delta.added_schema``), and their number of rows."""

    files: pa.Table
    rows: int


NOTHING_WRITTEN = WrittenFiles(no_added_files(), 0)


def write_rows(
    frame: DataFrame,
    storage: Storage,
    rules: WriteRules,
    *,
    size: int | None = None,
    folder: str = "",
    extra: Sequence[str] = (),
) -> WrittenFiles:
    """Write the rows of ``frame``, which has the table's columns, to files below the table's ``folder``.

    ``size`` is the estimated size of all files in bytes, if known: then as many files are written as the
    rules' file size asks for. ``extra`` are further columns of the frame to store: lineage columns of the
    rules, which have their ids, and others, which are stored under their names.
    """
    texts = partition_columns(rules)
    columns = stored_columns(rules, extra) + list(texts.values())
    rows = _laid_out(selected(with_hashes(frame, rules), columns), [*texts], rules, size)
    files, _ = write_staged(
        rows,
        storage,
        rules,
        partition_by=[*texts],
        values=lambda names: typed_values(rules.spec, names),
        folder=folder,
    )
    tell(FILES_WRITTEN, len(files))
    return WrittenFiles(files, pc.sum(files.column("record_count")).as_py() or 0)


FolderTexts = Sequence[Sequence[str | None]]
"""For each staged file the texts in the names of its folders."""


def write_staged(
    rows: DataFrame,
    storage: Storage,
    rules: WriteRules,
    *,
    partition_by: Sequence[str],
    values: Callable[[FolderTexts], pa.StructArray],
    folder: str = "",
) -> tuple[pa.Table, FolderTexts]:
    """Write rows, which have the columns of files, to a staging folder, and move the files to their place.

    ``partition_by`` are columns for the folders of the staged files; ``values`` turns their texts into the
    partition values of the files. Returns the files that have rows, with these texts.
    """
    staged = f"{STAGING}/{uuid.uuid4()}"
    writer = rows.write.options(**_OPTIONS)
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    try:
        with _writer_settings(rows.sparkSession):
            writer.parquet(hadoop_path(location.join(storage.root, staged)))
        files = [entry for entry in storage.list(staged) if entry.path.endswith(".parquet")]
        texts = [_folder_texts(entry, staged) for entry in files]
        placed = _placed(storage, rules, files, values(texts), folder)
        # Measured in their final place, so that a file that was cut short by the move is noticed.
        statistics = measure(storage, placed.column("location").to_pylist(), rules.measured)
        written = with_statistics(placed, statistics)
        has_rows = pc.greater(written.column("record_count"), 0)
        _delete_empty(storage, written.filter(pc.invert(has_rows)))
        kept = zip(texts, has_rows.to_pylist(), strict=True)
        return written.filter(has_rows), [names for names, is_kept in kept if is_kept]
    finally:
        _clear(storage, staged)


def partition_columns(rules: WriteRules) -> dict[str, Column]:
    """The partition values of a row of `with_hashes` as texts, each by the name of a column that the table
    does not have.
    """
    prefix = own_prefix(rules.schema)
    names = (f"{prefix}p{number}" for number in range(len(rules.spec.fields)))
    return {name: text.alias(name) for name, text in zip(names, partition_texts(rules), strict=True)}


def _delete_empty(storage: Storage, files: pa.Table) -> None:
    """Without rows, Spark writes one file for the schema, which is deleted here."""
    try:
        storage.delete(files.column("location").to_pylist())
    except StorageError:
        _LOGGER.warning("a file without rows was not removed: %s", storage.root, exc_info=True)


def _clear(storage: Storage, staged: str) -> None:
    """Delete the staging folder. A failure is only logged: it must not hide an error of the write itself."""
    try:
        storage.delete_folder(staged)
    except StorageError:
        _LOGGER.warning("staging folder was not removed: %s/%s", storage.root, staged, exc_info=True)


def stored_columns(rules: WriteRules, extra: Sequence[str]) -> list[str | Column]:
    """The columns of the frame under the names, and with the ids, that they have in files."""
    absent = () if rules.store_partitions else rules.spec.identity_columns
    lineage = {field.name: field for field in lineage_fields(rules)}
    fields = [field for field in rules.schema if field.name not in absent]
    fields += [lineage[name] for name in extra if name in lineage]
    columns = [_stored_column(field, with_ids=rules.with_ids) for field in fields]
    other_columns = [quoted(name) for name in extra if name not in lineage]
    return [column for column in columns if column is not None] + other_columns


def _stored_column(field: Field, *, with_ids: bool) -> str | Column | None:
    if field.type == Primitive("void"):
        return None  # Parquet files never contain such a column
    verify_spark_type(field)
    in_files, in_table = stored_type(field.type, with_ids=with_ids), spark_type(field.type)
    metadata = _metadata(field, with_ids=with_ids)
    if in_files == in_table and not metadata:
        return f"{quoted(field.name)} AS {quoted(field.physical_name)}"
    column = F.col(quoted(field.name))
    if in_files != in_table:
        column = column.cast(in_files)
    return column.alias(field.physical_name, metadata=metadata)


def stored_type(data_type: DataType, *, with_ids: bool) -> T.DataType:
    """The type with the names and ids that its fields have in files."""
    match data_type:
        case Struct(fields):
            return T.StructType(
                [
                    T.StructField(
                        f.physical_name,
                        stored_type(f.type, with_ids=with_ids),
                        f.nullable,
                        _metadata(f, with_ids=with_ids),
                    )
                    for f in fields
                ]
            )
        case Array(element, contains_null):
            return T.ArrayType(stored_type(element, with_ids=with_ids), contains_null)
        case Map(key, value, value_contains_null):
            key_type = stored_type(key, with_ids=with_ids)
            return T.MapType(key_type, stored_type(value, with_ids=with_ids), value_contains_null)
    return spark_type(data_type)


def _metadata(field: Field, *, with_ids: bool) -> dict[str, int]:
    return {_FIELD_ID: field.field_id} if with_ids and field.field_id is not None else {}


def _laid_out(frame: DataFrame, texts: Sequence[str], rules: WriteRules, size: int | None) -> DataFrame:
    """The rows, distributed to as many tasks as files should be written."""
    if size is not None:
        files = max(1, math.ceil(size / rules.target_file_size))
        return frame.repartition(files, *texts) if texts and files > 1 else frame.coalesce(files)
    # Spark puts the rows of a partition together, and splits and joins tasks by the size of their rows.
    return frame.hint("rebalance", *(F.col(name) for name in texts)) if texts else frame


def _writer_settings(spark: SparkSession) -> AbstractContextManager[None]:
    """Session settings for the time of the write. With other values, timestamps would be stored in a form
    that has no statistics, old dates would be shifted, and variants would have a form that not every reader
    knows.
    """
    return settings(
        spark,
        spark__sql__parquet__outputTimestampType="TIMESTAMP_MICROS",
        spark__sql__parquet__datetimeRebaseModeInWrite="CORRECTED",
        spark__sql__parquet__int96RebaseModeInWrite="CORRECTED",
        spark__sql__parquet__writeLegacyFormat="false",
        spark__sql__parquet__fieldId__write__enabled="true",
        spark__sql__variant__writeShredding__enabled="false",
    )


def _placed(
    storage: Storage, rules: WriteRules, staged: Sequence[Entry], values: pa.StructArray, folder: str
) -> pa.Table:
    """Move the staged files to the folders that the format chooses for their partition ``values``."""
    write = new_file_id()
    names = []
    for number, entry in enumerate(staged):
        suffix = entry.path.rpartition("/")[2].partition(".")[2].rpartition(".c000.")[2]
        names.append(f"part-{number:05d}-{write}.{suffix}")
    folder_names = rules.folders(values)
    targets = ["/".join(filter(None, (folder, *pair))) for pair in zip(folder_names, names, strict=True)]

    def place(pair: tuple[Entry, str]) -> None:
        source, target = pair
        if not storage.root.startswith("/"):
            # On an object store a move is a copy and a deletion. The staging folder is deleted as a whole
            # later. The name is new, so there is no need for the two requests that would verify it.
            storage.copy(source.path, target, overwrite=True)
        elif not storage.move(source.path, target, overwrite=False):
            raise StorageError("a file of this name already exists", path=target)

    in_parallel(place, zip(staged, targets, strict=True))
    now = int(dt.datetime.now(dt.UTC).timestamp() * 1000)
    files = pa.Table.from_pylist(
        [
            {"location": location.join(storage.root, target), "size": entry.size, "modified_ms": now}
            for target, entry in zip(targets, staged, strict=True)
        ],
        schema=ADDED_SCHEMA,
    )
    return files.append_column(added_schema(rules.spec).field("partition"), values)


def _folder_texts(entry: Entry, staging: str) -> list[str | None]:
    *folders, _ = entry.path.removeprefix(f"{staging}/").split("/")
    return [_folder_text(name) for name in folders]


def _folder_text(name: str) -> str | None:
    """The text of a partition value in the name of a staging folder."""
    text = name.partition("=")[2]
    return None if text == NULL_FOLDER else unescaped(text)
