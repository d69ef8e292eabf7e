"""OPTIMIZE by delvec beside Delta-Spark, on copies of the same tables.

Each engine has a Spark session of its own (`engines.py`), stock for delvec. The time is that of the user's
call alone; both must leave as many rows and as many files.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.engines import DELTA, DELVEC, Engine
from bench.harness import Figure, Section, alternate, as_seconds, at_most, seconds
from bench.scan import QUICK_ROWS, ROWS
from bench.scan_tables import Tables, copy_table, open_session, session, tables

ROUNDS, QUICK_ROUNDS = 3, 1
WARM_UPS = 1
BAR = 1.0
SMALL_FILES, QUICK_SMALL_FILES = 1_000, 100
SMALL_ROWS = 1_000  # of each small file
_SMALL, _DELETED = "small files", "deleted rows"
_SHARE = "5 %"


def bench(*, quick: bool) -> list[Section]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    files = QUICK_SMALL_FILES if quick else SMALL_FILES
    with Engine(Preparation, rows, files) as preparation:
        made = preparation.ask("tables")
    with ExitStack() as stack:
        engines = {
            name: stack.enter_context(Engine(Compaction, name, rows, made)) for name in (DELVEC, DELTA)
        }
        figures = [
            _figure(engines, rounds, _SMALL, f"OPTIMIZE of {files:,} files of {SMALL_ROWS:,} rows"),
            _figure(engines, rounds, _DELETED, f"OPTIMIZE of {rows:,} rows with {_SHARE} deleted"),
        ]
    how = (
        f"Medians of {rounds} interleaved rounds after {WARM_UPS} that is not counted, each on a copy of the "
        "table (hard links); PySpark 4.1 on two cores, each engine in a session of its own."
    )
    return [Section("Compaction", how, figures, "Delta-Spark")]


def _figure(engines: dict[str, Engine], rounds: int, table: str, what: str) -> Figure:
    probes = {name: lambda e=engine: e.ask("run", table) for name, engine in engines.items()}
    for _ in range(WARM_UPS):
        left = {
            name: (result["rows"], result["files"]) for name, probe in probes.items() for result in [probe()]
        }
        if len(set(left.values())) != 1:
            raise RuntimeError(f"rows and files differ after {what}: {left}")
    took = {name: result["seconds"] for name, result in alternate(rounds, probes).items()}
    return at_most(what, took[DELVEC], took[DELTA], BAR, as_seconds)


class Preparation:
    """Makes the tables: in a process of its own."""

    def __init__(self, rows: int, files: int) -> None:
        self.rows, self.files = rows, files

    def tables(self) -> Tables:
        with session(self.rows) as spark:
            made = tables(spark, self.rows)
            place = _folder(made) / _SMALL.replace(" ", "-")
            shutil.rmtree(place.parent, ignore_errors=True)
            rows = spark.range(0, self.files * SMALL_ROWS, 1, self.files)
            rows = rows.selectExpr(
                "id", "CAST(id % 97 AS INT) AS k", "id / 3 AS v", "concat('row ', id) AS s"
            )
            rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(place))
        return made


def _folder(made: Tables) -> Path:
    return made.folder / "optimize"


class Compaction:
    """OPTIMIZE by one engine."""

    def __init__(self, engine: str, rows: int, made: Tables) -> None:
        self.engine = engine
        self.spark = open_session(rows, engine)
        self.work = _folder(made)
        self.sources = {
            _SMALL: self.work / _SMALL.replace(" ", "-"),
            _DELETED: Path(made.delta(_SHARE)),
        }

    def run(self, table: str) -> dict[str, float]:
        path = self._copy(self.sources[table])
        if self.engine == DELVEC:
            took = seconds(lambda: self._opened(path).optimize())
        else:
            took = seconds(lambda: self.spark.sql(f"OPTIMIZE delta.`{path}`").collect())
        return {"seconds": took, "rows": self._rows(path), "files": self._files(path)}

    def _opened(self, path: Path) -> Any:
        from delvec.table import Table

        return Table.open(self.spark, str(path))

    def _rows(self, path: Path) -> int:
        frame = self._opened(path).to_df() if self.engine == DELVEC else self.spark.table(f"delta.`{path}`")
        return int(frame.count())

    def _files(self, path: Path) -> int:
        return int(self._opened(path).files().count())

    def _copy(self, source: Path) -> Path:
        target = self.work / self.engine
        copy_table(source, target)
        return target
