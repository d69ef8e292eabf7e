"""The change feed of Iceberg tables: random histories and single cases, as a list of rows says."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from iceberg_tables.avro import DATA
from iceberg_tables.changes import expected_changes
from iceberg_tables.histories import History
from iceberg_tables.snapshots import Entry
from rows import multiset
from scanning import collected, opened

pytestmark = pytest.mark.spark

TIME = "_commit_timestamp"
SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 2004 else []) for seed in range(2000, 2060)]


class ChangingHistory(History):
    """A history with copy-on-write, updates by vector, and equality deletes that become positions."""

    def steps(self):
        found = super().steps() + [self.rewrite] * 3
        if self.table.format_version > 1:
            found += [self.update, self.convert]
        return found

    def rewrite(self) -> None:
        """A file again, with some rows changed and some gone."""
        entries = self._newest_schema()
        if not entries:
            return
        entry = self.rng.choice(entries)
        gone = self.table.deleted(entry)
        live = [(at, row) for at, row in enumerate(entry.file.rows) if at not in gone]
        kept = [(at, row) for at, row in live if self.rng.random() < 0.8]
        images = [self._image(entry, at, row) for at, row in kept]
        self.table.remove_file(entry.file)
        if images:
            self._add_images(entry, images)
        self.table.commit(operation="overwrite")

    def update(self) -> None:
        """Rows deleted by position, and new images of them in another file."""
        entries = [
            entry for entry in self._newest_schema() if entry.file.records > len(self.table.deleted(entry))
        ]
        if not entries:
            return
        entry = self.rng.choice(entries)
        live = sorted(set(range(entry.file.records)) - self.table.deleted(entry))
        chosen = self.rng.sample(live, self.rng.randrange(1, len(live) + 1))
        self.table.delete_rows(entry.file, chosen)
        self._add_images(entry, [self._image(entry, at, entry.file.rows[at]) for at in chosen])
        self.table.commit()

    def convert(self) -> None:
        """Equality deletes that are replaced by positions, and perhaps more rows deleted at once."""
        entries = [entry for entry in self.table.head.entries(DATA) if self.table.deleted(entry)]
        if not entries:
            return
        positions = {}
        for entry in entries:
            more = self.rng.randrange(entry.file.records)
            positions[entry.file] = self.table.deleted(entry) | ({more} if self.rng.random() < 0.3 else set())
        if self.table.format_version > 2:
            self.table.delete_by_vectors(positions)
        else:
            self.table.delete_positions(positions, referenced=self.rng.random() < 0.5)
        for entry in self.table.head.entries(2):
            self.table.remove_file(entry.file)
        self.table.commit()

    def _newest_schema(self) -> list[Entry]:
        entries = [entry for entry in self.table.head.entries(DATA) if entry.file.schema == self.table.schema]
        return [entry for entry in entries if entry.file.spec == self.table.spec]

    def _image(self, entry: Entry, at: int, row: Any) -> tuple[Any, int | None, int | None]:
        """A row, its id and version: copied, or changed in a column that is not partitioned."""
        file = entry.file
        row_id = None if file.row_ids is None else file.row_ids[at]
        version = None if file.row_versions is None else file.row_versions[at]
        if entry.first_row_id is not None:
            row_id = entry.first_row_id + at if row_id is None else row_id
            version = entry.sequence if version is None else version
        partitioned = {part.source_id for part in self.table.spec.fields}
        free = [column for column in self.table.schema if column.id != 1 and column.id not in partitioned]
        if not free or self.rng.random() < 0.6:
            return row, row_id, version
        changed = self.rng.choice(free)
        return {**row, changed.name: self._row()[changed.name]}, row_id, None

    def _add_images(self, entry: Entry, images: Any) -> None:
        lineage = {}
        if self.table.format_version > 2 and entry.first_row_id is not None and self.table.ids:
            lineage = {"row_ids": [i for _, i, _ in images], "row_versions": [v for *_, v in images]}
        self.table.add_file([row for row, *_ in images], partition=entry.file.partition, **lineage)


def verify(table: Any, found: Any, snapshots: list[int], *, newest: bool) -> None:
    """The feed of these snapshots, oldest first, which are of one line."""
    last = None if newest else snapshots[-1]
    schema = table.schema if newest else table.schemas[table.snapshots[snapshots[-1]].schema_id]
    rows = [
        {name: value for name, value in row.items() if name != TIME}
        for row in collected(found.changes(snapshots[0], last))
    ]
    expected = expected_changes(table, snapshots, schema)
    was, should = multiset(rows), multiset(expected)
    assert was == should, f"{snapshots}: lost {should - was}, gained {was - should}"


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_of_a_random_history(spark: Any, tmp_path: Path, seed: int) -> None:
    history = ChangingHistory(tmp_path / "t", random.Random(seed))
    for _ in range(history.rng.randrange(5, 15)):
        history.step()
    table = history.table
    snapshots = list(table.snapshots)
    found = opened(spark, table)
    verify(table, found, snapshots, newest=True)
    for _ in range(2):
        first, last = sorted(history.rng.choices(range(len(snapshots)), k=2))
        verify(table, found, snapshots[first : last + 1], newest=False)
