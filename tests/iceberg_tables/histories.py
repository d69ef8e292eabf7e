"""Random histories of Iceberg tables: every kind of delete, other columns, other partitionings."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from iceberg_tables.avro import DATA
from iceberg_tables.columns import Column, ListType, MapType, StructType, Type, children
from iceberg_tables.files import File
from iceberg_tables.writer import IcebergWriter

TEXTS = ["", "a", "ab", "abc", "a long text that bounds cut off", "é", "x/y", "%41", "zz"]
MOMENT = dt.datetime(2024, 2, 28, 20, tzinfo=dt.UTC)
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("n", pa.decimal128(9, 2)),
        ("st", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.struct([("a", pa.int32())])))])),
        ("m", pa.map_(pa.string(), pa.struct([("v", pa.int32()), ("w", pa.string())]))),
    ]
)
PARTITIONS = {
    "int": ["{}", "bucket[3]({})", "truncate[4]({})"],
    "long": ["{}", "bucket[3]({})", "truncate[10]({})"],
    "string": ["{}", "bucket[3]({})", "truncate[2]({})"],
    "date": ["{}", "year({})", "month({})", "day({})", "bucket[2]({})"],
    "timestamptz": ["year({})", "month({})", "day({})", "hour({})", "bucket[2]({})", "{}"],
    "decimal(9, 2)": ["{}", "bucket[3]({})", "truncate[100]({})"],
}
NEW_COLUMNS = [
    ("late", pa.int32(), 7),
    ("more", pa.string(), "default"),
    ("s", pa.string(), None),
    ("k", pa.int32(), None),
    ("a b", pa.int64(), None),
]


def random_value(rng: random.Random, kind: Type) -> Any:
    if rng.random() < 0.15:
        return None
    match kind:
        case StructType(columns):
            return {column.name: random_value(rng, column.type) for column in columns}
        case ListType(element):
            return [random_value(rng, element.type) for _ in range(rng.randrange(3))]
        case MapType(_, value):
            return [(key, random_value(rng, value.type)) for key in rng.sample(TEXTS, rng.randrange(3))]
        case "string":
            return rng.choice(TEXTS)
        case "date":
            return MOMENT.date() + dt.timedelta(days=rng.randrange(-400, 400))
        case "timestamptz":
            return MOMENT + dt.timedelta(hours=rng.randrange(-60, 60), microseconds=rng.randrange(10**6))
        case "decimal(9, 2)":
            return Decimal(rng.randrange(-500, 500)).scaleb(-2)
    return rng.randrange(-10, 10)


def _structs(kind: Type, path: str = "") -> Iterator[tuple[str, StructType]]:
    """The structs inside a type with their paths, without keys of maps."""
    nested = StructType((kind.value,)) if isinstance(kind, MapType) else children(kind)
    for column in nested:
        place = f"{path}.{column.name}" if path else column.name
        if isinstance(column.type, StructType):
            yield place, column.type
        yield from _structs(column.type, place)


class History:
    """A table that ``step`` changes at random."""

    def __init__(self, root: Path, rng: random.Random, version: int | None = None) -> None:
        self.rng = rng
        version = version or rng.choice([1, 2, 2, 3, 3, 3])
        options = {
            "format_version": version,
            "stats": rng.random() < 0.8,
            "codec": rng.choice(["deflate", "null"]),
            "row_group_size": rng.choice([None, 3]),
            "ids": rng.random() < 0.85,
            "seed": rng.getrandbits(30),
        }
        self.table = IcebergWriter(root, COLUMNS, **options)
        self._ids = iter(range(10**6))
        self.append()

    def steps(self) -> list[Callable[[], object]]:
        found: list[Callable[[], object]] = [self.append, self.append, self.other_spec, self.other_columns]
        found += [self.remove, self.tag, self.upgrade, self.nested_columns]
        if self.table.format_version > 1:
            found += [self.delete_rows] * 4 + [self.delete_keys] * 3 + [self.compact, self.append_and_delete]
        return found

    def step(self) -> None:
        self.rng.choice(self.steps())()

    @property
    def files(self) -> list[File]:
        return [entry.file for entry in self.table.head.entries(DATA)]

    def _row(self) -> dict[str, Any]:
        row = {column.name: random_value(self.rng, column.type) for column in self.table.schema}
        (first,) = (column.name for column in self.table.schema if column.id == 1)
        return row | {first: next(self._ids)}

    def append(self) -> None:
        self.table.append([self._row() for _ in range(self.rng.randrange(1, 25))])

    def other_spec(self) -> None:
        columns = [column for column in self.table.schema if column.type in PARTITIONS]
        chosen = self.rng.sample(columns, self.rng.choice([0, 1, 1, 2]))
        texts = [self.rng.choice(PARTITIONS[str(column.type)]).format(column.name) for column in chosen]
        self.table.replace_spec(texts)

    def other_columns(self) -> None:
        rng, table = self.rng, self.table
        partitioned = {part.source_id for part in table.spec.fields}
        free = [column for column in table.schema if column.id != 1 and column.id not in partitioned]
        names = {column.name for column in table.schema}
        match rng.randrange(5):
            case 0 if free:
                table.drop_column(rng.choice(free).name)
            case 1:
                self._add([new for new in NEW_COLUMNS if new[0] not in names])
            case 2 if free and table.ids:
                table.rename_column(rng.choice(free).name, f"renamed {table.metadata_version}")
            case 3:
                self._promote([column for column in free if column.type == "int"])
            case 4:
                table.reorder_columns(rng.sample(sorted(names), len(names)))

    def _add(self, new: list[tuple[str, pa.DataType, Any]]) -> None:
        if not new or not self.table.ids:  # by name, a new column would be the old one of that name
            return
        name, kind, default = self.rng.choice(new)
        default = default if self.table.format_version > 2 else None
        self.table.add_column(pa.field(name, kind), default=default, first=self.rng.random() < 0.3)

    def nested_columns(self) -> None:
        """Other columns in a struct, which may be in a list or the values of a map."""
        rng, table = self.rng, self.table
        if not table.ids:
            return
        path, struct = rng.choice(list(_structs(table.schema)))
        column = rng.choice(list(struct))
        match rng.randrange(4):
            case 0 if len(list(struct)) > 1:
                table.drop_column(f"{path}.{column.name}")
            case 1:
                table.rename_column(f"{path}.{column.name}", f"renamed {table.metadata_version}")
            case 2 if "x" not in {column.name for column in struct}:
                default = rng.choice([None, 5]) if table.format_version > 2 else None
                table.add_column(pa.field("x", pa.int32()), default=default, within=path)
            case 3 if column.type == "int":
                table.promote_column(f"{path}.{column.name}", "long")

    def _promote(self, columns: list[Column]) -> None:
        if columns:
            self.table.promote_column(self.rng.choice(columns).name, "long")

    def delete_rows(self) -> None:
        chosen = {
            file: self.rng.sample(range(file.records), self.rng.randrange(1, file.records + 1))
            for file in self.files
            if file.records and self.rng.random() < 0.4
        }
        if not chosen:
            return
        if self.table.format_version > 2:
            self.table.delete_by_vectors(chosen)
        else:
            self.table.delete_positions(chosen, referenced=self.rng.random() < 0.5)
        self.table.commit()

    def delete_keys(self) -> None:
        """Keys of one file's rows, in its partition; or of any rows, everywhere."""
        files = [file for file in self.files if file.records]
        everywhere = [spec for spec in self.table.specs if not spec.fields]
        if not files:
            return
        columns = [column.name for column in self.table.schema if column.type in PARTITIONS]
        structs = [column for column in self.table.schema if isinstance(column.type, StructType)]
        columns += [f"{s.name}.{c.name}" for s in structs for c in children(s.type) if c.type in PARTITIONS]
        names = self.rng.sample(columns, min(len(columns), self.rng.choice([1, 1, 2])))
        rows = self.table.rows()
        if not names or not rows:
            return
        held = {name.partition(".")[0] for name in names}
        keys = [{name: row[name] for name in held} for row in self.rng.sample(rows, min(3, len(rows)))]
        if everywhere and self.rng.random() < 0.5:
            self.table.delete_keys(keys, on=names, spec=everywhere[0])
        else:
            self.table.delete_keys(keys, on=names, beside=self.rng.choice(files))
        if self.rng.random() < 0.5:  # an upsert: new rows with these keys stay
            self.table.append([self._row() | key for key in keys])
        else:
            self.table.commit()

    def append_and_delete(self) -> None:
        """A file whose rows are deleted in the commit that adds it."""
        row = self._row()
        file = self.table.add_file([row, row, row])
        self.table.delete_rows(file, [self.rng.randrange(3)])
        self.table.commit()

    def remove(self) -> None:
        if len(self.files) > 1:
            self.table.remove_file(self.rng.choice(self.files))
            self.table.commit()

    def compact(self) -> None:
        """A file without its deleted rows, as old as it was: equality deletes still apply to it."""
        entries = [entry for entry in self.table.head.entries(DATA) if entry.file.schema == self.table.schema]
        entries = [entry for entry in entries if entry.file.spec == self.table.spec]
        if entries:
            entry = self.rng.choice(entries)
            gone = self.table.deleted(entry)
            rows = [row for at, row in enumerate(entry.file.rows) if at not in gone]
            self.table.remove_file(entry.file)
            if rows:
                self.table.add_file(rows, sequence=entry.sequence, partition=entry.file.partition)
            self.table.commit(operation="replace")

    def tag(self) -> None:
        self.table.set_tag(f"tag {len(self.table.refs)}", self.table.head.id)

    def upgrade(self) -> None:
        if self.table.format_version < 3 and self.rng.random() < 0.5:
            self.table.upgrade(self.table.format_version + 1)
