"""``rewrite_deletes`` of a million keys over 20 million rows, and scans before and after it.

Iceberg-Spark writes the rows, Iceberg's Java API the deletes, as full rows in ten commits. delvec rewrites
them to vectors of keys, then to vectors of positions, each time from the same version. Both engines
then scan the version before and the version after. Iceberg-Spark can rewrite equality deletes only by writing
the data files anew.
"""

from __future__ import annotations

import shutil
import statistics
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.engines import DELVEC, ICEBERG, Engine
from bench.equality import commit_deletes
from bench.harness import Figure, Section, as_seconds, cache, seconds
from bench.key_vectors import KEYS, QUICK_KEYS, QUICK_ROWS, ROWS, loaded, write_rows
from bench.scan import ALL_COLUMNS, Run, Way, timed, without_bars
from bench.scan_tables import CATALOG, COMPLETE, FILES, SCHEMA, open_session

COMMITS = 10
REWRITES, QUICK_REWRITES = 3, 1
ROUNDS, QUICK_ROUNDS = 7, 2
GENERATION = 1
NAME = "rewritten"
VECTORS, KEY_VECTORS = "deletion-vector", "equality-vector"


def bench(*, quick: bool) -> list[Section]:
    rows, keys = (QUICK_ROWS, QUICK_KEYS) if quick else (ROWS, KEYS)
    with Engine(Generator, rows, keys) as generator:
        made = generator.ask("table")
    with ExitStack() as stack:
        engines = {name: stack.enter_context(Engine(Scans, name, rows, made)) for name in (DELVEC, ICEBERG)}
        run = Run(engines, made, QUICK_ROUNDS if quick else ROUNDS)
        took = engines[DELVEC].ask("rewrite", QUICK_REWRITES if quick else REWRITES)
        figures = [
            Figure(f"rewrite_deletes to {VECTORS}", as_seconds(took[VECTORS])),
            Figure(f"rewrite_deletes to {KEY_VECTORS}", as_seconds(took[KEY_VECTORS])),
            *_scans(run, engines[DELVEC].ask("versions")),
        ]
        how = (
            f"{rows:,} rows of {SCHEMA} in {FILES} files; {keys:,} keys of id deleted as full rows in "
            f"{COMMITS} commits; an aggregate over all columns; {run.how()}; rewrites: medians of "
            f"{QUICK_REWRITES if quick else REWRITES}."
        )
    section = Section(f"Rewriting {keys:,} keys", how, figures, ICEBERG)
    return [without_bars(section) if quick else section]


def _scans(run: Run, versions: dict[str, int]) -> list[Figure]:
    def way(name: str, version: int) -> Way:
        return lambda: run.engines[name].ask("answer", name, version)

    before, after = f"before ({COMMITS} files of full rows)", "after (vectors of positions)"
    ways = {
        f"{name} {state}": way(name, versions[state])
        for name in (DELVEC, ICEBERG)
        for state in ("before", "after")
    }
    took = run.times(ways, same=tuple(ways))
    figures = [
        _figure(f"scan {text}", took[f"{DELVEC} {state}"], took[f"{ICEBERG} {state}"])
        for state, text in (("before", before), ("after", after))
    ]
    gain = {name: took[f"{name} after"] / took[f"{name} before"] for name in (DELVEC, ICEBERG)}
    return [*figures, Figure("after / before", f"{gain[DELVEC]:.2f}×", f"{gain[ICEBERG]:.2f}×")]


def _figure(what: str, ours: float, theirs: float) -> Figure:
    ratio = ours / theirs
    return Figure(what, as_seconds(ours), as_seconds(theirs), ratio, "≤ 1.0×", ratio <= 1.0)


@dataclass(frozen=True)
class RewrittenTable:
    folder: Path

    @property
    def path(self) -> str:
        return str(self.folder / "iceberg" / "bench" / NAME)


class Scans:
    """Scans of versions of the table, by one engine; and its rewriting, by delvec."""

    def __init__(self, engine: str, rows: int, made: RewrittenTable) -> None:
        self.spark = open_session(rows, engine, folder=made.folder)
        self.made = made
        self.found: dict[str, int] = {}

    def rewrite(self, rounds: int) -> dict[str, float]:
        """The seconds of each way, from the same version each time."""
        from delvec.table import Table

        took: dict[str, float] = {}
        for to in (KEY_VECTORS, VECTORS):
            times = []
            for _ in range(rounds):
                table = Table.open(self.spark, self.made.path)
                before = self.found.setdefault("before", table.version)
                if table.version != before:
                    table.restore(before)
                times.append(seconds(lambda t=table, form=to: t.rewrite_deletes(to=form)))
            took[to] = statistics.median(times)
        self.found["after"] = Table.open(self.spark, self.made.path).version
        return took

    def versions(self) -> dict[str, int]:
        return self.found

    def answer(self, way: str, version: int) -> tuple[float, str]:
        return timed(lambda: self._frame(way, version).selectExpr(*ALL_COLUMNS).collect())

    def _frame(self, way: str, version: int) -> Any:
        if way == DELVEC:
            from delvec.table import Table

            return Table.open(self.spark, self.made.path).to_df(version=version)
        return self.spark.read.option("versionAsOf", version).table(f"{CATALOG}.bench.{NAME}")


class Generator:
    """Makes the table, in a process of its own; anew for each run of the bench, which changes it."""

    def __init__(self, rows: int, keys: int) -> None:
        self.rows, self.keys = rows, keys

    def table(self) -> RewrittenTable:
        folder = cache() / "bench" / f"rewritten-{self.rows}-{self.keys}-v{GENERATION}"
        shutil.rmtree(folder, ignore_errors=True)
        spark = open_session(self.rows, ICEBERG, folder=folder)
        try:
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.bench")
            write_rows(spark, NAME, self.rows)
            java = loaded(spark, NAME)
            keys = np.arange(self.keys, dtype=np.int64) * (self.rows // self.keys)
            for number in range(COMMITS):
                commit_deletes(spark, java, keys[number::COMMITS])
            (folder / COMPLETE).touch()
        finally:
            spark.stop()
        return RewrittenTable(folder)
