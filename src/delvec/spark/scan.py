"""A ``ScanPlan`` as a DataFrame: native Parquet scans whose plan filters out deleted rows.

    files without deletes    a plain scan
    deletes by position      the scan with a filter on an array of bits (`vector_words`), for a few files
                             whose deleted rows are dense; otherwise the scan anti-joined to a table of bits
                             (`vector_chunks`)
    deletes by value         the scan anti-joined to a table of keys, or of bits (`equality_join`)

Each group of files (`file_groups`) is one scan. No row is passed through Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, LongType, StringType, StructField, StructType

from delvec.bitmap import Bitmap
from delvec.chunked import Rows
from delvec.deletes.equality import KeyColumn
from delvec.deletes.equality_set import EqualityDeleteSet
from delvec.deletes.loader import DeleteLoader
from delvec.partition_spec import PartitionSpec, column_values
from delvec.plan import ScanPlan
from delvec.predicate import Condition
from delvec.schema import Field, Primitive, Schema
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.equality_join import (
    KeyedJoin,
    LayerJoin,
    by_file,
    layer_joins,
    load_equality,
    only_left_out,
)
from delvec.spark.file_groups import NUMBER, FileGroup, FileKey, file_groups, verify_listed_once
from delvec.spark.file_paths import METADATA, ROW_INDEX, FileReader, number_of, shown_alike, sql_text
from delvec.spark.first_deletes import (
    FirstDeleteJoin,
    first_delete_joins,
    only_with_first_delete,
    with_first_delete,
)
from delvec.spark.kept_rows import NO_COLUMNS, FurtherColumns, Keeps
from delvec.spark.load_on_executors import load_chunks
from delvec.spark.name_case import verify_case
from delvec.spark.scan_part import (
    BARRIER,
    PlaceNames,
    ScanPart,
    deleted_rows,
    lost_row,
    no_position,
    united,
    unknown_file,
)
from delvec.spark.stored_values import is_cast, raw_type, read_field, stored_value, table_value
from delvec.spark.text_lengths import as_read
from delvec.spark.types import (
    column_metadata,
    is_readable,
    logical,
    no_spark_type,
    quoted,
    selected,
    spark_field,
    spark_type,
)
from delvec.spark.vector_chunks import chunk_estimate, chunks_of, first_chunk_keys
from delvec.spark.vector_words import Words, is_live, words_of
from delvec.storage import Storage

DRIVER_CHUNK_BYTES = 64 << 20
"""Delete sets whose chunks may be larger than this are loaded and expanded on the executors."""

BROADCAST_CHUNK_BYTES = 1 << 30
"""Larger chunks are not broadcast: Spark chooses the join."""

# Columns that only the scan uses. Their prefix is one that no column of the table has.
_FILE, _ROW, _INDEX, _LABEL, _HIDDEN_PATH = "file", "row", "index", "label", "hidden"
_KEY, _WORDS, _EQUALITY, _DELETED_BY = "key", "words", "equal_", "deleted_by"
_PATH, _KNOWN, _VALUES = "path", "known", "values"


def scan(
    spark: SparkSession,
    plan: ScanPlan,
    storage: Storage,
    loader: DeleteLoader | None = None,
    further: FurtherColumns = NO_COLUMNS,
    *,
    condition: Condition | None = None,
) -> DataFrame:
    """The live rows of the plan's files, with the table's columns. The plan's condition is not applied.

    ``loader`` is one that has loaded deletes of the table before. ``further``: only a position; the plan must
    then have files. ``condition``: what the caller applies to the rows. Deleted rows for which it is not true
    may be among them.
    """
    groups = _group_scans(spark, plan, storage, loader, further=further, condition=condition)
    frames = [group.frame() for group in groups]
    return united(frames) if frames else spark.createDataFrame([], logical(plan.schema))


def scan_parts(
    spark: SparkSession, plan: ScanPlan, storage: Storage, loader: DeleteLoader | None = None
) -> list[ScanPart]:
    """The rows of the plan's files with their places, in the columns ``place_columns``: a part for each scan.

    A plan without files has one part, without rows. One that lists a file twice is refused.
    """
    verify_listed_once(plan)
    parts = [group.part() for group in _group_scans(spark, plan, storage, loader)]
    if parts:
        return parts
    names = _place_names(plan.schema)
    schema = logical(plan.schema).add(names.path, StringType()).add(names.row, LongType())
    return [ScanPart(spark.createDataFrame([], schema), names)]


def scan_kept(
    spark: SparkSession,
    plan: ScanPlan,
    storage: Storage,
    loader: DeleteLoader,
    keeps: Keeps,
    *,
    further: FurtherColumns = NO_COLUMNS,
) -> list[DataFrame]:
    """The rows of the plan's files that ``keeps`` selects, with its further columns: a frame for each scan.

    The plan's files must have no deletes by position, and deletes by value only if ``further`` asks for them.
    """
    groups = _group_scans(spark, plan, storage, loader, further=further, keyed=True)
    return [frame for group in groups if (frame := group.kept(keeps)) is not None]


def scan_deleted_by_value(
    spark: SparkSession, plan: ScanPlan, loader: DeleteLoader, further: FurtherColumns
) -> list[DataFrame]:
    """The rows of the plan's files that are not deleted by position but by value: a frame for each scan.

    ``further`` must ask for the delete.
    """
    groups = _group_scans(spark, plan, loader.storage, loader, further=further)
    return [group.deleted_by_value() for group in groups if group.group.equality is not None]


def places_deleted_by_value(
    spark: SparkSession, plan: ScanPlan, storage: Storage, loader: DeleteLoader
) -> list[DataFrame]:
    """The places of the rows that deletes by value delete, in the columns ``place_columns``: a frame for each
    scan. Rows that are also deleted by position are among them. A plan that lists a file twice is refused.
    """
    verify_listed_once(plan)
    groups = _group_scans(spark, plan, storage, loader)
    return [group.places_deleted_by_value() for group in groups if group.group.equality is not None]


def _group_scans(
    spark: SparkSession,
    plan: ScanPlan,
    storage: Storage,
    loader: DeleteLoader | None,
    *,
    further: FurtherColumns = NO_COLUMNS,
    keyed: bool = False,
    condition: Condition | None = None,
) -> Iterator[_GroupScan]:
    verify_case(spark, plan.schema, plan.location)
    reader, loader = FileReader(spark, storage), loader or DeleteLoader(storage)
    every = further.deleted_by is not None
    equality = load_equality(spark, plan, reader, loader, every=every, condition=condition)
    for group in file_groups(plan, storage, equality.deletes, keyed=keyed):
        yield _GroupScan(spark, reader, loader, plan.schema, plan.specs, group, equality.keys, further)


def place_columns(schema: Schema) -> tuple[str, str]:
    """The names of the two columns that say where a row is: the path of its file as Spark returns it
    (`file_paths.file_path`), and its position in the file.
    """
    prefix = own_prefix(schema)
    return prefix + _FILE, prefix + _ROW


def _place_names(schema: Schema) -> PlaceNames:
    prefix = own_prefix(schema)
    return PlaceNames(*place_columns(schema), prefix + NUMBER, prefix + _INDEX)


def own_prefix(schema: Schema, *others: str) -> str:
    """A prefix that no column name starts with: no logical or physical name, and none of ``others``."""
    names = (*others, *(name for field in schema for name in (field.name, field.physical_name)))
    prefix, used = "__delvec_", [name.lower() for name in names]
    while any(other.startswith(prefix) for other in used):
        prefix += "_"
    return prefix


@dataclass(frozen=True, slots=True)
class _RowPlace:
    """Expressions for the place of a row.

    path   the path of its file
    file   the text that the file's number is computed from: its name or its path
    label  the file in error messages
    """

    path: str
    file: str
    label: str

    @property
    def row(self) -> str:
        """The position in the file; an error if Spark does not provide it."""
        return f"coalesce({ROW_INDEX}, CAST({no_position(self.label)} AS BIGINT))"

    @property
    def unknown(self) -> str:
        """Raises the error for a file that is not in the plan."""
        return unknown_file(self.label)

    @property
    def lost(self) -> str:
        """Raises the error for a row whose file or position is not known."""
        return lost_row(ROW_INDEX, self.label)


@dataclass(frozen=True, slots=True)
class _GroupScan:
    spark: SparkSession
    reader: FileReader
    loader: DeleteLoader
    table_schema: Schema
    specs: Mapping[int, PartitionSpec]
    group: FileGroup
    equality_keys: Sequence[EqualityDeleteSet | DataFrame]
    further: FurtherColumns = NO_COLUMNS

    def frame(self) -> DataFrame:
        """The live rows."""
        joins = self._equality_joins()
        frame = self._without_positions(joins)
        return selected(self._without_equal_rows(frame, joins), [*self._columns(), *self._position()])

    def deleted_by_value(self) -> DataFrame:
        """The rows that are not deleted by position but by value."""
        joins, name = self._first_delete_joins(), self._own(_DELETED_BY)
        frame = self._with_keys(self._without_positions(joins), joins)
        frame = only_with_first_delete(frame, joins, name)
        deleted_by = f"{name} AS {self.further.deleted_by}"
        return selected(frame, [*self._columns(), deleted_by, *self._position()])

    def places_deleted_by_value(self) -> DataFrame:
        """The places of the rows that are deleted by value, whether they are deleted by position or not."""
        joins, files = self._equality_joins(), self._read()
        frame, place = self._with_place(files, located=True)
        frame = self._with_files(frame, place, self._file_key(files), located=True, joins=joins)
        return only_left_out(self._with_keys(frame, joins), joins).select(*place_columns(self.table_schema))

    def _without_positions(self, joins: Sequence[KeyedJoin]) -> DataFrame:
        """The rows that are not deleted by position, with what ``joins`` need to know about their files."""
        group = self.group
        files = self._read()
        frame, place = self._with_place(files, located=False)
        if group.needs_file_key:
            key = self._file_key(files)
            deleted = self._deleted(key)
            if isinstance(deleted, Words):
                number = number_of(place.file)
                frame = frame.where(
                    is_live(self.spark, deleted, number=number, row=ROW_INDEX, lost=place.lost)
                )
            if isinstance(deleted, DataFrame) or group.values_by_file or by_file(joins):
                frame = self._with_files(frame, place, key, located=False, joins=joins)
            if isinstance(deleted, DataFrame):
                condition = deleted_rows(self._own(NUMBER), self._own(_ROW), *deleted.columns)
                frame = frame.join(deleted, F.expr(condition), "left_anti")
        return frame

    def kept(self, keeps: Keeps) -> DataFrame | None:
        """The rows that ``keeps`` selects."""
        files = self._read()
        frame, place = self._with_place(files, located=False)
        key = self._file_key(files)
        kept = keeps(self.group.files, self._numbers(key), key is not FileKey.PATH)
        if kept is None:
            return None
        columns = self._columns()
        joins = self._first_delete_joins()
        match kept.rows:
            case Words() as words:
                number = number_of(place.file)
                is_other = is_live(self.spark, words, number=number, row=ROW_INDEX, lost=place.lost)
                frame = frame.where(~is_other)
                if self.group.values_by_file or by_file(joins):
                    frame = self._with_files(frame, place, key, located=False, joins=joins)
                columns += kept.columns
            case chunks:
                own = [self._own(name) for name in chunks.columns]
                condition = deleted_rows(self._own(NUMBER), self._own(_ROW), *own[:2])
                frame = self._with_files(frame, place, key, located=False, joins=joins)
                frame = frame.join(chunks.toDF(*own), F.expr(condition))
                columns += [F.col(name).alias(n) for name, n in zip(own[2:], chunks.columns[2:], strict=True)]
        if self.further.deleted_by is not None:
            frame, deleted_by = self._with_first_delete(frame, joins)
            columns.append(deleted_by.alias(self.further.deleted_by))
        return selected(frame, [*columns, *self._position()])

    def _with_first_delete(
        self, frame: DataFrame, joins: Sequence[FirstDeleteJoin]
    ) -> tuple[DataFrame, Column]:
        """The frame, and the sequence of each row's first delete by value in it."""
        if not joins:
            return frame, F.lit(None).cast("long")
        name = self._own(_DELETED_BY)
        return with_first_delete(self._with_keys(frame, joins), joins, name), F.col(name)

    def _position(self) -> list[str]:
        """The column with the position, if it is asked for: `_with_files` has computed it."""
        return [] if self.further.row is None else [f"{self._own(_ROW)} AS {self.further.row}"]

    def part(self) -> ScanPart:
        """All rows with their places, deleted rows included, and the data that identifies deleted rows."""
        group = self.group
        files = self._read()
        frame, place = self._with_place(files, located=True)
        names = _place_names(self.table_schema)
        places, deleted = [f"{place.path} AS {names.path}", f"{place.row} AS {names.row}"], None
        number = f"{number_of(place.file)} AS {names.number}"
        if group.needs_file_key:
            key, joins = self._file_key(files), self._equality_joins()
            deleted = self._deleted(key)
            if isinstance(deleted, DataFrame) or group.values_by_file or joins:
                frame = self._with_files(frame, place, key, located=True, joins=joins)
                places, number = [names.path, names.row], names.number
            if joins:  # first, because the conditions of a verb may raise an error for a deleted row
                frame = self._without_equal_rows(frame, joins).where(BARRIER)
        if deleted is not None:
            places += [number, f"{ROW_INDEX} AS {names.index}"]
        return ScanPart(selected(frame, [*self._columns(), *places]), names, deleted)

    def _equality_joins(self) -> list[LayerJoin]:
        """The joins that leave out rows that are deleted by value."""
        deletes = self.group.equality
        if deletes is None:
            return []
        return layer_joins(self.spark, deletes, self.equality_keys, self._own(_EQUALITY))

    def _first_delete_joins(self) -> list[FirstDeleteJoin]:
        """The joins that find the first delete by value, if it is asked for."""
        deletes = self.group.equality
        if deletes is None or self.further.deleted_by is None:
            return []
        return first_delete_joins(self.spark, deletes, self.equality_keys, self._own(_EQUALITY))

    def _without_equal_rows(self, frame: DataFrame, joins: Sequence[LayerJoin]) -> DataFrame:
        """The rows that are not deleted by value."""
        if not joins:
            return frame
        frame = self._with_keys(frame, joins)
        for join in joins:
            frame = join.left_out(frame)
        return frame

    def _with_keys(self, frame: DataFrame, joins: Sequence[KeyedJoin]) -> DataFrame:
        """The frame with the keys of its rows. `_with_files` has added the values of their files, except
        those that are the same for all files.
        """
        columns = [
            f"{self._key(column)} AS {name}"
            for join in joins
            for name, column in zip(join.key_names, join.columns, strict=True)
        ]
        if not by_file(joins):
            columns += [f"{int(v[0])}L AS {name}" for join in joins for name, v in join.file_values.items()]
        return frame.selectExpr("*", *columns)

    def _key(self, column: KeyColumn) -> str:
        """The value of a key column in the frame."""
        field = next(field for field in self.group.schema if field.name == column.path[0])
        if any(field.name == constant.name for constant in self.group.joined):
            return f"{self._own(_VALUES)}.{quoted(field.name)}"
        constant = next((c for c in self.group.constants if c.name == field.name), None)
        if constant is not None:
            return quoted(constant.physical_name)
        value = stored_value(field, column.path[1:])
        return f"({value} IS NULL)" if column.is_null else value

    def _file_key(self, files: DataFrame) -> FileKey:
        """The group's key; the path itself if Spark returns other paths than delvec computed."""
        key = self.group.key
        if key is FileKey.PATH_NUMBER and not shown_alike(files, self.group.paths):
            return FileKey.PATH
        return key

    def _columns(self) -> list[str | Column]:
        """The table's columns."""
        stored = {field.name: field for field in self.group.schema}
        return [self._column(field, stored[field.name]) for field in self.table_schema]

    def _column(self, table_field: Field, field: Field) -> str | Column:
        """The table's column, with its own name and type; ``field`` is the column as the files store it."""
        constants = {constant.name: constant for constant in self.group.constants}
        if field.type == Primitive("void"):
            return _described(F.lit(None), field)
        if not is_readable(field.type):
            # The error is raised only if the query needs the column: Spark drops unused expressions.
            failure = F.raise_error(F.lit(no_spark_type(field)))
            return _described(failure.cast(spark_type(field.type, comments=True)), field)
        if any(field.name == joined.name for joined in self.group.joined):
            return self._constant(f"{self._own(_VALUES)}.{quoted(field.name)}", field)
        stored = constants.get(field.name, field)
        if stored is field and not is_cast(table_field, field):
            value = F.expr(table_value(table_field, field))
            return _described(value.cast(spark_type(table_field.type, comments=True)), table_field)
        stored_name, table_type = quoted(stored.physical_name), spark_type(stored.type, comments=True)
        if table_type != spark_type(stored.type, physical=True, comments=True):
            return _described(F.col(stored_name).cast(table_type), stored)
        if field.name in constants:
            return self._constant(stored_name, field)
        return f"{stored_name} AS {quoted(field.name)}"

    def _constant(self, value: str, field: Field) -> str | Column:
        """The partition column. Spark keeps no metadata of these, which it needs to pad other columns."""
        if not column_metadata(field):
            return f"{value} AS {quoted(field.name)}"
        return _described(as_read(self.spark, F.col(value), field.type), field)

    def _own(self, name: str) -> str:
        """The name of a column that only this scan uses."""
        return own_prefix(self.table_schema) + name

    def _read(self) -> DataFrame:
        """The rows of the files, as they are stored."""
        group = self.group
        constants = {field.name for field in group.constants}
        stored = [f for f in group.schema if f.name not in constants and _is_read(f)]
        fields = [read_field(field) for field in stored]
        fields += [spark_field(field, physical=True) for field in group.from_folders]
        # Always request the row index, so that all scans of a folder share one file listing. If nothing uses
        # it, Spark does not compute it.
        fields.insert(len(stored), StructField(ROW_INDEX, LongType()))
        rows = pc.sum(group.files.column("record_count")).as_py() or 0
        return self.reader.read(
            group.locations, StructType(fields), rows=rows, by_folder_names=bool(group.from_folders)
        )

    def _with_place(self, frame: DataFrame, *, located: bool) -> tuple[DataFrame, _RowPlace]:
        """The frame, and the expressions for the place of a row in it; ``located``: the path is selected."""
        group, path = self.group, f"{METADATA}.file_path"
        if group.hides_metadata:
            path = self._own(_HIDDEN_PATH)
            frame = frame.select("*", frame.metadataColumn(METADATA)["file_path"].alias(path))
        if not (group.needs_file_key and group.key is FileKey.NAME_NUMBER):
            return frame, _RowPlace(path, path, path)
        name = f"{METADATA}.file_name"
        if len(group.files) == 1:  # a literal: Spark would build a struct for each row
            name = sql_text(group.names[0])
        # Spark fails if a query requests the position and a path that it does not select. So errors use the
        # name of the file there.
        root = self.loader.storage.root
        label = path if located else f"concat({sql_text(root)}, ': ', {name})"
        return frame, _RowPlace(path, name, label)

    def _with_files(
        self,
        frame: DataFrame,
        place: _RowPlace,
        key: FileKey,
        *,
        located: bool,
        joins: Sequence[KeyedJoin] = (),
    ) -> DataFrame:
        """The frame with each row's position and the number of its file, with partition values if the folders
        do not state them, with what ``joins`` need to know about the file, and with the path if ``located``.
        These are columns, because PySpark 4.0 cannot join by hidden ones.

        A file that is not in the plan is an error: Spark and delvec must mean the same file by a path.
        """
        path, row = place_columns(self.table_schema)
        number, label, by_path = self._own(NUMBER), self._own(_LABEL), key is FileKey.PATH
        needs_join = by_path or self.group.values_by_file or by_file(joins)
        columns = {row: place.row}
        if located or by_path:
            columns[path] = place.path
        if not by_path:
            columns[number] = number_of(place.file)
        if needs_join:
            columns[label] = place.label
        frame = frame.selectExpr("*", *(f"{value} AS {name}" for name, value in columns.items()))
        if not needs_join:
            return frame
        files = F.broadcast(self._file_table(joins if by_file(joins) else (), by_path=by_path))
        frame = frame.join(files, F.expr(f"{path if by_path else number} = {self._own(_PATH)}"), "left")
        unknown = replace(place, label=label).unknown
        return frame.where(f"CASE WHEN {self._own(_KNOWN)} THEN true ELSE CAST({unknown} AS BOOLEAN) END")

    def _file_table(self, joins: Sequence[KeyedJoin], *, by_path: bool) -> DataFrame:
        """One row for each file: its key, a flag that it is known, its number, its partition values, and what
        ``joins`` need to know about it.
        """
        files = self.group.files
        columns = {_PATH: files.column(NUMBER), _KNOWN: pa.array([True] * len(files))}
        types: dict[str, DataType] = {_PATH: StringType() if by_path else LongType(), _KNOWN: BooleanType()}
        if by_path:
            columns[_PATH] = pa.array(self.group.paths)
            columns[NUMBER], types[NUMBER] = pa.array(np.arange(len(files))), LongType()
        if self.group.values_by_file:
            names = [field.name for field in self.group.joined]
            partitions = files.column("partition").combine_chunks()
            columns[_VALUES] = column_values(partitions, self.specs.values(), names)
            types[_VALUES] = StructType([spark_field(f) for f in self.group.joined])
        schema = StructType([StructField(self._own(name), kind) for name, kind in types.items()])
        renamed = {self._own(name): column for name, column in columns.items()}
        for name, values in (item for join in joins for item in join.file_values.items()):
            renamed[name] = pa.array(values)
            schema = schema.add(name, LongType())
        return frame_of_table(self.spark, pa.table(renamed), schema)

    def _numbers(self, key: FileKey) -> Rows:
        """The number of each file of the group."""
        files = self.group.files
        return np.arange(len(files)) if key is FileKey.PATH else files.column(NUMBER).to_numpy()

    def _deleted(self, key: FileKey) -> Words | DataFrame | None:
        """The deleted rows of the files: as words, or as chunks to which the scan is joined."""
        files, sets = self.group.files, self.group.deletes
        if sets is None:
            return None
        numbers = self._numbers(key)
        size, first_keys = chunk_estimate(sets, files.column("record_count")), first_chunk_keys(numbers)
        if size > DRIVER_CHUNK_BYTES:
            chunks = load_chunks(self.spark, self.loader.storage, sets, first_keys)
        else:
            bitmaps = [bitmap or Bitmap() for bitmap in self.loader.load(sets)]
            words = None if key is FileKey.PATH else words_of(bitmaps, numbers)
            if words is not None:
                return words
            chunks = frame_of_table(self.spark, chunks_of(bitmaps, first_keys))
        chunks = chunks.toDF(self._own(_KEY), self._own(_WORDS))
        return F.broadcast(chunks) if size <= BROADCAST_CHUNK_BYTES else chunks


def _is_read(field: Field) -> bool:
    """Whether Spark reads the column from files."""
    return field.type != Primitive("void") and (is_readable(field.type) or raw_type(field.type) is not None)


def _described(column: Column, field: Field) -> Column:
    """The column with the field's name, comment and declared type."""
    return column.alias(field.name, metadata=column_metadata(field))
