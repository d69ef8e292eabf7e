"""``VersionState``: what it takes to give a table the state of an older version.

The format makes it (``formats.Restorable``), and `delvec.restore` checks and commits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from delvec.row_delta import RowDelta


@dataclass(frozen=True, slots=True)
class RestoreCounts:
    """Data files and their bytes: those of the table afterwards, those that are removed, and those that
    become live again. A file whose deletes change is removed and restored.
    """

    files_after: int
    bytes_after: int
    removed_files: int
    removed_bytes: int
    restored_files: int
    restored_bytes: int


@dataclass(frozen=True, slots=True)
class VersionState:
    """The step from the newest version to the state of an older one.

    delta     removes the files that are live now and were not live then. Its ``carry`` has the files that
              become live again, with the deletes that they had, and the metadata
    needed    locations of the files that become live again, and of their deletes: they must exist
    metrics   the counts by the names of the table's history
    changes   false: the table has this state already
    """

    delta: RowDelta
    needed: pa.Array
    counts: RestoreCounts
    metrics: Mapping[str, int]
    changes: bool
