"""``ChangePlan``: the files that say which rows a range of commits changed. A format hands it to the engine.

    recorded        change files: they store changed rows, with the kind of each change in a column
    added           data files that a commit added: their live rows are inserted
    removed         data files that a commit removed: the rows that were live until then are deleted
    before, after   data files whose deletes a commit replaced: rows that only the later deletes have were
                    deleted, rows that only the earlier deletes have were inserted again
    by_value        data files that stayed, and the deletes by value that commits added: the commit of the
                    first delete that has the values of a row deleted it

A commit has either change files or some of the others. A data file may occur once for each commit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from delvec.chunked import Rows
from delvec.plan import ScanPlan
from delvec.schema import Field, Primitive, Schema

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

DELETE, INSERT = "delete", "insert"
BEFORE, AFTER = "update_preimage", "update_postimage"

CHANGE_FIELDS = (
    Field(CHANGE_TYPE, Primitive("string")),
    Field(COMMIT_VERSION, Primitive("long")),
    Field(COMMIT_TIMESTAMP, Primitive("timestamp")),
)
"""The columns of a change feed after those of the table."""

COMMITS_SCHEMA = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("sequence", pa.int64()),
        pa.field("has_row_ids", pa.bool_(), nullable=False),
    ]
)
"""Columns of ``ChangePlan.commits``.

sequence     of the deletes by value that the commit may have added; null: it changed no row, or the format
             has no such deletes
has_row_ids  whether every row that the commit changed has an id (``ScanPlan.lineage``)
"""


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """Files of several commits. ``commit`` has for each file of the plan a row of ``ChangePlan.commits``."""

    plan: ScanPlan
    commit: Rows

    def __len__(self) -> int:
        return len(self.commit)

    def at(self, rows: Rows) -> CommitFiles:
        """Some of the files, by their rows in ``plan.files``."""
        return replace(self, plan=self.plan.at(rows), commit=self.commit[rows])


@dataclass(frozen=True, slots=True)
class FilesInRange:
    """Data files and the commits in which a delete by value may have deleted a row of theirs.

    plan    the deletes by position are those of these commits; the deletes by value are all that may ever
            have deleted a row, also those from before the range: a row is deleted once
    first, end   for each file the rows of ``ChangePlan.commits``: from ``first`` on and before ``end``. A
            file may occur several times, with other commits
    """

    plan: ScanPlan
    first: Rows
    end: Rows

    def __len__(self) -> int:
        return len(self.first)

    def at(self, rows: Rows) -> FilesInRange:
        """Some of the files, by their rows in ``plan.files``."""
        return FilesInRange(self.plan.at(rows), self.first[rows], self.end[rows])


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The changes of a range of commits.

    schema     the columns of the table, as the feed shows them
    commits    a row of ``COMMITS_SCHEMA`` for each commit of the range, in order
    recorded   its plan has the column ``CHANGE_TYPE`` after those of the table
    after      the files of ``before`` in the same order, with their later deletes
    by_value   None: the format has no deletes by value
    copies_rows   a commit may remove a row and add it again, unchanged or with other values. Such a row is
               found by its id, if the commit's rows have ids, or else by its values

    The deletes by value of ``before`` are as in ``FilesInRange``: a row that one of them deleted before the
    commit is not changed by it.
    """

    schema: Schema
    commits: pa.Table
    recorded: CommitFiles
    added: CommitFiles
    removed: CommitFiles
    before: CommitFiles
    after: ScanPlan
    by_value: FilesInRange | None = None
    copies_rows: bool = False


def no_files(plan: ScanPlan) -> CommitFiles:
    """The plan without any file."""
    none = np.zeros(0, np.int64)
    return CommitFiles(plan.at(none), none)
