"""A delta that lost, put on top of what won; or why that would be wrong.

The loser's place in the serial order is after the winners. So its delta may stand where running the statement
on the newest version would give the same: where no row that it read is gone, and no row has come that it
would have read. What won is looked at as a whole, from the loser's base to the newest version.

    vectors   of a file that both changed are united; rows that the winner deleted are not counted again
    removed   a file that both removed leaves the delta
    added     stays: new files are of no one else's concern
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.chunked import Rows
from delvec.conflicts.verb_rules import RULES, Rule
from delvec.deletes.applied import verify_applied
from delvec.deletes.loader import load_vectors
from delvec.formats import Snapshot
from delvec.plan import DELETES_SCHEMA, DELETION_VECTOR, POSITION_VECTOR, Base, ScanPlan
from delvec.row_delta import VECTORS_SCHEMA, Isolation, RowDelta, Verb, Won
from delvec.storage import Storage

DELETED_ROWS = "numDeletedRows"
"""The metric that counts what a DELETE deleted itself."""


class Engine(Protocol):
    """What only the one who ran the statement can tell."""

    def read_itself(self) -> bool:
        """Whether the rows that the statement brings were computed from the table itself."""
        ...

    def new_match(self, newest: Snapshot, files: pa.Array) -> str | None:
        """One of ``files``, of the newest version, that holds a live row which the statement would have read;
        None where there is none.
        """
        ...

    def rows_read(self) -> Mapping[str, Bitmap]:
        """The rows, by the file's name, that decided something and were left as they are."""
        ...

    def replanned(self, newest: Snapshot) -> RowDelta:
        """The delta of a statement that replaces whole files, for the newest version."""
        ...


@dataclass(frozen=True, slots=True)
class Again:
    """The statement must run again: why, and because of which commit."""

    version: int
    operation: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rebased:
    """``united``: the files whose vectors were united with a winner's."""

    delta: RowDelta
    united: int = 0


class _AgainError(Exception):
    def __init__(self, won: Won, reason: str) -> None:
        super().__init__(reason)
        self.again = Again(won.version, won.operation, reason)


def rebased(
    delta: RowDelta,
    base: Snapshot,
    newest: Snapshot,
    won: Sequence[Won],
    *,
    storage: Storage,
    engine: Engine,
) -> Rebased | Again:
    """``delta``, made from ``base``, on top of ``newest``, which ``won`` led to."""
    try:
        _verify_statement_stands(delta, won, engine)
        rules = {RULES[winner.verb, delta.verb] for winner in won}
        if Rule.REPLAN in rules:
            return Rebased(_replanned(delta, engine.replanned(newest)))
        if Rule.CHECK not in rules:
            return Rebased(replace(delta, base=Base(newest.version)))
        found = _Window(delta, base, newest, won, storage, engine).rebased()
    except _AgainError as error:
        return error.again
    return found


def _replanned(delta: RowDelta, anew: RowDelta) -> RowDelta:
    """What was found out of new files, and counted of the run itself, stays."""
    kept = {name: count for name, count in delta.metrics.items() if name != DELETED_ROWS}
    return replace(anew, added=delta.added, metrics=kept | dict(anew.metrics))


def _verify_statement_stands(delta: RowDelta, won: Sequence[Won], engine: Engine) -> None:
    for winner in won:
        if winner.changed is not None:
            raise _AgainError(winner, f"it changed {winner.changed}")
        if delta.txn is not None and delta.txn.app_id in winner.app_ids:
            raise _AgainError(winner, f"it has the same app_id {delta.txn.app_id!r}")
        rule = RULES[winner.verb, delta.verb]
        if rule not in (Rule.TOP, Rule.CHECK, Rule.REPLAN):
            raise _AgainError(winner, f"delvec cannot rebase a {delta.verb} on a {winner.verb} yet")
    changing = [winner for winner in won if len(winner.added) or len(winner.vectors) or _lost_rows(winner)]
    if changing and engine.read_itself():
        raise _AgainError(changing[0], "it changed rows, and this operation computed its rows from the table")


def _lost_rows(winner: Won) -> bool:
    return len(winner.removed) > len(winner.rearranged)


@dataclass(frozen=True, slots=True)
class _File:
    """A file that the delta touches and a winner changed. ``now`` is None where it is gone."""

    name: str
    winner: Won
    base_id: int
    record_count: int | None
    before: Bitmap
    now_id: int | None
    now: Bitmap | None

    @property
    def others(self) -> Bitmap:
        """The rows that winners deleted."""
        assert self.now is not None
        return self.now - self.before


