"""A ``ScanPlan`` as a DataFrame: native Parquet scans, with deleted rows left out by a join in the plan.

    files without a vector      a scan, and nothing else
    files with a vector         the scan, left-joined to the broadcast chunks of their vectors (`vectors.py`):
                                a row whose bit is set there is left out

The join's key is made of numbers that the scan has anyway. A file's size identifies it where no other file of
the same scan has that size: large files of one size are read by several scans. Other files are told apart by
their path, which costs more. No row goes through Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documentation has it
from pyspark.sql.types import LongType, StringType, StructField, StructType

from delvec.chunked import Mask, Rows
from delvec.plan import ReadSchema, ScanPlan
from delvec.schema import Field, Primitive, Schema
from delvec.spark import distributed
from delvec.spark.files import METADATA, StoredFiles, file_path, read_parquet, verify_sizes
from delvec.spark.footers import schemas_by_id
from delvec.spark.partitions import in_folder_names
from delvec.spark.types import logical, quoted, spark_type
from delvec.spark.vectors import CHUNK_BITS, VectorFiles, chunk_estimate, load_chunks
from delvec.storage import Storage

DRIVER_CHUNK_BYTES = 64 << 20
"""Vectors whose chunks may take more than this are loaded and expanded on the executors."""

BROADCAST_CHUNK_BYTES = 1 << 30
"""Above this, chunks are not broadcast: Spark joins as it sees fit."""

# A key by size has 39 bits for the size and 24 for the chunk, one by path 23 and 40.
_SIZE_CHUNK_BITS, _PATH_CHUNK_BITS = 24, 40
_LARGEST_SIZE = 1 << (63 - _SIZE_CHUNK_BITS)
_MOST_ROWS = 1 << (_SIZE_CHUNK_BITS + CHUNK_BITS)

_KEY, _WORDS, _PATH, _NUMBER, _VALUES = "key", "words", "path", "number", "values"
_FILE, _ROW, _SIZE = "file", "row", "size"
_BY_SIZE, _BY_PATH = "size", "path"

# Files of equal size are read by several scans, at most so many, each of at least so many bytes.
_NO_LAYER, _MOST_LAYERS, _LAYER_BYTES = -1, 16, 32 << 20


def scan(spark: SparkSession, plan: ScanPlan, storage: Storage, *, located: bool = False) -> DataFrame:
    """The live rows of the plan's files, under the table's columns. The plan's condition is not applied.

    ``located``: two columns follow that say where each row is, named by ``place_columns``.
    """
    found: DataFrame | None = None
    stored = StoredFiles(storage)
    for group in _groups(plan, storage):
        part = _GroupScan(spark, stored, plan, group).frame(located=located)
        found = part if found is None else found.union(part)
    if found is not None:
        return found
    schema = logical(plan.schema)
    if located:
        path, row = place_columns(plan.schema)
        schema = schema.add(path, StringType()).add(row, LongType())
    return spark.createDataFrame([], schema)


def place_columns(schema: Schema) -> tuple[str, str]:
    """The names of a located scan's two columns: the file's path as Spark shows it (`files.file_path`), and
    the row's position in the file.
    """
    prefix = own_prefix(schema)
    return prefix + _FILE, prefix + _ROW


def own_prefix(schema: Schema) -> str:
    """What no column's name begins with, as users or files have it."""
    prefix, taken = "__delvec_", [name.lower() for f in schema for name in (f.name, f.physical_name)]
    while any(other.startswith(prefix) for other in taken):
        prefix += "_"
    return prefix


@dataclass(frozen=True, slots=True)
class _Group:
    """Files that one scan reads: of one shape, and alike in how values and vectors reach their rows."""

    files: pa.Table
    schema: Schema  # with the names that these files hold
    constants: tuple[Field, ...]
    values_in_folders: bool
    vectors_by: str | None  # None: no file of the group has a vector


