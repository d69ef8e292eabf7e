"""Files that a delta and a concurrent commit both change: which rows each of them deletes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delvec.bitmap import Bitmap
from delvec.chunked import one_chunk
from delvec.conflicts.winners import Winners
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.new_vectors import load_new_vector, new_vector
from delvec.formats import Snapshot
from delvec.row_delta import RowDelta, Won
from delvec.storage import Storage

NO_ROWS: Mapping[int, Bitmap] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ContendedFile:
    """A file of the base that the delta changes or removes, and a concurrent commit too.

    name           as the metadata records it, for messages
    winner         the first commit that changed or removed it
    record_count   physical rows; None if not recorded
    before         its rows that were deleted in the base
    now            its rows that are deleted in the newest version; None if the file is removed
    mine           the rows that the delta deletes; None: all rows that were live in the base
    by_key         its rows that a concurrent commit deleted by their keys
    """

    file_id: int
    name: str
    winner: Won
    record_count: int | None
    before: Bitmap
    now: Bitmap | None
    mine: Bitmap | None
    by_key: Bitmap

    @property
    def overlap(self) -> int:
        """How many rows both deleted; 0 if the file is removed and its rows are not counted."""
        if self.now is None:
            if self.mine is not None:
                return len(self.mine)
            return 0 if self.record_count is None else self.record_count - len(self.before)
        winner_rows = (self.now | self.by_key) - self.before
        return len(winner_rows) if self.mine is None else len(self.mine & winner_rows)


def contended_files(
    delta: RowDelta,
    base: Snapshot,
    newest: Snapshot,
    winners: Winners,
    loader: DeleteLoader,
    *,
    by_key: Mapping[int, Bitmap] = NO_ROWS,
) -> list[ContendedFile]:
    """The files of the delta that a concurrent commit changed or removed, in the order of their ids.

    ``by_key``: the rows of each file of the base that concurrent commits deleted by their keys.
    """
    changed = pa.concat_arrays([one_chunk(delta.vectors.column("file_id")), one_chunk(delta.removed)])
    keyed = winners.first_deleting_keys()
    # A removed file loses its deletes too, so it does not matter where they were stored; but rows of keys
    # that a commit deleted may be among them.
    stored = delta.vectors.column("file_id") if keyed is None else changed
    again = winners.first_storing_again(one_chunk(stored))
    by_file = {} if keyed is None else {file_id: keyed for file_id, rows in by_key.items() if len(rows)}
    by_file |= again | winners.first_change(changed)
    ids = pa.array(sorted(by_file), pa.int64())
    if not len(ids):
        return []
    plan = base.plan(among=ids)
    before = loader.by_file(plan)
    in_newest = winners.newest_ids(ids)
    now = loader.by_file(newest.plan(among=in_newest.drop_null()))
    counts = dict(zip(*(plan.files.column(c).to_pylist() for c in ("file_id", "record_count")), strict=True))
    columns = zip(ids.to_pylist(), base.names(ids).to_pylist(), in_newest.to_pylist(), strict=True)
    return [
        ContendedFile(
            file_id,
            name,
            by_file[file_id],
            counts[file_id],
            before[file_id],
            None if new_id is None else now[new_id],
            _mine(delta, file_id, name, before[file_id], loader.storage),
            by_key.get(file_id, Bitmap()),
        )
        for file_id, name, new_id in columns
    ]


def united_vector(file: ContendedFile) -> dict[str, Any] | None:
    """The vector of a file that both changed, as a row of ``VECTORS_SCHEMA``; None if the delta removes the
    file or the file is removed already.
    """
    if file.now is None or file.mine is None:
        return None
    return new_vector(file.file_id, file.mine - file.by_key, file.now)


def _mine(delta: RowDelta, file_id: int, name: str, before: Bitmap, storage: Storage) -> Bitmap | None:
    index = pc.index(delta.vectors.column("file_id"), file_id).as_py()
    if index < 0:
        return None
    row = delta.vectors.slice(index, 1).to_pylist()[0]
    return load_new_vector(storage, row, name) - before
