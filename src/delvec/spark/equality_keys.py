"""Keys of equality deletes in Spark: how values are compared, and equality files that the executors read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType as SparkDataType
from pyspark.sql.types import LongType, StringType, StructField, StructType

from delvec.deletes.equality import EqualityLayer, KeyColumn
from delvec.deletes.equality_file import StoredPath, stored_path
from delvec.deletes.equality_set import SCOPE, SEQUENCE, key_names
from delvec.deletes.stored_keys import stored_keys
from delvec.errors import FormatError
from delvec.field_names import stored_schema
from delvec.plan import DELETION_VECTOR
from delvec.schema import DataType, Primitive
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.file_paths import METADATA, FileReader, file_path
from delvec.spark.load_on_executors import check_executors
from delvec.spark.stored_values import raw_type
from delvec.spark.types import quoted, spark_type
from delvec.storage import Storage, in_parallel, open_storage

_FILE = "delvec_file"
_OF_VECTORS = ["encoding", "location", "offset", "length", "cardinality"]
_BATCH_ROWS = 1 << 20


def key_expressions(value: str, data_type: DataType) -> list[str]:
    """Expressions that are equal where two keys are: for Spark 0.0 equals -0.0, and keys with them differ."""
    if data_type in (Primitive("float"), Primitive("double")):
        return [value, f"coalesce({value} = 0 AND CAST({value} AS STRING) = '-0.0', false)"]
    return [value]


def key_part(name: str, part: int) -> str:
    """The column with one of the expressions of a key, in a table of keys."""
    return f"{name}_{part}"


def keys_on_executors(
    spark: SparkSession, reader: FileReader, storage: Storage, layer: EqualityLayer, *, every: bool = False
) -> DataFrame:
    """The keys of the layer's equality files with the largest sequence of each: a frame that reads the files.
    ``every``: with all sequences of each key.

    Its columns are the expressions of each key, the scope and the sequence.
    """
    is_vector = pc.equal(layer.deletes.column("encoding"), DELETION_VECTOR)
    places: list[str] = layer.deletes.filter(pc.invert(is_vector)).column("location").to_pylist()
    paths = in_parallel(lambda place: _stored_paths(storage, place, layer.columns), places)
    by_paths: dict[tuple[StoredPath, ...], list[str]] = {}
    for place, stored in zip(places, paths, strict=True):
        by_paths.setdefault(stored, []).append(place)
    frames = [_read(reader, layer, members, stored) for stored, members in by_paths.items()]
    vectors = layer.deletes.filter(is_vector)
    if len(vectors):
        frames.append(_read_vectors(spark, storage, layer.columns, vectors))
    rows = reduce(DataFrame.unionAll, frames)
    places = layer.deletes.column("location").to_pylist()
    files = pa.table(
        {
            _FILE: pa.array([file_path(place) for place in places]),
            SCOPE: layer.deletes.column(SCOPE),
            SEQUENCE: layer.deletes.column(SEQUENCE),
        }
    )
    schema = StructType(
        [StructField(_FILE, StringType()), *(StructField(n, LongType()) for n in (SCOPE, SEQUENCE))]
    )
    joined = rows.join(F.broadcast(frame_of_table(spark, files, schema)), _FILE, "left")
    unknown = f"raise_error(concat('a scan read an equality file that is not in its plan: ', {_FILE}))"
    known = joined.where(f"CASE WHEN {SCOPE} IS NULL THEN CAST({unknown} AS BOOLEAN) ELSE true END")
    keys = [name for name in rows.columns if name != _FILE]
    if every:
        return known.select(*keys, SCOPE, SEQUENCE)
    return known.groupBy(*keys, SCOPE).agg(F.max(SEQUENCE).alias(SEQUENCE))


def _read_vectors(
    spark: SparkSession, storage: Storage, columns: Sequence[KeyColumn], vectors: pa.Table
) -> DataFrame:
    """The expressions of each key in vectors, which the executors expand, and the path of the file."""
    check_executors(spark, "vectors of keys are too large for the driver, and the executors cannot load them")
    root, options = storage.root, dict(storage.options)
    names = key_names(columns)
    fields = [StructField(name, spark_type(c.type)) for name, c in zip(names, columns, strict=True)]
    schema = StructType([*fields, StructField(_FILE, StringType())])

    def expand(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opened = open_storage(root, options)
        for delete in (row for batch in batches for row in batch.to_pylist()):
            keys = [keys.combine_chunks() for keys in stored_keys(opened, delete, columns)]
            path = pa.repeat(pa.scalar(file_path(delete["location"])), len(keys[0]))
            yield from pa.table([*keys, path], names=[*names, _FILE]).to_batches(_BATCH_ROWS)

    frame = frame_of_table(spark, vectors.select(_OF_VECTORS)).repartition(len(vectors))
    expressions = [
        f"{text} AS {key_part(name, part)}"
        for name, column in zip(names, columns, strict=True)
        for part, text in enumerate(key_expressions(name, column.type))
    ]
    return frame.mapInArrow(expand, schema).selectExpr(*expressions, _FILE)


def _stored_paths(storage: Storage, place: str, columns: Sequence[KeyColumn]) -> tuple[StoredPath, ...]:
    try:
        schema = stored_schema(storage, place)
        return tuple(stored_path(schema, column) for column in columns)
    except FormatError as error:
        raise error.at(place) from None


def _read(
    reader: FileReader, layer: EqualityLayer, places: Sequence[str], paths: Sequence[StoredPath]
) -> DataFrame:
    """The expressions of each key, and the path of the file."""
    schema = StructType([])
    for path, column in zip(paths, layer.columns, strict=True):
        if column.is_null:
            continue  # the struct is read for a field in it
        schema = _with_path(schema, path, raw_type(column.type) or spark_type(column.type))
    frame = reader.read(list(places), schema, rows=layer.rows or 0, by_folder_names=False)
    keys = [
        f"{text} AS {key_part(name, part)}"
        for name, path, column in zip(key_names(layer.columns), paths, layer.columns, strict=True)
        for part, text in enumerate(key_expressions(_value(path, column), column.type))
    ]
    return frame.selectExpr(*keys, f"{METADATA}.file_path AS {_FILE}")


def _value(path: StoredPath, column: KeyColumn) -> str:
    value = ".".join(map(quoted, path))
    return f"({value} IS NULL)" if column.is_null else value


def _with_path(struct: StructType, path: StoredPath, kind: SparkDataType) -> StructType:
    """The struct with one more field, which may be nested."""
    fields = {field.name: field for field in struct}
    name, below = path[0], path[1:]
    if below:
        inner = fields[name].dataType if name in fields else StructType([])
        assert isinstance(inner, StructType)
        kind = _with_path(inner, below, kind)
    fields[name] = StructField(name, kind)
    return StructType(list(fields.values()))
