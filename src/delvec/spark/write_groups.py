"""Writes the groups of a compaction: the rows of each group to files of its own.

    a few groups      a job for each group, several at a time. It has one task, so no row is shuffled
    many small ones   one job for all: rows are shuffled by their group

The files of a group are in one partition, whose values the plan states. If the partitioning has changed since
the files were written, the values are computed anew from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.util import inheritable_thread_target

from delvec.chunked import one_chunk
from delvec.compaction_groups import CompactionGroups, Numbers, live_rows_of
from delvec.errors import FormatError, StorageError
from delvec.footers.footer import footer_rows
from delvec.plan import ScanPlan
from delvec.row_delta import all_files
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.copied_rows import copied_rows
from delvec.spark.file_paths import file_path
from delvec.spark.partition_values import typed_values, with_hashes
from delvec.spark.progress import FILES_WRITTEN, tell
from delvec.spark.scan import own_prefix, place_columns
from delvec.spark.scan_part import unknown_file
from delvec.spark.target import Target
from delvec.spark.types import selected
from delvec.spark.write_rows import FolderTexts, partition_columns, stored_columns, write_staged
from delvec.spark.zorder import Curve
from delvec.storage import Storage, in_parallel

MAX_JOBS = 16
"""How many groups are written at a time."""

SMALL_GROUP = 32 << 20
"""More than ``MAX_JOBS`` groups are written by one job if their average size is below this, in bytes."""

_FILES_PER_JOB = 50_000
_TASK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class WrittenGroups:
    """New files (columns as in ``RowDelta.added``), and the group of each of them."""

    files: pa.Table
    numbers: list[int]


def write_groups(
    target: Target, groups: CompactionGroups, *, curve: Curve | None = None, file_size: int
) -> WrittenGroups:
    """Write the live rows of each group to new files; with a ``curve``, sorted along it.

    A group becomes one file. With a curve, it becomes as many as ``file_size`` asks for. If a write fails,
    the files that were written are deleted.
    """
    written: list[WrittenGroups] = []
    try:
        with closing(_jobs(target, groups, curve, file_size)) as parts:
            for part in parts:
                written.append(part)
                tell(FILES_WRITTEN, len(part.files))
        result = WrittenGroups(
            all_files(*(part.files for part in written)) if written else pa.table({}),
            [number for part in written for number in part.numbers],
        )
        _verify_rows(target.storage, groups, result)
    except BaseException:
        _discard(target.storage, written)
        raise
    return result


def _discard(storage: Storage, written: Iterable[WrittenGroups]) -> None:
    """Delete the files. VACUUM deletes those that remain."""
    with suppress(StorageError):
        storage.delete([name for part in written for name in part.files.column("location").to_pylist()])


def _jobs(
    target: Target, groups: CompactionGroups, curve: Curve | None, file_size: int
) -> Generator[WrittenGroups]:
    members, sizes = groups.members(), groups.sizes()
    if len(members) > MAX_JOBS and sizes.mean() < SMALL_GROUP:
        ones = np.ones(len(groups.numbers), np.int64)
        for part, numbers in groups.parts(ones, _FILES_PER_JOB):
            yield _shuffled(target, part, numbers, curve)
        return

    def write(number: int) -> WrittenGroups:
        plan, size = groups.plan.at(members[number]), int(sizes[number])
        files = _write_group(target, plan, curve, max(1, size // file_size))
        return WrittenGroups(files, [number] * len(files))

    if len(members) == 1:
        yield write(0)
    else:
        yield from _concurrently(target, write, range(len(members)))


def _concurrently(
    target: Target, write: Callable[[int], WrittenGroups], numbers: Iterable[int]
) -> Generator[WrittenGroups]:
    """The results in the order in which they are complete.

    If a job fails, or the caller is interrupted, no further job starts, and the files of the results that the
    caller does not have are deleted.
    """
    in_thread: Callable[[int], WrittenGroups] = inheritable_thread_target(target.spark)(write)
    pool, pending = ThreadPoolExecutor(MAX_JOBS), set[Future[WrittenGroups]]()
    try:
        for number in numbers:
            pending.add(pool.submit(in_thread, number))
        for job in as_completed(tuple(pending)):
            pending.remove(job)
            yield job.result()
    finally:
        pool.shutdown(cancel_futures=True)
        complete = (job for job in pending if not job.cancelled() and job.exception() is None)
        _discard(target.storage, [job.result() for job in complete])


def _write_group(target: Target, plan: ScanPlan, curve: Curve | None, count: int) -> pa.Table:
    rules, partition = target.rules, _partition(target, plan)
    frame = copied_rows(target, plan)
    texts = {} if partition is not None else partition_columns(rules)
    if texts:
        frame = with_hashes(frame, rules)
    columns = stored_columns(rules, target.lineage) + list(texts.values())
    if curve is None:
        rows = selected(frame, columns).coalesce(1)
    else:
        position = f"{own_prefix(rules.schema)}z"
        frame = selected(curve.positions(frame, position), [*columns, position])
        rows = frame.repartitionByRange(count, position) if count > 1 else frame.coalesce(1)
        rows = rows.sortWithinPartitions(*texts, position).drop(position)

    def values(names: FolderTexts) -> pa.StructArray:
        if partition is None:
            return typed_values(rules.spec, names)
        return partition.take(pa.array(np.zeros(len(names), np.int64)))

    files, _ = write_staged(rows, target.storage, rules, partition_by=[*texts], values=values)
    return files


def _partition(target: Target, plan: ScanPlan) -> pa.StructArray | None:
    """The partition values of the files, which have the same; None if they have another partitioning than new
    files.
    """
    spec = target.rules.spec
    if plan.files.column("spec_id")[0].as_py() != spec.spec_id:
        return None
    first = one_chunk(plan.files.column("partition").slice(0, 1))
    if not spec.fields:
        return pa.array([{}], pa.struct([]))
    values = [first.field(field.name).cast(field.type) for field in spec.value_type]
    return pa.StructArray.from_arrays(values, fields=list(spec.value_type))


def _shuffled(
    target: Target, groups: CompactionGroups, numbers: Numbers, curve: Curve | None
) -> WrittenGroups:
    """Write the rows of all groups with one job. ``numbers``: the numbers of the groups in the result."""
    rules, prefix = target.rules, own_prefix(target.rules.schema)
    group, path_of_group, position = f"{prefix}group", f"{prefix}group_path", f"{prefix}z"
    path, _ = place_columns(target.schema)
    places = groups.plan.files.column("location").to_pylist()
    by_file = pa.table({path_of_group: pa.array(map(file_path, places), pa.string()), group: groups.numbers})
    frame = copied_rows(target, groups.plan, with_path=True)
    frame = frame.join(
        F.broadcast(frame_of_table(target.spark, by_file)), F.expr(f"{path} = {path_of_group}"), "left"
    ).withColumn(group, F.expr(f"coalesce({group}, CAST({unknown_file(path)} AS BIGINT))"))
    if curve is not None:
        frame = curve.positions(frame, position)
    texts = partition_columns(rules)
    frame = with_hashes(frame, rules)
    columns = [*stored_columns(rules, target.lineage), *texts.values(), group]
    tasks = min(groups.count, max(2, int(groups.sizes().sum()) // _TASK_BYTES))
    if curve is None:
        rows = selected(frame, columns).repartition(tasks, group)
    else:
        rows = selected(frame, [*columns, position]).repartition(tasks, group)
        rows = rows.sortWithinPartitions(group, *texts, position).drop(position)
    files, names = write_staged(
        rows,
        target.storage,
        rules,
        partition_by=[group, *texts],
        values=lambda names: typed_values(rules.spec, [row[1:] for row in names]),
    )
    return WrittenGroups(files, [int(numbers[int(str(row[0]))]) for row in names])


def _verify_rows(storage: Storage, groups: CompactionGroups, written: WrittenGroups) -> None:
    """Refuse to commit if a group has not as many rows as its old files had: no row may be lost."""
    expected = live_rows_of(groups, _record_counts(storage, groups.plan.files))
    counts: Sequence[int] = written.files.column("record_count").to_pylist() if written.numbers else ()
    rows = np.bincount(np.array(written.numbers, np.int64), np.array(counts, np.int64), groups.count)
    wrong = np.flatnonzero((expected >= 0) & (rows.astype(np.int64) != expected))
    if len(wrong):
        number = int(wrong[0])
        file = groups.plan.files.column("location")[int(groups.members()[number][0])].as_py()
        raise FormatError(
            f"the metadata records {expected[number]} live rows in the files that are compacted with this "
            f"one, found {int(rows[number])}",
            path=file,
        )


def _record_counts(storage: Storage, files: pa.Table) -> pa.Array:
    """The physical rows of each file: those that the metadata records, or else those of the file's footer."""
    recorded = one_chunk(files.column("record_count"))
    if not recorded.null_count:
        return recorded
    is_missing = recorded.is_null()
    places = files.column("location").filter(is_missing).to_pylist()
    counts = in_parallel(lambda place: footer_rows(storage, place), places)
    return pc.replace_with_mask(recorded, is_missing, pa.array(counts, recorded.type))
