"""Delta tables written from plain Python rows, without delvec's writer and without Spark.

``Lake`` writes data files one by one, each from a list of rows, and remembers which rows are live. Arguments
select what writers do differently: layout, column mapping, file sizes, row groups, how vectors are stored and
what the log says about a file.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from delta_log import Action, LogWriter, add, metadata, protocol, remove
from delvec import blob, z85
from delvec.bitmap import Bitmap
from delvec.delta import vector_file

FOLDERS, FLAT, PREFIX = "folders", "flat", "prefix"
BY_NAME, BY_ID = "name", "id"

Row = dict[str, Any]

_PRIMITIVES = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.null(): "void",
}
_WITH_BOUNDS = ("byte", "short", "integer", "long", "double", "string", "date")
# What Spark escapes in the name of a partition's folder, besides control characters.
_ESCAPED = set("\"#%'*/:=?\\\x7f{[]^")
_PADDING = 2000  # of files that get a given size: its length always takes two bytes to write


@dataclass(frozen=True)
class DataFile:
    path: str  # below the table, decoded
    size: int
    partition: dict[str, str | None]
    rows: tuple[Row, ...]
    stats: str | None
    deleted: frozenset[int] = frozenset()
    vector: Action | None = None

    def action(self) -> Action:
        return add(
            quote(self.path, safe="/=+,;@!$&'()*~:"),
            deletion_vector=self.vector,
            partition=self.partition,
            stats=self.stats,
            size=self.size,
        )

    @property
    def live(self) -> list[Row]:
        return [row for position, row in enumerate(self.rows) if position not in self.deleted]


@dataclass
class Lake:
    """A table at ``root`` whose columns have Arrow types. ``write`` adds a file, ``commit`` a version."""

    root: Path
    schema: pa.Schema
    partition_by: Sequence[str] = ()
    layout: str = FOLDERS
    mapping: str | None = None
    stats: bool = True
    inline: bool = False
    row_group_size: int | None = None
    files: list[DataFile] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.versions: list[int] = []
        self.operations: list[str | None] = []
        self.root.mkdir(parents=True, exist_ok=True)
        self.log = LogWriter(str(self.root))
        self.names = _Names(self.mapping)
        self._staged: list[tuple[DataFile | None, DataFile]] = []
        self._vectors = 0
        self._created = False

    @property
    def live(self) -> list[Row]:
        """The rows of the newest commit, in no order that counts."""
        return [row for file in self.files for row in file.live]

    def write(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        deleted: Iterable[int] = (),
        name: str | None = None,
        stored: pa.Schema | None = None,
        size: int | None = None,
        texts: Mapping[str, str | None] | None = None,
        named: str = "",
    ) -> DataFile:
        """Write a data file with these rows, which are all of one partition, for the next commit.

        ``name``: its path below the table. ``stored``: its columns and types, by default the table's.
        ``size``: its length in bytes. ``texts``: the partition values as the log records them. ``named``: a
        prefix of the column names in the file, so that only their ids identify them.
        """
        model = [{column.name: row.get(column.name) for column in self.schema} for row in rows]
        held = pa.schema([f for f in stored or self.schema if f.name not in self.partition_by])
        held = pa.schema([f for f in held if f.type != pa.null()])
        first = model[0] if model else dict.fromkeys(self.schema.names)
        values = {column: first[column] for column in self.partition_by}
        assert all({c: row[c] for c in values} == values for row in model), "rows of several partitions"
        path = name or self._path(values)
        data = _parquet(self._columns(model, held, named), size, self.row_group_size)
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        recorded = {self.names.of((column,)): partition_text(value) for column, value in values.items()}
        recorded |= {self.names.of((column,)): text for column, text in (texts or {}).items()}
        stats = self._stats(model, held) if self.stats else None
        file = DataFile(path, len(data), recorded, tuple(model), stats)
        self._staged.append((None, file))
        return self.delete(file, deleted) if deleted else file

    def delete(self, file: DataFile, positions: Iterable[int]) -> DataFile:
        """Delete these rows of the file, too, in the next commit."""
        new = DataFile(**{**vars(file), "deleted": file.deleted | frozenset(positions)})
        for index, (old, staged) in enumerate(self._staged):
            if staged is file:
                self._staged[index] = (old, new)
                return new
        self._staged.append((file, new))
        return new

    def commit(self, *actions: Action, operation: str | None = None, at: int | None = None) -> int:
        """The version with what was written and deleted since the last one.

        ``at``: the time of the commit, in seconds since 1970. ``actions``: further lines of a Delta commit.
        """
        if operation is not None:
            info = (
                {"operation": operation} if at is None else {"timestamp": at * 1000, "operation": operation}
            )
            actions = ({"commitInfo": info}, *actions)
        changes = self._with_vectors()
        found: list[Action] = []
        if not self._created:
            found += [self.protocol(), self.metadata()]
            self._created = True
        for old, new in changes:
            if old is not None:
                found.append(remove(old.action()["add"]["path"], deletion_vector=old.vector))
                self.files.remove(old)
            found.append(new.action())
            self.files.append(new)
        self._staged.clear()
        version = self._put(operation, *found, *actions)
        if at is not None:  # a commit is as old as its file
            os.utime(self.root / f"_delta_log/{version:020d}.json", (at, at))
        return version

    def replace_columns(self, schema: pa.Schema) -> int:
        """A version with other columns. Files that lack one of them have null there."""
        self.schema = schema
        return self._put(None, self.metadata())

    def vector_files(self) -> list[Path]:
        return sorted(self.root.glob("deletion_vector_*.bin"))

    def vectors_end(self) -> int:
        """Where the vectors end in the newest of these files."""
        return self.vector_files()[-1].stat().st_size

    def forget(self, file: DataFile) -> None:
        """A version without the file, whose data stays where it is."""
        self.files.remove(file)
        self._put(None, remove(file.action()["add"]["path"], deletion_vector=file.vector))

    def _put(self, operation: str | None, *actions: Action) -> int:
        """Writes a commit. ``versions`` and ``operations`` tell what the history must show."""
        self.versions.append(self.log.commit(*actions))
        self.operations.append(operation)
        return self.versions[-1]

    def protocol(self) -> Action:
        features = ["deletionVectors", "typeWidening", "timestampNtz"]
        return protocol(features=[*features, "columnMapping"] if self.mapping else features)

    def metadata(self) -> Action:
        properties = {"delta.enableDeletionVectors": "true"}
        if self.mapping:
            properties["delta.columnMapping.mode"] = self.mapping
        fields = [self._json_field(column, ()) for column in self.schema]
        return metadata(*fields, partition_by=self.partition_by, properties=properties)

    def _path(self, values: Mapping[str, Any]) -> str:
        name = f"part-{len(self.files) + len(self._staged):05d}-{uuid.uuid4()}.parquet"
        match self.layout:
            case "folders":
                folders = [
                    f"{escaped(self.names.of((column,)))}={folder_text(value)}"
                    for column, value in values.items()
                ]
                return "/".join([*folders, name])
            case "prefix":
                return f"{uuid.uuid4().hex[:2]}/{name}"
        return name

    def _columns(self, rows: Sequence[Row], held: pa.Schema, named: str) -> pa.Table:
        stored = [self.names.stored(column, (), named) for column in held]
        arrays = [
            pa.array([_held(row[column.name], column.type, target.type) for row in rows], target.type)
            for column, target in zip(held, stored, strict=True)
        ]
        return pa.table(arrays, schema=pa.schema(stored))

    def _with_vectors(self) -> list[tuple[DataFile | None, DataFile]]:
        """What was staged, the new vectors of all of it in one file."""
        vectors = [Bitmap.from_iterable(new.deleted) for _, new in self._staged if new.deleted]
        descriptors = iter([_inline(v) for v in vectors] if self.inline else self._stored(vectors))
        return [
            (old, DataFile(**{**vars(new), "vector": next(descriptors)}) if new.deleted else new)
            for old, new in self._staged
        ]

    def _stored(self, vectors: Sequence[Bitmap]) -> list[Action]:
        self._vectors += 1
        identifier = uuid.uuid5(uuid.NAMESPACE_URL, f"{self.root}/{self._vectors}")
        data, places = vector_file.pack(vectors)
        if vectors:
            (self.root / f"deletion_vector_{identifier}.bin").write_bytes(data)
        return [
            {
                "storageType": "u",
                "pathOrInlineDv": z85.encode(identifier.bytes),
                "offset": offset,
                "sizeInBytes": size,
                "cardinality": vector.cardinality,
            }
            for vector, (offset, size) in zip(vectors, places, strict=True)
        ]

    def _stats(self, rows: Sequence[Row], held: pa.Schema) -> str:
        found: dict[str, Any] = {"numRecords": len(rows), "minValues": {}, "maxValues": {}, "nullCount": {}}
        for column in held:
            if _PRIMITIVES.get(column.type) not in _WITH_BOUNDS:
                continue
            name = self.names.of((column.name,))
            values = [row[column.name] for row in rows if row[column.name] is not None]
            found["nullCount"][name] = len(rows) - len(values)
            if values and not any(isinstance(v, float) and not math.isfinite(v) for v in values):
                found["minValues"][name], found["maxValues"][name] = min(values), max(values)
        return json.dumps({**found, "tightBounds": False}, default=str)

    def _json_field(self, column: pa.Field, above: tuple[str, ...]) -> Action:
        path = (*above, column.name)
        return {
            "name": column.name,
            "type": self._json_type(column.type, path),
            "nullable": column.nullable,
            "metadata": self.names.metadata(path),
        }

    def _json_type(self, kind: pa.DataType, path: tuple[str, ...]) -> Any:
        if pa.types.is_struct(kind):
            return {"type": "struct", "fields": [self._json_field(child, path) for child in kind]}
        if pa.types.is_list(kind):
            element = self._json_type(kind.value_type, (*path, "element"))
            return {"type": "array", "elementType": element, "containsNull": True}
        if pa.types.is_map(kind):
            key = self._json_type(kind.key_type, (*path, "key"))
            value = self._json_type(kind.item_type, (*path, "value"))
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        if pa.types.is_decimal(kind):
            return f"decimal({kind.precision},{kind.scale})"
        return _PRIMITIVES[kind]


class _Names:
    """Names and ids that data files have for columns; by path, since nested fields have their own."""

    def __init__(self, mapping: str | None) -> None:
        self.mapping = mapping
        self._ids: dict[tuple[str, ...], int] = {}

    def of(self, path: tuple[str, ...]) -> str:
        return f"col-{self._id(path)}" if self.mapping else path[-1]

    def metadata(self, path: tuple[str, ...]) -> Action:
        if not self.mapping:
            return {}
        return {"delta.columnMapping.id": self._id(path), "delta.columnMapping.physicalName": self.of(path)}

    def stored(self, column: pa.Field, above: tuple[str, ...], named: str) -> pa.Field:
        """The field as a data file has it."""
        path = (*above, column.name)
        ids = {"PARQUET:field_id": str(self._id(path))} if self.mapping else None
        return pa.field(
            named + self.of(path), self._type(column.type, path, named), column.nullable, metadata=ids
        )

    def _type(self, kind: pa.DataType, path: tuple[str, ...], named: str) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([self.stored(child, path, named) for child in kind])
        if pa.types.is_list(kind):
            return pa.list_(pa.field("element", self._type(kind.value_type, (*path, "element"), named)))
        if pa.types.is_map(kind):
            key = self._type(kind.key_type, (*path, "key"), named)
            return pa.map_(key, self._type(kind.item_type, (*path, "value"), named))
        return kind

    def _id(self, path: tuple[str, ...]) -> int:
        return self._ids.setdefault(path, len(self._ids) + 1)


def partition_text(value: Any) -> str | None:
    """A partition value as the log has it."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case dt.datetime(tzinfo=None):
            return value.isoformat(" ", "microseconds")
        case dt.datetime():
            return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case float() if math.isnan(value):
            return "NaN"
        case bytes():
            return value.decode()
        case decimal.Decimal():
            return format(value, "f")
    return str(value)


