"""Tables with equality files, as plans made by hand, and what a plain Python program reads from them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delvec import plan as plans
from delvec.bitmap import MAX_POSITION, Bitmap
from delvec.connector import tasks
from delvec.connector.batches import BatchScan, read_parts
from delvec.connector.deleted_keys import KeyTests
from delvec.deletes.codecs import codec_for
from delvec.deletes.equality import EqualityDeletes
from delvec.deletes.key_vector import KeyVector, vector_file
from delvec.file_facts import ColumnPath, ColumnStats
from delvec.partition_spec import PartitionSpec
from delvec.schema import NO_FIELDS, Array, DataType, Field, Map, Schema, Struct, arrow_type
from delvec.storage import open_storage

Row = Mapping[str, Any]


class Facts:
    """Bounds of files, where a test gives them: (lower, upper, nulls) by column and file."""

    def __init__(self, counts: Sequence[int], bounds: Mapping[str, Sequence[Any]], types: Mapping[str, Any]):
        self.count, self._bounds, self._types = len(counts), bounds, types
        self.record_count = pa.array(counts, pa.int64())
        self.tight = pa.repeat(pa.scalar(value=False), len(counts))

    def column(self, path: ColumnPath) -> ColumnStats | None:
        bounds = self._bounds.get(".".join(path))
        if bounds is None:
            return None
        kind = self._types[path[0]]
        lower, upper, nulls = zip(*bounds, strict=True)
        return ColumnStats(
            pa.array(lower, kind), pa.array(upper, kind), pa.array(nulls, pa.int64()), self.record_count
        )

    def at(self, rows: Any) -> Facts:
        chosen = {name: [values[row] for row in rows] for name, values in self._bounds.items()}
        return Facts(self.record_count.take(pa.array(rows)).to_pylist(), chosen, self._types)


@dataclass
class EqualityTable:
    """Data files and equality files of one table, in the folder ``root``.

    ``schema`` has the field ids; ``dropped`` columns are in files too.
    """

    root: Path
    schema: Schema
    dropped: Schema = NO_FIELDS
    by_id: bool = True
    files: list[dict[str, Any]] = field(default_factory=list)
    deletes: list[dict[str, Any]] = field(default_factory=list)
    bounds: dict[str, list[Any]] = field(default_factory=dict)
    model: list[tuple[list[Row], int, Any]] = field(default_factory=list)
    model_deletes: list[tuple[list[Row], tuple[str, ...], int, Any]] = field(default_factory=list)

    def data(self, rows: Sequence[Row], sequence: int | None, partition: Any = None, **given: Any) -> None:
        """A data file; ``partition``: any value, by which equality files find it."""
        name = f"data-{len(self.files)}.parquet"
        self.write(name, rows, given.pop("schema", None))
        self.model.append(([dict(row) for row in rows], sequence or 0, partition))
        place = str(self.root / name)
        self.files.append(
            {
                "file_id": len(self.files),
                "location": place,
                "raw_location": place,
                "file_format": "parquet",
                "size": (self.root / name).stat().st_size,
                "record_count": len(rows),
                "spec_id": 0,
                "read_schema": 0,
                "data_sequence": sequence,
                "match": plans.MATCH_SOME,
                "partition_key": partition,
                **given,
            }
        )

    def delete(
        self,
        rows: Sequence[Row],
        columns: Sequence[str],
        sequence: int,
        partition: Any = None,
        *,
        as_vector: bool = False,
        **given: Any,
    ) -> None:
        """An equality file; without ``partition`` it applies to all partitions. ``as_vector``: a vector, if
        the keys can be in one.
        """
        vector = self.vector(rows, columns) if as_vector else None
        if vector is not None:
            given = vector | given
        name = f"deletes-{len(self.deletes)}.parquet"
        self.write(name, rows, given.pop("schema", None))
        self.model_deletes.append(([dict(row) for row in rows], tuple(columns), sequence, partition))
        ids = ids_by_path((*self.schema, *self.dropped))
        self.deletes.append(
            {
                "kind": plans.EQUALITY_FILE,
                "encoding": plans.FULL_ROW,
                "location": str(self.root / name),
                "length": (self.root / name).stat().st_size,
                "cardinality": len(rows),
                "sequence": sequence,
                "file_format": "parquet",
                "field_ids": given.pop("field_ids", None) or [ids[name] for name in columns],
                "partition_key": partition,
                **given,
            }
        )

    def vector(self, rows: Sequence[Row], columns: Sequence[str]) -> dict[str, Any] | None:
        """The description of a vector with these keys; None if they cannot be in one."""
        column = next((f for f in (*self.schema, *self.dropped) if [f.name] == list(columns)), None)
        codec = None if column is None else codec_for(column.type)
        if column is None or codec is None or not rows:
            return None
        numbers = codec.encode(pa.array([row.get(column.name) for row in rows], arrow_type(column.type)))
        if any(number is None or not 0 <= number <= MAX_POSITION for number in numbers.to_pylist()):
            return None
        bitmap = Bitmap.from_iterable(numbers.to_pylist())
        data, placed = vector_file(KeyVector(column.field_id, bitmap, codec.name))
        path = self.root / f"deletes-{len(self.deletes)}.puffin"
        path.write_bytes(data)
        return {
            "encoding": plans.DELETION_VECTOR,
            "location": str(path),
            "offset": placed.offset,
            "length": placed.length,
            "cardinality": len(bitmap),
            "file_format": None,
            "lower": bitmap.min(),
            "upper": bitmap.max(),
        }

    def write(self, name: str, rows: Sequence[Row], schema: pa.Schema | None) -> None:
        schema = schema or self.stored(rows)
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
        pq.write_table(table, self.root / name)

    def stored(self, rows: Sequence[Row]) -> pa.Schema:
        """The columns that the rows have, with their ids."""
        names = dict.fromkeys(name for row in rows for name in row)
        fields = [f for f in (*self.schema, *self.dropped) if f.name in names or not names]
        return pa.schema([with_id(f) for f in fields])

    def plan(self, **given: Any) -> plans.ScanPlan:
        keys = [delete["partition_key"] for delete in self.deletes]
        distinct = list(dict.fromkeys(file["partition_key"] for file in self.files))
        groups = [
            tuple(n for n, key in enumerate(keys) if key is None or key == partition)
            for partition in distinct
        ]
        files = [{**file, "delete_group": distinct.index(file["partition_key"])} for file in self.files]
        table = pa.Table.from_pylist(files, schema=plans.FILES_SCHEMA)
        partition = pa.StructArray.from_buffers(pa.struct([]), len(files), [None])
        types = {f.name: arrow_type(f.type) for f in self.schema}
        counts = [file["record_count"] for file in self.files]
        made = plans.ScanPlan(
            location=str(self.root),
            base=plans.Base(0),
            schema=self.schema,
            specs={0: PartitionSpec(0)},
            read_schemas=(plans.ReadSchema(self.schema, by_id=self.by_id, constants=()),),
            condition=None,
            files=table.append_column("partition", partition),
            facts=Facts(counts, self.bounds, types),
            deletes=pa.Table.from_pylist(self.deletes, schema=plans.DELETES_SCHEMA),
            delete_groups=tuple(groups),
            carry=pa.table({}),
            skipped=0,
            dropped=self.dropped,
        )
        return replace(made, **given)

    def live_places(self) -> list[tuple[int, int]]:
        """File and position of each live row, found one by one."""
        found = []
        for file, (rows, sequence, partition) in enumerate(self.model):
            applied = [
                ({key_of(row, columns) for row in deleted}, columns)
                for deleted, columns, delete_sequence, scope in self.model_deletes
                if sequence < delete_sequence and scope in (None, partition)
            ]
            for position, row in enumerate(rows):
                if not any(key_of(row, columns) in keys for keys, columns in applied):
                    found.append((file, position))
        return found

    def live(self) -> list[dict[str, Any]]:
        """The live rows, in the columns of the table."""
        names = [f.name for f in self.schema]
        rows = [self.model[file][0][position] for file, position in self.live_places()]
        return [{name: row.get(name) for name in names} for row in rows]


def ids_by_path(fields: Iterable[Field], parent: str = "") -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for f in fields:
        found[parent + f.name] = f.field_id
        if isinstance(f.type, Struct):
            found |= ids_by_path(f.type, f"{parent}{f.name}.")
    return found


def key_of(row: Row, columns: Iterable[str]) -> tuple[Any, ...]:
    """Null in a struct differs from a struct that is null."""
    return tuple(_comparable(_value(row, *name.split("."))) for name in columns)


def _value(row: Row | None, name: str, *inner: str) -> Any:
    if row is None:
        return "no struct"
    return _value(row.get(name), *inner) if inner else row.get(name)


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("d", value)
    return value


def with_id(column: Field) -> pa.Field:
    return pa.field(column.name, _stored_type(column.type), metadata=_id(column.field_id))


def _id(number: int | None) -> dict[str, str] | None:
    return None if number is None else {"PARQUET:field_id": str(number)}


def _stored_type(data_type: DataType) -> pa.DataType:
    match data_type:
        case Struct(fields):
            return pa.struct([with_id(f) for f in fields])
        case Array(element):
            return pa.list_(pa.field("element", _stored_type(element), metadata=_id(data_type.element_id)))
        case Map(key, value):
            item = pa.field("value", _stored_type(value), metadata=_id(data_type.value_id))
            key_field = pa.field("key", _stored_type(key), nullable=False, metadata=_id(data_type.key_id))
            return pa.map_(key_field, item)
    return arrow_type(data_type)


def by_connector(plan: plans.ScanPlan, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows that the connector reads, without Spark."""
    names = columns or [f.name for f in plan.schema]
    equality = EqualityDeletes.of(plan)
    scan = BatchScan(open_storage(plan.location), tasks.shapes(plan, names), keys=KeyTests.of(plan, equality))
    parts = list(tasks.file_parts(plan, names, equality))
    return [row for batch in read_parts(scan, parts) for row in batch.to_pylist()]


def ordered(rows: Iterable[Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)
