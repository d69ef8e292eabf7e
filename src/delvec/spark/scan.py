"""A ``ScanPlan`` as a DataFrame: native Parquet scans, with deleted rows left out in the plan.

    files without a vector      a scan, and nothing else
    few files with vectors      the scan, filtered by an array that has a bit for every row (`words.py`),
                                where they are small or most of their chunks lost rows
    files with a vector         the scan, anti-joined to the broadcast chunks of their vectors (`vectors.py`):
                                a row whose bit is set there is left out

Files are told apart by a number: the CRC-32 of the file's name. Spark computes that for a few nanoseconds a
row, Python the same. Where names repeat, the path takes the name's place. Files whose numbers are not unique
in their scan even so are read by another one, which tells them apart by the path itself. Each of these costs
more than the one before. No row goes through Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, LongType, StringType, StructField, StructType

from delvec.chunked import Mask
from delvec.deletes.applied import verify_applied
from delvec.deletes.loader import load_vectors
from delvec.field_names import schemas_by_id
from delvec.plan import ReadSchema, ScanPlan
from delvec.schema import Field, Primitive, Schema
from delvec.spark import load_on_executors
from delvec.spark.file_paths import (
    METADATA,
    ROW_INDEX,
    FileReader,
    file_path,
    number_of,
    numbers,
    shown_alike,
    sql_text,
)
from delvec.spark.partition_folders import in_folder_names
from delvec.spark.scan_part import (
    PlaceNames,
    ScanPart,
    deleted_rows,
    lost_row,
    no_position,
    united,
    unknown_file,
)
from delvec.spark.text_lengths import as_read
from delvec.spark.types import (
    column_metadata,
    has_spark_type,
    logical,
    no_spark_type,
    quoted,
    selected,
    spark_field,
    spark_type,
)
from delvec.spark.vector_filter import Words, gathered, is_live
from delvec.spark.vector_join import VectorFiles, chunk_estimate, chunks_of
from delvec.storage import Storage

DRIVER_CHUNK_BYTES = 64 << 20
"""Vectors whose chunks may take more than this are loaded and expanded on the executors."""

BROADCAST_CHUNK_BYTES = 1 << 30
"""Above this, chunks are not broadcast: Spark joins as it sees fit."""

_FILE, _ROW, _INDEX, _TOLD, _HIDDEN = "file", "row", "index", "told", "hidden"
_KEY, _WORDS = "key", "words"
# Which nothing encodes in a path, and Spark shows as they are.
_PLAIN_NAME = re.compile(r"[\w.=-]+", re.ASCII)
_PATH, _KNOWN, _NUMBER, _VALUES = "path", "known", "number", "values"


def scan(spark: SparkSession, plan: ScanPlan, storage: Storage) -> DataFrame:
    """The live rows of the plan's files, under the table's columns. The plan's condition is not applied."""
    frames = [group.frame() for group in _group_scans(spark, plan, storage)]
    return united(frames) if frames else spark.createDataFrame([], logical(plan.schema))


def scan_parts(spark: SparkSession, plan: ScanPlan, storage: Storage) -> list[ScanPart]:
    """The rows of the plan's files with their places, named by ``place_columns``: a part for each scan.

    A plan without files has one part, without rows.
    """
    parts = [group.part() for group in _group_scans(spark, plan, storage)]
    if parts:
        return parts
    names = _place_names(plan.schema)
    schema = logical(plan.schema).add(names.path, StringType()).add(names.row, LongType())
    return [ScanPart(spark.createDataFrame([], schema), names)]


def _group_scans(spark: SparkSession, plan: ScanPlan, storage: Storage) -> Iterator[_GroupScan]:
    verify_applied(plan)
    reader = FileReader(spark, storage)
    for group in _groups(plan, storage):
        yield _GroupScan(spark, storage, reader, plan, group)


def place_columns(schema: Schema) -> tuple[str, str]:
    """The names of a located scan's two columns: the file's path as Spark shows it (`files.file_path`), and
    the row's position in the file.
    """
    prefix = own_prefix(schema)
    return prefix + _FILE, prefix + _ROW


def _place_names(schema: Schema) -> PlaceNames:
    prefix = own_prefix(schema)
    return PlaceNames(*place_columns(schema), prefix + _NUMBER, prefix + _INDEX)