@dataclass(frozen=True, slots=True)
class _Window:
    delta: RowDelta
    base: Snapshot
    newest: Snapshot
    won: Sequence[Won]
    storage: Storage
    engine: Engine

    def rebased(self) -> Rebased:
        delta = self.delta
        ids = _file_ids(delta)
        names = self.base.names(ids)
        now = self.newest.plan(among=names)
        verify_applied(now)
        hit = self._hit(names, now)
        meetings = [self._united(file) for file in hit]
        fewer = sum(count for count, _ in meetings)
        changed = [vector for _, vector in meetings if vector is not None]
        if fewer and len(delta.change_files):
            raise _AgainError(hit[0].winner, "it deleted rows that are in the change files of this operation")
        self._verify_read_rows()
        self._verify_no_new_match()
        moved = _Moved.of(ids, names, now)
        after = replace(
            delta,
            base=Base(self.newest.version),
            removed=moved.ids(delta.removed),
            rewritten=moved.ids(delta.rewritten),
            vectors=moved.vectors(delta.vectors, changed),
            metrics=_recounted(delta.metrics, fewer),
        )
        return Rebased(after, sum(row["deleted"] > 0 for row in changed))

    def _hit(self, names: pa.Array, now: ScanPlan) -> list[_File]:
        """The files of the delta that a winner changed, with what was deleted of them before and is now."""
        by_winner = {
            name: winner
            for winner in reversed(self.won)
            for files in (winner.vectors, winner.added, winner.removed)
            for name in files.filter(pc.is_in(files, value_set=names)).to_pylist()
        }
        both = pa.array(sorted(by_winner), pa.string())
        if not len(both):
            return []
        old, new = self.base.plan(among=both), now.at(_rows_of(now, both))
        before, after = self._deleted(old), self._deleted(new)
        ids = dict(zip(_names(new), new.files.column("file_id").to_pylist(), strict=True))
        return [
            _File(name, by_winner[name], file_id, count, before[name], ids.get(name), after.get(name))
            for name, file_id, count in zip(
                _names(old),
                old.files.column("file_id").to_pylist(),
                old.files.column("record_count").to_pylist(),
                strict=True,
            )
        ]

    def _deleted(self, plan: ScanPlan) -> dict[str, Bitmap]:
        rows = plan.files.column("vector").to_pylist()
        loaded = load_vectors(self.storage, plan.deletes, [row for row in rows if row is not None])
        return {
            name: Bitmap() if row is None else loaded[row]
            for name, row in zip(_names(plan), rows, strict=True)
        }

    def _united(self, file: _File) -> tuple[int, dict[str, Any] | None]:
        """How many rows of the delta others deleted already, and the new vector of a file that had one."""
        self._verify_may_meet(file)
        mine = self._mine(file)
        if file.now is None:
            gone = _count(mine, file)
            self._verify_may_overlap(file, gone, "removed")
            return gone, None
        if len(file.before - file.now):
            raise _AgainError(file.winner, f"it restored deleted rows of file {file.name}")
        others = file.others
        overlap = len(others) if mine is None else len(mine & others)
        self._verify_may_overlap(file, overlap, "changed rows of")
        if mine is None:
            return overlap, None
        vector = file.now | mine
        row = {
            "file_id": file.base_id,
            "rows": blob.encode(vector),
            "cardinality": len(vector),
            "deleted": len(vector) - len(file.now),
        }
        return overlap, row

    def _verify_may_meet(self, file: _File) -> None:
        if file.base_id in self.delta.rewritten.to_pylist():
            raise _AgainError(file.winner, f"it changed file {file.name}, which this operation rewrites")
        if file.now is None and any(_has(winner.rearranged, file.name) for winner in self.won):
            raise _AgainError(
                file.winner, f"it moved the rows of file {file.name}, which this operation changes"
            )

    def _verify_may_overlap(self, file: _File, rows: int, did: str) -> None:
        """Only a DELETE does not mind that its rows are gone already; not even it where they may have moved
        and nobody looks at where they are now.
        """
        if not rows and file.now is not None:
            return
        minds = self.delta.verb != Verb.DELETE
        unseen = self.delta.read.isolation == Isolation.SNAPSHOT and any(map(_moves, self.won))
        if minds or unseen:
            raise _AgainError(file.winner, f"it {did} file {file.name}, which this operation changes")

    def _mine(self, file: _File) -> Bitmap | None:
        """The rows of the file that the delta deletes; None: all that were live."""
        at = pc.index(self.delta.vectors.column("file_id"), file.base_id).as_py()
        if at < 0:
            return None
        row = self.delta.vectors.slice(at, 1).to_pylist()[0]
        vector = blob.decode(row["rows"]) if row["rows"] is not None else self._stored(row, file.name)
        return vector - file.before

    def _stored(self, row: Mapping[str, Any], name: str) -> Bitmap:
        """A vector that an executor has stored."""
        place = {key: row[key] for key in ("location", "offset", "length", "cardinality")}
        kind = {"kind": POSITION_VECTOR, "encoding": DELETION_VECTOR, "identity": ""}
        table = pa.Table.from_pylist([{**kind, **place, "referenced_file": name}], schema=DELETES_SCHEMA)
        return load_vectors(self.storage, table)[0]

    def _verify_read_rows(self) -> None:
        """A row that decided something must still be there. One that moved unchanged does the same."""
        takers = [winner for winner in self.won if len(winner.vectors) or _lost_rows(winner)]
        read = self.engine.rows_read() if takers and self.delta.verb == Verb.MERGE else {}
        names = pa.array(sorted(read), pa.string())
        for winner in self.won if takers else ():
            if len(_among(winner.rearranged, names)):  # who took rows may have taken them where they are now
                raise _AgainError(
                    winner, "it moved rows that this operation read, and another commit deleted rows"
                )
        for winner in takers:
            gone = _among(winner.removed, names)
            gone = gone.filter(pc.invert(pc.is_in(gone, value_set=winner.rearranged)))
            if len(gone):
                raise _AgainError(winner, f"it removed file {gone[0]}, which this operation read")
        files = _among(_joined([winner.vectors for winner in takers]), names)
        if not len(files):
            return
        before, now = (self._deleted(at.plan(among=files)) for at in (self.base, self.newest))
        for name in now:
            if len(read[name] & (now[name] - before[name])):
                winner = next(w for w in takers if _has(w.vectors, name))
                raise _AgainError(winner, f"it changed rows of file {name} that this operation read")

    def _verify_no_new_match(self) -> None:
        if not self._looks_at_new_rows():
            return
        came = self._came()
        found = self.engine.new_match(self.newest, came) if len(came) else None
        if found is not None:
            winner = next(w for w in self.won if _has(w.added, found) or _has(w.carried, found))
            condition = self.delta.read.condition
            which = (
                "that this operation would have read" if condition is None else f"that matches {condition!r}"
            )
            raise _AgainError(winner, f"it added or changed a row {which}")

    def _came(self) -> pa.Array:
        """The files that may hold new rows; where a compaction took such a file, those that it made too."""
        came = _joined([winner.added for winner in self.won])
        for winner in self.won:
            if len(_among(winner.rearranged, came)):
                came = _joined([came, winner.carried])
        return came

    def _looks_at_new_rows(self) -> bool:
        """A MERGE always does: it would insert a key that is there already."""
        if self.delta.verb == Verb.MERGE or self.delta.read.isolation == Isolation.SERIALIZABLE:
            return True
        if self.delta.read.isolation == Isolation.SNAPSHOT:
            return False
        unread = all(w.blind or (w.verb == Verb.COMPACT and not len(w.added)) for w in self.won)
        return not unread


