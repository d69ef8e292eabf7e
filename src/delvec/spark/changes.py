"""The change feed as a DataFrame: the table's columns, the kind of each change, and its commit.

    change files                     a scan of what they store
    files added or removed whole     a scan of their live rows
    files with other deletes         one scan for all commits that keeps the rows of differences between
                                     delete sets (`changed_deletes`)
    deletes by value                 one scan for all commits that finds the first delete of each row
                                     (`changed_by_value`)

The number of scans does not depend on the number of commits: which commit a row belongs to is a constant of
its file, or comes with the delete that names the row.

In some formats a commit may remove a row and add it again (``ChangePlan.copies_rows``). The rows of commits
that do both are compared with each other (`change_pairs`); those of all other commits are not.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delvec import formats
from delvec.change_plan import (
    CHANGE_FIELDS,
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    INSERT,
    ChangePlan,
    CommitFiles,
    FilesInRange,
)
from delvec.chunked import Rows, one_chunk
from delvec.deletes.loader import DeleteLoader
from delvec.errors import InvalidOperationError, ObjectNotFoundError, UnsupportedFeatureError
from delvec.schema import Schema, Struct
from delvec.spark.change_columns import ChangeColumns, commit_columns
from delvec.spark.change_pairs import PairedCommits
from delvec.spark.changed_by_value import rows_deleted_by_value
from delvec.spark.changed_deletes import changed_rows
from delvec.spark.file_constants import with_constants
from delvec.spark.scan import scan
from delvec.spark.scan_part import united
from delvec.spark.session import sql_settings
from delvec.spark.types import logical, selected
from delvec.storage import Storage, in_parallel

Bound = int | dt.datetime
_Files = TypeVar("_Files", CommitFiles, FilesInRange)


def changes(spark: SparkSession, table: formats.Table, first: Bound, last: Bound | None) -> DataFrame:
    """The rows that the commits ``first`` to ``last`` changed."""
    if not isinstance(table, formats.ChangeFeed):
        raise UnsupportedFeatureError(
            f"tables of the format {table.format} have no change feed: {table.location}", feature="changes"
        )
    plan = table.change_plan(first, last, time_zone=sql_settings(spark).time_zone)
    _verify_names(plan.schema, table.location)
    feed = _Feed(spark, plan, table.storage, DeleteLoader(table.storage))
    try:
        frame = feed.frame()
        _ = frame.schema  # makes Connect look for the files now
    except (PySparkException, ObjectNotFoundError):
        feed.verify_files_exist()
        raise
    return frame


def _verify_names(schema: Schema, location: str) -> None:
    for field in CHANGE_FIELDS:
        if schema.find(field.name):
            raise InvalidOperationError(
                f"the table has a column {field.name}, which is a column of the change feed, expected other "
                f"names: {location}"
            )


_COMMIT_FIELDS = dict(zip(("version", "timestamp"), CHANGE_FIELDS[1:], strict=True))
"""The columns of a feed that come from ``ChangePlan.commits``, by their names there."""


def _each_file_once(files: _Files) -> Iterator[_Files]:
    """The files in parts, none of which has a file twice. A file that several commits added is rare."""
    places = files.plan.files.column("location").combine_chunks()
    remaining = np.arange(len(files))
    while len(remaining):
        codes = places.take(pa.array(remaining)).dictionary_encode().indices.to_numpy()
        first = np.sort(np.unique(codes, return_index=True)[1])
        yield files.at(remaining[first])
        remaining = np.delete(remaining, first)


@dataclass(frozen=True, slots=True)
class _Feed:
    spark: SparkSession
    plan: ChangePlan
    storage: Storage
    loader: DeleteLoader

    def frame(self) -> DataFrame:
        plan = self.plan
        paired = PairedCommits.of(plan)
        direct = ChangeColumns.of(plan, with_row_id=False)
        frames = self._frames(paired.others(plan), direct)
        if paired.any:
            columns = ChangeColumns.of(plan, with_row_id=bool(paired.by_row_id.any()))
            pairs = self._frames(paired.plan(plan), columns)
            frames += [paired.without_copies(united(pairs), columns)] if pairs else []
        if frames:
            return united(frames)
        return self.spark.createDataFrame([], logical(Struct((*plan.schema.fields, *CHANGE_FIELDS))))

    def _frames(self, plan: ChangePlan, columns: ChangeColumns) -> list[DataFrame]:
        frames = [
            self._rows(files, kind, columns)
            for kind, of_kind in ((None, plan.recorded), (INSERT, plan.added), (DELETE, plan.removed))
            for files in _each_file_once(of_kind)
        ]
        frames += changed_rows(self.spark, plan, columns, self.storage, self.loader)
        if plan.by_value is not None:
            for periods in _each_file_once(plan.by_value):
                frames += rows_deleted_by_value(self.spark, plan.commits, periods, columns, self.loader)
        return frames

    def _rows(self, files: CommitFiles, kind: str | None, columns: ChangeColumns) -> DataFrame:
        """The live rows of the files. ``kind``: the kind of the changes; None: the files store it."""
        commits, plan = np.unique(files.commit), columns.widened(files.plan)
        if len(commits) == 1:
            version, timestamp = commit_columns(self.plan, int(commits[0]))
        else:
            values = self.plan.commits.take(pa.array(files.commit))
            constants = {field: one_chunk(values.column(n)) for n, field in _COMMIT_FIELDS.items()}
            plan = with_constants(plan, constants)
            version, timestamp = F.col(COMMIT_VERSION), F.col(COMMIT_TIMESTAMP)
        rows = scan(self.spark, plan, self.storage, self.loader, columns.further)
        change = F.col(CHANGE_TYPE) if kind is None else F.lit(kind).alias(CHANGE_TYPE)
        return selected(rows, columns.selected(change, version, timestamp))

    def verify_files_exist(self) -> None:
        """Refuse a range of which a file no longer exists, by the name of the file."""
        plan = self.plan
        later = replace(plan.before, plan=plan.after)
        parts = [plan.recorded, plan.added, plan.removed, plan.before, later]
        if plan.by_value is not None:
            parts.append(CommitFiles(plan.by_value.plan, plan.by_value.first))
        for files in parts:
            rows = files.plan.files
            vectors = files.plan.deletes.column("location").take(rows.column("vector"))
            for places in (rows.column("location"), vectors):
                self._verify_exist(places.to_pylist(), files.commit)

    def _verify_exist(self, places: Sequence[str | None], commits: Rows) -> None:
        exists = in_parallel(lambda place: place is None or self.storage.exists(place), places)
        for place, found, commit in zip(places, exists, commits.tolist(), strict=True):
            if not found:
                version = self.plan.commits.column("version")[commit].as_py()
                raise InvalidOperationError(
                    f"changes of version {version} can no longer be read: this file was removed: {place}"
                )