def own_prefix(schema: Schema, *others: str) -> str:
    """What no column's name begins with, as users or files have it, and none of ``others``."""
    names = (*others, *(name for field in schema for name in (field.name, field.physical_name)))
    prefix, taken = "__delvec_", [name.lower() for name in names]
    while any(other.startswith(prefix) for other in taken):
        prefix += "_"
    return prefix


class _Apart(Enum):
    """How a scan tells its files apart: by a number made of their names or paths, or by the paths."""

    BY_NAME = "name"
    BY_PATH = "path"
    BY_TABLE = "table"


@dataclass(frozen=True, slots=True)
class _Group:
    """Files that one scan reads: of one shape, and alike in how values and vectors reach their rows."""

    files: pa.Table
    schema: Schema  # with the names that these files hold
    constants: tuple[Field, ...]
    values_in_folders: bool
    vectors: bool  # whether all files have one, or none has
    apart: _Apart = _Apart.BY_PATH

    @property
    def names(self) -> list[str]:
        """The files' own, without their folders."""
        return [place.rpartition("/")[2] for place in self.files.column("location").to_pylist()]

    @property
    def values_by_file(self) -> bool:
        return bool(self.constants) and not self.values_in_folders

    @property
    def hides_metadata(self) -> bool:
        """Whether a column of the files has the name of Spark's hidden one."""
        return METADATA in (field.physical_name.lower() for field in self.schema)

    @property
    def tells_files_apart(self) -> bool:
        return self.vectors or self.values_by_file


def _groups(plan: ScanPlan, storage: Storage) -> Iterator[_Group]:
    vectored = pc.is_valid(plan.files.column("vector")).to_numpy()
    for schema, constants, here in _shapes(plan, storage):
        in_folders = in_folder_names(plan, constants)
        for native, vectors in product((True, False), (False, True)):
            rows = np.flatnonzero(here & (in_folders == native) & (vectored == vectors))
            files = plan.files.take(pa.array(rows))
            if len(files):
                yield from _by_number(_Group(files, schema, constants, native, vectors))


def _by_number(group: _Group) -> Iterator[_Group]:
    """The group, its files with their numbers where it needs them; in two where these are not unique."""
    if not group.tells_files_apart:
        yield group
        return
    names = group.names
    of_names = numbers(names)
    if _has_plain_names(group, names) and len(np.unique(of_names)) == len(names):
        files = group.files.append_column(_NUMBER, pa.array(of_names))
        yield replace(group, files=files, apart=_Apart.BY_NAME)
        return
    of_paths = numbers(map(file_path, group.files.column("location").to_pylist()))
    files = group.files.append_column(_NUMBER, pa.array(of_paths))
    first = np.zeros(len(names), dtype=bool)
    first[np.unique(of_paths, return_index=True)[1]] = True
    for apart, here in ((_Apart.BY_PATH, first), (_Apart.BY_TABLE, ~first)):
        if here.any():
            yield replace(group, files=files.filter(pa.array(here)), apart=apart)


def _has_plain_names(group: _Group, names: Sequence[str]) -> bool:
    """Whether Spark shows the files' names as they are, by the field that it has for them."""
    return not group.hides_metadata and all(map(_PLAIN_NAME.fullmatch, names))


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


def _constants(read_schema: ReadSchema) -> tuple[Field, ...]:
    by_name = {field.name: field for field in read_schema.schema}
    return tuple(by_name[name] for name in read_schema.constants)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a scan shows of a row, as expressions.

    path   of its file
    file   what tells its file apart from the others: its name, or its path
    told   what errors call the file
    """

    path: str
    file: str
    told: str

    @property
    def row(self) -> str:
        """Its position in the file."""
        return f"coalesce({ROW_INDEX}, CAST({no_position(self.told)} AS BIGINT))"

    @property
    def unknown(self) -> str:
        """What it comes to where its file is none of the plan's."""
        return unknown_file(self.told)

    @property
    def lost(self) -> str:
        """What it comes to where its file or its position is not known."""
        return lost_row(ROW_INDEX, self.told)


