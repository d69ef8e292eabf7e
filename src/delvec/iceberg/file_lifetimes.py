"""The files of a range of snapshots, each once, with the snapshots at which it came and went.

Snapshots are numbered from 0; -1 is the state before the first one. Only manifests that a snapshot does not
share with the one before it are compared, so the work grows with what was changed; the root of a tree says
itself what its snapshot changed. The files from before the range are read only if a snapshot changes deletes:
then any of them may have lost rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows, one_chunk
from delvec.iceberg.change_range import ChangeRange
from delvec.iceberg.live_entries import LiveEntries
from delvec.iceberg.manifest import ADDED
from delvec.iceberg.manifest_list import DATA, DELETES
from delvec.iceberg.metadata import SnapshotRecord
from delvec.iceberg.tree.entries import CONTENT_STATS
from delvec.iceberg.tree.live_tree import LiveTree
from delvec.storage import in_parallel

BEFORE = -1


LiveAt = Callable[[SnapshotRecord | None], LiveEntries]
"""The live entries of a snapshot; None: of a table without one."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Files (`live_files`) of a range of ``count`` snapshots. A file is live from ``since`` on and before
    ``until``: `BEFORE` if it is older than the range, ``count`` if it is live at the end.
    """

    entries: pa.Table
    since: Rows
    until: Rows
    count: int

    def __len__(self) -> int:
        return len(self.since)

    def live_at(self, number: int) -> Mask:
        """Which files are live after the snapshot."""
        is_live: Mask = (self.since <= number) & (number < self.until)
        return is_live

    def kept_by(self, number: int) -> Mask:
        """Which files are live before and after the snapshot."""
        return self.live_at(number - 1) & self.live_at(number)

    def changed_at(self, number: int) -> Mask:
        """Which files the snapshot added or removed."""
        is_changed: Mask = (self.since == number) | (self.until == number)
        return is_changed


@dataclass(frozen=True, slots=True)
class _Step:
    """The files that one snapshot added and removed."""

    added: pa.Table
    removed: pa.Table


def file_lifetimes(live_at: LiveAt, found: ChangeRange) -> tuple[Lifetimes, Lifetimes]:
    """The data files and the delete files of the range.

    Data files from before the range are there if they were removed in it, or if deletes changed in it;
    delete files from before it if some data file is.
    """
    records = [found.snapshots[0] if found.base_is_lost else found.base, *found.snapshots]
    live = in_parallel(live_at, records)
    added_by = found.snapshots[0].snapshot_id if found.base_is_lost else None
    states = _States(live, added_by)
    delete_steps = [states.step(number, DELETES) for number in range(len(found.snapshots))]
    data_steps = [states.step(number, DATA) for number in range(len(found.snapshots))]
    has_deletes = any(len(step.added) or len(step.removed) for step in delete_steps)
    data_before = partial(states.before, DATA) if has_deletes else None
    data = _with_row_ids(_lifetimes(data_steps, _paths, data_before), states.live[-1])
    is_older = (data.since == BEFORE).any() or _has_older_sequence(data_steps)
    deletes_before = partial(states.before, DELETES) if is_older else None
    return data, _lifetimes(delete_steps, _delete_keys, deletes_before)


def _has_older_sequence(steps: Sequence[_Step]) -> bool:
    """Whether an added data file is older than its snapshot, so that older deletes may apply to it."""
    added = [step.added for step in steps if len(step.added)]
    return any(
        pc.any(pc.not_equal(table.column("sequence_number"), table.column("file_sequence_number"))).as_py()
        for table in added
    )


@dataclass(frozen=True, slots=True)
class _States:
    """The live files before the range, then those of each snapshot.

    ``added_by``: the state before the range is not known. Instead the first one is there twice: its files
    are those from before, except for those that this snapshot added.
    """

    live: Sequence[LiveEntries]
    added_by: int | None

    def before(self, content: int) -> pa.Table:
        """All files from before the range."""
        first = self.live[0]
        files = _columns(first.data() if content == DATA else first.deletes())
        return files.filter(pc.invert(self._is_added(files))) if self.added_by is not None else files

    def step(self, number: int, content: int) -> _Step:
        """What the snapshot changed."""
        before, after = self.live[number : number + 2]
        if isinstance(after, LiveTree) and (number or self.added_by is None):
            return _Step(*(_columns(files) for files in after.changed(content)))
        if number == 0 and self.added_by is not None:
            files = _columns(after.data() if content == DATA else after.deletes())
            return _Step(files.filter(self._is_added(files)), files.slice(0, 0))
        old, new = (
            files.entries(_not_in(files, others, content))
            for files, others in ((before, after), (after, before))
        )
        keys_of = _paths if content == DATA else _delete_keys
        old_keys, new_keys = keys_of(old), keys_of(new)
        return _Step(
            new.filter(pc.invert(pc.is_in(new_keys, value_set=old_keys))),
            old.filter(pc.invert(pc.is_in(old_keys, value_set=new_keys))),
        )

    def _is_added(self, files: pa.Table) -> pa.ChunkedArray:
        is_new = pc.equal(files.column("snapshot_id"), self.added_by)
        return pc.and_(pc.equal(files.column("status"), ADDED), pc.fill_null(is_new, False))  # noqa: FBT003


def _columns(entries: pa.Table) -> pa.Table:
    """The columns that live entries of all format versions have."""
    return entries.drop_columns([CONTENT_STATS]) if CONTENT_STATS in entries.column_names else entries


def _not_in(files: LiveEntries, others: LiveEntries, content: int) -> Rows:
    """The manifests of one content that the other snapshot does not have."""
    is_shared = pc.is_in(files.manifests.column("path"), value_set=one_chunk(others.manifests.column("path")))
    numbers = files.data_manifests if content == DATA else files.delete_manifests
    found: Rows = numbers[~is_shared.to_numpy()[numbers]]
    return found


def _paths(entries: pa.Table) -> pa.Array:
    return one_chunk(entries.column("file_path"))


def _delete_keys(entries: pa.Table) -> pa.Array:
    """Equal for the same delete: a Puffin file has the vectors of many data files. The data file of a
    position file does not count: trees name it where the manifest has only the bounds of its paths.
    """
    offset = one_chunk(entries.column("content_offset"))
    referenced = one_chunk(entries.column("referenced_data_file"))
    of_vector = pc.if_else(pc.is_valid(offset), referenced, pa.scalar(None, referenced.type))
    columns = (one_chunk(entries.column("file_path")), offset, of_vector)
    texts = [pc.fill_null(column.cast(pa.string()), "") for column in columns]
    return pc.binary_join_element_wise(*texts, "\0")


def _lifetimes(
    steps: Sequence[_Step], keys_of: Callable[[pa.Table], pa.Array], before: Callable[[], pa.Table] | None
) -> Lifetimes:
    """``before``: all files from before the range; None: only those that were removed in it are needed."""
    count = len(steps)
    added = pa.concat_tables([step.added for step in steps])
    since = np.repeat(np.arange(count), [len(step.added) for step in steps])
    removed = pa.concat_tables([step.removed for step in steps])
    removed_at = np.repeat(np.arange(count), [len(step.removed) for step in steps])
    removed_keys = keys_of(removed)
    if before is not None:
        older = before()
    else:
        older = removed.filter(_is_older(removed_keys, removed_at, keys_of(added), since))
    entries = pa.concat_tables([older, added])
    since = np.concatenate([np.full(len(older), BEFORE, np.int64), since])
    until, removal = _ends(keys_of(entries), since, removed_keys, removed_at, count)
    if len(removed):
        entries = _with_ids_of(entries, removed.take(pa.array(removal, mask=removal < 0)))
    return Lifetimes(entries, since, until, count)


def _with_row_ids(data: Lifetimes, newest: LiveEntries) -> Lifetimes:
    """The files with the row ids that they got in the range, when the table was upgraded."""
    lacks_ids = data.entries.column("first_row_id").is_null().to_numpy()
    if not (lacks_ids & data.live_at(data.count - 1)).any():
        return data
    if newest.manifests.column("first_row_id").null_count == len(newest.manifests):
        return data
    live = _columns(newest.data())
    return replace(
        data,
        entries=_with_ids_of(
            data.entries, live.take(pc.index_in(_paths(data.entries), value_set=_paths(live)))
        ),
    )


def _with_ids_of(entries: pa.Table, others: pa.Table) -> pa.Table:
    """The entries with the row ids of later entries of the same files, where they have none."""
    ids = pc.coalesce(*(one_chunk(table.column("first_row_id")) for table in (entries, others)))
    return entries.set_column(entries.schema.get_field_index("first_row_id"), "first_row_id", ids)


def _is_older(removed: pa.Array, removed_at: Rows, added: pa.Array, since: Rows) -> pa.Array:
    """Which of the removed files are from before the range: those that it had not added before."""
    added_at = pc.index_in(removed, value_set=added)  # the first one, if a file was added several times
    never = np.append(since, np.iinfo(np.int64).max)
    is_older = never[pc.fill_null(added_at, len(since)).to_numpy()] > removed_at
    is_first = np.zeros(len(removed), np.bool_)
    is_first[np.unique(removed.dictionary_encode().indices.to_numpy(), return_index=True)[1]] = True
    return pa.array(is_older & is_first)


def _ends(keys: pa.Array, since: Rows, removed: pa.Array, removed_at: Rows, count: int) -> tuple[Rows, Rows]:
    """For each file the first removal of its key after it came, and the row of that removal; -1: there is
    none.
    """
    known = removed.unique()
    code = pc.fill_null(pc.index_in(keys, value_set=known), len(known)).to_numpy().astype(np.int64)
    removed_code = pc.index_in(removed, value_set=known).to_numpy().astype(np.int64)
    removals = removed_code * (count + 2) + removed_at + 1
    order = np.argsort(removals)
    at = np.searchsorted(removals[order], code * (count + 2) + since + 1, side="right")
    next_removal = np.append(removals[order], np.iinfo(np.int64).max)[at]
    is_removed = next_removal // (count + 2) == code
    ends: Rows = np.where(is_removed, next_removal % (count + 2) - 1, count)
    rows: Rows = np.where(is_removed, np.append(order, -1)[at], -1)
    return ends, rows
