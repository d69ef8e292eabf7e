"""Conflicts of deletes by key that no row decides.

A delete by key applies to the files whose sequence number is below its own. So rows that move must keep their
number and their partitioning, and a delete for one partition must not miss a file with another partitioning.
"""

from __future__ import annotations

from collections.abc import Sequence

from delvec.chunked import one_chunk
from delvec.conflicts.conflict import Conflict
from delvec.conflicts.winners import deletes_keys
from delvec.formats import Snapshot
from delvec.row_delta import RowDelta, Verb, Won


def compaction_conflict(delta: RowDelta, base: Snapshot, won: Sequence[Won]) -> Conflict | None:
    """A compaction after a delete by key must keep the sequence number and the partitioning of its rows, or
    the delete might not apply to its new files.
    """
    keyed = next(filter(deletes_keys, won), None)
    if delta.verb != Verb.COMPACT or keyed is None:
        return None
    if delta.data_sequence is None:
        reason = "it deleted rows by their keys, and this operation gives rows a new sequence number"
        return Conflict.with_commit(keyed, reason)
    specs = base.plan(among=one_chunk(delta.removed)).files.column("spec_id").unique().to_pylist()
    if set(specs) <= {base.spec.spec_id}:
        return None
    reason = "it deleted rows by their keys, and this operation moves rows to another partitioning"
    return Conflict.with_commit(keyed, reason)


def key_scope_conflict(delta: RowDelta, newest: Snapshot, won: Sequence[Won]) -> Conflict | None:
    """A delete of keys for some partitions must apply to all files of the newest version too."""
    is_global = delta.added_deletes.column("spec_id").null_count == len(delta.added_deletes)
    if delta.verb not in (Verb.DELETE_KEYS, Verb.UPSERT) or is_global:
        return None
    keys = newest.rules(delta.verb).keys
    if not won or (keys is not None and keys.by_partition):
        return None
    return Conflict.with_commit(won[-1], "it added files with another partitioning")