def _groups(plan: ScanPlan, storage: Storage) -> Iterator[_Group]:
    files = plan.files
    vectored = pc.is_valid(files.column("vector")).to_numpy()
    layers = _size_layers(files, vectored)
    ways = [(None, ~vectored), (_BY_PATH, vectored & (layers == _NO_LAYER))]
    ways += [(_BY_SIZE, layers == layer) for layer in range(layers.max(initial=_NO_LAYER) + 1)]
    for schema, constants, here in _shapes(plan, storage):
        in_folders = in_folder_names(plan, constants)
        for native in (True, False):
            for way, chosen in ways:
                rows = np.flatnonzero(here & (in_folders == native) & chosen)
                if len(rows):
                    yield _Group(files.take(pa.array(rows)), schema, constants, native, way)


def _shapes(plan: ScanPlan, storage: Storage) -> Iterator[tuple[Schema, tuple[Field, ...], Mask]]:
    """The distinct ways in which files hold the columns, and which files do so."""
    shapes = plan.files.column("read_schema").to_numpy()
    for number, read_schema in enumerate(plan.read_schemas):
        here = shapes == number
        constants = _constants(read_schema)
        if not read_schema.by_id:
            yield read_schema.schema, constants, here
            continue
        rows = np.flatnonzero(here)
        places = plan.files.column("location").take(pa.array(rows)).to_pylist()
        found: dict[Schema, list[int]] = {}
        for row, schema in zip(rows, schemas_by_id(storage, places, read_schema.schema), strict=True):
            found.setdefault(schema, []).append(int(row))
        for schema, members in found.items():
            yield schema, constants, np.isin(np.arange(len(shapes)), members)


def _size_layers(files: pa.Table, vectored: Mask) -> Rows:
    """For each file with a vector the scan in which its size is a key, or ``_NO_LAYER``.

    The n-th file of a size goes to scan n, so that each scan has a size once. A further scan costs the driver
    some planning: it must have enough to read.
    """
    sizes = files.column("size").to_numpy()
    records = pc.fill_null(files.column("record_count"), _MOST_ROWS).to_numpy()
    rows = np.flatnonzero(vectored & (sizes < _LARGEST_SIZE) & (records < _MOST_ROWS))
    rows = rows[np.argsort(sizes[rows], kind="stable")]
    _, first, back, counts = np.unique(
        sizes[rows], return_index=True, return_inverse=True, return_counts=True
    )
    layer = np.arange(len(rows)) - first[back]
    read = np.bincount(layer, sizes[rows], minlength=2)
    worth = (read >= _LAYER_BYTES) & (np.arange(len(read)) < _MOST_LAYERS)
    # Where a second scan is not worth it, files that share a size all go by path: one scan the less.
    keyed = np.where(counts[back] == 1, True, worth[layer] & worth[1])  # noqa: FBT003
    layers = np.full(len(sizes), _NO_LAYER, np.int64)
    layers[rows] = np.where(keyed, layer, _NO_LAYER)
    return layers


def _constants(read_schema: ReadSchema) -> tuple[Field, ...]:
    by_name = {field.name: field for field in read_schema.schema}
    return tuple(by_name[name] for name in read_schema.constants)


