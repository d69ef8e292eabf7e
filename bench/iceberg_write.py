"""Writes to Iceberg v3 tables by delvec beside Iceberg-Spark, on the same rows: warm, and as the first
statement of a session.

delvec's table is at a path. Before each run its later metadata files are deleted, so that the table is as it
was made; Iceberg-Spark's table, in a catalog of folders, is rolled back. The time is that of the user's call
alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.cold import ROUNDS as COLD_ROUNDS
from bench.cold import first_statements
from bench.engines import DELVEC, ICEBERG, Engine
from bench.harness import Section
from bench.scan import QUICK_ROWS, ROWS
from bench.scan_tables import SCHEMA
from bench.write import (
    MORE_WARM_UPS,
    QUICK_ROUNDS,
    SMALL,
    SMALL_ROWS,
    TINY,
    TINY_ROWS,
    WARM_UPS,
    Preparation,
    Run,
    Verb,
    Writes,
    verbs,
)
from bench.write import ROUNDS as WARM_ROUNDS

_FOLDER = "iceberg_write"
_MERGE_BAR = 0.5
_COLD = ("DELETE 0.1 %", "UPDATE 0.1 %", "MERGE, 1 % upserted")


def bench(*, quick: bool) -> list[Section]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, WARM_ROUNDS)
    with Engine(Preparation, rows) as preparation:
        made = preparation.ask("undeleted_tables")
    with Engine(IcebergWrites, DELVEC, rows, made) as engine:
        engine.ask("prepare")
    chosen = [_with_bar(verb) for verb in verbs(rows)]
    with ExitStack() as stack:
        engines = {
            name: stack.enter_context(Engine(IcebergWrites, name, rows, made)) for name in (DELVEC, ICEBERG)
        }
        run = Run(engines, chosen, rounds)
        for _ in range(WARM_UPS):
            run.warm_up()
        for _ in range(MORE_WARM_UPS):
            run.warm_up_more()
        warm = run.figures()
    cold = first_statements(
        [verb for verb in chosen if verb.what in _COLD],
        QUICK_ROUNDS if quick else COLD_ROUNDS,
        lambda name: Engine(IcebergWrites, name, rows, made),
        (DELVEC, ICEBERG),
    )
    how = f"{rows:,} rows of {SCHEMA} in four files; format version 3, merge-on-read for all; "
    return [
        Section(f"Iceberg v3: writing to {rows:,} rows", how + _of_warm(rounds), warm, "the other"),
        Section("Iceberg v3: first statements of a session", how + "a process each.", cold, "the other"),
    ]


def _of_warm(rounds: int) -> str:
    return f"medians of {rounds} interleaved rounds and more of short statements, each engine in a session."


def _with_bar(verb: Verb) -> Verb:
    """No statement slower than Iceberg-Spark's, a MERGE in half the time."""
    return replace(verb, bar=_MERGE_BAR if verb.what.startswith("MERGE") else 1.0, rewrites=False)


class IcebergWrites(Writes):
    """The verbs on Iceberg tables."""

    def prepare(self) -> None:
        """Make the tables: one of all rows, and the small ones."""
        from delvec.table import Table

        shutil.rmtree(self._folder, ignore_errors=True)
        plain = self.spark.read.parquet(self.tables.plain("0"))
        parts: Mapping[str, Any] = {
            "": plain.coalesce(4),
            SMALL: plain.where(f"id < {SMALL_ROWS}").coalesce(1),
            TINY: plain.where(f"id < {TINY_ROWS}").coalesce(1),
        }
        for name, frame in parts.items():
            Table.create(self.spark, str(self._place(name)), frame, format="iceberg")

    @property
    def _folder(self) -> Path:
        return self.work / _FOLDER

    def _place(self, name: str) -> Path:
        return self._folder / (name or "all")

    def _copy(self, verb: Verb, name: str) -> Path:
        """The table as it was made: later metadata files go, and the hint."""
        del name
        place = self._place(verb.small)
        for file in self._later_files(place):
            file.unlink()
        (place / "metadata/version-hint.text").write_text("1")
        return place

    def _later_files(self, place: Path) -> Sequence[Path]:
        files = (place / "metadata").glob("v*.metadata.json")
        return [file for file in files if file.name != "v1.metadata.json"]
