"""Moves a delta on top of the commits that were first, or finds the conflict.

In the serial order of writers, this statement is after those commits. So the delta may stay unchanged if
running the statement on the newest version would give the same delta: all rows that it read are still live,
and there is no new row that it would have read. The commits are checked together, from the base of the delta
to the newest version.

    vectors   if both deleted rows of a file, their vectors are united; rows that a commit deleted first are
              not counted again
    removed   if both removed a file, it is dropped from the delta
    added     kept: new files conflict with nothing

Rows that a commit deleted by their keys are found by a scan of the files that the delta changes, and count as
rows that it deleted (`ConflictProbe.deleted_by_key`).

A compaction changes no row. It loses only the groups whose files another commit changed (`kept_groups`).
Rewriting deletes changes no row either: the deletes that it removes must not apply to newer files
(`removed_deletes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delvec.bitmap import Bitmap
from delvec.chunked import one_chunk
from delvec.conflicts.conflict import Conflict
from delvec.conflicts.contended_files import NO_ROWS, ContendedFile, contended_files, united_vector
from delvec.conflicts.kept_groups import kept_groups
from delvec.conflicts.key_deletes import compaction_conflict, key_scope_conflict
from delvec.conflicts.probe import ConflictProbe
from delvec.conflicts.removed_deletes import applying_to, still_live
from delvec.conflicts.verb_pairs import RULES, Rule
from delvec.conflicts.winners import Winners, changes_rows, may_move_rows, removes_rows
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.supported_kinds import verify_applied
from delvec.formats import Snapshot
from delvec.row_delta import VECTORS_SCHEMA, Isolation, RowCounts, RowDelta, Verb, Won
from delvec.storage import Storage

_FIRST_SEQUENCE = -1
"""Below all sequence numbers."""

_REBASED = (Rule.TOP, Rule.CHECK, Rule.KEYS, Rule.REPLAN, Rule.KEEP)


@dataclass(frozen=True, slots=True)
class Rebased:
    """A delta on top of the newest version. ``united``: how many vectors were united with other commits'."""

    delta: RowDelta
    united: int = 0


def rebased(
    delta: RowDelta,
    base: Snapshot,
    newest: Snapshot,
    won: Sequence[Won],
    *,
    storage: Storage,
    probe: ConflictProbe,
) -> Rebased | Conflict:
    """``delta``, which was made from ``base``, on top of ``newest``. ``won`` are the commits between them."""
    conflict = _statement_conflict(delta, won, probe) or compaction_conflict(delta, base, won)
    if conflict is not None:
        return conflict
    rules = {RULES[winner.verb, delta.verb] for winner in won}
    if delta.verb == Verb.COMPACT:
        return Rebased(kept_groups(delta, Winners(won, base, newest), newest))
    if Rule.REPLAN in rules:
        return Rebased(_replanned(delta, probe.replanned(newest)))
    if not rules & {Rule.CHECK, Rule.KEYS}:
        return key_scope_conflict(delta, newest, won) or Rebased(replace(delta, base=newest.base))
    return _Rebase(delta, base, newest, Winners(won, base, newest), DeleteLoader(storage), probe).result()


def _replanned(delta: RowDelta, new: RowDelta) -> RowDelta:
    """The new delta, with the new files and deletes of the old one and its execution so far."""
    return replace(new, added=delta.added, added_deletes=delta.added_deletes, execution=delta.execution)


def _statement_conflict(delta: RowDelta, won: Sequence[Won], probe: ConflictProbe) -> Conflict | None:
    """A conflict that does not depend on which files or rows were changed."""
    for winner in won:
        if winner.changed is not None:
            return Conflict.with_commit(winner, f"it changed {winner.changed}")
        if delta.txn is not None and delta.txn.app_id in winner.app_ids:
            return Conflict.with_commit(winner, f"it has the same app_id {delta.txn.app_id!r}")
        if RULES[winner.verb, delta.verb] not in _REBASED:
            reason = f"delvec cannot rebase a {delta.verb} on a {winner.verb} yet"
            return Conflict.with_commit(winner, reason)
    changing = [winner for winner in won if changes_rows(winner)]
    if changing and probe.reads_target():
        reason = "it changed rows, and this operation computed its rows from the table"
        return Conflict.with_commit(changing[0], reason)
    return None


