"""RESTORE: the branch is set to the older snapshot, as Iceberg's own rollback does.

No snapshot is made, and columns and properties of the table stay as they are. The snapshots after the older
one stay in the table until they expire, so a restore can be undone by another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import one_chunk
from delvec.iceberg.delete_scopes import referenced_files
from delvec.iceberg.metadata import MAIN
from delvec.iceberg.ref_updates import moved_branch
from delvec.iceberg.refs import verify_branch
from delvec.iceberg.tree.live_tree import LiveTree
from delvec.operation_metrics import restore_metrics
from delvec.row_delta import Read, Request, RowDelta, Verb
from delvec.version_state import RestoreCounts, VersionState

if TYPE_CHECKING:
    from delvec.iceberg.snapshot import Snapshot


def state_at(newest: Snapshot, then: Snapshot, request: Request) -> VersionState:
    """The step from ``newest`` to the state of ``then``."""
    branch = newest.opened.ref or MAIN
    verify_branch(newest.metadata, branch)
    changes = newest.version != then.version
    update = moved_branch(newest.metadata, branch, then.version) if changes else None
    counts, needed = _difference(newest, then)
    delta = RowDelta(newest.base, request, Read(), Verb.REPLACE, carry=None if update is None else (update,))
    return VersionState(delta, needed, counts, restore_metrics(counts), changes)


def _difference(newest: Snapshot, then: Snapshot) -> tuple[RestoreCounts, pa.Array]:
    """The data files that go and come, and the locations of what the older snapshot needs besides the files
    of the newest one.
    """
    now_data, then_data = newest.files.live.data(), then.files.live.data()
    now_deletes, then_deletes = newest.files.live.deletes(), then.files.live.deletes()
    now_paths, then_paths = (one_chunk(data.column("file_path")) for data in (now_data, then_data))
    gone, back = _only_in(now_deletes, then_deletes), _only_in(then_deletes, now_deletes)
    changed = pa.concat_arrays([referenced_files(deletes) for deletes in (gone, back)])
    removed = _changed(now_data, then_paths, changed)
    restored = _changed(then_data, now_paths, changed)
    counts = RestoreCounts(
        files_after=len(then_data),
        bytes_after=_bytes(then_data),
        removed_files=len(removed),
        removed_bytes=_bytes(removed),
        restored_files=len(restored),
        restored_bytes=_bytes(restored),
    )
    files = [restored.column("file_path"), back.column("file_path"), *_metadata_files(then)]
    resolved = [then.locations.resolve_many(part) for part in files]
    return counts, pa.concat_arrays([part.cast(pa.string()) for part in resolved]).unique()


def _metadata_files(then: Snapshot) -> list[pa.Array | pa.ChunkedArray]:
    record, live = then.record, then.files.live
    named = [] if record is None else [record.manifest_list, record.root_manifest]
    vectors = live.stored_vectors if isinstance(live, LiveTree) else []
    lists = [place for place in (*named, *vectors) if place is not None]
    return [pa.array(lists, pa.string()), live.manifests.column("path")]


def _changed(data: pa.Table, others: pa.Array, changed: pa.Array) -> pa.Table:
    """The data files that the other snapshot does not have, or has with other deletes."""
    paths = data.column("file_path")
    is_other = pc.invert(pc.is_in(paths, value_set=others))
    return data.filter(pc.or_(is_other, pc.is_in(paths, value_set=changed.drop_null())))


def _only_in(deletes: pa.Table, others: pa.Table) -> pa.Table:
    """The deletes that the other snapshot does not have. A Puffin file has several, by their offsets."""
    return deletes.filter(pc.invert(pc.is_in(_keys(deletes), value_set=_keys(others))))


def _keys(deletes: pa.Table) -> pa.Array:
    offsets = pc.fill_null(one_chunk(deletes.column("content_offset")), -1).cast(pa.string())
    return pc.binary_join_element_wise(one_chunk(deletes.column("file_path")), offsets, ":")


def _bytes(files: pa.Table) -> int:
    return int(pc.sum(files.column("file_size")).as_py() or 0)
