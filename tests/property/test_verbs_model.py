"""Random sequences of all verbs on random tables: after each step a table is what a list of rows would be."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions

from delta_writer import read_by_delta_rs, read_by_duckdb
from delvec import detect
from delvec.errors import InvalidOperationError
from delvec.spark import remove_rows
from delvec.verify import verify_table
from rows import multiset, read_rows
from scanning import collected, plain
from verbs_model import (
    KEY,
    KINDS,
    PLAIN,
    Model,
    SetProperties,
    Step,
    arrow_rows,
    random_append,
    random_rows,
    random_step,
    run_by_delvec,
    schema_text,
)

pytestmark = pytest.mark.spark

STEPS = 6
ORDINARY, SLOW = 6, 60
NAMES = ["plain", "dot.ted", "tick`ed", "Ünï", "select", "target", "source", "row_index", "file_path", "_x"]
# Without column mapping Delta allows no such names.
SPACED = ["with space", "a,b", "p=q", "(x)"]


def random_table(rng: random.Random) -> tuple[Model, dict[str, str]]:
    """Columns of a table, in the model, and properties."""
    mapped = rng.random() < 0.4
    names = iter(rng.sample([*NAMES, *SPACED] if mapped else NAMES, 7))
    parts = [(next(names), rng.choice([*PLAIN, "text"])) for _ in range(rng.choice([0, 1, 1, 2]))]
    others = [(next(names), rng.choice(list(KINDS))) for _ in range(rng.randrange(1, 5))]
    fields = [*parts, *others]
    rng.shuffle(fields)
    properties = {
        "delta.enableDeletionVectors": rng.choice(["true", "true", "false"]),
        "delta.enableChangeDataFeed": rng.choice(["true", "false"]),
        "delvec.rewriteDeletedShare": rng.choice(["0.99", "0.5", "0.1"]),
        "delta.checkpointInterval": rng.choice(["2", "3", "10"]),
        "delta.enableInCommitTimestamps": rng.choice(["true", "false"]),
        "delta.enableRowTracking": rng.choice(["true", "false", "false"]),
        "delta.checkpointPolicy": rng.choice(["classic", "v2"]),
    }
    if mapped:
        properties["delta.columnMapping.mode"] = "name"
    return Model({KEY: "long", **dict(fields)}, tuple(name for name, _ in parts)), properties


class Sequence:
    """A table, its model, and what was done to both."""

    def __init__(self, spark: Any, root: Path, seed: int) -> None:
        from delvec.table import Table

        self.spark, self.rng = spark, random.Random(seed)
        self.model, properties = random_table(self.rng)
        self.mapped = "delta.columnMapping.mode" in properties
        self.told: list[object] = [self.model.columns.copy(), self.model.partition_by, properties]
        self.location = str(root / self.rng.choice(["t", "a b", "é%41", "[x]"]))
        first = random_rows(self.rng, self.model.columns, 30) if self.rng.random() < 0.5 else None
        made: Any = schema_text(self.model.columns)
        if first is not None:
            made = spark.createDataFrame(arrow_rows(first, self.model.columns)).repartition(3)
            self.model.rows = [self.model.stored(row) for row in first]
        self.table = Table.create(
            spark, self.location, made, partition_by=self.model.partition_by, properties=properties
        )
        self.versions = {0: list(self.model.rows)}
        self.verify()

    def step(self) -> None:
        if not self.model.rows and self.rng.random() < 0.7:
            step: Step = random_append(self.rng, self.model)
        elif self.rng.random() < 0.1:
            step = SetProperties({"delta.enableDeletionVectors": self.rng.choice(["true", "false"])})
        else:
            step = random_step(self.rng, self.model)
        self.told.append(step)
        before = self.table.version
        effect = self.model.apply(step)
        if effect.refused:
            with pytest.raises(InvalidOperationError):
                run_by_delvec(self.spark, self.table, step)
            assert self.table.version == before, self
            return
        result = run_by_delvec(
            self.spark,
            self.table,
            step,
            files=self.rng.choice([1, 2, 4]),
            condition=self.rng.choice([str, functions.expr]),
        )
        self.verify()
        assert result.version == self.table.version == before + effect.commits, self
        assert {name: result.metrics.get(name) for name in effect.metrics} == effect.metrics, self
        self.versions[result.version] = list(self.model.rows)

    def verify(self) -> None:
        self.same(collected(self.table.to_df()), self.model.rows)
        report = verify_table(detect.open_table(self.location))
        assert not report.findings, self

    def verify_versions(self) -> None:
        """All versions, read without Spark."""
        table = detect.open_table(self.location)
        for version, rows in self.versions.items():
            names = table.snapshot(version).schema
            held = [{field.name: row[field.name] for field in names} for row in rows]
            self.same(read_rows(table.snapshot(version).plan(), table.storage), held)

    def verify_by_others(self) -> None:
        # Their common kernel looks for a checkpoint in the folder "A" where the table's is "%41".
        readable = shutil.copytree(self.location, f"{self.location}-copy".replace("%41", ""))
        for name, read in (("delta-rs", read_by_delta_rs), ("DuckDB", read_by_duckdb)):
            if reason := unreadable(name, self.mapped, self.model.partition_by):
                self.told.append(f"not read by {name}: {reason}")
                continue
            self.same(read(readable), self.model.rows, name)

    def same(self, found: list[Any], expected: list[Any], reader: str = "delvec") -> None:
        order = list(self.model.columns)
        mine, theirs = (
            multiset({name: plain(row[name]) for name in order if name in row} for row in rows)
            for rows in (expected, found)
        )
        assert mine == theirs, f"{reader} lost {mine - theirs}, gained {theirs - mine}\n{self}"

    def __repr__(self) -> str:
        return "\n".join(map(str, self.told))


def unreadable(reader: str, mapped: bool, partition_by: tuple[str, ...]) -> str | None:
    """Why this reader cannot be asked, if so."""
    if reader == "DuckDB" and mapped and partition_by:
        return "partition columns of a table with column mapping are all null in DuckDB"
    return None


@pytest.fixture(autouse=True)
def found_as_bits(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Half of the sequences find rows as they are found in large files."""
    if seed % 2:
        monkeypatch.setattr(remove_rows, "FEW_ROWS", 0)


def run(spark: Any, root: Path, seed: int) -> None:
    sequence = Sequence(spark, root, seed)
    for _ in range(STEPS):
        sequence.step()
    sequence.verify_versions()
    sequence.verify_by_others()


@pytest.mark.parametrize("seed", range(ORDINARY))
def test_verbs_do_what_the_model_does(spark: Any, tmp_path: Path, seed: int) -> None:
    run(spark, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ORDINARY, ORDINARY + SLOW))
def test_verbs_do_what_the_model_does_in_many_sequences(spark: Any, tmp_path: Path, seed: int) -> None:
    run(spark, tmp_path, seed)
