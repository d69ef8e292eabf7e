"""Rows whose delete sets changed: one scan for all commits that keeps the rows of the differences.

    deleted after a commit and not before    delete
    deleted before a commit and not after    insert

The scan is joined to the chunks of the differences (`vector_chunks`), each with the kind of the change and
its commit. So each file is read once, and a row that one commit deletes and another one restores is two rows
of the feed. If one commit changed all rows in one way, and few files have dense differences, a filter by
words (`vector_words`) takes the place of the join, as in a scan of live rows.

A row that a delete by value had deleted before the commit is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delvec.bitmap import Bitmap
from delvec.change_plan import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DELETE, INSERT, ChangePlan
from delvec.chunked import Rows
from delvec.deletes.loader import DeleteLoader
from delvec.deletes.sets import DeleteSets
from delvec.plan import EQUALITY_FILE, ScanPlan
from delvec.spark import scan
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.change_columns import ChangeColumns, commit_columns
from delvec.spark.kept_rows import KeptRows
from delvec.spark.load_on_executors import load_chunks
from delvec.spark.scan import scan_kept
from delvec.spark.types import selected
from delvec.spark.vector_chunks import FILE_SHIFT, WORDS, chunk_estimate, chunks_of, first_chunk_keys
from delvec.spark.vector_words import words_of
from delvec.storage import Storage

_CHUNK_MASK = (1 << FILE_SHIFT) - 1  # the number of the chunk in a key


def changed_rows(
    spark: SparkSession, plan: ChangePlan, columns: ChangeColumns, storage: Storage, loader: DeleteLoader
) -> list[DataFrame]:
    """The rows that commits deleted or restored, with the columns of a change feed: a frame for each scan."""
    if not len(plan.before):
        return []
    before, after = plan.before.plan, plan.after
    places = after.files.column("location").combine_chunks().dictionary_encode()
    first = np.unique(places.indices.to_numpy(), return_index=True)[1]
    files = _without_positions(columns.widened(after.at(np.sort(first))))
    changed = _ChangedDeletes(spark, plan, loader, DeleteSets.of(before), DeleteSets.of(after))
    further = columns.further
    if _has_groups(files):
        further = columns.with_deleted_by
        changed = replace(changed, sequence=columns.prefix + "sequence")
    frames = scan_kept(spark, files, storage, loader, changed.kept, further=further)
    if further.deleted_by is not None:
        is_change = F.expr(f"coalesce({further.deleted_by} >= {changed.sequence}, true)")
        frames = [frame.where(is_change) for frame in frames]
    feed = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
    return [selected(frame, columns.selected(*feed)) for frame in frames]


def _without_positions(plan: ScanPlan) -> ScanPlan:
    """The plan without deletes by position."""
    files = plan.files
    kinds = plan.deletes.column("kind").to_pylist()
    groups = tuple(tuple(row for row in group if kinds[row] == EQUALITY_FILE) for group in plan.delete_groups)
    is_empty = pa.array([not group for group in groups] + [True])
    group = pc.fill_null(files.column("delete_group"), len(groups))
    group = pc.if_else(is_empty.take(group.combine_chunks()), pa.scalar(None, pa.int32()), group)
    for name, values in (("vector", None), ("own_deletes", None), ("delete_group", group)):
        index = files.schema.get_field_index(name)
        column = pa.nulls(len(files), pa.int32()) if values is None else values
        files = files.set_column(index, name, column)
    return replace(plan, files=files, delete_groups=groups)


def _has_groups(plan: ScanPlan) -> bool:
    group = plan.files.column("delete_group")
    return bool(group.null_count < len(group))


@dataclass(frozen=True, slots=True)
class _ChangedDeletes:
    """``before`` and ``after``: the delete sets of ``plan.before`` and ``plan.after``. A pair of them is a
    data file in a commit. ``sequence``: the name of a column for the sequence of the commit, if it is needed.
    """

    spark: SparkSession
    plan: ChangePlan
    loader: DeleteLoader
    before: DeleteSets
    after: DeleteSets
    sequence: str | None = None

    def kept(self, files: pa.Table, file_numbers: Rows, use_words: bool) -> KeptRows | None:  # noqa: FBT001
        """The changed rows of some files, whose numbers in the scan are given."""
        all_files = self.plan.after.files
        file = pc.index_in(all_files.column("location"), value_set=files.column("location").combine_chunks())
        pairs = np.flatnonzero(file.is_valid().to_numpy())
        numbers = file_numbers[file.drop_null().to_numpy()]
        before, after = self.before.at(pairs), self.after.at(pairs)
        counts = all_files.column("record_count").take(pa.array(pairs))
        size = sum(chunk_estimate(sets, counts) for sets in (before, after))
        first_keys, commit = first_chunk_keys(numbers), self.plan.before.commit[pairs]
        if size > scan.DRIVER_CHUNK_BYTES:
            return KeptRows(self._loaded_on_executors(before, after, first_keys, commit))
        differences = self._differences(before, after)
        if not differences:
            return None
        kept = self._words(differences, numbers, commit) if use_words else None
        if kept is not None:
            return kept
        tables = [self._chunks(kind, bitmaps, first_keys, commit) for kind, bitmaps in differences.items()]
        return KeptRows(F.broadcast(frame_of_table(self.spark, pa.concat_tables(tables))))

    def _words(
        self, differences: Mapping[str, Sequence[Bitmap]], numbers: Rows, commit: Rows
    ) -> KeptRows | None:
        """The changed rows as words; None if they are not of one kind and one commit, or not dense."""
        if len(differences) > 1 or len(np.unique(commit)) > 1:
            return None
        ((kind, bitmaps),) = differences.items()
        words = words_of(bitmaps, numbers)
        if words is None:
            return None
        columns = [F.lit(kind).alias(CHANGE_TYPE), *commit_columns(self.plan, int(commit[0]))]
        if self.sequence is not None:
            sequence = self.plan.commits.column("sequence")[int(commit[0])].as_py()
            columns.append(F.lit(sequence).cast("long").alias(self.sequence))
        return KeptRows(words, tuple(columns))

    def _differences(self, before: DeleteSets, after: DeleteSets) -> dict[str, list[Bitmap]]:
        """The rows of each pair that were deleted and those that were inserted; without kinds that no row
        has.
        """
        old, new = ([rows or Bitmap() for rows in self.loader.load(sets)] for sets in (before, after))
        differences = {
            DELETE: [later - earlier for earlier, later in zip(old, new, strict=True)],
            INSERT: [earlier - later for earlier, later in zip(old, new, strict=True)],
        }
        return {kind: bitmaps for kind, bitmaps in differences.items() if any(bitmaps)}

    def _chunks(self, kind: str, bitmaps: list[Bitmap], first_keys: Rows, commit: Rows) -> pa.Table:
        """The chunks of one kind of change, with the columns of the change."""
        chunks = chunks_of(bitmaps, first_chunk_keys(np.arange(len(bitmaps))))
        keys = chunks.column("key").to_numpy()
        pair = keys >> FILE_SHIFT
        return pa.table(
            {
                "key": pa.array(first_keys[pair] | (keys & _CHUNK_MASK)),
                "words": chunks.column("words"),
                CHANGE_TYPE: pa.repeat(pa.scalar(kind), len(keys)),
                **self._commits(commit[pair]),
            }
        )

    def _commits(self, commit: Rows) -> dict[str, pa.ChunkedArray]:
        """The columns of commits, by their rows."""
        names = {COMMIT_VERSION: "version", COMMIT_TIMESTAMP: "timestamp"}
        if self.sequence is not None:
            names[self.sequence] = "sequence"
        commits = self.plan.commits.take(pa.array(commit))
        return {name: commits.column(column) for name, column in names.items()}

    def _loaded_on_executors(
        self, before: DeleteSets, after: DeleteSets, first_keys: Rows, commit: Rows
    ) -> DataFrame:
        """The chunks of all changes. The executors load the deletes; Spark computes the differences."""
        old, new = self._loaded(before), self._loaded(after)
        deleted, restored = _minus(new, old), _minus(old, new)
        chunks = deleted.withColumn(CHANGE_TYPE, F.lit(DELETE)).union(
            restored.withColumn(CHANGE_TYPE, F.lit(INSERT))
        )
        commits = self._commits(commit)
        numbers = {"pair": pa.array(np.arange(len(commit))), "first_key": pa.array(first_keys)}
        pairs = frame_of_table(self.spark, pa.table({**numbers, **commits}))
        joined = chunks.join(F.broadcast(pairs), F.expr(f"shiftright(key, {FILE_SHIFT}) = pair"))
        key = f"first_key | (key & {_CHUNK_MASK}L) AS key"
        return joined.selectExpr(key, "words", CHANGE_TYPE, *commits)

    def _loaded(self, sets: DeleteSets) -> DataFrame:
        """The chunks of delete sets; the key starts with the number of the set."""
        if not len(sets.file):
            return self.spark.createDataFrame([], "key bigint, words array<bigint>")
        keys = first_chunk_keys(np.arange(len(sets)))
        chunks = load_chunks(self.spark, self.loader.storage, sets, keys)
        if len(np.unique(sets.file)) == len(sets.file):
            return chunks
        # Several deletes of a file may have the same chunk.
        united = (
            "aggregate(collect_list(words), array_repeat(0L, 64), (a, w) -> zip_with(a, w, (x, y) -> x | y))"
        )
        return chunks.groupBy("key").agg(F.expr(united).alias("words"))


def _minus(chunks: DataFrame, others: DataFrame) -> DataFrame:
    """The chunks without the rows of the others."""
    joined = chunks.join(others.toDF("key", "other"), "key", "left")
    words = f"zip_with(words, coalesce(other, array_repeat(0L, {WORDS})), (x, y) -> x & ~y) AS words"
    return joined.selectExpr("key", words).where("exists(words, word -> word <> 0)")