def folder_text(value: Any) -> str:
    """A partition value as Spark, in UTC, has it in a folder's name."""
    if value is None or value == "":
        return "__HIVE_DEFAULT_PARTITION__"
    if isinstance(value, dt.datetime):
        return escaped(value.replace(tzinfo=None).isoformat(" "))
    return escaped(partition_text(value) or "")


def escaped(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED or ord(c) < 0x20 else c for c in text)


def _held(value: Any, kind: pa.DataType, stored: pa.DataType) -> Any:
    """The value with the names and the type that the file stores."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        pairs = zip(kind, stored, strict=True)
        return {target.name: _held(value[child.name], child.type, target.type) for child, target in pairs}
    if pa.types.is_list(kind):
        return [_held(item, kind.value_type, stored.value_type) for item in value]
    if pa.types.is_map(kind):
        return [
            (_held(k, kind.key_type, stored.key_type), _held(v, kind.item_type, stored.item_type))
            for k, v in value
        ]
    if pa.types.is_date(kind) and isinstance(value, dt.datetime):
        return value.date()
    if pa.types.is_integer(kind):
        return int(value)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-kind.scale))
    return value


def _inline(vector: Bitmap) -> Action:
    bare = blob.encode_bare(vector)
    return {
        "storageType": "i",
        "pathOrInlineDv": z85.encode(bare + bytes(-len(bare) % 4)),
        "sizeInBytes": len(bare),
        "cardinality": vector.cardinality,
    }


def _parquet(table: pa.Table, size: int | None, row_group_size: int | None) -> bytes:
    data = _written(table, row_group_size, 0 if size is None else _PADDING)
    if size is None:
        return data
    padding = _PADDING + size - len(data)
    assert 128 <= padding < 16384, f"{len(data)} bytes without padding, {size} asked for"
    data = _written(table, row_group_size, padding)
    assert len(data) == size
    return data


def _written(table: pa.Table, row_group_size: int | None, padding: int) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, store_schema=False) as writer:
        writer.write_table(table, row_group_size=row_group_size)
        writer.add_key_value_metadata({"padding": "x" * padding})
    return sink.getvalue().to_pybytes()
