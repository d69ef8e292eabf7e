"""Scans of Iceberg tables with equality deletes: a million keys in 1, 10 and 100 commits.

The rows are written by Iceberg-Spark. The delete files are Parquet files of Arrow, committed by Iceberg's
Java API in the session's JVM: Iceberg-Spark itself writes no equality deletes. Every commit has keys from the
whole table, so that no delete file can be skipped.
"""

from __future__ import annotations

import shutil
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.engines import DELVEC, ICEBERG, Engine
from bench.harness import Figure, Section, as_seconds, at_most, cache
from bench.scan import ALL_COLUMNS, BARS, PLAIN, Run, Way, timed, without_bars
from bench.scan_tables import CATALOG, COLUMNS, COMPLETE, FILES, SCHEMA, open_session

ROWS, QUICK_ROWS = 20_000_000, 1_000_000
KEYS, QUICK_KEYS = 1_000_000, 50_000
ROUNDS, QUICK_ROUNDS = 5, 2
COMMITS = (1, 10, 100)
GENERATION = 1


def bench(*, quick: bool) -> list[Section]:
    rows, keys = (QUICK_ROWS, QUICK_KEYS) if quick else (ROWS, KEYS)
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with Engine(Generator, rows, keys) as generator:
        made = generator.ask("tables")
    with ExitStack() as stack:
        engines = {name: stack.enter_context(Engine(Scans, name, rows, made)) for name in (DELVEC, ICEBERG)}
        run = Run(engines, made, rounds)
        figures = [figure for commits in COMMITS for figure in _figures(run, commits)]
        how = (
            f"{rows:,} rows of {SCHEMA} in {FILES} files; {keys:,} keys of id deleted, each commit with keys "
            f"from the whole table; an aggregate over all columns; {run.how()}."
        )
    section = Section(f"Equality deletes of {keys:,} keys", how, figures, "the other")
    return [without_bars(section) if quick else section]


@dataclass(frozen=True)
class EqualityTables:
    folder: Path

    def path(self, commits: int) -> str:
        return str(self.folder / "iceberg" / "bench" / _name(commits))

    def data(self, commits: int) -> list[str]:
        """The data files, without the delete files beside them."""
        found = Path(self.path(commits), "data").glob("*.parquet")
        return sorted(str(file) for file in found if not file.name.startswith(_DELETES))


_DELETES = "equality-"


def _name(commits: int) -> str:
    return f"keys_in_{commits}"


def _folder(rows: int, keys: int) -> Path:
    return cache() / "bench" / f"equality-{rows}-{keys}-v{GENERATION}"


class Scans:
    """The query, by one engine."""

    def __init__(self, engine: str, rows: int, made: EqualityTables) -> None:
        self.spark = open_session(rows, engine, folder=made.folder)
        self.tables = made

    def answer(self, way: str, commits: int) -> tuple[float, str]:
        return timed(lambda: self._frame(way, commits).selectExpr(*ALL_COLUMNS).collect())

    def _frame(self, way: str, commits: int) -> Any:
        if way == DELVEC:
            from delvec.table import Table

            return Table.open(self.spark, self.tables.path(commits)).to_df()
        if way == PLAIN:
            return self.spark.read.schema(SCHEMA).parquet(*self.tables.data(commits))
        return self.spark.read.table(f"{CATALOG}.bench.{_name(commits)}")


def _figures(run: Run, commits: int) -> list[Figure]:
    def way(name: str) -> Way:
        return lambda: run.engines[name].ask("answer", name, commits)

    took = run.times({name: way(name) for name in (DELVEC, ICEBERG, PLAIN)}, same=(DELVEC, ICEBERG))
    what = f"{commits} commit" if commits == 1 else f"{commits} commits"
    plain = Figure(
        f"{what}; {PLAIN}", as_seconds(took[DELVEC]), as_seconds(took[PLAIN]), took[DELVEC] / took[PLAIN]
    )
    return [plain, at_most(f"{what}; {ICEBERG}", took[DELVEC], took[ICEBERG], BARS[ICEBERG], as_seconds)]


# --- tables ----------------------------------------------------------------------------------------


class Generator:
    """Makes the tables, in a process of its own."""

    def __init__(self, rows: int, keys: int) -> None:
        self.rows, self.keys = rows, keys

    def tables(self) -> EqualityTables:
        folder = _folder(self.rows, self.keys)
        if not (folder / COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            spark = open_session(self.rows, ICEBERG, folder=folder)
            try:
                spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.bench")
                for commits in COMMITS:
                    self._write(spark, commits)
                (folder / COMPLETE).touch()
            finally:
                spark.stop()
        return EqualityTables(folder)

    def _write(self, spark: Any, commits: int) -> None:
        name = f"{CATALOG}.bench.{_name(commits)}"
        properties = "'format-version' = '3', 'write.distribution-mode' = 'none'"
        spark.sql(f"CREATE TABLE {name} ({SCHEMA}) USING iceberg TBLPROPERTIES ({properties})")
        spark.range(0, self.rows, 1, FILES).selectExpr(*COLUMNS).writeTo(name).append()
        loader = spark._jvm.org.apache.iceberg.spark.Spark3Util
        table = loader.loadIcebergTable(spark._jsparkSession, name)
        keys = np.arange(self.keys, dtype=np.int64) * (self.rows // self.keys)
        for number in range(commits):
            commit_deletes(spark, table, keys[number::commits])


def commit_deletes(spark: Any, table: Any, keys: np.ndarray[Any, Any]) -> None:
    """A commit with one equality-delete file of the column ``id``."""
    field = table.schema().findField("id")
    place = Path(table.location().removeprefix("file:"), "data", f"{_DELETES}{uuid.uuid4()}.parquet")
    column = pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(field.fieldId())})
    pq.write_table(pa.table([pa.array(keys)], schema=pa.schema([column])), place)
    iceberg = spark._jvm.org.apache.iceberg
    ids = spark._sc._gateway.new_array(spark._jvm.int, 1)
    ids[0] = field.fieldId()
    metrics = iceberg.parquet.ParquetUtil.fileMetrics(
        table.io().newInputFile(str(place)), iceberg.MetricsConfig.getDefault()
    )
    file = (
        iceberg.FileMetadata.deleteFileBuilder(table.spec())
        .ofEqualityDeletes(ids)
        .withPath(str(place))
        .withFormat("parquet")
        .withFileSizeInBytes(place.stat().st_size)
        .withMetrics(metrics)
        .build()
    )
    table.newRowDelta().addDeletes(file).commit()