@dataclass(frozen=True, slots=True)
class _GroupScan:
    spark: SparkSession
    storage: Storage
    reader: FileReader
    plan: ScanPlan
    group: _Group

    def frame(self) -> DataFrame:
        """The live rows."""
        group = self.group
        read = self._read()
        frame, shown = self._shown(read, located=False)
        if group.tells_files_apart:
            apart = self._apart(read)
            vectors = self._vectors(apart) if group.vectors else None
            if isinstance(vectors, Words):
                number = number_of(shown.file)
                live = is_live(self.spark, vectors, number=number, row=ROW_INDEX, lost=shown.lost)
                frame = frame.where(live)
            if isinstance(vectors, DataFrame) or group.values_by_file:
                frame = self._with_files(frame, shown, apart, located=False)
            if isinstance(vectors, DataFrame):
                deleted = deleted_rows(self._own(_NUMBER), self._own(_ROW), *vectors.columns)
                frame = frame.join(vectors, F.expr(deleted), "left_anti")
        return selected(frame, [self._column(field) for field in group.schema])

    def part(self) -> ScanPart:
        """The rows with their places, deleted ones too, and the vectors."""
        group = self.group
        read = self._read()
        frame, shown = self._shown(read, located=True)
        names = _place_names(self.plan.schema)
        places, vectors = [f"{shown.path} AS {names.path}", f"{shown.row} AS {names.row}"], None
        number = f"{number_of(shown.file)} AS {names.number}"
        if group.tells_files_apart:
            apart = self._apart(read)
            vectors = self._vectors(apart) if group.vectors else None
            if isinstance(vectors, DataFrame) or group.values_by_file:
                frame = self._with_files(frame, shown, apart, located=True)
                places, number = [names.path, names.row], names.number
        if vectors is not None:
            places += [number, f"{ROW_INDEX} AS {names.index}"]
        columns = [*(self._column(field) for field in group.schema), *places]
        return ScanPart(selected(frame, columns), names, vectors)

    def _apart(self, read: DataFrame) -> _Apart:
        apart = self.group.apart
        if apart is _Apart.BY_PATH and not shown_alike(read, self._paths()):
            return _Apart.BY_TABLE
        return apart

    def _column(self, field: Field) -> str | Column:
        """The table's column, by its own name and type."""
        constants = {constant.name: constant for constant in self.group.constants}
        if field.type == Primitive("void"):
            return _noted(F.lit(None), field)
        if not has_spark_type(field.type):
            # The error is raised only if the query needs the column: Spark drops unused expressions.
            failure = F.raise_error(F.lit(no_spark_type(field)))
            return _noted(failure.cast(spark_type(field.type, comments=True)), field)
        if self.group.values_by_file and field.name in constants:
            return self._constant(f"{self._own(_VALUES)}.{quoted(field.name)}", field)
        stored = constants.get(field.name, field)
        held, named = quoted(stored.physical_name), spark_type(stored.type, comments=True)
        if named != spark_type(stored.type, physical=True, comments=True):
            return _noted(F.col(held).cast(named), stored)
        if field.name in constants:
            return self._constant(held, field)
        return f"{held} AS {quoted(field.name)}"

    def _constant(self, held: str, field: Field) -> str | Column:
        """The partition column. Of these Spark keeps no metadata, by which it pads other columns itself."""
        if not column_metadata(field):
            return f"{held} AS {quoted(field.name)}"
        return _noted(as_read(self.spark, F.col(held), field.type), field)

    def _paths(self) -> list[str]:
        return list(map(file_path, self.group.files.column("location").to_pylist()))

    def _own(self, name: str) -> str:
        """The name of a column that only this scan sees: no column of the files has it."""
        return own_prefix(self.plan.schema) + name

    def _read(self) -> DataFrame:
        group = self.group
        names = {field.name for field in group.constants}
        stored = [f for f in group.schema if f.name not in names and _is_read(f)]
        native = group.constants if group.values_in_folders else ()
        fields = [spark_field(f, physical=True) for f in (*stored, *native)]
        # Also where no one asks for it: then Spark reads nothing, and scans of one folder are of one listing.
        fields.insert(len(stored), StructField(ROW_INDEX, LongType()))
        locations = group.files.column("location").to_pylist()
        rows = pc.sum(group.files.column("record_count")).as_py() or 0
        return self.reader.read(locations, StructType(fields), rows=rows, by_folder_names=bool(native))

    def _shown(self, frame: DataFrame, *, located: bool) -> tuple[DataFrame, _Shown]:
        """The frame, and how it shows where a row is."""
        path = f"{METADATA}.file_path"
        if self.group.hides_metadata:
            path = self._own(_HIDDEN)
            frame = frame.select("*", frame.metadataColumn(METADATA)["file_path"].alias(path))
        if not (self.group.tells_files_apart and self.group.apart is _Apart.BY_NAME):
            return frame, _Shown(path, path, path)
        name = f"{METADATA}.file_name"
        if len(self.group.files) == 1:  # known: Spark would make a struct of it for every row
            name = sql_text(self.group.names[0])
        # Spark fails where a path is asked for, then not used, and a position is: so errors name it.
        told = path if located else f"concat({sql_text(self.storage.root)}, ': ', {name})"
        return frame, _Shown(path, name, told)

    def _with_files(self, frame: DataFrame, shown: _Shown, apart: _Apart, *, located: bool) -> DataFrame:
        """The frame with each row's position and its file's number, and partition values where folders do not
        have them; as columns, since PySpark 4.0 cannot join by hidden ones. ``located``: with its path too.

        A file that is none of the plan's is an error: Spark and delvec must mean the same file by a path.
        """
        path, row = place_columns(self.plan.schema)
        number, told, by_path = self._own(_NUMBER), self._own(_TOLD), apart is _Apart.BY_TABLE
        joined = by_path or self.group.values_by_file
        columns = {row: shown.row}
        if located or by_path:
            columns[path] = shown.path
        if not by_path:
            columns[number] = number_of(shown.file)
        if joined:
            columns[told] = shown.told
        frame = frame.selectExpr("*", *(f"{held} AS {name}" for name, held in columns.items()))
        if not joined:
            return frame
        table = F.broadcast(self._file_table(by_path=by_path))
        frame = frame.join(table, F.expr(f"{path if by_path else number} = {self._own(_PATH)}"), "left")
        unknown = replace(shown, told=told).unknown
        return frame.where(f"CASE WHEN {self._own(_KNOWN)} THEN true ELSE CAST({unknown} AS BOOLEAN) END")

    def _file_table(self, *, by_path: bool) -> DataFrame:
        """One row for each file: what identifies it, that it is known, its number or its values."""
        files = self.group.files
        columns = {_PATH: files.column(_NUMBER), _KNOWN: pa.array([True] * len(files))}
        kinds: dict[str, DataType] = {_PATH: StringType() if by_path else LongType(), _KNOWN: BooleanType()}
        if by_path:
            columns[_PATH] = pa.array(self._paths())
            columns[_NUMBER], kinds[_NUMBER] = pa.array(np.arange(len(files))), LongType()
        if self.group.values_by_file:
            columns[_VALUES] = files.column("partition").combine_chunks()
            kinds[_VALUES] = StructType([spark_field(f) for f in self.group.constants])
        schema = StructType([StructField(self._own(name), kind) for name, kind in kinds.items()])
        named = {self._own(name): column for name, column in columns.items()}
        return self.spark.createDataFrame(pa.table(named), schema)

    def _vectors(self, apart: _Apart) -> Words | DataFrame:
        """The vectors of the group's files: as words, or as the chunks that a scan is joined to."""
        files, by_path = self.group.files, apart is _Apart.BY_TABLE
        own = np.arange(len(files)) if by_path else files.column(_NUMBER).to_numpy()
        vectors = VectorFiles.of(files, self.plan.deletes, own)
        size = chunk_estimate(vectors)
        if size > DRIVER_CHUNK_BYTES:
            chunks = load_on_executors.load_chunks(self.spark, self.storage, vectors)
        else:
            loaded = load_vectors(self.storage, vectors.deletes)
            words = None if by_path else gathered([loaded[row] for row in range(len(files))], own)
            if words is not None:
                return words
            chunks = self.spark.createDataFrame(chunks_of(loaded, vectors))
        chunks = chunks.toDF(self._own(_KEY), self._own(_WORDS))
        return F.broadcast(chunks) if size <= BROADCAST_CHUNK_BYTES else chunks


def _is_read(field: Field) -> bool:
    """Whether Spark reads the column from files."""
    return field.type != Primitive("void") and has_spark_type(field.type)


def _noted(column: Column, field: Field) -> Column:
    """The column under the field's name, with its comment and declared type."""
    return column.alias(field.name, metadata=column_metadata(field))
