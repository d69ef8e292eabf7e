"""The answers of a MERGE that has run to conflict checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delvec.bitmap import Bitmap
from delvec.formats import Snapshot
from delvec.plan import ScanPlan
from delvec.row_delta import RowDelta
from delvec.spark.commit_and_rerun import file_with_rows, first_file_id, is_nondeterministic, reads
from delvec.spark.deleted_by_key import rows_deleted_by_key
from delvec.spark.file_paths import location_of
from delvec.spark.merge_join import KeptSource, MergeJoin
from delvec.spark.merge_source import MergeSource
from delvec.spark.row_bitmaps import collect_bitmaps


@dataclass(frozen=True, slots=True)
class MergeProbe:
    """The answers of a MERGE to conflict checks (`conflicts.ConflictProbe`). ``pairs`` must be persisted."""

    join: MergeJoin
    rows: MergeSource
    plan: ScanPlan
    source: KeptSource
    pairs: DataFrame

    def reads_target(self) -> bool:
        return reads(self.join.merge.source, self.join.target.table.location)

    def new_match(self, newest: Snapshot, file_ids: pa.Array) -> int | None:
        """A file with a new row that a source row matches, or, if clauses apply to unmatched rows, any new
        row.
        """
        join = replace(self.join, target=self.join.target.at(newest))
        plan = join.target.plan(self.source.condition, among=file_ids)
        if not len(plan.files):
            return None
        if join.merge.by_source or is_nondeterministic(join.merge.on):
            return first_file_id(plan)
        return file_with_rows(join.joined(plan, self.source), join.names.file, plan)

    def rows_read(self) -> dict[int, Bitmap]:
        """The rows that a source row matched and no clause changed. Without them, the merge would insert the
        source row.
        """
        if not self.join.merge.inserts:
            return {}
        names = self.join.names
        unchanged = self.pairs.where(F.col(names.clause).isNull() & F.col(names.source).isNotNull())
        bitmaps = collect_bitmaps(unchanged, names.file, names.row).files
        columns = (self.plan.files.column(name).to_pylist() for name in ("location", "file_id"))
        ids = dict(zip(*columns, strict=True))
        return {ids[location_of(path)]: rows for path, rows in bitmaps.items()}

    def deleted_by_key(self, newest: Snapshot, file_ids: pa.Array, after: int) -> Mapping[int, Bitmap]:
        return rows_deleted_by_key(self.join.target, newest, file_ids, after)

    def replanned(self, newest: Snapshot) -> RowDelta:
        raise AssertionError(f"MERGE does not replace whole files: version {newest.version}")

    @property
    def repeatable(self) -> bool:
        return self.rows.remade or not self.reads_target()
