"""Questions of the conflict checks to the statement that made a delta. Only the engine that ran the statement
can answer them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from delvec.bitmap import Bitmap
from delvec.formats import Snapshot
from delvec.row_delta import RowDelta


class ConflictProbe(Protocol):
    """A statement that has run, and whose delta may conflict with other commits."""

    def reads_target(self) -> bool:
        """Whether the rows that the statement adds were computed from the table itself."""
        ...

    def new_match(self, newest: Snapshot, file_ids: pa.Array) -> int | None:
        """One of these files of the newest version that holds a live row which the statement would have read;
        None if no file does.
        """
        ...

    def rows_read(self) -> Mapping[int, Bitmap]:
        """The rows, by file id of the base, that the statement read, did not change, and depends on."""
        ...

    def deleted_by_key(self, newest: Snapshot, file_ids: pa.Array, after: int) -> Mapping[int, Bitmap]:
        """The rows of these files of the newest version that a delete of keys with a sequence number above
        ``after`` deletes first.
        """
        ...

    def replanned(self, newest: Snapshot) -> RowDelta:
        """The delta of a statement that replaces whole files, made again for the newest version."""
        ...

    @property
    def repeatable(self) -> bool:
        """Whether the statement may run again, with rows that are not stale."""
        ...


class ReadsNoRows:
    """The answers of a statement that reads no rows, such as a change of metadata."""

    repeatable = True

    def reads_target(self) -> bool:
        return False

    def new_match(self, newest: Snapshot, file_ids: pa.Array) -> int | None:
        del newest, file_ids
        return None

    def rows_read(self) -> Mapping[int, Bitmap]:
        return {}

    def deleted_by_key(self, newest: Snapshot, file_ids: pa.Array, after: int) -> Mapping[int, Bitmap]:
        del newest, file_ids, after
        return {}

    def replanned(self, newest: Snapshot) -> RowDelta:
        raise AssertionError(f"this statement is never planned again, at version {newest.version}")
