"""Counts by delvec beside Delta-Spark's ``SELECT count(*)``: many files, and many rows.

Both engines ask in SQL; delvec also by ``Table.count``, with the table open already or opened for the count.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from bench.engines import DELTA, DELVEC, Engine
from bench.harness import Section, alternate, as_seconds, at_most, seconds
from bench.scan_tables import MANY_FILES, Generator, Tables, open_session

ROWS, QUICK_ROWS = 20_000_000, 1_000_000
ROUNDS, QUICK_ROUNDS = 7, 3
BAR = 1.2
SHARE = "5 %"
OPEN, NEW = "Table.count, open", "Table.count, newly opened"
MANY, WHOLE = "many", "whole"


def bench(*, quick: bool) -> list[Section]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    with Engine(Generator, rows) as generator:
        made = generator.ask("tables")
    tables = {
        f"count of {MANY_FILES:,} files": MANY,
        f"count of {MANY_FILES:,} files, one partition": f"{MANY} WHERE p = 7",
        f"count of {rows:,} rows, {SHARE} deleted": WHOLE,
    }
    figures = []
    with ExitStack() as stack:
        engines = {name: stack.enter_context(Engine(Counts, name, rows, made)) for name in (DELVEC, DELTA)}
        for what, asked in tables.items():
            ways = {
                DELVEC: lambda a=asked: engines[DELVEC].ask("in_sql", a),
                OPEN: lambda a=asked: engines[DELVEC].ask("by_table", a, new=False),
                NEW: lambda a=asked: engines[DELVEC].ask("by_table", a, new=True),
                DELTA: lambda a=asked: engines[DELTA].ask("in_sql", a),
            }
            counts = {name: way()[1] for name, way in ways.items()}
            if len(set(counts.values())) != 1:
                raise RuntimeError(f"the counts differ: {counts}")
            measured = alternate(rounds, {n: lambda w=way: {"seconds": w()[0]} for n, way in ways.items()})
            took = {name: result["seconds"] for name, result in measured.items()}
            for name in (DELVEC, OPEN, NEW):
                label = what if name == DELVEC else f"{what}, {name}"
                figures.append(at_most(f"{label}; {DELTA}", took[name], took[DELTA], BAR, as_seconds))
    how = (
        f"SELECT count(*) in SQL by both, and Table.count; a tenth of the {MANY_FILES:,} files has vectors; "
        f"medians of {rounds} interleaved rounds after one that is not counted; PySpark 4.1 on two cores."
    )
    return [Section("Counts", how, figures, "the other")]


class Counts:
    """The counts by one engine: the seconds, and the number."""

    def __init__(self, engine: str, rows: int, made: Tables) -> None:
        self.engine = engine
        self.spark: Any = open_session(rows, engine)
        self.places = {MANY: made.many_delta(vectors=True), WHOLE: made.delta(SHARE)}
        self.opened: dict[str, Any] = {}

    def in_sql(self, asked: str) -> tuple[float, int]:
        table, _, where = asked.partition(" ")
        text = f"SELECT count(*) FROM delta.`{self.places[table]}` {where}"
        if self.engine == DELVEC:
            from delvec import sql

            return _timed(lambda: sql(self.spark, text).collect()[0][0])
        return _timed(lambda: self.spark.sql(text).collect()[0][0])

    def by_table(self, asked: str, *, new: bool) -> tuple[float, int]:
        from delvec.table import Table

        table, _, where = asked.partition(" WHERE ")
        place = self.places[table]
        if new:
            return _timed(lambda: Table.open(self.spark, place).count(where or None))
        if place not in self.opened:
            self.opened[place] = Table.open(self.spark, place)
        return _timed(lambda: self.opened[place].count(where or None))


def _timed(count: Any) -> tuple[float, int]:
    found: list[int] = []
    took = seconds(lambda: found.append(count()))
    return took, found[0]
