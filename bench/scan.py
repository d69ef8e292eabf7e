"""Scans of tables with deletion vectors, beside the plain Parquet scan and the engines that bring a jar.

Everything runs in one Spark session, over the same Parquet files (`scan_tables.py`), the ways taking turns.
A measured time is that of a user's call: from the reader to the collected answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.harness import Figure, Section, alternate, as_seconds, at_most, seconds
from bench.scan_tables import EQUAL, MANY_FILES, PARTITIONS, SCHEMA, SHARES, Tables, session, tables

ROWS, QUICK_ROWS = 20_000_000, 1_000_000
ROUNDS, QUICK_ROUNDS = 5, 3
WARM_UPS = 1
DELVEC, PLAIN, DELTA, ICEBERG = "delvec", "plain Parquet", "Delta-Spark", "Iceberg-Spark"
BARS = {PLAIN: 1.4, DELTA: 1.0, ICEBERG: 1.1}
FIRST_ROW_BAR, PARTITION_BAR = 1.5, 0.3

_ALL = ("count(*)", "sum(id)", "sum(k)", "round(sum(v), -6)", "sum(length(s))")
_ONE = ("sum(k)",)

Way = Callable[[], Any]


def bench(*, quick: bool) -> list[Section]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    with session(rows) as spark:
        made = tables(spark, rows)
        run = _Run(spark, made, rounds)
        sections = [_whole(run, rows), _other_queries(run), _many(run)]
    if quick:  # the bars are set for the full size: fixed costs weigh more in a small scan
        sections = [_without_bars(section) for section in sections]
    return sections


class _Run:
    """The ways to read each table, and their times."""

    def __init__(self, spark: Any, made: Tables, rounds: int) -> None:
        self.spark = spark
        self.tables = made
        self.rounds = rounds

    def how(self) -> str:
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        return f"medians of {self.rounds} interleaved rounds; load average {load} at the end"

    def times(self, ways: Mapping[str, Way], *, same: bool = True) -> dict[str, float]:
        """The median seconds of each way; ``same``: their answers must be equal."""
        for _ in range(WARM_UPS):
            answers = {name: way() for name, way in ways.items()}
        if same and len(set(map(str, answers.values()))) != 1:
            raise RuntimeError(f"answers differ: {answers}")
        probes = {name: lambda w=way: {"seconds": seconds(w)} for name, way in ways.items()}
        return {name: result["seconds"] for name, result in alternate(self.rounds, probes).items()}

    def compared(self, share: str, answer: Sequence[str], where: str | None = None) -> dict[str, float]:
        """The times of a query by delvec, Delta-Spark and Iceberg-Spark; and of the plain scan."""
        from delvec.table import Table

        spark, made = self.spark, self.tables
        table = Table.open(spark, made.delta(share))
        ways = {
            DELVEC: lambda: _answer(table.to_df(where=where), answer),
            DELTA: lambda: _answer(spark.read.format("delta").load(made.delta(share)), answer, where),
            ICEBERG: lambda: _answer(made.iceberg(spark, share), answer, where),
        }
        plain = {PLAIN: lambda: _answer(spark.read.schema(SCHEMA).parquet(made.plain(share)), answer, where)}
        found = {name: way() for name, way in ways.items()}
        if len(set(map(str, found.values()))) != 1:
            raise RuntimeError(f"answers differ, {share} deleted: {found}")
        return self.times(ways | plain, same=False)


def _answer(frame: Any, columns: Sequence[str], where: str | None = None) -> Any:
    chosen = frame if where is None else frame.where(where)
    return chosen.selectExpr(*columns).collect()


def _whole(run: _Run, rows: int) -> Section:
    figures: list[Figure] = []
    for share in SHARES:
        figures += _figures(f"{share} deleted", run.compared(share, _ALL), bars=share == "5 %")
    figures += _figures("5 % deleted, files of equal size", run.compared(EQUAL, _ALL), bars=True)
    how = (
        f"{rows:,} rows of {SCHEMA} in four files; an aggregate over all columns; PySpark 4.1 on two cores, "
        f"the same Parquet files for all; {run.how()}."
    )
    return Section(f"Scanning {rows:,} rows", how, figures, "the other")


def _other_queries(run: _Run) -> Section:
    selective = run.tables.one_row_group()
    figures = [
        *_figures("one column", run.compared("5 %", _ONE), bars=True),
        *_figures("one row group matches", run.compared("5 %", _ALL, selective), bars=True),
    ]
    how = f"The same tables, 5 % deleted: one column, and a condition that one row group holds; {run.how()}."
    return Section("Selective and narrow scans", how, figures, "the other")


def _figures(what: str, took: Mapping[str, float], *, bars: bool) -> list[Figure]:
    """Delvec beside each other way, whose own ratio to the plain scan is told as well."""
    figures = []
    for other, bar in BARS.items():
        figure = at_most(f"{what}; {other}", took[DELVEC], took[other], bar, as_seconds)
        if other != PLAIN:
            figure = replace(figure, other=f"{figure.other} ({took[other] / took[PLAIN]:.2f}× plain)")
        figures.append(figure if bars else replace(figure, bar="", holds=None))
    return figures


# --- many files ------------------------------------------------------------------------------------


def _many(run: _Run) -> Section:
    figures: list[Figure] = []
    for vectors in (False, True):
        suffix = ", a tenth with vectors" if vectors else ""
        first = run.times(_many_ways(run, vectors, lambda frame: frame.first()), same=False)
        figures.append(_many_figure(f"first row{suffix}; {PLAIN}", first, PLAIN, FIRST_ROW_BAR))
        figures.append(_many_figure(f"first row{suffix}; {DELTA}", first, DELTA, None))
        count = run.times(_many_ways(run, vectors, lambda frame: frame.count()), same=not vectors)
        figures.append(_many_figure(f"count{suffix}; {PLAIN}", count, PLAIN, None))
        figures.append(_many_figure(f"count{suffix}; {DELTA}", count, DELTA, None))
        figures += _partition_figures(run, vectors, suffix)
    how = (
        f"{MANY_FILES:,} files of 200 rows in {PARTITIONS} partitions; opening the table is part of each "
        f"time; {run.how()}."
    )
    return Section(f"A table of {MANY_FILES:,} files", how, figures, "the other")


def _many_ways(run: _Run, vectors: bool, answer: Callable[[Any], Any]) -> dict[str, Way]:
    from delvec.table import Table

    spark, path = run.spark, run.tables.many_delta(vectors=vectors)
    return {
        DELVEC: lambda: answer(Table.open(spark, path).to_df()),
        PLAIN: lambda: answer(spark.read.parquet(run.tables.many)),
        DELTA: lambda: answer(spark.read.format("delta").load(path)),
    }


def _partition_figures(run: _Run, vectors: bool, suffix: str) -> list[Figure]:
    """One partition beside the whole, both by delvec."""
    from delvec.table import Table

    spark, path, condition = run.spark, run.tables.many_delta(vectors=vectors), "p = 7"
    ways = {
        "whole": lambda: _answer(Table.open(spark, path).to_df(), _ALL),
        "given": lambda: _answer(Table.open(spark, path).to_df(where=condition), _ALL),
        "later": lambda: _answer(Table.open(spark, path).to_df().where(condition), _ALL),
    }
    took = run.times(ways, same=False)
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


def _without_bars(section: Section) -> Section:
    return replace(section, figures=[replace(figure, bar="", holds=None) for figure in section.figures])
