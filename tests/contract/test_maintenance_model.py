"""Random histories of all verbs, with OPTIMIZE, PURGE, VACUUM and RESTORE between them.

After each step the table has the rows of the model, also as ``count`` counts them. At the end every version
that is still retained has the rows that it had, the change feed of each retained version has the changes that
the model made, and other engines read the newest version alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contract.kinds import CHANGE_FILES, NUMBERED, Kind
from contract.test_model import STEPS, Run
from delvec import detect
from rows import multiset, read_rows
from scanning import collected, plain
from verbs_model import PLAIN, TARGET, Effect, random_condition, references

pytestmark = [pytest.mark.spark, pytest.mark.needs(NUMBERED)]

ORDINARY, SLOW = 2, 20
SMALL_FILE, LARGE_FILE = 1_000, 100_000_000  # target sizes: no file is combined, or all of a partition


class MaintainedRun(Run):
    """A run whose verbs also maintain the table.

    columns    the columns of each version
    changes    the changes that each version made to rows; None if the model does not know them
    retained   the oldest version whose files are all kept
    """

    def __init__(self, kind: Kind, spark: Any, root: Path, seed: int) -> None:
        super().__init__(kind, spark, root, seed)
        self.columns = {0: dict(self.model.columns)}
        self.changes: dict[int, list[tuple[str, dict[str, Any]]] | None] = {0: None}
        self.retained = 0

    def step(self) -> None:
        if self.rng.random() < 0.5:
            self.maintain()
        else:
            self.change()
        self.count()

    def change(self) -> None:
        """A step of the model: a verb that changes rows, or a compaction of one or more commits."""
        before, self.effect = self.table.version, Effect()
        super().step()
        for version in range(before + 1, self.table.version + 1):
            self.columns[version] = dict(self.model.columns)
            self.changes[version] = self.effect.changes

    def maintain(self) -> None:
        verb = self.rng.choice([self.optimize, self.purge, self.vacuum, self.vacuum, self.restore])
        before = self.table.version
        verb()
        self.verify()
        for version in range(before + 1, self.table.version + 1):
            self.versions[version] = list(self.model.rows)
            self.columns[version] = dict(self.model.columns)
            self.changes.setdefault(version, [])

    def optimize(self) -> None:
        sortable = [
            name
            for name, kind in self.model.columns.items()
            if kind in PLAIN and name not in self.model.partition_by
        ]
        options: dict[str, Any] = {"target_file_size": self.rng.choice([SMALL_FILE, LARGE_FILE])}
        if self.rng.random() < 0.3:
            options["zorder_by"] = self.rng.sample(sortable, self.rng.randrange(1, min(3, len(sortable)) + 1))
        self.done.append(("optimize", options))
        self.table.optimize(**options)

    def purge(self) -> None:
        self.done.append("purge")
        self.table.purge()
        plan = detect.open_table(self.location).snapshot().plan()
        assert not any(plan.deleted_rows.to_pylist()), self

    def vacuum(self) -> None:
        """With the table's own retention nothing of this run is old enough; without any, only the newest
        version stays.
        """
        everything = self.rng.random() < 0.5
        self.done.append(("vacuum", everything))
        before = self.table.version
        self.table.vacuum(**({"retain_hours": 0, "force": True} if everything else {}))
        if everything:
            self.retained = before

    def restore(self) -> None:
        versions = [version for version in self.versions if version >= self.retained]
        version = self.rng.choice(versions)
        self.done.append(("restore", version))
        before, rows = self.table.version, list(self.model.rows)
        self.table.restore(version=version)
        self.model.rows = list(self.versions[version])
        self.model.columns = dict(self.columns[version])
        if self.table.version > before:
            self.changes[self.table.version] = None if rows else []

    def count(self) -> None:
        refs = references(self.model.columns, TARGET)
        where = random_condition(self.rng, refs)
        expected = sum(where.holds({TARGET: row}) for row in self.model.rows)
        assert self.table.count(where.sql) == expected, f"count of {where.sql}\n{self}"
        assert self.table.count() == len(self.model.rows), self

    def verify_versions(self) -> None:
        table = detect.open_table(self.location)
        for version, rows in self.versions.items():
            if version >= self.retained:
                snapshot = table.snapshot(version)
                held = [{field.name: row[field.name] for field in snapshot.schema} for row in rows]
                self.same(read_rows(snapshot.plan(), table.storage), held)

    def verify_changes(self) -> None:
        if CHANGE_FILES not in (*self.features, *self.kind.features):
            return
        for version in range(self.retained + 1, self.table.version + 1):
            expected = self.changes.get(version)
            if expected is not None:
                frame = self.table.changes(version, version)
                found = [(row.pop("_change_type"), row) for row in collected(frame)]
                self.same_changes(version, found, expected)

    def same_changes(self, version: int, found: Any, expected: Any) -> None:
        columns = self.columns[version]
        theirs, mine = (
            multiset(
                {"change": change} | {name: plain(row[name]) for name in columns} for change, row in rows
            )
            for rows in (found, expected)
        )
        assert mine == theirs, f"changes of {version}: lost {mine - theirs}, gained {theirs - mine}\n{self}"


def run(kind: Kind, spark: Any, root: Path, seed: int) -> None:
    sequence = MaintainedRun(kind, spark, root, 1_000 + seed)
    for _ in range(2 * STEPS):
        sequence.step()
    sequence.verify_versions()
    sequence.verify_changes()
    sequence.verify_by_others()


@pytest.mark.parametrize("seed", range(ORDINARY))
def test_histories_with_maintenance(kind: Kind, spark: Any, tmp_path: Path, seed: int) -> None:
    run(kind, spark, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ORDINARY, ORDINARY + SLOW))
def test_many_histories_with_maintenance(kind: Kind, spark: Any, tmp_path: Path, seed: int) -> None:
    run(kind, spark, tmp_path, seed)
