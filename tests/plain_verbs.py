"""Verbs in plain Python, without Spark: deltas over tables of (id, v), and what each does to a list of rows.

A statement gives a delta for a snapshot, answers what `delvec.conflicts` asks of an engine, and can be
applied to rows, which is all that it should have done.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deleted_rows import deleted_rows
from delta_writer import added, put_file
from delvec import blob
from delvec.bitmap import Bitmap
from delvec.conflicts import Rerun, Settled, commit
from delvec.delta.snapshot import Snapshot
from delvec.delta.table import DeltaTable
from delvec.plan import Base, ScanPlan
from delvec.row_delta import (
    VECTORS_SCHEMA,
    FileGroups,
    Isolation,
    Operation,
    Read,
    Request,
    RowCounts,
    RowDelta,
    Verb,
)
from delvec.schema import Field, Primitive, Schema, Struct
from delvec.storage import Storage

PAIRS: Schema = Struct((Field("id", Primitive("long")), Field("v", Primitive("long"))))
Row = tuple[int, int]
_MEMORY = itertools.count()
_OPERATIONS = {
    Verb.APPEND: Operation.APPEND,
    Verb.DELETE: Operation.DELETE,
    Verb.UPDATE: Operation.UPDATE,
    Verb.MERGE: Operation.MERGE,
}


@dataclass(frozen=True)
class Located:
    file_id: int
    position: int
    row: Row


@dataclass
class Statement:
    """One verb. ``rewrites``: files are written again instead of getting vectors."""

    verb: Verb
    matches: Callable[[Row], bool] = lambda _: True
    change: Callable[[Row], Row] = lambda row: row
    source: Mapping[int, int | None] = field(default_factory=dict)
    rows: Sequence[Row] = ()
    rewrites: bool = False
    isolation: Isolation = Isolation.SERIALIZABLE

    def apply(self, rows: Sequence[Row]) -> tuple[list[Row], int]:
        """The rows afterwards, and how many were deleted or changed."""
        match self.verb:
            case Verb.APPEND:
                return [*rows, *self.rows], 0
            case Verb.COMPACT:
                return list(rows), 0
            case Verb.REPLACE:
                return list(self.rows), len(rows)
            case Verb.DELETE:
                kept = [row for row in rows if not self.matches(row)]
                return [*kept, *self.rows], len(rows) - len(kept)
            case Verb.UPDATE:
                hit = [row for row in rows if self.matches(row)]
                return [row for row in rows if not self.matches(row)] + [self.change(r) for r in hit], len(
                    hit
                )
            case Verb.MERGE:
                return self._merged(rows)
        raise AssertionError(self.verb)

    def _merged(self, rows: Sequence[Row]) -> tuple[list[Row], int]:
        """Matched rows get the source's value unless it is None, others are inserted (None as -1)."""
        kept = [row for row in rows if self.source.get(row[0]) is None]
        changed = [(i, v) for i, _ in rows if (v := self.source.get(i)) is not None]
        held = {i for i, _ in rows}
        inserted = [(i, -1 if v is None else v) for i, v in self.source.items() if i not in held]
        return kept + changed + inserted, len(changed)

    def hit(self, row: Row) -> bool:
        """Whether the row is one that the statement changes."""
        if self.verb == Verb.MERGE:
            return self.source.get(row[0]) is not None
        return self.matches(row)

    def reads(self, row: Row) -> bool:
        return row[0] in self.source if self.verb == Verb.MERGE else self.matches(row)

    def delta(self, snapshot: Snapshot) -> tuple[RowDelta, Plain]:
        live = list(located(snapshot.plan(), snapshot.storage))
        engine = Plain(self, live)
        if self.verb == Verb.REPLACE:
            return engine.replanned(snapshot), engine
        if self.verb == Verb.COMPACT:
            return self._compaction(snapshot, [found for found in live if self.matches(found.row)]), engine
        if self.verb == Verb.APPEND:
            read = Read(blind=True)
            return self._delta(snapshot, [], self.rows, read), engine
        gone = [found for found in live if self.hit(found.row)]
        new, _ = self.apply([found.row for found in live])
        old = [found.row for found in live if not self.hit(found.row)]
        return self._delta(snapshot, gone, new[len(old) :], Read("…", isolation=self.isolation)), engine

    def _compaction(self, snapshot: Snapshot, found: Sequence[Located]) -> RowDelta:
        """The files that hold these rows, in two groups, become a file for each group."""
        files = sorted({at.file_id for at in found})
        live = [at for at in located(snapshot.plan(), snapshot.storage) if at.file_id in files]
        groups = {group: [at.row for at in live if at.file_id % 2 == group] for group in (0, 1)}
        added_groups = [group for group, rows in groups.items() if rows]
        return RowDelta(
            Base(snapshot.version),
            Request(Operation.COMPACT),
            Read("…"),
            Verb.COMPACT,
            added=added([put_file(snapshot.storage, table_of(groups[group])) for group in added_groups]),
            removed=pa.array(files, pa.int64()),
            data_change=False,
            groups=FileGroups(
                pa.array([file % 2 for file in files], pa.int64()), pa.array(added_groups, pa.int64())
            ),
        )

    def _delta(self, snapshot: Snapshot, gone: Sequence[Located], new: Sequence[Row], read: Read) -> RowDelta:
        plan = snapshot.plan()
        before = deleted_rows(snapshot.storage, plan)
        vectors, removed, rewritten, copied = [], [], [], []
        for file_id, group in itertools.groupby(sorted(gone, key=lambda g: g.file_id), lambda g: g.file_id):
            mine = Bitmap.from_iterable(found.position for found in group)
            after = before[file_id] | mine
            if len(after) == plan.files.column("record_count")[file_id].as_py():
                removed.append(file_id)
            elif self.rewrites:
                removed.append(file_id)
                rewritten.append(file_id)
                left = (f for f in located(plan, snapshot.storage) if f.file_id == file_id)
                copied += [f.row for f in left if f.position not in mine]
            else:
                row = {"file_id": file_id, "rows": blob.encode(after), "cardinality": len(after)}
                vectors.append(row | {"deleted": len(mine)})
        files = [put_file(snapshot.storage, table_of(rows)) for rows in (new, copied) if rows]
        return RowDelta(
            Base(snapshot.version),
            Request(_OPERATIONS[self.verb]),
            read,
            self.verb,
            counts=RowCounts(deleted=len(gone)),
            added=added(files),
            removed=pa.array(removed, pa.int64()),
            rewritten=pa.array(rewritten, pa.int64()),
            vectors=pa.Table.from_pylist(vectors, schema=VECTORS_SCHEMA),
        )


