"""Which deletes data files have after which snapshots of a range, before sequence numbers are compared.

A delete belongs to data files by the rules of `delete_scopes`. The deletes after a snapshot are looked up for
some data files at a time: those that name one of these files, and those that several files share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows, one_chunk
from delvec.iceberg.delete_scopes import NONE, DeleteScopes, find_scopes, referenced_files
from delvec.iceberg.file_lifetimes import Lifetimes
from delvec.iceberg.manifest import EQUALITY_DELETES
from delvec.partition_spec import PartitionSpec


@dataclass(frozen=True, slots=True)
class DeletesOverTime:
    """The deletes of a range of snapshots.

    file      for each delete the number of the data file that it names; `NONE`: it is shared
    by_file   the deletes that name a file, ordered by its number
    data_file  for each data file its number: the same for two lives of one file
    """

    data: Lifetimes
    deletes: Lifetimes
    specs: Mapping[int, PartitionSpec]
    data_file: Rows
    file: Rows
    by_file: Rows
    is_equality: Mask

    @classmethod
    def of(cls, data: Lifetimes, deletes: Lifetimes, specs: Mapping[int, PartitionSpec]) -> DeletesOverTime:
        """The deletes of these data files. Those that name another one are left out of all answers."""
        paths = one_chunk(data.entries.column("file_path"))
        names = paths.unique()
        referenced = referenced_files(deletes.entries)
        unknown = np.where(referenced.is_valid().to_numpy(zero_copy_only=False), len(names), NONE)
        known = pc.index_in(referenced, value_set=names)
        file = np.where(
            known.is_valid().to_numpy(zero_copy_only=False), pc.fill_null(known, 0).to_numpy(), unknown
        ).astype(np.int64)
        order = np.argsort(file, kind="stable")
        content = one_chunk(deletes.entries.column("content")).to_numpy()
        return cls(
            data=data,
            deletes=deletes,
            specs=specs,
            data_file=pc.index_in(paths, value_set=names).to_numpy().astype(np.int64),
            file=file,
            by_file=order[file[order] != NONE],
            is_equality=content == EQUALITY_DELETES,
        )

    def at(self, rows: Rows, states: Rows, *, all_equality: bool = False) -> DeleteScopes:
        """The deletes that data files have after snapshots, one state for each of ``rows``.

        ``all_equality``: all equality deletes of the range and from before it, instead of those of the state.
        """
        vector, group, own = (np.full(len(rows), NONE, np.int64) for _ in range(3))
        groups: dict[tuple[int, ...], int] = {}
        for state in np.unique(states).tolist():
            members = np.flatnonzero(states == state)
            is_live = self.deletes.live_at(state)
            if all_equality:
                is_live |= self.is_equality
            chosen, scopes = self._scopes(rows[members], is_live)
            vector[members] = np.append(chosen, NONE)[scopes.vector]
            numbers = np.array(
                [groups.setdefault(tuple(chosen[list(part)].tolist()), len(groups)) for part in scopes.groups]
                + [NONE]
            )
            group[members], own[members] = numbers[scopes.group], numbers[scopes.own]
        return DeleteScopes(vector, group, own, tuple(groups))

    def _scopes(self, rows: Rows, is_live: Mask) -> tuple[Rows, DeleteScopes]:
        """The scopes of data files among the deletes that are live, and the rows of those deletes."""
        data = self.data.entries.take(pa.array(rows))
        oldest = pc.min(data.column("sequence_number")).as_py() or 0
        sequence = one_chunk(self.deletes.entries.column("sequence_number")).to_numpy()
        is_shared = (self.file == NONE) & is_live & (sequence >= oldest)
        naming = self.naming(np.unique(self.data_file[rows]))
        chosen = np.union1d(np.flatnonzero(is_shared), naming[is_live[naming]])
        return chosen, find_scopes(data, self.deletes.entries.take(pa.array(chosen)), self.specs)

    def naming(self, files: Rows) -> Rows:
        """The deletes that name one of these files, which are given by their distinct numbers."""
        ordered = self.file[self.by_file]
        first = np.searchsorted(ordered, files, side="left")
        counts = np.searchsorted(ordered, files, side="right") - first
        index = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        found: Rows = self.by_file[np.repeat(first, counts) + index]
        return found

    def positions_changed(self) -> tuple[Rows, Rows]:
        """Pairs of a data file and a snapshot that kept it and changed deletes by position that may be the
        file's.
        """
        pairs = list(self._positions_changed())
        nothing = np.zeros(0, np.int64)
        rows = np.concatenate([nothing, *(rows for rows, _ in pairs)])
        return rows, np.concatenate([nothing, *(np.full(len(rows), number) for rows, number in pairs)])

    def _positions_changed(self) -> Iterator[tuple[Rows, int]]:
        order = np.argsort(self.data_file, kind="stable")
        ordered = self.data_file[order]
        for number in range(self.data.count):
            changed = np.flatnonzero(self.deletes.changed_at(number) & ~self.is_equality)
            if not len(changed):
                continue
            kept = self.data.kept_by(number)
            named = np.unique(self.file[changed])
            first, end = (np.searchsorted(ordered, named, side=side) for side in ("left", "right"))
            found = [order[a:b] for a, b in zip(first.tolist(), end.tolist(), strict=True)]
            found.append(self._sharing(np.flatnonzero(kept), changed[self.file[changed] == NONE]))
            rows = np.unique(np.concatenate(found))
            yield rows[kept[rows]], number

    def _sharing(self, rows: Rows, deletes: Rows) -> Rows:
        """Those of the data files that are in the scope of shared deletes and not newer than they are."""
        if not len(deletes) or not len(rows):
            return np.zeros(0, np.int64)
        data, entries = (
            table.take(pa.array(chosen))
            for table, chosen in ((self.data.entries, rows), (self.deletes.entries, deletes))
        )
        newest = pc.max(entries.column("sequence_number")).as_py()
        is_older = pc.less_equal(data.column("sequence_number"), newest).to_numpy()
        group = find_scopes(data, entries, self.specs).group
        found: Rows = rows[(group != NONE) & is_older]
        return found

    def equality_periods(
        self, changed: Rows, changed_at: Rows, counts: Mask
    ) -> tuple[Rows, Rows, Rows, Rows]:
        """The data files to which equality deletes may apply that the range added, for each period in which
        their deletes by position stay the same.

        The row of the data file; the snapshot after which it has these deletes by position; the first
        snapshot of the period, and the one after its last. ``changed``, ``changed_at`` are
        `positions_changed`. Only snapshots that ``counts`` has are asked for their equality deletes.
        """
        added = np.flatnonzero(self.is_equality & (self.deletes.since >= 0))
        added = added[counts[self.deletes.since[added]]]
        if not len(added):
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing, nothing
        scopes = find_scopes(self.data.entries, self.deletes.entries.take(pa.array(added)), self.specs)
        rows = np.concatenate([np.arange(len(self.data)), changed])
        starts = np.concatenate([self.data.since, changed_at])
        # The snapshot that adds a file does not delete its rows by value.
        firsts = np.concatenate([self.data.since + 1, changed_at])
        order = np.lexsort([starts, rows])
        rows, starts, firsts = rows[order], starts[order], firsts[order]
        is_last = np.diff(rows, append=NONE) != 0
        ends = np.where(is_last, self.data.until[rows], np.append(starts[1:], 0))
        group, found = scopes.group[rows], np.zeros(len(rows), np.bool_)
        by_group = np.argsort(group, kind="stable")
        bounds_of = np.searchsorted(group[by_group], np.arange(len(scopes.groups) + 1))
        for number, deletes in enumerate(scopes.groups):
            snapshots = np.unique(self.deletes.since[added[list(deletes)]])
            of_group = by_group[bounds_of[number] : bounds_of[number + 1]]
            first, end = (np.searchsorted(snapshots, bounds[of_group]) for bounds in (firsts, ends))
            found[of_group] = end > first
        return rows[found], starts[found], firsts[found], ends[found]
