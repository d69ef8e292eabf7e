"""The source of a MERGE: computed once, however often the statement runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from delvec.spark.commit_and_rerun import Rows, source_frame

# More than any source has: `coalesce` then keeps its partitions as they are.
_ALL_PARTITIONS = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The source's rows, kept by Spark, each with a number of its own in the column ``number``."""

    frame: DataFrame
    number: str
    values: Mapping[str, Any]


class MergeSource:
    """A frame is kept at the first run and used by all; what makes a frame is asked anew for each run."""

    def __init__(self, given: Rows) -> None:
        self._given = given
        self._kept: KeptRows | None = None
        self.remade = not isinstance(given, DataFrame)

    def frame(self) -> DataFrame:
        """The rows as they are given, at the beginning of a run."""
        if self.remade:
            self._kept = None
        return source_frame(self._given)

    def kept(self, frame: DataFrame, number: str, aggregates: Sequence[str]) -> KeptRows:
        """The rows, and the values of the aggregates over them."""
        if self._kept is None:
            self._kept = _materialised(frame, number, aggregates)
            return self._kept
        rows = self._kept.frame.withColumnRenamed(self._kept.number, number)
        return KeptRows(rows, number, _asked(rows, aggregates))


def _materialised(frame: DataFrame, number: str, aggregates: Sequence[str]) -> KeptRows:
    """A lost part of what is kept fails the job: nothing that runs later can see other rows.

    `coalesce` makes Spark forget how the rows are ordered and partitioned. Kept rows that remember it do not
    compare equal when they are used twice in a plan, and Spark would not find what was persisted of them.
    """
    seen = Observation()
    numbered = frame.withColumn(number, F.monotonically_increasing_id()).coalesce(_ALL_PARTITIONS)
    kept = numbered.observe(seen, *map(F.expr, aggregates)).localCheckpoint(eager=True)
    # Connect tells nothing of what was observed while it kept the rows, and where tasks run twice the rows
    # kept may be the other attempt's: they are there to be asked.
    twice = str(frame.sparkSession.conf.get("spark.speculation", "false")).lower() == "true"
    values = {} if twice else seen.get
    return KeptRows(kept, number, values or _asked(kept, aggregates))


def _asked(rows: DataFrame, aggregates: Sequence[str]) -> Mapping[str, Any]:
    values: Mapping[str, Any] = rows.selectExpr(*aggregates).collect()[0].asDict()
    return values
