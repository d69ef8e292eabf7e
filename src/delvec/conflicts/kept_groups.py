"""A compaction on top of other commits: without the groups whose files these commits changed.

The new files of a group hold the rows that were live in the base. If another commit deleted a row of the
group's old files, or removed one of them, the new files would bring deleted rows back. So the whole group is
dropped from the delta, and its old files stay as the other commit left them.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.conflicts.winners import Winners
from delvec.formats import Snapshot
from delvec.row_delta import FileGroups, RowDelta


def kept_groups(delta: RowDelta, winners: Winners, newest: Snapshot) -> RowDelta:
    """The delta of a compaction on top of ``newest``, with the groups that no other commit changed."""
    removed, groups = one_chunk(delta.removed), groups_of(delta)
    touched = groups.removed.filter(pc.is_in(removed, value_set=winners.touched(removed)))
    keeps_removed = pc.invert(pc.is_in(groups.removed, value_set=touched))
    keeps_added = pc.invert(pc.is_in(groups.added, value_set=touched))
    kept = removed.filter(keeps_removed)
    rewritten = one_chunk(delta.rewritten)
    return replace(
        delta,
        base=newest.base,
        removed=winners.newest_ids(kept),
        rewritten=winners.newest_ids(rewritten.filter(pc.is_in(rewritten, value_set=kept))),
        added=delta.added.filter(keeps_added),
        groups=FileGroups(groups.removed.filter(keeps_removed), groups.added.filter(keeps_added)),
    )


def groups_of(delta: RowDelta) -> FileGroups:
    """The groups of the delta; one group of all its files if it has none."""
    if delta.groups is not None:
        return delta.groups
    zero = pa.scalar(0, pa.int64())
    return FileGroups(pa.repeat(zero, len(delta.removed)), pa.repeat(zero, len(delta.added)))
