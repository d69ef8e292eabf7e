"""The live rows of data files, as Arrow batches in the form that Spark expects.

The position of a row is the position of the first row of its row group plus its index in the row group. So
deleted rows are left out correctly whichever row groups are read, and positions are never a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delvec import predicate
from delvec.bitmap import Bitmap
from delvec.chunked import Mask
from delvec.connector import arrow_columns, pushdown, row_groups
from delvec.connector.deleted_keys import NO_KEYS, KeyTests
from delvec.connector.pushdown import FilterTest
from delvec.connector.tasks import FilePart, described_deletes
from delvec.deletes.equality import NO_SCOPE, KeyColumn
from delvec.deletes.equality_file import key_values
from delvec.deletes.equality_set import EqualityDeleteSet
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.sets import described
from delvec.errors import CorruptVectorError, FormatError, UnsupportedFeatureError
from delvec.field_names import is_absent, schema_in_file
from delvec.footers.footer import Footer
from delvec.plan import ReadSchema
from delvec.predicate import Condition, SqlSettings
from delvec.schema import Field, Struct, arrow_type
from delvec.storage import Storage

_BATCH_ROWS = 64 * 1024
_EXACT_NAMES = SqlSettings(case_sensitive=True)


@dataclass(frozen=True)
class BatchScan:
    """The part of a scan that all tasks share: the storage, how files store the columns, and the filters.

    All of ``shapes`` have the same columns in the same order: the columns of the batches. ``keys`` says how
    rows are deleted by value.
    """

    storage: Storage
    shapes: tuple[ReadSchema, ...]
    tests: tuple[FilterTest, ...] = ()
    keys: KeyTests = NO_KEYS

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([arrow_columns.output_field(column) for column in self.shapes[0].schema])

    @cached_property
    def condition(self) -> Condition | None:
        """The condition that prunes row groups."""
        text = pushdown.condition_text(self.tests)
        return None if text is None else predicate.parse(text, self.shapes[0].schema, _EXACT_NAMES)

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchScan, (self.storage, self.shapes, self.tests, self.keys)


def read_parts(scan: BatchScan, parts: Sequence[FilePart]) -> Iterator[pa.RecordBatch]:
    """The live rows of the parts that pass the tests. The deletes of all parts are loaded together."""
    loader = DeleteLoader(scan.storage)
    sets = loader.load(described(list(map(described_deletes, parts))))
    keys = scan.keys.load(loader, [part.scopes for part in parts])
    for part, deleted in zip(parts, sets, strict=True):
        yield from read_part(scan, part, deleted, keys)


def read_part(
    scan: BatchScan, part: FilePart, deleted: Bitmap | None, keys: Sequence[EqualityDeleteSet] = ()
) -> Iterator[pa.RecordBatch]:
    """The live rows of one file, or of one piece of it."""
    with _errors_at(part.location), scan.storage.open_input(part.location) as source:
        file = pq.ParquetFile(source, pre_buffer=True, coerce_int96_timestamp_unit="us")
        if deleted is not None:
            _verify_inside(deleted, file, part)
        shape = shape_in_file(scan.shapes[part.read_schema], file.schema_arrow, part)
        key_shape = None
        if any(scope != NO_SCOPE for scope, _ in part.scopes):
            key_shape = shape_in_file(scan.keys.shapes[part.read_schema], file.schema_arrow, part)
        reader = _PartReader(scan, part, shape, file, deleted, key_shape, keys)
        for group, first in reader.row_groups():
            yield from reader.batches(group, first)


@dataclass(frozen=True, slots=True)
class _PartReader:
    scan: BatchScan
    part: FilePart
    shape: ReadSchema
    file: pq.ParquetFile
    deleted: Bitmap | None
    key_shape: ReadSchema | None = None
    keys: Sequence[EqualityDeleteSet] = ()

    def row_groups(self) -> Iterator[tuple[int, int]]:
        """The row groups to read, each with the position of its first row."""
        metadata, part = self.file.metadata, self.part
        count = metadata.num_row_groups
        condition = self.scan.condition
        selected = set(range(count))
        if condition is not None:
            footer = Footer(metadata, part.location)
            selected = set(row_groups.matching(footer, condition, self.shape, part.constants))
        first = 0
        for group in range(count):
            if group in selected and group * part.pieces // count == part.piece:
                yield group, first
            first += metadata.row_group(group).num_rows

    def batches(self, group: int, first: int) -> Iterator[pa.RecordBatch]:
        names = self._names()
        stored: Iterator[pa.RecordBatch | int]
        if names:
            stored = self.file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=names)
        else:  # no column is read: the rows are only counted
            rows = self.file.metadata.row_group(group).num_rows
            stored = (min(_BATCH_ROWS, rows - start) for start in range(0, rows, _BATCH_ROWS))
        for batch in stored:
            count = batch if isinstance(batch, int) else batch.num_rows
            live = self._live(None if isinstance(batch, int) else batch, count, first)
            if live.num_rows:
                yield live
            first += count

    def _live(self, batch: pa.RecordBatch | None, count: int, first: int) -> pa.RecordBatch:
        """The rows of the batch that are neither deleted nor filtered out."""
        columns = {column.name: self._column(batch, column, count) for column in self.shape.schema}
        keep: pa.BooleanArray | None = None
        if self.deleted is not None:
            keep = pa.array(~self.deleted.contains_many(np.arange(first, first + count)))
        if self.key_shape is not None:
            is_new = pa.array(~self._has_deleted_key(batch, count))
            keep = is_new if keep is None else pc.and_(keep, is_new)
        if self.scan.tests:
            passed = pushdown.mask(self.scan.tests, columns)
            keep = passed if keep is None else pc.and_(keep, passed)
        live = pa.record_batch(list(columns.values()), schema=self.scan.output)
        if keep is not None and keep.true_count < count:
            live = live.filter(keep)
        self._verify_not_null(live)
        return live

    def _column(self, batch: pa.RecordBatch | None, column: Field, count: int) -> pa.Array:
        if column.name in self.shape.constants:
            value = pa.scalar(self.part.constants[column.name], arrow_type(column.type))
            return arrow_columns.shown(pa.repeat(value, count), column.type)
        index = None
        if batch is not None:
            index = arrow_columns.find(batch.schema, column)
        if batch is None or index is None:
            return arrow_columns.absent(column, count)
        try:
            return arrow_columns.conform(batch.column(index), column.type)
        except (pa.ArrowException, NotImplementedError) as error:
            kind = batch.schema.field(index).type
            raise FormatError(
                f"column {column.name} is {kind} in the file, expected {column.type} ({error})"
            ) from error
        except UnsupportedFeatureError as error:
            message = f"column {column.name}: {error}: {self.part.location}"
            raise UnsupportedFeatureError(message, feature=error.feature) from None

    def _has_deleted_key(self, batch: pa.RecordBatch | None, count: int) -> Mask:
        """For each row whether it is deleted by value."""
        assert self.key_shape is not None
        is_deleted = np.zeros(count, dtype=bool)
        for keys, (scope, sequence) in zip(self.keys, self.part.scopes, strict=True):
            if scope != NO_SCOPE and len(keys):
                values = [self._key(batch, self.key_shape, column, count) for column in keys.columns]
                is_deleted |= keys.deleted(values, scope=scope, sequence=sequence)
        return is_deleted

    def _key(
        self, batch: pa.RecordBatch | None, shape: ReadSchema, column: KeyColumn, count: int
    ) -> pa.Array:
        """The values of a column by which rows are deleted."""
        kind = arrow_type(column.type)
        name, path = column.path[0], column.path[1:]
        if name in shape.constants:
            return pa.repeat(pa.scalar(self.part.constants[name], kind), count)
        (field,) = shape.schema.find(name, case_sensitive=True)
        index = None if batch is None else arrow_columns.find(batch.schema, field)
        values = None if batch is None or index is None else batch.column(index)
        default = field.initial_default if values is None else None
        for inner in path:
            assert isinstance(field.type, Struct)
            is_null = values is None and default is None
            (field,) = field.type.find(inner, case_sensitive=True)
            index = None if values is None else arrow_columns.find(values.type, field)
            values = None if index is None else pc.struct_field(values, index)
            default = None if is_null or values is not None else field.initial_default
        if values is None:
            value = default is None if column.is_null else default
            return pa.repeat(pa.scalar(value, kind), count)
        return key_values(values, column)

    def _names(self) -> list[str]:
        """The names in the file of the columns to read."""
        stored = self.file.schema_arrow
        shapes = [self.shape] if self.key_shape is None else [self.shape, self.key_shape]
        columns = [
            column for shape in shapes for column in shape.schema if column.name not in shape.constants
        ]
        indices = dict.fromkeys(arrow_columns.find(stored, column) for column in columns)
        return [stored.field(index).name for index in indices if index is not None]

    def _verify_not_null(self, batch: pa.RecordBatch) -> None:
        for index, column in enumerate(self.shape.schema):
            if arrow_columns.has_not_null(column.type, nullable=column.nullable):
                values = batch.column(index)
                arrow_columns.verify_not_null(values, column.type, column.name, nullable=column.nullable)


def shape_in_file(shape: ReadSchema, stored: pa.Schema, part: FilePart) -> ReadSchema:
    """How one file stores the columns: by name, with the names in the file. Columns that are not in it and
    that have a partition value are constants.
    """
    if not shape.by_id:
        return shape
    schema = schema_in_file(shape.schema, stored, shape.names, part.location)
    absent = [f.name for f in schema if f.name in shape.from_partition and is_absent(f)]
    constants = (*shape.constants, *(name for name in absent if name in part.constants))
    return replace(shape, schema=schema, by_id=False, constants=constants)


def _verify_inside(deleted: Bitmap, file: pq.ParquetFile, part: FilePart) -> None:
    last, rows = deleted.max(), file.metadata.num_rows
    if last is not None and last >= rows:
        delete = part.deletes[0]
        raise CorruptVectorError(
            f"vector deletes row {last}, expected one of the {rows} rows of {part.location}",
            path=delete["location"] or f"inline vector of {part.location}",
            offset=delete["offset"],
        )


@contextmanager
def _errors_at(location: str) -> Iterator[None]:
    """Errors of the Parquet reader as a FormatError that names the file."""
    try:
        yield
    except FormatError as error:
        raise error.at(location) from error.__cause__
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(f"data file cannot be read as Parquet: {reason}", path=location) from error
