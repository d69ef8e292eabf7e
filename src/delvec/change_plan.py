"""``ChangePlan``: the files that say which rows a range of commits changed. A format hands it to the engine.

    recorded        change files: they store changed rows, with the kind of each change in a column
    added           data files that a commit added: their live rows are inserted
    removed         data files that a commit removed: the rows that were live until then are deleted
    before, after   data files whose deletes a commit replaced: rows that only the later deletes have were
                    deleted, rows that only the earlier deletes have were inserted again

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
    ]
)
"""Columns of ``ChangePlan.commits``."""


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
class ChangePlan:
    """The changes of a range of commits.

    schema     the columns of the table, as the feed shows them
    commits    a row of ``COMMITS_SCHEMA`` for each commit of the range, in order
    recorded   its plan has the column ``CHANGE_TYPE`` after those of the table
    after      the files of ``before`` in the same order, with their later deletes
    """

    schema: Schema
    commits: pa.Table
    recorded: CommitFiles
    added: CommitFiles
    removed: CommitFiles
    before: CommitFiles
    after: ScanPlan


def no_files(plan: ScanPlan) -> CommitFiles:
    """The plan without any file."""
    none = np.zeros(0, np.int64)
    return CommitFiles(plan.at(none), none)
