"""The columns of a folder of Parquet files: those of all files together, as Spark reads them.

Only footers are read. Most folders have few distinct schemas, so Spark is asked once for each of them: it
alone knows which type it reads from a Parquet type, and the column types that it noted when it wrote a file.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.footers.footer import Footer, read_footer
from delvec.schema import COMMENT, Array, DataType, Field, Map, Primitive, Schema, Struct
from delvec.spark.conditions import reason_of
from delvec.spark.file_paths import spark_path
from delvec.spark.types import as_nullable, from_spark
from delvec.storage import Storage, in_parallel

_SPARK_COLUMNS = b"org.apache.spark.sql.parquet.row.metadata"
_OPTIONS = {"mergeSchema": "false", "recursiveFileLookup": "true", "ignoreCorruptFiles": "false"}

# Parquet stores these alike, so that a file with the smaller type is read as the larger one.
_SIZES = (Primitive("byte"), Primitive("short"), Primitive("integer"))


def read_columns(spark: SparkSession, storage: Storage, locations: Sequence[str]) -> Schema:
    """The columns of the files together: the same column has one type in all of them, except that a small
    integer may be a larger one elsewhere. All are nullable.
    """
    merged: Schema | None = None
    for place in _one_of_each(storage, locations):
        columns = as_nullable(_plain(_columns_of(spark, place)))
        merged = columns if merged is None else _merged(merged, columns, (), place)
    assert merged is not None
    return merged


def _one_of_each(storage: Storage, locations: Sequence[str]) -> list[str]:
    """The first file of each distinct schema."""
    first: dict[tuple[str, bytes], str] = {}
    lock = threading.Lock()

    def read(place: str) -> None:
        footer = read_footer(storage, place)
        key = _schema_key(footer)
        with lock:
            first[key] = min(place, first.get(key, place))

    in_parallel(read, locations)
    return sorted(first.values())


def _schema_key(footer: Footer) -> tuple[str, bytes]:
    _ = footer.schema  # refuses a file that cannot be read
    text = str(footer.metadata.schema).partition("\n")[2]  # the first line is the address of an object
    return text, (footer.metadata.metadata or {}).get(_SPARK_COLUMNS, b"")


def _columns_of(spark: SparkSession, place: str) -> Schema:
    try:
        return from_spark(spark.read.options(**_OPTIONS).parquet(spark_path(place)).schema)
    except PySparkException as error:
        raise UnsupportedFeatureError(
            f"Spark cannot read the columns of the file: {reason_of(error)}: {place}", feature="Parquet type"
        ) from None
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(f"{error}: {place}", feature=error.feature) from None


def _plain(schema: Schema) -> Schema:
    """The columns without metadata of another table; comments stay."""
    return Struct(tuple(Field(f.name, _plain_type(f.type), metadata=_comment(f)) for f in schema))


def _comment(field: Field) -> dict[str, str]:
    return {} if field.comment is None else {COMMENT: field.comment}


def _plain_type(data_type: DataType) -> DataType:
    match data_type:
        case Struct():
            return _plain(data_type)
        case Array(element):
            return Array(_plain_type(element))
        case Map(key, value):
            return Map(_plain_type(key), _plain_type(value))
    return data_type


def _merged(old: Struct, new: Struct, path: tuple[str, ...], place: str) -> Struct:
    fields = {field.name.lower(): field for field in old}
    for field in new:
        column, known = (*path, field.name), fields.get(field.name.lower())
        if known is None:
            fields[field.name.lower()] = field
            continue
        if known.name != field.name:
            # Other readers find columns by their exact name, and would read nulls.
            raise _conflict(column, place, f"is named {field.name}", known.name)
        kind = _merged_type(known.type, field.type, column, place)
        fields[field.name.lower()] = Field(known.name, kind, metadata=known.metadata)
    return Struct(tuple(fields.values()))


def _merged_type(old: DataType, new: DataType, path: tuple[str, ...], place: str) -> DataType:
    match old, new:
        case Struct(), Struct():
            return _merged(old, new, path, place)
        case Array(), Array():
            return Array(_merged_type(old.element, new.element, (*path, "element"), place))
        case Map(), Map():
            key = _merged_type(old.key, new.key, (*path, "key"), place)
            return Map(key, _merged_type(old.value, new.value, (*path, "value"), place))
    if old == new:
        return old
    if old in _SIZES and new in _SIZES:
        return max(old, new, key=_SIZES.index)
    raise _conflict(path, place, f"is of type {new}", str(old))


def _conflict(path: tuple[str, ...], place: str, found: str, expected: str) -> InvalidOperationError:
    return InvalidOperationError(
        f"column {'.'.join(path)} {found}, expected {expected} as in the other files: {place}"
    )
