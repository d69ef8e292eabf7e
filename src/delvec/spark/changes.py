"""The change feed as a DataFrame: the table's columns, the kind of each change, and its commit.

    change files                     a scan of what they store
    files added or removed whole     a scan of their live rows
    files with other deletes         one scan for all commits that keeps the rows of differences between
                                     delete sets (`changed_deletes`)

The number of scans does not depend on the number of commits: which commit a row belongs to is a constant of
its file, or comes with the delete set that names the row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
)
from delvec.chunked import Rows
from delvec.deletes.loader import DeleteLoader
from delvec.errors import InvalidOperationError, ObjectNotFoundError, UnsupportedFeatureError
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.plan import ScanPlan
from delvec.schema import Schema, Struct
from delvec.spark.changed_deletes import changed_rows, commit_columns
from delvec.spark.scan import scan
from delvec.spark.scan_part import united
from delvec.spark.session import sql_settings
from delvec.spark.types import logical, quoted
from delvec.storage import Storage, in_parallel
from delvec.transforms import IDENTITY

Bound = int | dt.datetime


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


def _each_file_once(files: CommitFiles) -> Iterator[CommitFiles]:
    """The files in parts, none of which has a file twice. A file that several commits added is rare."""
    places = files.plan.files.column("location").combine_chunks()
    remaining = np.arange(len(files))
    while len(remaining):
        codes = places.take(pa.array(remaining)).dictionary_encode().indices.to_numpy()
        first = np.sort(np.unique(codes, return_index=True)[1])
        yield files.at(remaining[first])
        remaining = np.delete(remaining, first)


def _with_constants(files: CommitFiles, commits: pa.Table) -> ScanPlan:
    """The plan with version and timestamp of the commit as two further columns: constants of each file."""
    plan, fields = files.plan, CHANGE_FIELDS[1:]
    names = tuple(field.name for field in fields)
    values = [column.combine_chunks().take(pa.array(files.commit)) for column in commits.columns]
    old = plan.files.column("partition").combine_chunks()
    partition = pa.StructArray.from_arrays(
        [*old.flatten(), *values], names=[*(field.name for field in old.type), *names]
    )
    index = plan.files.schema.get_field_index("partition")
    constants = tuple(PartitionField(f.name, (f.name,), IDENTITY, f.type) for f in fields)
    return replace(
        plan,
        schema=Struct((*plan.schema.fields, *fields)),
        specs={n: PartitionSpec(n, (*spec.fields, *constants)) for n, spec in plan.specs.items()},
        read_schemas=tuple(
            replace(
                shape,
                schema=Struct((*shape.schema.fields, *fields)),
                constants=(*shape.constants, *names),
                unnamed=names,
            )
            for shape in plan.read_schemas
        ),
        files=plan.files.set_column(index, "partition", partition),
    )


@dataclass(frozen=True, slots=True)
class _Feed:
    spark: SparkSession
    plan: ChangePlan
    storage: Storage
    loader: DeleteLoader

    def frame(self) -> DataFrame:
        plan = self.plan
        frames = [
            self._rows(files, kind)
            for kind, of_kind in ((None, plan.recorded), (INSERT, plan.added), (DELETE, plan.removed))
            for files in _each_file_once(of_kind)
        ]
        frames += changed_rows(self.spark, plan, self.storage, self.loader)
        if frames:
            return united(frames)
        return self.spark.createDataFrame([], logical(Struct((*plan.schema.fields, *CHANGE_FIELDS))))

    def _rows(self, files: CommitFiles, kind: str | None) -> DataFrame:
        """The live rows of the files. ``kind``: the kind of the changes; None: the files store it."""
        commits = np.unique(files.commit)
        if len(commits) == 1:
            rows = scan(self.spark, files.plan, self.storage, self.loader)
            version, timestamp = commit_columns(self.plan, int(commits[0]))
        else:
            rows = scan(self.spark, _with_constants(files, self.plan.commits), self.storage, self.loader)
            version, timestamp = F.col(COMMIT_VERSION), F.col(COMMIT_TIMESTAMP)
        change = F.col(CHANGE_TYPE) if kind is None else F.lit(kind).alias(CHANGE_TYPE)
        columns = [F.col(quoted(field.name)) for field in self.plan.schema]
        return rows.select(*columns, change, version, timestamp)

    def verify_files_exist(self) -> None:
        """Refuse a range of which a file no longer exists, by the name of the file."""
        plan = self.plan
        later = replace(plan.before, plan=plan.after)
        for files in (plan.recorded, plan.added, plan.removed, plan.before, later):
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
