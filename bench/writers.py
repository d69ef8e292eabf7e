"""Eight writers of small commits on one table: threads of one session, delvec's and Delta-Spark's.

A writer that is refused tries again, as its users would: what counts is the work done, and how often it was
done in vain.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.harness import Figure, Section, alternate, cache
from bench.scan_tables import session

WRITERS = 8
COMMITS, QUICK_COMMITS = 2, 1  # of each writer: Delta-Spark's are refused again and again
ROWS = 10_000
DDL = "id bigint, v bigint"
TRIES = 1000

Write = Callable[[Any, str, int], dict[str, int]]


def bench(*, quick: bool) -> list[Section]:
    commits = QUICK_COMMITS if quick else COMMITS
    with session(ROWS) as spark:
        run = _Run(spark, commits)
        figures = [figure for case in _CASES for figure in run.compared(case)]
    how = (
        f"{WRITERS} threads of one session, {commits} commits each, on a table of {ROWS:,} rows in one file; "
        "one round after one that is not counted. A writer that is refused "
        "tries again; what it did in vain is counted. delvec's vectors are united, its statements run again "
        "by themselves."
    )
    return [Section(f"{WRITERS} writers on one table", how, figures, "Delta-Spark")]


def _delvec_append(spark: Any, path: str, key: int) -> dict[str, int]:
    from delvec.table import Table

    return _told(
        Table.open(spark, path).append(spark.range(ROWS + key, ROWS + key + 1).selectExpr("id", "id AS v"))
    )


def _delvec_delete(spark: Any, path: str, key: int) -> dict[str, int]:
    from delvec.table import Table

    return _told(Table.open(spark, path).delete(f"id = {key}"))


def _delvec_update(spark: Any, path: str, key: int) -> dict[str, int]:
    from delvec.table import Table

    return _told(Table.open(spark, path).update({"v": "v + 1"}, f"id = {key}"))


def _told(result: Any) -> dict[str, int]:
    metrics = result.metrics
    return {"lost": metrics.get("numCommitTries", 1) - 1, "again": metrics.get("numRuns", 1) - 1}


def _delta(statement: str) -> Write:
    def write(spark: Any, path: str, key: int) -> dict[str, int]:
        for tries in range(TRIES):
            try:
                spark.sql(statement.format(table=f"delta.`{path}`", key=key, new=ROWS + key)).collect()
            except Exception as error:  # py4j's, of whatever class Delta-Spark has for it
                if "Concurrent" not in str(error):
                    raise
                continue
            return {"lost": 0, "again": tries}
        raise RuntimeError(f"refused {TRIES} times")

    return write


_CASES: list[tuple[str, Write, Write, int]] = [
    ("append of one row", _delvec_append, _delta("INSERT INTO {table} VALUES ({new}, {new})"), 1),
    (
        "DELETE of one row, different rows of one file",
        _delvec_delete,
        _delta("DELETE FROM {table} WHERE id = {key}"),
        -1,
    ),
    (
        "UPDATE of one row, different rows of one file",
        _delvec_update,
        _delta("UPDATE {table} SET v = v + 1 WHERE id = {key}"),
        0,
    ),
]


class _Run:
    def __init__(self, spark: Any, commits: int) -> None:
        self.spark = spark
        self.commits = commits
        self.work = cache() / "bench" / "writers"
        shutil.rmtree(self.work, ignore_errors=True)
        rows = spark.range(0, ROWS, 1, 1).selectExpr("id", "id AS v")
        rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(self.work / "base"))

    def compared(self, case: tuple[str, Write, Write, int]) -> list[Figure]:
        what, ours, theirs, _ = case
        probes = {
            "delvec": lambda: self._raced(case, ours, "delvec"),
            "Delta-Spark": lambda: self._raced(case, theirs, "delta"),
        }
        for probe in probes.values():
            probe()
        took = alternate(1, probes)
        mine, other = took["delvec"], took["Delta-Spark"]
        ratio = mine["rate"] / other["rate"]
        return [
            Figure(f"{what}: commits per second", _rate(mine), _rate(other), ratio),
            Figure(f"{what}: statements run in vain", f"{mine['again']:.0f}", f"{other['again']:.0f}"),
            Figure(f"{what}: commits tried again", f"{mine['lost']:.0f}", "not told"),
        ]

    def _raced(self, case: tuple[str, Write, Write, int], write: Write, name: str) -> dict[str, float]:
        path = self.work / name
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.work / "base", path)

        def writer(number: int) -> list[dict[str, int]]:
            keys = range(number, self.commits * WRITERS, WRITERS)
            return [write(self.spark, str(path), key) for key in keys]

        started = time.perf_counter()
        with ThreadPoolExecutor(WRITERS) as pool:
            told = [result for results in pool.map(writer, range(WRITERS)) for result in results]
        took = time.perf_counter() - started
        self._verify(case, path)
        return {
            "rate": len(told) / took,
            "lost": sum(result["lost"] for result in told),
            "again": sum(result["again"] for result in told),
        }

    def _verify(self, case: tuple[str, Write, Write, int], path: Path) -> None:
        count = self.spark.read.format("delta").load(str(path)).count()
        expected = ROWS + case[3] * self.commits * WRITERS
        if count != expected:
            raise RuntimeError(f"{case[0]} left {count} rows, expected {expected}")


def _rate(result: dict[str, float]) -> str:
    return f"{result['rate']:.1f}"
