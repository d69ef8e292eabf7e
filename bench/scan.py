"""Scans of tables with deletion vectors, beside the plain Parquet scan and the engines that bring a jar.

Each engine has a Spark session of its own (`engines.py`), stock for delvec and the plain scan; all read the
same Parquet files (`scan_tables.py`), taking turns. A measured time is that of a user's call: from the reader
to the collected answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from bench.engines import DELTA, DELVEC, ICEBERG, Engine
from bench.harness import Figure, Section, alternate, as_seconds, at_most, seconds
from bench.scan_tables import (
    EQUAL,
    LAYOUTS,
    MANY_FILES,
    PARTITIONS,
    SCHEMA,
    SHARES,
    SPREAD,
    Generator,
    Tables,
    open_session,
)

ROWS, QUICK_ROWS = 20_000_000, 1_000_000
ROUNDS, QUICK_ROUNDS = 7, 3
WARM_UPS = 5  # by then the JVM has compiled what runs
PLAIN = "plain Parquet"
BARS = {PLAIN: 1.4, DELTA: 1.0, ICEBERG: 1.1}
FIRST_ROW_BAR, PARTITION_BAR = 1.5, 0.3

ALL_COLUMNS = ("count(*)", "sum(id)", "sum(k)", "round(sum(v), -6)", "sum(length(s))")
_ONE = ("sum(k)",)
_FIRST, _COUNT = "first", "count"

Way = Callable[[], Any]  # seconds, and the answer as text


def bench(*, quick: bool) -> list[Section]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    with Engine(Generator, rows) as generator:
        made = generator.ask("tables")
    with ExitStack() as stack:
        engines = {
            name: stack.enter_context(Engine(Scans, name, rows, made)) for name in (DELVEC, DELTA, ICEBERG)
        }
        run = Run(engines, made, rounds)
        sections = [whole_scans(run, rows), other_queries(run), many_files(run)]
    if quick:  # the bars are set for the full size: fixed costs weigh more in a small scan
        sections = [without_bars(section) for section in sections]
    return sections


class Scans:
    """The queries, by one engine. Each answers with the seconds that it took, and with what came of it."""

    def __init__(self, engine: str, rows: int, made: Tables) -> None:
        self.spark = open_session(rows, engine)
        self.tables = made
        self.readers: dict[tuple[str, str], Callable[[str | None], Any]] = {}

    def answer(self, way: str, share: str, columns: Sequence[str], where: str | None) -> tuple[float, str]:
        if (way, share) not in self.readers:
            self.readers[way, share] = self._reader(way, share)
        reader = self.readers[way, share]
        return timed(lambda: reader(where).selectExpr(*columns).collect())

    def _reader(self, way: str, share: str) -> Callable[[str | None], Any]:
        spark, made = self.spark, self.tables
        if way == DELVEC:
            from delvec.table import Table

            table = Table.open(spark, made.delta(share))
            return lambda where: table.to_df(where=where)
        frames = {
            PLAIN: lambda: spark.read.schema(SCHEMA).parquet(made.plain(share)),
            DELTA: lambda: spark.read.format("delta").load(made.delta(share)),
            ICEBERG: made.iceberg(spark, share) if way == ICEBERG else None,
        }
        frame = frames[way]
        return lambda where: frame() if where is None else frame().where(where)

    def many(self, way: str, action: str, *, vectors: bool) -> tuple[float, str]:
        """The first row, or the count, of the table of many files."""
        actions = {_FIRST: lambda frame: frame.first(), _COUNT: lambda frame: frame.count()}
        return timed(lambda: actions[action](self._many(way, vectors=vectors)))

    def partition(self, *, where: str | None, later: str | None, vectors: bool) -> tuple[float, str]:
        """Rows of the table of many files, by a condition that is given to delvec, or to Spark afterwards."""

        def found() -> Any:
            frame = self._many(DELVEC, vectors=vectors, where=where)
            return (frame if later is None else frame.where(later)).selectExpr(*ALL_COLUMNS).collect()

        return timed(found)

    def _many(self, way: str, *, vectors: bool, where: str | None = None) -> Any:
        path = self.tables.many_delta(vectors=vectors)
        if way == DELVEC:
            from delvec.table import Table

            return Table.open(self.spark, path).to_df(where=where)
        return (
            self.spark.read.format("delta").load(path)
            if way == DELTA
            else self.spark.read.parquet(self.tables.many)
        )


def timed(action: Callable[[], object]) -> tuple[float, str]:
    found: list[object] = []
    took = seconds(lambda: found.append(action()))
    return took, str(found[0])


class Run:
    """The ways to read each table, and their times."""

    def __init__(self, engines: Mapping[str, Engine], made: Tables, rounds: int) -> None:
        self.engines = engines | {PLAIN: engines[DELVEC]}
        self.others = tuple(name for name in engines if name != DELVEC)
        self.tables = made
        self.rounds = rounds

    def how(self) -> str:
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        return (
            f"medians of {self.rounds} interleaved rounds after {WARM_UPS} that are not counted; load "
            f"average {load} at the end"
        )

    def times(self, ways: Mapping[str, Way], *, same: Sequence[str]) -> dict[str, float]:
        """The median seconds of each way; the answers of ``same`` must be equal."""
        for _ in range(WARM_UPS):
            answers = {name: way()[1] for name, way in ways.items()}
        if len({answers[name] for name in same}) > 1:
            raise RuntimeError(f"answers differ: {answers}")
        probes = {name: lambda w=way: {"seconds": w()[0]} for name, way in ways.items()}
        return {name: result["seconds"] for name, result in alternate(self.rounds, probes).items()}

    def compared(self, share: str, answer: Sequence[str], where: str | None = None) -> dict[str, float]:
        """The times of a query by delvec and the other engines; and of the plain scan."""

        def way(name: str) -> Way:
            return lambda: self.engines[name].ask("answer", name, share, answer, where)

        names = (DELVEC, *self.others)  # the plain scan has the deleted rows as well
        return self.times({name: way(name) for name in (*names, PLAIN)}, same=names)


def whole_scans(run: Run, rows: int) -> Section:
    figures: list[Figure] = []
    for share in SHARES:
        figures += _figures(f"{share} deleted", run.compared(share, ALL_COLUMNS), bars=share == "5 %")
    for layout, what in ((EQUAL, "files of equal size"), (SPREAD, f"{LAYOUTS[SPREAD]} files")):
        figures += _figures(f"5 % deleted, {what}", run.compared(layout, ALL_COLUMNS), bars=True)
    how = (
        f"{rows:,} rows of {SCHEMA} in four files where nothing else is said; an aggregate over all columns; "
        f"PySpark 4.1 on two cores, the same Parquet files for all; {run.how()}."
    )
    return Section(f"Scanning {rows:,} rows", how, figures, "the other")


def other_queries(run: Run) -> Section:
    selective = run.tables.one_row_group()
    figures = [
        *_figures("one column", run.compared("5 %", _ONE), bars=True),
        *_figures("one row group matches", run.compared("5 %", ALL_COLUMNS, selective), bars=True),
    ]
    how = f"The same tables, 5 % deleted: one column, and a condition that one row group holds; {run.how()}."
    return Section("Selective and narrow scans", how, figures, "the other")


def _figures(what: str, took: Mapping[str, float], *, bars: bool) -> list[Figure]:
    """Delvec beside each other way, whose own ratio to the plain scan is told as well."""
    figures = []
    for other, bar in ((name, bar) for name, bar in BARS.items() if name in took):
        figure = at_most(f"{what}; {other}", took[DELVEC], took[other], bar, as_seconds)
        if other != PLAIN:
            figure = replace(figure, other=f"{figure.other} ({took[other] / took[PLAIN]:.2f}× plain)")
        figures.append(figure if bars else replace(figure, bar="", holds=None))
    return figures


# --- many files ------------------------------------------------------------------------------------


def many_files(run: Run) -> Section:
    figures: list[Figure] = []
    other = run.others[0]
    for vectors in (False, True):
        suffix = ", a tenth with vectors" if vectors else ""
        for action, what, bar in ((_FIRST, "first row", FIRST_ROW_BAR), (_COUNT, "count", None)):
            ways = _many_ways(run, action, vectors=vectors)
            same = () if action == _FIRST else (DELVEC, other) if vectors else tuple(ways)
            took = run.times(ways, same=same)
            figures.append(_many_figure(f"{what}{suffix}; {PLAIN}", took, PLAIN, bar))
            figures.append(_many_figure(f"{what}{suffix}; {other}", took, other, None))
        figures += _partition_figures(run, suffix, vectors=vectors)
    how = (
        f"{MANY_FILES:,} files of 200 rows in {PARTITIONS} partitions; opening the table is part of each "
        f"time; {run.how()}."
    )
    return Section(f"A table of {MANY_FILES:,} files", how, figures, "the other")


def _many_ways(run: Run, action: str, *, vectors: bool) -> dict[str, Way]:
    def way(name: str) -> Way:
        return lambda: run.engines[name].ask("many", name, action, vectors=vectors)

    return {name: way(name) for name in (DELVEC, PLAIN, run.others[0])}


def _partition_figures(run: Run, suffix: str, *, vectors: bool) -> list[Figure]:
    """One partition beside the whole, both by delvec."""
    condition = "p = 7"
    conditions = {"whole": (None, None), "given": (condition, None), "later": (None, condition)}

    def way(where: str | None, later: str | None) -> Way:
        return lambda: run.engines[DELVEC].ask("partition", where=where, later=later, vectors=vectors)

    ways = {name: way(*given) for name, given in conditions.items()}
    took = run.times(ways, same=("given", "later"))
    what = f"one partition of {PARTITIONS}{suffix}"
    return [
        _against(f"{what}, to_df(where=); the whole", took["given"], took["whole"], PARTITION_BAR),
        _against(f"{what}, to_df().where(); the whole", took["later"], took["whole"], None),
    ]


def _many_figure(what: str, took: Mapping[str, float], other: str, bar: float | None) -> Figure:
    return _against(what, took[DELVEC], took[other], bar)


def _against(what: str, ours: float, theirs: float, bar: float | None) -> Figure:
    if bar is None:
        return Figure(what, as_seconds(ours), as_seconds(theirs), ours / theirs)
    return at_most(what, ours, theirs, bar, as_seconds)


def without_bars(section: Section) -> Section:
    return replace(section, figures=[replace(figure, bar="", holds=None) for figure in section.figures])
