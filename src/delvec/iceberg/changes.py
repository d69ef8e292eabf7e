"""The change feed: from the snapshots of a range to a ``ChangePlan``.

data files added, removed      inserts, deletes, by the live rows that they have then or had until then
other deletes by position      of data files that stay: the difference
new equality deletes           rows of the files that stay: each is deleted by the first one that has its keys
``replace`` snapshots          change no row; files only move

A copy-on-write change removes files and adds them again with most of their rows. The engine finds the rows
that did not change: by row id in version 3, else by their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.change_plan import COMMITS_SCHEMA, ChangePlan, CommitFiles, FilesInRange
from delvec.chunked import Mask, Rows, one_chunk, rows_of
from delvec.iceberg.change_range import ChangeRange, moves_rows
from delvec.iceberg.deletes_over_time import DeletesOverTime
from delvec.iceberg.file_lifetimes import file_lifetimes
from delvec.iceberg.plan_tables import columns_of_files, deletes_table, files_table, used_deletes
from delvec.iceberg.read_schema import dropped_columns, lineage_columns
from delvec.iceberg.snapshot import Snapshot
from delvec.iceberg.stats import EntryFacts
from delvec.plan import ScanPlan


def change_plan(shown: Snapshot, found: ChangeRange) -> ChangePlan:
    """The files that tell what the snapshots of the range changed, in the schema of ``shown``."""
    if not found.snapshots:
        return _no_changes(shown)
    data, deletes = file_lifetimes(shown.live_at, found)
    files = DeletesOverTime.of(data, deletes, shown.specs)
    changes = np.array([not moves_rows(record) for record in found.snapshots], np.bool_)
    return _Feed(shown, found, files, changes).plan()


def _no_changes(shown: Snapshot) -> ChangePlan:
    plan = shown.plan().at(np.zeros(0, np.int64))
    none = CommitFiles(plan, np.zeros(0, np.int64))
    return ChangePlan(shown.schema, COMMITS_SCHEMA.empty_table(), none, none, none, none, plan)


@dataclass(frozen=True, slots=True)
class _Feed:
    """``changes``: whether each snapshot may change rows."""

    shown: Snapshot
    found: ChangeRange
    files: DeletesOverTime
    changes: Mask

    def plan(self) -> ChangePlan:
        data = self.files.data
        rows = np.arange(len(data))
        added = rows[self._changes_at(data.since)]
        removed = rows[self._changes_at(data.until)]
        changed, changed_at = self.files.positions_changed()
        is_change = self.changes[changed_at]
        kept, kept_at = changed[is_change], changed_at[is_change]
        row, state, first, end = self.files.equality_periods(changed, changed_at, self.changes)
        moves = [(added, data.since[added]), (removed, data.until[removed]), (kept, kept_at)]
        nothing = rows[:0]
        return ChangePlan(
            schema=self.shown.schema,
            commits=self._commits(self._has_row_ids(moves, (row, first, end))),
            recorded=CommitFiles(self._plan(nothing, nothing), nothing),
            added=CommitFiles(self._plan(added, data.since[added]), data.since[added]),
            removed=CommitFiles(self._plan(removed, data.until[removed] - 1), data.until[removed]),
            before=CommitFiles(self._plan(kept, kept_at - 1, all_equality=True), kept_at),
            after=self._plan(kept, kept_at, all_equality=True),
            by_value=FilesInRange(self._plan(row, state, all_equality=True), first, end),
            copies_rows=True,
        )

    def _changes_at(self, numbers: Rows) -> Mask:
        """Whether each of these is the number of a snapshot that changes rows."""
        return np.append(self.changes, [False, False])[numbers]  # then the end of the range; -1: before it

    def _has_row_ids(self, files: Sequence[tuple[Rows, Rows]], periods: tuple[Rows, Rows, Rows]) -> Mask:
        """For each snapshot whether all files of its changes have row ids.

        ``files``: data files and their snapshots; ``periods``: data files, their first and their end.
        """
        first_ids = one_chunk(self.files.data.entries.column("first_row_id"))
        lacks_ids = first_ids.is_null().to_numpy(zero_copy_only=False)
        # Before version 3 snapshots have no first id, and files get ids later.
        has_ids = np.array([record.first_row_id is not None for record in self.found.snapshots])
        if any(self.shown.schema.find(field.name) for field in lineage_columns(self.shown.metadata)):
            has_ids[:] = False  # a file's column of this name need not be the row's id
        for rows, numbers in files:
            has_ids[numbers[lacks_ids[rows]]] = False
        row, first, end = periods
        without = np.unique(np.stack([first, end])[:, lacks_ids[row]], axis=1)
        for one, other in without.T.tolist():
            has_ids[one:other] = False
        return has_ids

    def _commits(self, has_row_ids: Mask) -> pa.Table:
        snapshots = self.found.snapshots
        micros = pa.array([record.timestamp_ms * 1000 for record in snapshots], pa.int64())
        sequences = [record.sequence_number for record in snapshots]
        return pa.table(
            [
                pa.array([record.snapshot_id for record in snapshots], pa.int64()),
                micros.cast(pa.timestamp("us", tz="UTC")),
                pa.array(np.array(sequences, np.int64), mask=~self.changes),
                pa.array(has_row_ids),
            ],
            schema=COMMITS_SCHEMA,
        )

    def _plan(self, rows: Rows, states: Rows, *, all_equality: bool = False) -> ScanPlan:
        """Data files with the deletes that they have after snapshots."""
        shown, files = self.shown, self.files
        scopes, used = used_deletes(files.at(rows, states, all_equality=all_equality), np.arange(len(rows)))
        entries = files.data.entries.take(pa.array(rows)).combine_chunks()
        deletes = rows_of(files.deletes.entries, used)
        compared = pc.list_flatten(deletes.column("equality_ids")).unique().to_pylist()
        return ScanPlan(
            location=shown.location,
            base=shown.base,
            schema=shown.schema,
            specs=shown.specs,
            read_schemas=shown.read_schemas.both,
            condition=None,
            files=files_table(
                None,
                shown.locations,
                columns_of_files(entries),
                scopes=scopes,
                only=np.zeros(len(rows), np.bool_),
                read_schema=shown.read_schemas.of_files(entries, np.arange(len(rows))),
            ),
            facts=EntryFacts(entries, shown.schema, shown.specs),
            deletes=deletes_table(None, shown.locations, deletes, schema=shown.schema, specs=shown.specs),
            delete_groups=scopes.groups,
            carry=pa.table({}),
            skipped=0,
            dropped=dropped_columns(shown.metadata, shown.schema, compared),
            lineage=lineage_columns(shown.metadata),
        )
