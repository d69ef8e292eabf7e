"""Writing rows: Spark's native Parquet writer into a folder of its own, then each file to its place.

Two jobs that write into one folder lose rows without a word, so none shares one:

    <table>/_delvec_staging/<uuid>/…     where Spark writes
    <table>/<column>=<value>/part-…      where the storage layer moves the files then

Partition values are written as texts under names of their own, so that neither the session's time zone nor
Spark's idea of a folder's name touches them; the folders get the columns' names with the move.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from delvec import location
from delvec.errors import StorageError, UnsupportedFeatureError
from delvec.row_delta import ADDED_SCHEMA, WriteRules, new_file_id, with_measures
from delvec.schema import Array, DataType, Field, Map, Primitive, Struct, is_string
from delvec.spark.file_paths import hadoop_path
from delvec.spark.partition_folders import NULL, escaped, unescaped
from delvec.spark.progress import FILES_WRITTEN, tell
from delvec.spark.row_checks import violation
from delvec.spark.scan import own_prefix
from delvec.spark.session import settings
from delvec.spark.types import quoted, selected, spark_type
from delvec.storage import Entry, Storage, in_parallel

_LOGGER = logging.getLogger(__name__)

STAGING = "_delvec_staging"
_FIELD_ID = "parquet.field.id"
_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"

# Given with the write itself: they reach the job's Hadoop configuration and no one else's.
_OPTIONS = {
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Files in their place (as ``row_delta.ADDED_SCHEMA``), and how many rows they hold."""

    files: pa.Table
    rows: int


NOTHING_WRITTEN = WrittenFiles(ADDED_SCHEMA.empty_table(), 0)


def write_rows(
    frame: DataFrame,
    storage: Storage,
    rules: WriteRules,
    *,
    size: int | None = None,
    folder: str = "",
    extra: Sequence[str] = (),
) -> WrittenFiles:
    """The rows of ``frame``, whose columns are the table's, as data files below ``folder`` of the table.

    ``size``: the bytes they will take, about, where that is known; then the files are made to be of the
    rules' size. ``extra`` are further columns of the frame, stored under their own names.
    """
    spark, prefix = frame.sparkSession, own_prefix(rules.schema)
    texts = [f"{prefix}p{number}" for number in range(len(rules.partition_by))]
    staged = f"{STAGING}/{uuid.uuid4()}"
    named = [text.alias(name) for text, name in zip(partition_texts(rules), texts, strict=True)]
    rows = _laid_out(selected(frame, [*_stored(rules, extra), *named]), texts, rules, size)
    writer = rows.write.options(**_OPTIONS)
    if texts:
        writer = writer.partitionBy(*texts)
    try:
        with _writer_settings(spark):
            writer.parquet(hadoop_path(location.join(storage.root, staged)))
        files = [entry for entry in storage.list(staged) if entry.path.endswith(".parquet")]
        placed = _placed(storage, rules, files, staged, folder)
        written = _with_rows(storage, _measured(storage, rules, placed))
        tell(FILES_WRITTEN, len(written))
        return WrittenFiles(written, pc.sum(written.column("record_count")).as_py() or 0)
    finally:
        _clear(storage, staged)


def _measured(storage: Storage, rules: WriteRules, placed: pa.Table) -> pa.Table:
    """The files with what is read of them in their place: one that lost its end on the way is noticed.

    Spark could count the rows while it writes them, for a tenth of the time that it takes to write.
    """
    found = rules.measure(storage, placed.column("location").to_pylist())
    return with_measures(placed, found).cast(ADDED_SCHEMA)


def _with_rows(storage: Storage, files: pa.Table) -> pa.Table:
    """Those that hold rows. Spark writes one that holds none, to tell the schema: it goes."""
    held = pc.greater(files.column("record_count"), 0)
    try:
        storage.delete(files.filter(pc.invert(held)).column("location").to_pylist())
    except StorageError:
        _LOGGER.warning("a file without rows was not removed: %s", storage.root, exc_info=True)
    return files.filter(held)


def _clear(storage: Storage, staged: str) -> None:
    """Leftovers harm no one: what ended the write must not be hidden by a failure here."""
    try:
        storage.delete_folder(staged)
    except StorageError:
        _LOGGER.warning("staging folder was not removed: %s/%s", storage.root, staged, exc_info=True)


def _stored(rules: WriteRules, extra: Sequence[str]) -> list[str | Column]:
    """The columns as files hold them."""
    absent = () if rules.store_partitions else rules.partition_by
    columns = [_stored_column(f, with_ids=rules.with_ids) for f in rules.schema if f.name not in absent]
    return [column for column in columns if column is not None] + [*map(quoted, extra)]


def _stored_column(field: Field, *, with_ids: bool) -> str | Column | None:
    if field.type == Primitive("void"):
        return None  # never in files
    held, named = stored_type(field.type, with_ids=with_ids), spark_type(field.type)
    metadata = _metadata(field, with_ids=with_ids)
    if held == named and not metadata:
        return f"{quoted(field.name)} AS {quoted(field.physical_name)}"
    column = F.col(quoted(field.name))
    if held != named:
        column = column.cast(held)
    return column.alias(field.physical_name, metadata=metadata)


