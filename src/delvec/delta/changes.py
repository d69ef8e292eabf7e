"""The change feed: from the commits of a range to a ``ChangePlan``.

commit with ``cdc`` actions   its change files, and nothing else
other commits                 files that it adds and removes with ``dataChange = true``; a file that it
                              adds and removes has another vector afterwards
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.change_plan import CHANGE_TYPE, COMMITS_SCHEMA, ChangePlan, CommitFiles
from delvec.chunked import Mask, Rows
from delvec.delta.actions import ADDS_SCHEMA, Actions
from delvec.delta.change_range import ChangeRange
from delvec.delta.history import CommitTimes
from delvec.delta.planning import plan_actions
from delvec.delta.recovery import load_version
from delvec.errors import DelvecError, FormatError
from delvec.schema import Field, Primitive, Schema, Struct
from delvec.storage import Storage

# A MERGE that has changed no row: Delta-Spark may rewrite files for it all the same.
_MERGE = "MERGE"
_MERGE_COUNTS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def change_plan(storage: Storage, found: ChangeRange, times: CommitTimes, *, time_zone: str) -> ChangePlan:
    """The files that tell what the commits of the range changed."""
    infos = {v: c.commit_info or {} for v, c in zip(found.versions, found.commits, strict=True)}
    times.remember(infos)
    timestamps = pa.array([times.millis(version) for version in found.versions], pa.int64())
    versions = pa.array(found.versions, pa.int64())
    no_sequence = pa.nulls(len(versions), pa.int64())
    no_ids = pa.repeat(pa.scalar(value=False), len(versions))
    commits = pa.table([versions, _micros(timestamps), no_sequence, no_ids], schema=COMMITS_SCHEMA)

    def plan(files: _Files) -> CommitFiles:
        return CommitFiles(plan_actions(found.shown, files.adds, time_zone=time_zone), files.commit)

    by_files = np.array([not len(c.change_files) and not _changes_nothing(c) for c in found.commits], bool)
    adds = _files(found.commits, lambda commit: commit.adds).with_changes(by_files)
    removes = _files(found.commits, lambda commit: commit.removes).with_changes(by_files)
    if found.shown.partition_columns:
        removes = _with_partition_values(storage, found, removes)
    in_both = pc.index_in(adds.keys(), value_set=removes.keys())
    is_replaced = pc.is_valid(in_both).to_numpy(zero_copy_only=False)
    replaced = pc.drop_null(in_both).to_numpy()
    is_only_removed = np.ones(len(removes.commit), dtype=bool)
    is_only_removed[replaced] = False
    return ChangePlan(
        schema=found.shown.schema,
        commits=commits,
        recorded=_with_change_type(plan(_files(found.commits, lambda commit: commit.change_files))),
        added=plan(adds.at(np.flatnonzero(~is_replaced))),
        removed=plan(removes.at(np.flatnonzero(is_only_removed))),
        before=plan(removes.at(replaced)),
        after=plan(adds.at(np.flatnonzero(is_replaced))).plan,
    )


def _micros(millis: pa.Array) -> pa.Array:
    return millis.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))


def _changes_nothing(commit: Actions) -> bool:
    info = commit.commit_info or {}
    metrics = info.get("operationMetrics") or {}
    return info.get("operation") == _MERGE and all(metrics.get(name) == "0" for name in _MERGE_COUNTS)


@dataclass(frozen=True, slots=True)
class _Files:
    """Files of commits. ``adds`` has the columns of ``ADDS_SCHEMA``, ``commit`` the number of the commit."""

    adds: pa.Table
    commit: Rows

    def at(self, rows: Rows) -> _Files:
        return _Files(self.adds.take(pa.array(rows)), self.commit[rows])

    def with_changes(self, by_commit: Mask) -> _Files:
        """The files with ``dataChange = true`` of the commits for which ``by_commit`` is true."""
        data_change = pc.fill_null(self.adds.column("data_change"), True)  # noqa: FBT003
        return self.at(np.flatnonzero(data_change.to_numpy() & by_commit[self.commit]))

    def keys(self) -> pa.Array:
        """Equal for two files if commit and path are equal."""
        commits = pa.array(self.commit).cast(pa.string())
        return pc.binary_join_element_wise(commits, self.adds.column("path"), "/").combine_chunks()


def _files(commits: Sequence[Actions], actions_of: Callable[[Actions], pa.Table]) -> _Files:
    """All file actions of one kind."""
    tables = [actions_of(commit) for commit in commits]
    commit = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    if not tables:
        return _Files(ADDS_SCHEMA.empty_table(), commit)
    actions = pa.concat_tables(tables)
    columns = [
        actions.column(field.name)
        if field.name in actions.column_names
        else pa.nulls(len(actions), field.type)
        for field in ADDS_SCHEMA
    ]
    adds = pa.table(columns, schema=ADDS_SCHEMA)
    size = adds.schema.get_field_index("size")  # a remove need not have one
    return _Files(adds.set_column(size, "size", pc.fill_null(adds.column("size"), 0)), commit)


def _with_partition_values(storage: Storage, found: ChangeRange, removes: _Files) -> _Files:
    """The removes with partition values. Those that do not state them get them from an earlier add."""
    maps = removes.adds.column("partition_values")
    is_unknown = np.concatenate([np.zeros(0, bool), *(np.diff(chunk.offsets) == 0 for chunk in maps.chunks)])
    if not is_unknown.any():
        return removes
    unknown = pa.array(is_unknown)
    known = [commit.adds.select(["path", "partition_values"]) for commit in found.commits]
    if found.versions[0] > 0:
        known.insert(0, _adds_before(storage, found.versions[0]).select(["path", "partition_values"]))
    adds = pa.concat_tables(known)
    rows = pc.index_in(removes.adds.column("path"), value_set=adds.column("path"))
    lost = pc.and_(unknown, pc.is_null(rows))
    if pc.any(lost).as_py():
        path = removes.adds.column("path").filter(lost)[0].as_py()
        version = found.versions[int(removes.commit[np.flatnonzero(lost.to_numpy())[0]])]
        raise FormatError(
            f"commit {version} removes {path!r} without its partition values, which no earlier commit in the "
            f"log states, expected extendedFileMetadata: {storage.root}"
        )
    stated = adds.column("partition_values").take(rows)
    index = removes.adds.schema.get_field_index("partition_values")
    return replace(
        removes,
        adds=removes.adds.set_column(index, "partition_values", pc.if_else(unknown, stated, maps)),
    )


def _adds_before(storage: Storage, version: int) -> pa.Table:
    try:
        return load_version(storage, version - 1)[0].adds
    except DelvecError:  # the version before the range is no longer in the log
        return ADDS_SCHEMA.empty_table()


def _with_change_type(files: CommitFiles) -> CommitFiles:
    plan = files.plan

    def wider(schema: Schema) -> Schema:
        return Struct((*schema.fields, Field(CHANGE_TYPE, Primitive("string"))))

    shapes = tuple(replace(shape, schema=wider(shape.schema)) for shape in plan.read_schemas)
    return replace(files, plan=replace(plan, schema=wider(plan.schema), read_schemas=shapes))