@dataclass(frozen=True, slots=True)
class _GroupScan:
    spark: SparkSession
    stored: StoredFiles
    plan: ScanPlan
    group: _Group

    def frame(self, *, located: bool) -> DataFrame:
        group = self.group
        frame = self._read()
        by_path = bool(group.constants) and not group.values_in_folders
        if by_path or group.vectors_by is not None or located:
            frame = self._with_places(frame)
        if by_path or group.vectors_by == _BY_PATH:
            frame = self._with_files_by_path(frame, with_values=by_path)
        if group.vectors_by is not None:
            frame = self._without_deleted(frame)
        constants = {field.name: field for field in group.constants}
        columns = [
            F.col(self._own(_VALUES))[field.name]
            if by_path and field.name in constants
            else _logical(frame, constants.get(field.name, field))
            for field in group.schema
        ]
        named = [column.alias(field.name) for column, field in zip(columns, group.schema, strict=True)]
        if located:
            named += [F.col(name) for name in place_columns(self.plan.schema)]
        return frame.select(*named)

    def _own(self, name: str) -> str:
        """The name of a column that only this scan sees: no column of the files has it."""
        return own_prefix(self.plan.schema) + name

    def _read(self) -> DataFrame:
        group = self.group
        names = {field.name for field in group.constants}
        stored = [f for f in group.schema if f.name not in names and f.type != Primitive("void")]
        native = group.constants if group.values_in_folders else ()
        fields = [StructField(f.physical_name, spark_type(f.type, physical=True)) for f in (*stored, *native)]
        locations = group.files.column("location").to_pylist()
        rows = pc.sum(group.files.column("record_count")).as_py() or 0
        return read_parquet(
            self.spark, self.stored, locations, StructType(fields), rows=rows, by_folder_names=bool(native)
        )

    def _with_places(self, frame: DataFrame) -> DataFrame:
        """The frame with its rows' places as columns: PySpark 4.0 cannot join by hidden ones."""
        metadata = frame.metadataColumn(METADATA)
        hidden = {_FILE: "file_path", _ROW: "row_index", _SIZE: "file_size"}
        return frame.select("*", *(metadata[name].alias(self._own(own)) for own, name in hidden.items()))

    def _with_files_by_path(self, frame: DataFrame, *, with_values: bool) -> DataFrame:
        """The frame with each row's file number, and partition values.

        A path that is none of the plan's is an error: Spark and delvec must mean the same file by it.
        """
        files = self.group.files
        named, number = self._own(_PATH), self._own(_NUMBER)
        columns = {
            named: pa.array([file_path(place) for place in files.column("location").to_pylist()]),
            number: pa.array(np.arange(len(files)), pa.int64()),
        }
        fields = [StructField(named, StringType()), StructField(number, LongType())]
        if with_values:
            columns[self._own(_VALUES)] = files.column("partition").combine_chunks()
            values = StructType([StructField(f.name, spark_type(f.type)) for f in self.group.constants])
            fields.append(StructField(self._own(_VALUES), values))
        table = F.broadcast(self.spark.createDataFrame(pa.table(columns), StructType(fields)))
        path = F.col(self._own(_FILE))
        unknown = F.raise_error(F.concat(F.lit("a scan met a file that is not in its plan: "), path))
        known = F.when(F.col(number).isNotNull(), F.lit(True)).otherwise(unknown.cast("boolean"))  # noqa: FBT003
        return frame.join(table, path == table[named], "left").where(known)

    def _without_deleted(self, frame: DataFrame) -> DataFrame:
        files, row = self.group.files, F.col(self._own(_ROW))
        if self.group.vectors_by == _BY_SIZE:
            verify_sizes(self.stored, files.column("location").to_pylist(), files.column("size").to_pylist())
            bits, number = _SIZE_CHUNK_BITS, F.col(self._own(_SIZE))
            numbers = files.column("size").to_numpy()
        else:
            bits, number, numbers = _PATH_CHUNK_BITS, F.col(self._own(_NUMBER)), np.arange(len(files))
        chunks = self._chunks(VectorFiles.of(files, self.plan.deletes, numbers, bits))
        key, words = _chunk_key(number, row, bits), F.col(self._own(_WORDS))
        kept = words.isNull() | ~_is_deleted(words, row)
        return frame.join(chunks, key == chunks[self._own(_KEY)], "left").where(kept)

    def _chunks(self, vectors: VectorFiles) -> DataFrame:
        size = chunk_estimate(vectors)
        if size <= DRIVER_CHUNK_BYTES:
            found = self.spark.createDataFrame(load_chunks(self.stored.storage, vectors))
        else:
            found = distributed.load_chunks(self.spark, self.stored.storage, vectors)
        found = found.toDF(self._own(_KEY), self._own(_WORDS))
        return F.broadcast(found) if size <= BROADCAST_CHUNK_BYTES else found


def _chunk_key(number: Column, row: Column, bits: int) -> Column:
    return F.shiftleft(number, bits).bitwiseOR(F.shiftright(row, CHUNK_BITS))


def _is_deleted(words: Column, row: Column) -> Column:
    word = words[F.shiftright(row, 6).bitwiseAND(63).cast("int")]
    return F.getbit(word, row.bitwiseAND(63).cast("int")) == 1


def _logical(frame: DataFrame, field: Field) -> Column:
    """The field's column under its types' own names."""
    if field.type == Primitive("void"):
        return F.lit(None)
    column = frame[quoted(field.physical_name)]
    named = spark_type(field.type)
    return column if named == spark_type(field.type, physical=True) else column.cast(named)