@dataclass(frozen=True, slots=True)
class _Rebase:
    delta: RowDelta
    base: Snapshot
    newest: Snapshot
    winners: Winners
    loader: DeleteLoader
    probe: ConflictProbe

    def result(self) -> Rebased | Conflict:
        delta = self.delta
        ids = _file_ids(delta)
        verify_applied(self.newest.plan(among=self.winners.newest_ids(ids).drop_null()))
        by_key = NO_ROWS if delta.verb == Verb.REWRITE_DELETES else self._deleted_by_key(ids)
        files = contended_files(delta, self.base, self.newest, self.winners, self.loader, by_key=by_key)
        conflict = (
            self._files_conflict(files)
            or self._read_rows_conflict()
            or self._new_rows_conflict()
            or self._removed_deletes_conflict()
        )
        if conflict is not None:
            return conflict
        united = [row for file in files if (row := united_vector(file)) is not None]
        removed_deletes = still_live(delta.removed_deletes, self.newest)
        after = replace(
            delta,
            base=self.newest.base,
            removed=self._moved(delta.removed).drop_null(),
            rewritten=self._moved(delta.rewritten).drop_null(),
            vectors=self._moved_vectors(united, keeps_all=len(removed_deletes) > 0),
            removed_deletes=removed_deletes,
            counts=_without(delta.counts, _overlap(files)),
        )
        return Rebased(after, sum(row["deleted"] > 0 for row in united))

    def _files_conflict(self, files: Sequence[ContendedFile]) -> Conflict | None:
        for file in files:
            reason = self._rewrite_reason(file) or self._overlap_reason(file)
            if reason is not None:
                return Conflict.with_commit(file.winner, reason)
        if _overlap(files) and len(self.delta.change_files):
            reason = "it deleted rows that are in the change files of this operation"
            return Conflict.with_commit(files[0].winner, reason)
        return None

    def _rewrite_reason(self, file: ContendedFile) -> str | None:
        """Rows of the file are now in another file, which this operation or a concurrent commit wrote."""
        if file.file_id in self.delta.rewritten.to_pylist():
            return f"it changed file {file.name}, which this operation rewrites"
        if file.now is None:
            rearranging = self.winners.rearranging(pa.array([file.file_id], pa.int64()))
            if rearranging is not None:
                return f"it moved the rows of file {file.name}, which this operation changes"
        elif len(file.before - file.now):
            return f"it restored deleted rows of file {file.name}"
        return None

    def _overlap_reason(self, file: ContendedFile) -> str | None:
        """Both changed the same rows. For a DELETE it is no conflict if its rows are deleted already. But
        with snapshot isolation delvec does not check whether they are live in another file, so they must not
        have moved.
        """
        if not file.overlap and file.now is not None:
            return None
        if self.delta.verb == Verb.REWRITE_DELETES:
            return (
                f"it removed file {file.name}, whose deletes this operation rewrites"
                if file.now is None
                else None
            )
        snapshot = self.delta.read.isolation == Isolation.SNAPSHOT
        if self.delta.verb == Verb.DELETE and not (snapshot and any(map(may_move_rows, self.winners.won))):
            return None
        change = "removed" if file.now is None else "changed rows of"
        return f"it {change} file {file.name}, which this operation changes"

    def _read_rows_conflict(self) -> Conflict | None:
        """Rows that the statement read and depends on must still be live, in the same file."""
        if self.delta.verb != Verb.MERGE or not any(map(removes_rows, self.winners.won)):
            return None
        rows_read = self.probe.rows_read()
        ids = pa.array(sorted(rows_read), pa.int64())
        keyed = self.winners.first_deleting_keys()
        for file_id, deleted in self._deleted_by_key(ids).items():
            if keyed is not None and len(rows_read[file_id] & deleted):
                reason = f"it deleted keys of rows of file {self._name(file_id)} that this operation read"
                return Conflict.with_commit(keyed, reason)
        rearranging = self.winners.rearranging(ids)
        if rearranging is not None:  # the rows may have been deleted in the files where they are now
            reason = "it moved rows that this operation read, and another commit deleted rows"
            return Conflict.with_commit(rearranging, reason)
        removing = self.winners.removing(ids)
        if removing is not None:
            winner, file_id = removing
            return Conflict.with_commit(
                winner, f"it removed file {self._name(file_id)}, which this operation read"
            )
        deleting = self.winners.deleting(ids)
        for file_id, deleted in self._deleted_since(sorted(deleting)).items():
            if len(rows_read[file_id] & deleted):
                return Conflict.with_commit(
                    deleting[file_id],
                    f"it changed rows of file {self._name(file_id)} that this operation read",
                )
        return None

    def _new_rows_conflict(self) -> Conflict | None:
        """There must be no new row that the statement would have read."""
        if not self._conflicts_with_new_rows():
            return None
        new = self.winners.new_files()
        file_id = self.probe.new_match(self.newest, new) if len(new) else None
        if file_id is None:
            return None
        condition = self.delta.read.condition
        rows = "that this operation would have read" if condition is None else f"that matches {condition!r}"
        return Conflict.with_commit(self.winners.adding(file_id), f"it added or changed a row {rows}")

    def _removed_deletes_conflict(self) -> Conflict | None:
        """The deletes that this operation removes must apply to no file that is new since the base. Those
        that it stores in another form must still be there.
        """
        removed = self.delta.removed_deletes
        if not len(removed):
            return None
        new = self.winners.files_since()
        file_id = applying_to(removed, self.newest, new) if len(new) else None
        if file_id is not None:
            reason = "it added a file to which a delete applies that this operation removes"
            return Conflict.with_commit(self.winners.adding(file_id), reason)
        if len(self.delta.added_deletes) and len(still_live(removed, self.newest)) < len(removed):
            reason = "it removed a delete that this operation stores in another form"
            return Conflict.with_commit(self.winners.won[-1], reason)
        return None

    def _conflicts_with_new_rows(self) -> bool:
        """Whether a new row that the statement would have read is a conflict. For a MERGE it always is: the
        MERGE would insert a key that another commit has inserted.
        """
        if self.delta.verb == Verb.MERGE or self.delta.read.isolation == Isolation.SERIALIZABLE:
            return True
        if self.delta.read.isolation == Isolation.SNAPSHOT:
            return False
        ignored = (w.blind or (w.verb == Verb.COMPACT and not len(w.added)) for w in self.winners.won)
        return not all(ignored)

    def _deleted_since(self, file_ids: Sequence[int]) -> dict[int, Bitmap]:
        """The rows of each file of the base that are deleted since, by file id of the base."""
        ids = pa.array(file_ids, pa.int64())
        if not len(ids):
            return {}
        before = self.loader.by_file(self.base.plan(among=ids))
        newest = self.winners.newest_ids(ids)
        now = self.loader.by_file(self.newest.plan(among=newest.drop_null()))
        pairs = zip(file_ids, newest.to_pylist(), strict=True)
        return {old: now[new] - before[old] for old, new in pairs if new is not None}

    def _deleted_by_key(self, file_ids: pa.Array) -> Mapping[int, Bitmap]:
        """The rows of these files of the base that concurrent commits deleted by their keys."""
        if self.winners.first_deleting_keys() is None or not len(file_ids):
            return NO_ROWS
        in_newest = self.winners.newest_ids(file_ids)
        after = pc.max(self.base.plan(among=file_ids).deletes.column("sequence")).as_py()
        found = self.probe.deleted_by_key(
            self.newest, in_newest.drop_null(), _FIRST_SEQUENCE if after is None else after
        )
        pairs = zip(file_ids.to_pylist(), in_newest.to_pylist(), strict=True)
        return {old: found[new] for old, new in pairs if new in found}

    def _moved(self, file_ids: pa.Array) -> pa.Array:
        """The ids in the newest version; null for files that are removed."""
        return self.winners.newest_ids(one_chunk(file_ids))

    def _moved_vectors(self, united: Sequence[Mapping[str, Any]], *, keeps_all: bool) -> pa.Table:
        """The vectors of the delta, with those that were united. A vector that deletes nothing more is
        dropped, unless the delta removes deletes: their rows may be in no other delete.
        """
        old = self.delta.vectors
        replaced = pa.array([row["file_id"] for row in united], pa.int64())
        unchanged = old.filter(pc.invert(pc.is_in(old.column("file_id"), value_set=replaced)))
        new = [row for row in united if keeps_all or row["deleted"]]
        vectors = pa.concat_tables([unchanged, pa.Table.from_pylist(new, schema=VECTORS_SCHEMA)])
        ids = self._moved(vectors.column("file_id"))
        return vectors.set_column(0, VECTORS_SCHEMA.field(0), ids).filter(ids.is_valid())

    def _name(self, file_id: int) -> str:
        return str(self.base.names(pa.array([file_id], pa.int64()))[0])


def _file_ids(delta: RowDelta) -> pa.Array:
    return pa.concat_arrays([one_chunk(delta.vectors.column("file_id")), one_chunk(delta.removed)])


def _overlap(files: Sequence[ContendedFile]) -> int:
    return sum(file.overlap for file in files)


def _without(counts: RowCounts, rows: int) -> RowCounts:
    """The counts without rows that other commits deleted first."""
    return counts if counts.deleted is None else replace(counts, deleted=counts.deleted - rows)
