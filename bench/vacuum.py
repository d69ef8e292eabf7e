"""VACUUM by delvec beside Delta-Spark: files that no version needs, spread over a hundred folders.

Each run starts from a copy of the table (hard links). The time is that of the user's call alone.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.engines import DELTA, DELVEC, Engine
from bench.harness import Section, alternate, as_seconds, at_most, cache, seconds
from bench.scan_tables import copy_table, open_session

FILES, QUICK_FILES = 100_000, 5_000
FOLDERS = 100
ROUNDS, QUICK_ROUNDS = 3, 1
_ROWS = 20_000_000  # for the session's settings
_OLD = 30 * 86_400  # seconds


def bench(*, quick: bool) -> list[Section]:
    files, rounds = (QUICK_FILES, QUICK_ROUNDS) if quick else (FILES, ROUNDS)
    with ExitStack() as stack:
        engines = {name: stack.enter_context(Engine(Vacuum, name, files)) for name in (DELVEC, DELTA)}
        probes = {name: lambda e=engine: e.ask("run") for name, engine in engines.items()}
        left = {name: probe()["left"] for name, probe in probes.items()}
        if len(set(left.values())) != 1:
            raise RuntimeError(f"the engines left different numbers of files: {left}")
        measured = alternate(rounds, probes)
    took = {name: result["seconds"] for name, result in measured.items()}
    figure = at_most(f"VACUUM of {files:,} files; {DELTA}", took[DELVEC], took[DELTA], 1.0, as_seconds)
    how = (
        f"{files:,} unreferenced files of 100 bytes in {FOLDERS} folders on the local disk; medians of "
        f"{rounds} interleaved rounds after one that is not counted; PySpark 4.1 on two cores."
    )
    return [Section(f"VACUUM of {files:,} files", how, [figure], "the other")]


class Vacuum:
    """Runs VACUUM by one engine; answers with its seconds, and how many files are left."""

    def __init__(self, engine: str, files: int) -> None:
        self.engine = engine
        self.folder = cache() / "bench" / f"vacuum-{files}"
        self.spark: Any = open_session(_ROWS, engine)
        self.template = self.folder / f"template-{engine}"
        if not (self.folder / f"written-{engine}").exists():
            self._write(files)

    def run(self) -> dict[str, float]:
        from delvec.table import Table

        place = self.folder / self.engine
        copy_table(self.template, place)
        if self.engine == DELVEC:
            took = seconds(lambda: Table.open(self.spark, str(place)).vacuum())
        else:
            took = seconds(lambda: self.spark.sql(f"VACUUM delta.`{place}`").collect())
        left = sum(1 for file in place.rglob("*.parquet") if "_delta_log" not in file.parts)
        return {"seconds": took, "left": left}

    def _write(self, files: int) -> None:
        from delvec.table import Table

        shutil.rmtree(self.template, ignore_errors=True)
        Table.create(self.spark, str(self.template), self.spark.range(1000).repartition(10))
        at = time.time() - _OLD
        for number in range(files):
            place = Path(self.template, f"p={number % FOLDERS}", f"part-{number:06d}.parquet")
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(b"x" * 100)
            os.utime(place, (at, at))
        (self.folder / f"written-{self.engine}").touch()
