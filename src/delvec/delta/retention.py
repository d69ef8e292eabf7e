"""What a Delta table still needs: the answers for vacuum.

A version needs its data files and their vector files. Retained are the newest version, and older ones as far
as their files have tombstones that have not expired: a tombstone keeps its data file and the vector that the
file had. Change files have no tombstones; their age decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from delvec import location
from delvec.delta.action_reader import parse_actions, parse_commit_info
from delvec.delta.actions import REMOVES_SCHEMA
from delvec.delta.checkpoint_reader import concat
from delvec.delta.descriptor import vector_files
from delvec.delta.log_files import LOG, list_log
from delvec.delta.properties import FILE_RETENTION, FILE_RETENTION_DEFAULT, duration_ms
from delvec.delta.writer_features import verify_writable
from delvec.errors import FormatError, ObjectNotFoundError
from delvec.retention import HiddenNames, Protected, RetentionRules, Unneeded
from delvec.storage import Entry, Storage, in_parallel

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

# Folders that start with an underscore and hold files of the table: change files, and indexes of Databricks.
_VISIBLE = ("_change_data", "_delta_index")


def retention_rules(snapshot: Snapshot) -> RetentionRules:
    """How vacuum treats the table; refuses a table with a feature that delvec does not know, by its name.

    The protocol of a writer counts too: only a client that knows all features knows which files they need.
    """
    verify_writable(snapshot, rows=False)
    columns = [field for field in snapshot.schema if field.name in snapshot.partition_columns]
    partitions = {f"{name}=" for field in columns for name in (field.name, field.physical_name)}
    return RetentionRules(
        default_ms=file_retention_ms(snapshot),
        property=FILE_RETENTION,
        hidden=HiddenNames((".", "_"), (*_VISIBLE, *sorted(partitions))),
        table_folders=frozenset({LOG}),
    )


def file_retention_ms(snapshot: Snapshot) -> int:
    return duration_ms(snapshot.properties, FILE_RETENTION, FILE_RETENTION_DEFAULT)


def protected(
    storage: Storage, snapshot: Snapshot, cutoff_ms: int, *, after: Protected | None = None
) -> Protected:
    """The files of the newest version and of tombstones since ``cutoff_ms``, with all their vectors.

    A checkpoint drops tombstones by the retention that the table had then, which may have been shorter. So
    the commits are read too; with ``after`` only those after its version.
    """
    if after is not None and after.version == snapshot.version:
        return Protected(snapshot.version, ())
    in_commits = _removes_in_commits(storage, cutoff_ms, None if after is None else after.version)
    removes = _since(concat([snapshot.tombstones(), in_commits]), cutoff_ms)
    parts = []
    for actions in (snapshot.adds, removes):
        parts += [location.resolve_many(storage.root, actions.column("path"))]
        parts += [vector_files(storage.root, actions)]
    locations = pa.chunked_array([part.cast(pa.large_string()) for part in parts])
    return Protected(snapshot.version, (locations,))


def unneeded(storage: Storage, snapshot: Snapshot, *, now_ms: int) -> Unneeded:
    """The tombstones, without those of files that are live with another vector, or that the last vacuum
    deleted.
    """
    removes = _since(snapshot.tombstones(), _vacuumed_before_ms(storage, snapshot))
    is_live = pc.is_in(removes.column("path"), value_set=snapshot.adds.column("path"))
    gone = removes.filter(pc.invert(is_live)).select(["path", "size", "deletion_timestamp"])
    # A file that several commits removed, each with another vector, is one file.
    files = gone.group_by("path").aggregate([("size", "max"), ("deletion_timestamp", "max")])
    times = pc.fill_null(files.column("deletion_timestamp_max"), 0)
    expired = files.filter(pc.less(times, now_ms - file_retention_ms(snapshot)))
    return Unneeded(len(files), _bytes(files), len(expired), _bytes(expired))


def _vacuumed_before_ms(storage: Storage, snapshot: Snapshot) -> int:
    """The last vacuum since the checkpoint deleted files whose tombstones are older than this; 0: none did.

    A checkpoint drops expired tombstones, so older vacuums need no look.
    """
    since = 0 if snapshot.state.checkpoint is None else snapshot.state.checkpoint.version
    commits = sorted(list_log(storage, since=since).commits.items())
    infos = in_parallel(lambda item: parse_commit_info(storage.read(item[1].path)), commits)
    before, started = 0, 0
    for info in infos:
        parameters = info.get("operationParameters")
        if info.get("operation") == "VACUUM START" and isinstance(parameters, dict):
            kept = parameters.get("specifiedRetentionMillis", parameters.get("defaultRetentionMillis"))
            time = info.get("timestamp")
            started = time - kept if isinstance(time, int) and isinstance(kept, int) else 0
        elif info.get("operation") == "VACUUM END" and parameters == {"status": "COMPLETED"}:
            before = max(before, started)
    return before


def _bytes(files: pa.Table) -> int:
    return int(pc.sum(files.column("size_max")).as_py() or 0)


def _since(removes: pa.Table, cutoff_ms: int) -> pa.Table:
    """The tombstones that have not expired. One without a time is as old as can be."""
    times = pc.fill_null(removes.column("deletion_timestamp"), 0)
    return removes.filter(pc.greater_equal(times, cutoff_ms))


def _removes_in_commits(storage: Storage, cutoff_ms: int, after: int | None) -> pa.Table:
    """The removes of all commits whose files were written at ``cutoff_ms`` or later."""
    commits = list_log(storage, since=None if after is None else after + 1).commits.values()
    recent = [entry for entry in commits if entry.modified.timestamp() * 1000 >= cutoff_ms]
    return concat([REMOVES_SCHEMA.empty_table(), *in_parallel(lambda one: _removes(storage, one), recent)])


def _removes(storage: Storage, entry: Entry) -> pa.Table:
    try:
        return parse_actions(storage.read(entry.path)).removes
    except ObjectNotFoundError:  # cleaned up in the meantime
        return REMOVES_SCHEMA.empty_table()
    except FormatError as error:
        raise error.at(location.join(storage.root, entry.path)) from None