@dataclass(frozen=True, slots=True)
class _Moved:
    """File ids of the base as those of the newest version, without the files that are gone."""

    old: pa.Array
    new: pa.Array

    @classmethod
    def of(cls, old: pa.Array, names: pa.Array, now: ScanPlan) -> _Moved:
        rows = pc.index_in(names, value_set=now.files.column("raw_location").combine_chunks())
        return cls(old, now.files.column("file_id").combine_chunks().take(rows))

    def all_of(self, old: pa.Array | pa.ChunkedArray) -> pa.Array:
        """For each the new id; null where the file is gone."""
        return self.new.take(pc.index_in(_one_chunk(old), value_set=self.old))

    def ids(self, old: pa.Array) -> pa.Array:
        return self.all_of(old).drop_null()

    def vectors(self, old: pa.Table, changed: Sequence[Mapping[str, Any]]) -> pa.Table:
        replaced = pa.array([row["file_id"] for row in changed], pa.int64())
        kept = old.filter(pc.invert(pc.is_in(old.column("file_id"), value_set=replaced)))
        new = [row for row in changed if row["deleted"]]  # of the others nothing is left to do
        both = pa.concat_tables([kept, pa.Table.from_pylist(new, schema=VECTORS_SCHEMA)])
        ids = self.all_of(both.column("file_id"))
        return both.set_column(0, VECTORS_SCHEMA.field(0), ids).filter(ids.is_valid())


def _file_ids(delta: RowDelta) -> pa.Array:
    return pa.concat_arrays([_one_chunk(delta.vectors.column("file_id")), _one_chunk(delta.removed)])


def _one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _names(plan: ScanPlan) -> list[str]:
    names: list[str] = plan.files.column("raw_location").to_pylist()
    return names


def _rows_of(plan: ScanPlan, names: pa.Array) -> Rows:
    return np.flatnonzero(pc.is_in(plan.files.column("raw_location"), value_set=names).to_numpy())


def _has(files: pa.Array, name: str) -> bool:
    return bool(pc.index(files, name).as_py() >= 0)


def _joined(files: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.string()), *files]).unique()


def _among(files: pa.Array, names: pa.Array) -> pa.Array:
    return files.filter(pc.is_in(files, value_set=names))


def _moves(winner: Won) -> bool:
    """Whether rows that it took away may be live elsewhere, changed."""
    return bool(len(winner.added)) and (len(winner.removed) > 0 or len(winner.vectors) > 0)


def _count(mine: Bitmap | None, file: _File) -> int:
    """The rows of a file that is gone which the delta would have deleted; where nobody counted them, nobody
    counts how many there were.
    """
    if mine is not None:
        return len(mine)
    return 0 if file.record_count is None else file.record_count - len(file.before)


def _recounted(metrics: Mapping[str, int], fewer: int) -> dict[str, int]:
    found = dict(metrics)
    if DELETED_ROWS in found:
        found[DELETED_ROWS] -= fewer
    return found
