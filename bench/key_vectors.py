"""Scans of Iceberg tables with a million dense keys deleted in few commits: vectors of keys beside full rows.

Iceberg-Spark writes the rows of all tables. Of one table the keys are deleted by Iceberg's Java API, as full
rows; of its twin by delvec, as vectors. Iceberg-Spark reads full rows only, delvec reads both. The keys are
runs over the whole table, so that no data file can be skipped.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bench.engines import DELVEC, ICEBERG, Engine
from bench.equality import EqualityTables, commit_deletes
from bench.harness import Figure, Section, as_seconds, at_most, cache
from bench.scan import ALL_COLUMNS, PLAIN, Run, Way, timed, without_bars
from bench.scan_tables import CATALOG, COLUMNS, COMPLETE, FILES, SCHEMA, open_session

ROWS, QUICK_ROWS = 20_000_000, 1_000_000
KEYS, QUICK_KEYS = 1_000_000, 50_000
ROUNDS, QUICK_ROUNDS = 7, 2
COMMITS = (1, 10)
RUNS = 20
GENERATION = 1
PLAIN_BAR, ICEBERG_BAR = 1.5, 1.0
FULL_ROWS = "delvec, full rows"
GATE = "write.delete.equality-vector.enabled"


def bench(*, quick: bool) -> list[Section]:
    rows, keys = (QUICK_ROWS, QUICK_KEYS) if quick else (ROWS, KEYS)
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with Engine(Generator, rows, keys) as generator:
        made = generator.ask("tables")
    with ExitStack() as stack:
        engines = {name: stack.enter_context(Engine(Scans, name, rows, made)) for name in (DELVEC, ICEBERG)}
        run = Run(engines | {FULL_ROWS: engines[DELVEC]}, made, rounds)
        figures = [figure for commits in COMMITS for figure in _figures(run, commits)]
        how = (
            f"{rows:,} rows of {SCHEMA} in {FILES} files; {keys:,} keys of id deleted, in {RUNS} runs over "
            f"the whole table; an aggregate over all columns; {run.how()}."
        )
    section = Section(f"Scans with {keys:,} dense keys", how, figures, "the other")
    return [without_bars(section) if quick else section]


def dense_keys(rows: int, keys: int) -> np.ndarray[Any, Any]:
    """Runs at equal distances."""
    starts = np.arange(RUNS, dtype=np.int64) * (rows // RUNS)
    return (starts[:, None] + np.arange(keys // RUNS)).ravel()


@dataclass(frozen=True)
class KeyTables(EqualityTables):
    """``path(commits)`` has full rows, ``vectors(commits)`` vectors."""

    def vectors(self, commits: int) -> str:
        return str(self.folder / "iceberg" / "bench" / _vectors(commits))


def _vectors(commits: int) -> str:
    return f"vectors_in_{commits}"


def _rows(commits: int) -> str:
    return f"keys_in_{commits}"


class Scans:
    """The query, by one engine."""

    def __init__(self, engine: str, rows: int, made: KeyTables) -> None:
        self.spark = open_session(rows, engine, folder=made.folder)
        self.tables = made

    def answer(self, way: str, commits: int) -> tuple[float, str]:
        return timed(lambda: self._frame(way, commits).selectExpr(*ALL_COLUMNS).collect())

    def _frame(self, way: str, commits: int) -> Any:
        if way in (DELVEC, FULL_ROWS):
            from delvec.table import Table

            path = self.tables.vectors(commits) if way == DELVEC else self.tables.path(commits)
            return Table.open(self.spark, path).to_df()
        if way == PLAIN:
            return self.spark.read.schema(SCHEMA).parquet(*self.tables.data(commits))
        return self.spark.read.table(f"{CATALOG}.bench.{_rows(commits)}")


def _figures(run: Run, commits: int) -> list[Figure]:
    def way(name: str) -> Way:
        return lambda: run.engines[name].ask("answer", name, commits)

    ways = {name: way(name) for name in (DELVEC, FULL_ROWS, ICEBERG, PLAIN)}
    took = run.times(ways, same=(DELVEC, FULL_ROWS, ICEBERG))
    what = f"{commits} commit" if commits == 1 else f"{commits} commits"
    ours = took[DELVEC]
    return [
        at_most(f"{what}; {PLAIN}", ours, took[PLAIN], PLAIN_BAR, as_seconds),
        Figure(f"{what}; {FULL_ROWS}", as_seconds(ours), as_seconds(took[FULL_ROWS]), ours / took[FULL_ROWS]),
        at_most(f"{what}; {ICEBERG}, full rows", ours, took[ICEBERG], ICEBERG_BAR, as_seconds),
    ]


# --- tables ----------------------------------------------------------------------------------------


class Generator:
    """Makes the tables, in a process of its own."""

    def __init__(self, rows: int, keys: int) -> None:
        self.rows, self.keys = rows, keys

    def tables(self) -> KeyTables:
        folder = cache() / "bench" / f"key-vectors-{self.rows}-{self.keys}-v{GENERATION}"
        made = KeyTables(folder)
        if not (folder / COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            spark = open_session(self.rows, ICEBERG, folder=folder)
            try:
                spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.bench")
                for commits in COMMITS:
                    keys = dense_keys(self.rows, self.keys)
                    parts = np.array_split(keys, commits)
                    write_rows(spark, _rows(commits), self.rows)
                    write_rows(spark, _vectors(commits), self.rows)
                    _delete(spark, made, commits, parts)
                (folder / COMPLETE).touch()
            finally:
                spark.stop()
        return made


def write_rows(spark: Any, name: str, rows: int) -> None:
    """An Iceberg table with the rows, by Iceberg-Spark."""
    table = f"{CATALOG}.bench.{name}"
    modes = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("delete", "update", "merge"))
    properties = f"'format-version' = '3', 'write.distribution-mode' = 'none', '{GATE}' = 'true', {modes}"
    spark.sql(f"CREATE TABLE {table} ({SCHEMA}) USING iceberg TBLPROPERTIES ({properties})")
    spark.range(0, rows, 1, FILES).selectExpr(*COLUMNS).writeTo(table).append()


def loaded(spark: Any, name: str) -> Any:
    """The table of Iceberg's Java API."""
    loader = spark._jvm.org.apache.iceberg.spark.Spark3Util
    return loader.loadIcebergTable(spark._jsparkSession, f"{CATALOG}.bench.{name}")


def _delete(spark: Any, made: KeyTables, commits: int, parts: list[Any]) -> None:
    from delvec.table import Table

    java, ours = loaded(spark, _rows(commits)), Table.open(spark, made.vectors(commits))
    for part in parts:
        commit_deletes(spark, java, part)
        metrics = ours.delete_keys(pa.table({"id": part}), on="id").metrics
        if metrics["numKeysInVectors"] != len(part):
            raise RuntimeError(f"keys are not in a vector: {dict(metrics)}")
