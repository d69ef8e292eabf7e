"""Scans of Iceberg v3 tables with deletion vectors, beside the plain Parquet scan and Iceberg-Spark.

The queries, the ways of measuring and the bars are those of `scan.py`; the tables are written by
Iceberg-Spark (`iceberg_scan_tables.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from bench.engines import DELVEC, ICEBERG, Engine
from bench.harness import Section
from bench.iceberg_scan_tables import Generator, IcebergTables, folder_of, reader
from bench.scan import (
    PLAIN,
    QUICK_ROUNDS,
    QUICK_ROWS,
    ROUNDS,
    ROWS,
    Run,
    Scans,
    many_files,
    other_queries,
    whole_scans,
    without_bars,
)
from bench.scan_tables import SCHEMA, open_session


def bench(*, quick: bool) -> list[Section]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    with Engine(Generator, rows) as generator:
        made = generator.ask("tables")
    with ExitStack() as stack:
        engines = {
            name: stack.enter_context(Engine(IcebergScans, name, rows, made)) for name in (DELVEC, ICEBERG)
        }
        run = Run(engines, made, rounds)
        sections = [whole_scans(run, rows), other_queries(run), many_files(run)]
    if quick:
        sections = [without_bars(section) for section in sections]
    return [replace(section, title=f"Iceberg v3: {section.title}") for section in sections]


class IcebergScans(Scans):
    """The queries on Iceberg tables."""

    tables: IcebergTables

    def __init__(self, engine: str, rows: int, made: IcebergTables) -> None:
        self.spark = open_session(rows, engine, folder=folder_of(rows))
        self.tables = made
        self.readers = {}

    def _reader(self, way: str, share: str) -> Callable[[str | None], Any]:
        spark, made = self.spark, self.tables
        name, version = made.of_share(share)
        if way == DELVEC:
            from delvec.table import Table

            table = Table.open(spark, made.path(name))
            return lambda where: table.to_df(version=version, where=where)

        def frame() -> Any:
            if way == PLAIN:
                return spark.read.schema(SCHEMA).parquet(made.plain(share))
            return reader(spark, name, version)

        return lambda where: frame() if where is None else frame().where(where)

    def _many(self, way: str, *, vectors: bool, where: str | None = None) -> Any:
        name, version = self.tables.of_many(vectors=vectors)
        if way == DELVEC:
            from delvec.table import Table

            return Table.open(self.spark, self.tables.path(name)).to_df(version=version, where=where)
        if way == PLAIN:
            return self.spark.read.parquet(self.tables.many)
        return reader(self.spark, name, version)
