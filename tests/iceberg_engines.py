"""A table of delvec in Iceberg-Spark's warehouse, a model of its rows, and what each engine reads from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from iceberg_spark import SparkTable
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg
from rows import multiset
from scanning import collected, plain

Row = dict[str, Any]


def read_by_iceberg_spark(
    table: SparkTable, snapshot: int | None = None, *, vectorized: bool = True
) -> list[Row]:
    reader = table.spark.read.option("vectorization-enabled", str(vectorized).lower())
    if snapshot is not None:
        reader = reader.option("versionAsOf", snapshot)
    return collected(reader.table(table.full_name))


@dataclass(slots=True)
class Watched:
    """A table that delvec and Iceberg-Spark both have open, and the rows that each snapshot must have."""

    theirs: SparkTable
    schema: pa.Schema
    rows: list[Row] = field(default_factory=list)
    versions: dict[int, list[Row]] = field(default_factory=dict)

    @property
    def mine(self) -> Any:
        from delvec.table import Table

        return Table.open(self.theirs.spark, self.theirs.location)

    @classmethod
    def create(cls, theirs: SparkTable, schema: pa.Schema, version: int, **options: Any) -> Watched:
        """An empty table, made by delvec."""
        from delvec.table import Table

        columns = theirs.spark.createDataFrame(schema.empty_table()).schema
        Table.create(
            theirs.spark, theirs.location, columns, format="iceberg", format_version=version, **options
        )
        return cls(theirs, schema)

    def arrow(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(list(rows), self.schema)

    def now(self, rows: Iterable[Row]) -> None:
        """The table has just got these rows."""
        self.rows = [{name: row.get(name) for name in self.schema.names} for row in rows]
        self.versions[self.mine.version] = self.rows

    # The verbs of delvec, which change the model too

    def append(self, rows: Sequence[Row]) -> None:
        self.mine.append(self.arrow(rows))
        self.now([*self.rows, *rows])

    def delete(self, where: str, is_gone: Callable[[Row], bool]) -> None:
        self.mine.delete(where)
        self.now(row for row in self.rows if not is_gone(row))

    def update(
        self, values: Mapping[str, str], where: str, new: Callable[[Row], Row], is_hit: Callable[[Row], bool]
    ) -> None:
        self.mine.update(values, where)
        self.now(row | new(row) if is_hit(row) else row for row in self.rows)

    def upsert(self, rows: Sequence[Row]) -> None:
        """A MERGE that sets all columns of rows with the same id and inserts the others."""
        merging = self.mine.merge(self.arrow(rows), "target.id = source.id")
        merging.when_matched_update_all().when_not_matched_insert_all().execute()
        ids = {row["id"] for row in rows}
        self.now([*(row for row in self.rows if row["id"] not in ids), *rows])

    def compact(self, **options: Any) -> None:
        self.mine.optimize(**options)
        self.now(self.rows)

    # What each engine reads

    def check(self) -> None:
        """Every engine reads the expected rows of every snapshot, and the newest one is sound."""
        for snapshot in self.versions:
            self.check_snapshot(snapshot)
        self.same("Iceberg-Spark by rows", read_by_iceberg_spark(self.theirs, vectorized=False), self.rows)
        assert self.mine.count() == len(self.rows)
        assert self.mine.verify().findings == ()

    def check_snapshot(self, snapshot: int) -> None:
        expected, place = self.versions[snapshot], self.theirs.location
        self.same("delvec", collected(self.mine.to_df(version=snapshot)), expected)
        self.same("Iceberg-Spark", read_by_iceberg_spark(self.theirs, snapshot), expected)
        self.same("DuckDB", read_by_duckdb(place, snapshot), expected)
        self.same("pyiceberg", read_by_pyiceberg(place, snapshot), self._as_pyiceberg_reads(expected))

    def _as_pyiceberg_reads(self, rows: Sequence[Row]) -> list[Row]:
        """It takes a null list of structs for an empty one (apache/iceberg-python issue 3833)."""
        lists = [
            f.name for f in self.schema if pa.types.is_list(f.type) and pa.types.is_struct(f.type.value_type)
        ]
        return [row | {name: row.get(name) or [] for name in lists} for row in rows]

    def same(self, engine: str, found: Sequence[Row], expected: Sequence[Row]) -> None:
        names = found[0].keys() if found else ()
        ordered = multiset({name: plain(row[name]) for name in sorted(names)} for row in found)
        wanted = multiset({name: plain(row.get(name)) for name in sorted(names)} for row in expected)
        assert ordered == wanted, f"{engine} lost {wanted - ordered}, gained {ordered - wanted}"
