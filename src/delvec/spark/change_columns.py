"""The columns that the engine adds to the scans of a change feed: the commit, and the row's id and version.

A row's id and version are as in `row_lineage`: stored, else those of the file. The values of the file are
constants of its rows here, so that the scans need no join by paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from delvec.change_plan import COMMIT_TIMESTAMP, COMMIT_VERSION, ChangePlan
from delvec.chunked import one_chunk
from delvec.plan import ScanPlan
from delvec.schema import Field, Primitive, Schema
from delvec.spark.file_constants import with_columns, with_constants
from delvec.spark.kept_rows import FurtherColumns
from delvec.spark.scan import own_prefix
from delvec.spark.types import quoted

_LONG = Primitive("long")


def commit_columns(plan: ChangePlan, commit: int) -> tuple[Column, Column]:
    """Version and timestamp of one commit."""
    version, timestamp = (plan.commits.column(name)[commit] for name in ("version", "timestamp"))
    micros = F.timestamp_micros(F.lit(timestamp.cast("int64").as_py()))
    return F.lit(version.as_py()).cast("long").alias(COMMIT_VERSION), micros.alias(COMMIT_TIMESTAMP)


@dataclass(frozen=True, slots=True)
class ChangeColumns:
    """The columns of the scans of one feed.

    prefix       the names of the engine's columns start with it, and no others do
    with_row_id  whether rows get the columns ``row_id`` and ``row_version``
    """

    schema: Schema
    prefix: str
    with_row_id: bool

    @classmethod
    def of(cls, plan: ChangePlan, *, with_row_id: bool) -> ChangeColumns:
        """The columns of the feed of ``plan``."""
        plans = (plan.added.plan, plan.removed.plan, plan.before.plan)
        lineage = [field.physical_name for each in plans for field in each.lineage]
        return cls(plan.schema, own_prefix(plan.schema, *lineage), with_row_id)

    @property
    def row_id(self) -> str:
        return self.prefix + "row_id"

    @property
    def row_version(self) -> str:
        return self.prefix + "row_version"

    @property
    def deleted_by(self) -> str:
        """The sequence of the first delete by value."""
        return self.prefix + "deleted_by"

    @property
    def further(self) -> FurtherColumns:
        """What a scan of `widened` plans adds."""
        return FurtherColumns(row=self._row if self.with_row_id else None)

    @property
    def with_deleted_by(self) -> FurtherColumns:
        """`further`, and the first delete by value."""
        return replace(self.further, deleted_by=self.deleted_by)

    def widened(self, plan: ScanPlan) -> ScanPlan:
        """The plan with the columns that ids and versions are computed from."""
        if not self.with_row_id:
            return plan
        stored = zip(plan.lineage, self._stored, strict=True)
        plan = with_columns(plan, tuple(replace(field, name=name) for field, name in stored))
        values = (one_chunk(plan.files.column(name)) for name in ("first_row_id", "row_version"))
        return with_constants(plan, dict(zip(map(self.long, self._of_file), values, strict=True)))

    def selected(self, *others: Column | str) -> list[Column | str]:
        """The table's columns, ``others``, and the row's id and version, of a scan of a `widened` plan."""
        columns: list[Column | str] = [quoted(field.name) for field in self.schema]
        columns += others
        if self.with_row_id:
            (stored_id, stored_version), (first, version) = self._stored, self._of_file
            columns += [
                f"coalesce({stored_id}, {first} + {self._row}) AS {self.row_id}",
                f"coalesce({stored_version}, {version}) AS {self.row_version}",
            ]
        return columns

    @staticmethod
    def long(name: str) -> Field:
        """A column of numbers."""
        return Field(name, _LONG)

    @property
    def _row(self) -> str:
        return self.prefix + "row"

    @property
    def _stored(self) -> Sequence[str]:
        return [self.prefix + "stored_id", self.prefix + "stored_version"]

    @property
    def _of_file(self) -> Sequence[str]:
        return [self.prefix + "first_id", self.prefix + "file_version"]