def stored_type(data_type: DataType, *, with_ids: bool) -> T.DataType:
    """The type under the names, and with the ids, that files hold."""
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


def partition_texts(rules: WriteRules) -> list[Column]:
    """The partition values of a row of the table, as texts."""
    fields = {field.name: field for field in rules.schema}
    return [_text(fields[column]) for column in rules.partition_by]


def partition_values(rules: WriteRules, texts: Sequence[Sequence[str | None]]) -> pa.ChunkedArray:
    """The values that rows with these ``partition_texts`` have in ``ADDED_SCHEMA``."""
    types = {field.name: field.type for field in rules.schema}
    kinds = [types[column] for column in rules.partition_by]
    values = [[_value(t, kind) if t else None for t, kind in zip(row, kinds, strict=True)] for row in texts]
    return pa.chunked_array([values], ADDED_SCHEMA.field("partition").type)


def _text(field: Field) -> Column:
    """The partition value as text; Spark has one folder for null and for the empty text, and so has Delta."""
    column = F.col(quoted(field.name))
    match field.type:
        case Primitive("timestamp"):
            # As a time without a zone, counted from the epoch in UTC: no zone's rules come into it.
            seconds = F.unix_micros(column).cast("decimal(20,0)") / F.lit(1_000_000)
            return (F.expr(_EPOCH) + F.make_dt_interval(secs=seconds)).cast("string")
        case Primitive("binary"):
            raise UnsupportedFeatureError(
                f"partition column {field.name} is binary, which cannot be written",
                feature="binary partition",
            )
    text = column.cast("string")
    if not is_string(field.type):
        return text
    message = f"partition column {field.name} has the value {NULL!r}, which means null in a partition"
    return F.when(text == NULL, F.raise_error(F.lit(violation(message))).cast("string")).otherwise(text)


def _laid_out(frame: DataFrame, texts: Sequence[str], rules: WriteRules, size: int | None) -> DataFrame:
    """The rows in as many tasks as there should be files."""
    if size is not None:
        files = max(1, math.ceil(size / rules.target_file_size))
        return frame.repartition(files, *texts) if texts and files > 1 else frame.coalesce(files)
    # Spark balances the tasks by the size of what they get, and a partition's rows are together.
    return frame.hint("rebalance", *(F.col(name) for name in texts)) if texts else frame


def _writer_settings(spark: SparkSession) -> AbstractContextManager[None]:
    """Without these, timestamps are stored in a form that has no statistics, old dates are shifted, and
    variants take a form that not every reader knows.
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
    storage: Storage, rules: WriteRules, staged: Sequence[Entry], staging: str, folder: str
) -> pa.Table:
    write = new_file_id()
    targets, partitions = [], []
    for number, entry in enumerate(staged):
        *folders, name = entry.path.removeprefix(f"{staging}/").split("/")
        texts = [part.partition("=")[2] for part in folders]
        suffix = name.partition(".")[2].rpartition(".c000.")[2]
        target = "/".join([*_folders(rules, texts), f"part-{number:05d}-{write}.{suffix}"])
        targets.append(f"{folder}/{target}" if folder else target)
        partitions.append(_values(rules, texts))

    def place(pair: tuple[Entry, str]) -> None:
        source, target = pair
        if not storage.root.startswith("/"):
            # A move would be a copy and a deletion: the deletions are left to the folder's. No file can have
            # this name already, and to make sure of that would cost two requests more.
            storage.copy(source.path, target, overwrite=True)
        elif not storage.move(source.path, target, overwrite=False):
            raise StorageError("a file of this name already exists", path=target)

    in_parallel(place, zip(staged, targets, strict=True))
    now = int(dt.datetime.now(dt.UTC).timestamp() * 1000)
    rows = zip(targets, staged, partitions, strict=True)
    return pa.Table.from_pylist(
        [
            {
                "location": location.join(storage.root, target),
                "size": entry.size,
                "modified_ms": now,
                "partition": values,
            }
            for target, entry, values in rows
        ],
        schema=ADDED_SCHEMA,
    )


def _folders(rules: WriteRules, texts: Sequence[str]) -> list[str]:
    names = {field.name: field.physical_name for field in rules.schema}
    return [
        f"{escaped(names[column])}={text}" for column, text in zip(rules.partition_by, texts, strict=True)
    ]


def _values(rules: WriteRules, texts: Sequence[str]) -> list[str | None]:
    fields = {field.name: field for field in rules.schema}
    return [
        None if text == NULL else _value(unescaped(text), fields[column].type)
        for column, text in zip(rules.partition_by, texts, strict=True)
    ]


def _value(text: str, data_type: DataType) -> str:
    match data_type:
        case Primitive("timestamp"):
            return dt.datetime.fromisoformat(text).isoformat(timespec="microseconds") + "Z"
        case Primitive("timestamp_ntz"):
            return dt.datetime.fromisoformat(text).isoformat(timespec="microseconds")
    return text
