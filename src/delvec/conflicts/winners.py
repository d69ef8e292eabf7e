"""The commits that were first, with their files as ids.

Formats name a commit's files as the metadata records them. This is the one place that translates these names:
into ids of the base for files that a commit changed or removed, and into ids of the newest version for files
that it added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.formats import Snapshot
from delvec.row_delta import Verb, Won

_CHANGING = ("vectors", "added", "removed")
"""The columns of ``Won`` whose files the commit changed or removed."""

_ROLES = (*_CHANGING, "rearranged", "carried", "stored_again")
"""The columns of ``Won`` that name files; the last one counts only where keys were deleted."""


class Winners:
    """The commits after ``base`` up to ``newest``."""

    def __init__(self, won: Sequence[Won], base: Snapshot, newest: Snapshot) -> None:
        self.won = won
        self._base, self._newest = base, newest
        self._ids = self._base_ids()

    def _base_ids(self) -> dict[tuple[int, str], pa.Array]:
        """For each commit and role its files that are in the base. All names are translated at once, because
        each translation looks at all files of the base.
        """
        keys = [(number, role) for number in range(len(self.won)) for role in _ROLES]
        names = [getattr(self.won[number], role) for number, role in keys]
        ids = self._base.file_ids(_joined(names))
        starts = np.cumsum([0, *map(len, names)])
        slices = zip(keys, starts[:-1], map(len, names), strict=True)
        return {key: ids.slice(start, length).drop_null() for key, start, length in slices}

    def first_change(self, file_ids: pa.Array) -> dict[int, Won]:
        """Those of these files of the base that a commit changed or removed, with the first such commit."""
        return {
            file_id: self.won[number]
            for number in reversed(range(len(self.won)))
            for role in _CHANGING
            for file_id in _among(self._ids[number, role], file_ids).to_pylist()
        }

    def first_storing_again(self, file_ids: pa.Array) -> dict[int, Won]:
        """Those of these files of the base whose deleted rows a commit stored in another place."""
        return self._first("stored_again", file_ids)

    def first_deleting_keys(self) -> Won | None:
        """The first commit that deleted rows by their keys."""
        return next(filter(deletes_keys, self.won), None)

    def touched(self, file_ids: pa.Array) -> pa.Array:
        """Those of these files of the base that a commit changed, removed or recorded again.

        Where a commit deleted keys, deleted rows that were stored again may be rows of these keys.
        """
        counted = _ROLES if self.first_deleting_keys() is not None else _ROLES[:-1]
        roles = [ids for (_, role), ids in self._ids.items() if role in counted]
        return _among(file_ids, pa.concat_arrays([pa.array([], pa.int64()), *roles]))

    def rearranging(self, file_ids: pa.Array) -> Won | None:
        """The first commit that moved the rows of one of these files of the base to other files."""
        return next((won for n, won in enumerate(self.won) if len(self._rearranged(n, file_ids))), None)

    def removing(self, file_ids: pa.Array) -> tuple[Won, int] | None:
        """The first commit that removed rows of one of these files with the whole file, and the file."""
        for number, won in enumerate(self.won):
            removed = _among(self._ids[number, "removed"], file_ids)
            deleted = removed.filter(
                pc.invert(pc.is_in(removed, value_set=self._rearranged(number, file_ids)))
            )
            if len(deleted):
                return won, deleted[0].as_py()
        return None

    def deleting(self, file_ids: pa.Array) -> dict[int, Won]:
        """Those of these files of the base in which a commit deleted rows, with the first such commit: also
        one that stored rows of deleted keys in another place.
        """
        again = {} if self.first_deleting_keys() is None else self.first_storing_again(file_ids)
        return again | self._first("vectors", file_ids)

    def _first(self, role: str, file_ids: pa.Array) -> dict[int, Won]:
        return {
            file_id: self.won[number]
            for number in reversed(range(len(self.won)))
            for file_id in _among(self._ids[number, role], file_ids).to_pylist()
        }

    def new_files(self) -> pa.Array:
        """The files of the newest version that may hold rows that are new since the base. If such a file was
        compacted, these are the files that the compaction wrote.
        """
        names = _joined([won.added for won in self.won]).unique()
        for won in self.won:
            if len(_among(won.rearranged, names)):
                names = _joined([names, won.carried]).unique()
        return self._newest.file_ids(names).drop_null()

    def files_since(self) -> pa.Array:
        """All files of the newest version that were not in the base."""
        return self._newest.file_ids(
            _joined([names for won in self.won for names in (won.added, won.carried)]).unique()
        ).drop_null()

    def adding(self, file_id: int) -> Won:
        """The commit that added this file of the newest version."""
        (name,) = self._newest.names(pa.array([file_id], pa.int64())).to_pylist()
        return next(won for won in self.won if _has(won.added, name) or _has(won.carried, name))

    def newest_ids(self, file_ids: pa.Array) -> pa.Array:
        """The ids that files of the base have in the newest version; null for a file that is removed."""
        return self._newest.file_ids(self._base.names(file_ids))

    def _rearranged(self, number: int, file_ids: pa.Array) -> pa.Array:
        return _among(self._ids[number, "rearranged"], file_ids)


def changes_rows(won: Won) -> bool:
    """Whether the commit added, changed or removed rows."""
    return bool(len(won.added)) or removes_rows(won)


def removes_rows(won: Won) -> bool:
    """Whether the commit deleted rows, or removed files without moving their rows to other files."""
    return len(won.vectors) > 0 or len(won.removed) > len(won.rearranged) or deletes_keys(won)


def deletes_keys(won: Won) -> bool:
    """Whether the commit deleted rows by their keys: of any file that was there before."""
    return won.verb in (Verb.DELETE_KEYS, Verb.UPSERT)


def may_move_rows(won: Won) -> bool:
    """Whether rows that the commit removed may be live in other files, changed."""
    loses_rows = len(won.removed) > 0 or len(won.vectors) > 0 or deletes_keys(won)
    return bool(len(won.added)) and loses_rows


def _joined(names: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.string()), *names])


def _among(values: pa.Array, subset: pa.Array) -> pa.Array:
    return values.filter(pc.is_in(values, value_set=subset))


def _has(names: pa.Array, name: str) -> bool:
    return bool(pc.index(names, name).as_py() >= 0)
