"""The change feed by delvec beside Delta-Spark, on the same tables: a DELETE with vectors, and many commits.

Delta-Spark makes the tables. Each engine has a Spark session of its own (`engines.py`), stock for delvec. The
time is that of opening the feed and reading all of its rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.engines import DELTA, DELVEC, Engine
from bench.harness import Figure, Section, alternate, as_seconds, at_most, seconds
from bench.scan import QUICK_ROWS, ROWS
from bench.scan_tables import SCHEMA, Tables, copy_table, open_session, session, undeleted_tables

ROUNDS, QUICK_ROUNDS, WARM_UPS = 9, 1, 3
COMMITS, QUICK_COMMITS = 200, 10
BAR = 1.0
_ONE_IN = 1000
_DELETED, _MANY = "deleted", "many"
_FEED = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'"


@dataclass(frozen=True)
class Range:
    """Changes of a table; ``where``: the condition on the rows that are read."""

    what: str
    table: str
    where: str = "true"


def ranges(rows: int, commits: int) -> list[Range]:
    return [
        Range(f"changes of a DELETE of 0.1 % of {rows:,} rows", _DELETED),
        Range("the same where k = 7", _DELETED, "k = 7"),
        Range(f"changes of {commits} commits of 10 rows", _MANY),
    ]


def bench(*, quick: bool) -> list[Section]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    commits = QUICK_COMMITS if quick else COMMITS
    with Engine(Preparation, rows, commits) as preparation:
        made = preparation.ask("tables")
    with ExitStack() as stack:
        engines = {name: stack.enter_context(Engine(Feeds, name, rows, made)) for name in (DELVEC, DELTA)}
        figures = [_figure(engines, each, rounds) for each in ranges(rows, commits)]
    how = (
        f"{rows:,} rows of {SCHEMA} in four files, and a table of small commits, by Delta-Spark; medians "
        f"of {rounds} interleaved rounds after {WARM_UPS} that are not counted; PySpark 4.1 on two cores, "
        "each engine in a session of its own."
    )
    return [Section("The change feed", how, figures, DELTA)]


def _figure(engines: dict[str, Engine], each: Range, rounds: int) -> Figure:
    probes: dict[str, Callable[[], dict[str, float]]] = {
        name: lambda e=engine: e.ask("read", each) for name, engine in engines.items()
    }
    for _ in range(WARM_UPS):
        counted = {name: probe()["rows"] for name, probe in probes.items()}
        if len(set(counted.values())) != 1:
            raise RuntimeError(f"rows differ for {each.what}: {counted}")
    took = {name: result["seconds"] for name, result in alternate(rounds, probes).items()}
    return at_most(each.what, took[DELVEC], took[DELTA], BAR, as_seconds)


class Preparation:
    """Makes the tables, in a process of its own."""

    def __init__(self, rows: int, commits: int) -> None:
        self.rows, self.commits = rows, commits

    def tables(self) -> Tables:
        with session(self.rows) as spark:
            made = undeleted_tables(spark, self.rows)
            work = made.folder / "changes"
            shutil.rmtree(work, ignore_errors=True)
            self._deleted(spark, Path(made.delta("0")), work / _DELETED)
            self._many(spark, work / _MANY)
        return made

    def _deleted(self, spark: Any, source: Path, target: Path) -> None:
        copy_table(source, target)
        name = f"delta.`{target}`"
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({_FEED})")
        spark.sql(f"DELETE FROM {name} WHERE pmod(xxhash64(id), {_ONE_IN}) = 0")

    def _many(self, spark: Any, target: Path) -> None:
        name = f"delta.`{target}`"
        spark.sql(f"CREATE TABLE {name} ({SCHEMA}) USING delta TBLPROPERTIES ({_FEED})")
        for number in range(self.commits):
            rows = spark.range(number * 10, number * 10 + 10, 1, 1).selectExpr(
                "id", "CAST(7 AS INT) AS k", "CAST(id AS DOUBLE) AS v", "concat('new ', id) AS s"
            )
            rows.write.format("delta").mode("append").save(str(target))


class Feeds:
    """The change feed, by one engine."""

    def __init__(self, engine: str, rows: int, made: Tables) -> None:
        self.engine = engine
        self.spark = open_session(rows, *(() if engine == DELVEC else (engine,)))
        self.work = made.folder / "changes"
        newest = len(list((self.work / _DELETED / "_delta_log").glob("*.json"))) - 1
        self.first = {_DELETED: newest, _MANY: 1}

    def read(self, each: Range) -> dict[str, float]:
        took = seconds(lambda: self._feed(each).write.format("noop").mode("overwrite").save())
        return {"seconds": took, "rows": self._feed(each).count()}

    def _feed(self, each: Range) -> Any:
        place, first = str(self.work / each.table), self.first[each.table]
        if self.engine == DELVEC:
            from delvec.table import Table

            frame = Table.open(self.spark, place).changes(first)
        else:
            reader = self.spark.read.format("delta").option("readChangeFeed", "true")
            frame = reader.option("startingVersion", first).load(place)
        return frame.where(each.where)