@dataclass
class Plain:
    """The answers of a statement that ran over ``live``, the rows of its base."""

    statement: Statement
    live: Sequence[Located]
    repeatable: bool = True
    itself: bool = False
    looked: int = 0

    def reads_target(self) -> bool:
        return self.itself

    def new_match(self, newest: Snapshot, file_ids: pa.Array) -> int | None:
        self.looked += 1
        rows = located(newest.plan(among=file_ids), newest.storage)
        return next((found.file_id for found in rows if self.statement.reads(found.row)), None)

    def rows_read(self) -> Mapping[int, Bitmap]:
        found: dict[int, list[int]] = {}
        for at in self.live:
            if self.statement.reads(at.row) and not self.statement.hit(at.row):
                found.setdefault(at.file_id, []).append(at.position)
        return {file_id: Bitmap.from_iterable(positions) for file_id, positions in found.items()}

    def deleted_by_key(self, newest: Snapshot, file_ids: pa.Array, after: int) -> Mapping[int, Bitmap]:
        del newest, file_ids, after
        return {}

    def replanned(self, newest: Snapshot) -> RowDelta:
        plan = newest.plan()
        files = [put_file(newest.storage, table_of(self.statement.rows))] if self.statement.rows else []
        return RowDelta(
            Base(newest.version),
            Request(Operation.OVERWRITE),
            Read(),
            Verb.REPLACE,
            counts=RowCounts(deleted=len(list(located(plan, newest.storage)))),
            added=added(files),
            removed=plan.files.column("file_id").combine_chunks(),
        )


def table_of(rows: Sequence[Row]) -> pa.Table:
    ids, values = [i for i, _ in rows], [v for _, v in rows]
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(values, pa.int64())})


def located(plan: ScanPlan, storage: Storage) -> Iterator[Located]:
    """The live rows of the plan's files, with their places."""
    for file, gone in zip(plan.files.to_pylist(), deleted_rows(storage, plan), strict=True):
        with storage.open_input(file["location"]) as source:
            held = pq.read_table(source).to_pylist()
        for position, row in enumerate(held):
            if position not in gone:
                yield Located(file["file_id"], position, (row["id"], row["v"]))


def pairs_table(*files: Sequence[Row], properties: Mapping[str, str] | None = None) -> DeltaTable:
    """A table in memory with a file for each sequence of rows."""
    place = f"memory://plain-{next(_MEMORY)}/t"
    table = DeltaTable.create(place, PAIRS, properties=properties)
    if files:
        snapshot = table.snapshot()
        puts = [put_file(snapshot.storage, table_of(rows)) for rows in files]
        delta = RowDelta(Base(0), Request(Operation.APPEND), Read(blind=True), Verb.APPEND, added=added(puts))
        table.commit(snapshot, delta)
    return table


def rows_of(table: DeltaTable) -> list[Row]:
    snapshot = DeltaTable.open(table.location).snapshot()
    return sorted(found.row for found in located(snapshot.plan(), snapshot.storage))


def settle(
    table: DeltaTable, statement: Statement, base: Snapshot | None = None, **more: Any
) -> tuple[Settled, list[Rerun]]:
    """Run the statement from ``base``, again at the newest version as often as that is asked for."""
    lost: list[Rerun] = []
    while True:
        snapshot = base if base is not None and not lost else table.snapshot()
        delta, engine = statement.delta(snapshot)
        found = commit(table, snapshot, delta, engine, **({"pause": lambda _: None} | more))
        if isinstance(found, Settled):
            return found, lost
        lost.append(found)
        assert len(lost) < 20, lost
