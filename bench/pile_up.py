"""Scans of an Iceberg table of which each commit deletes 1,000 keys, as commits pile up; and the remedies.

The rows are written by delvec in Spark. The commits are made without Spark, by the writers of deletes: only
scans are measured. One table has vectors of keys, its twin full rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from bench.engines import DELVEC, Engine
from bench.harness import Figure, Section, as_seconds, cache, seconds
from bench.key_vectors import GATE
from bench.scan import ALL_COLUMNS, Run, Way, timed
from bench.scan_tables import COLUMNS, FILES, SCHEMA, open_session

ROWS, QUICK_ROWS = 20_000_000, 1_000_000
COMMITS, QUICK_COMMITS = (1, 10, 100, 1_000), (1, 10, 50)
KEYS = 1_000
ROUNDS, QUICK_ROUNDS = 5, 2
VECTORS, ROWS_OF_KEYS = "vectors", "full rows"


def bench(*, quick: bool) -> list[Section]:
    rows, commits = (QUICK_ROWS, QUICK_COMMITS) if quick else (ROWS, COMMITS)
    with Engine(Scans, rows, commits) as engine:
        run = Run({DELVEC: engine}, None, QUICK_ROUNDS if quick else ROUNDS)  # type: ignore[arg-type]
        figures = [figure for count in (0, *commits) for figure in _scans(run, engine, count)]
        for form in (VECTORS, ROWS_OF_KEYS):
            took = engine.ask("rewrite", form)
            figures.append(Figure(f"{form}: rewrite_deletes", as_seconds(took)))
        figures += _scans(run, engine, None)
        how = (
            f"{rows:,} rows of {SCHEMA} in {FILES} files; each commit deletes {KEYS:,} keys of random rows; "
            f"an aggregate over all columns; {run.how()}. The ratio is that to the scan without deletes."
        )
    return [Section(f"Commits of {KEYS:,} deleted keys", how, figures, "full rows")]


_PLAIN: dict[str, float] = {}


def _scans(run: Run, engine: Engine, commits: int | None) -> list[Figure]:
    """Scans after so many commits; None: after the deletes were rewritten."""

    def way(form: str) -> Way:
        return lambda: engine.ask("answer", form, commits)

    took = run.times({form: way(form) for form in (VECTORS, ROWS_OF_KEYS)}, same=(VECTORS, ROWS_OF_KEYS))
    if commits == 0:
        _PLAIN["scan"] = min(took.values())
    what = "after rewrite_deletes" if commits is None else f"commits: {commits:,}"
    ratio = took[VECTORS] / _PLAIN["scan"]
    return [Figure(f"scan, {what}", as_seconds(took[VECTORS]), as_seconds(took[ROWS_OF_KEYS]), ratio)]


class Scans:
    """The tables, and scans of their versions."""

    def __init__(self, rows: int, commits: Sequence[int]) -> None:
        self.folder = cache() / "bench" / f"pile-up-{rows}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.spark = open_session(rows, DELVEC, folder=self.folder)
        self.versions: dict[tuple[str, int | None], int] = {}
        rng = np.random.default_rng(4)
        keys = rng.permutation(rows)[: KEYS * max(commits)].reshape(-1, KEYS)
        for form in (VECTORS, ROWS_OF_KEYS):
            self._make(form, rows, keys, commits)

    def _make(self, form: str, rows: int, keys: np.ndarray[Any, Any], commits: Sequence[int]) -> None:
        from delvec.table import Table

        frame = self.spark.range(0, rows, 1, FILES).selectExpr(*COLUMNS)
        gate = {GATE: "true" if form == VECTORS else "false", "write.delete.encoding-hint": "deletion-vector"}
        table = Table.create(
            self.spark, self._path(form), frame, format="iceberg", format_version=3, properties=gate
        )
        self.versions[form, 0] = table.version
        for number, part in enumerate(keys, 1):
            version = delete_keys(self._path(form), part)
            if number in commits:
                self.versions[form, number] = version

    def _path(self, form: str) -> str:
        return str(self.folder / form.replace(" ", "_"))

    def answer(self, form: str, commits: int | None) -> tuple[float, str]:
        from delvec.table import Table

        version = self.versions.get((form, commits))
        table = Table.open(self.spark, self._path(form))
        return timed(lambda: table.to_df(version=version).selectExpr(*ALL_COLUMNS).collect())

    def rewrite(self, form: str) -> float:
        from delvec.table import Table

        table = Table.open(self.spark, self._path(form))
        return seconds(table.rewrite_deletes)


def delete_keys(path: str, keys: np.ndarray[Any, Any]) -> int:
    """A commit that deletes keys of the column ``id``, without Spark."""
    from delvec.deletes.model import added_deletes
    from delvec.deletes.writers import DeleteWriterFactory
    from delvec.detect import open_table
    from delvec.row_delta import Committed, Operation, Read, Request, RowCounts, RowDelta, Verb

    table = open_table(path)
    snapshot = table.snapshot()
    field = next(field for field in snapshot.schema if field.name == "id")
    assert field.field_id is not None
    writer = DeleteWriterFactory.for_version(table.storage, snapshot).create_equality_writer([field.field_id])
    writer.write_batch(pa.table({"id": keys}))
    delta = RowDelta(
        snapshot.base,
        Request(Operation.DELETE_KEYS, "id"),
        Read(blind=True),
        Verb.DELETE_KEYS,
        RowCounts(source=len(keys)),
        added_deletes=added_deletes(writer.close().files),
    )
    outcome = table.commit(snapshot, delta)
    assert isinstance(outcome, Committed), outcome
    return outcome.version
