"""The source of a MERGE: computed once, however often the statement runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from delvec.spark.commit_and_rerun import Rows, source_frame

# More partitions than any source has, so that `coalesce` does not change their number.
_ALL_PARTITIONS = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The source's rows, checkpointed by Spark, each with a unique number in the column ``number``."""

    frame: DataFrame
    number: str
    values: Mapping[str, Any]


class MergeSource:
    """A DataFrame is checkpointed in the first run and reused in later runs. A function that returns one is
    called for each run.
    """

    def __init__(self, source: Rows) -> None:
        self._source = source
        self._kept_rows: KeptRows | None = None
        self.remade = not isinstance(source, DataFrame)

    def frame(self) -> DataFrame:
        """The rows as the user passed them. Called at the beginning of each run."""
        if self.remade:
            self._kept_rows = None
        return source_frame(self._source)

    def kept(self, frame: DataFrame, number: str, aggregates: Sequence[str]) -> KeptRows:
        """The checkpointed rows, and the values of the aggregates over them."""
        if self._kept_rows is None:
            self._kept_rows = _materialised(frame, number, aggregates)
            return self._kept_rows
        rows = self._kept_rows.frame.withColumnRenamed(self._kept_rows.number, number)
        return KeptRows(rows, number, _aggregate(rows, aggregates))


def _materialised(frame: DataFrame, number: str, aggregates: Sequence[str]) -> KeptRows:
    """Checkpoint the rows. If Spark loses a part of the checkpoint, the job fails: a later job never sees
    other rows.

    `coalesce` drops what Spark knows about the order and partitioning of the rows. With this knowledge, two
    uses of the rows in a plan do not compare equal, and Spark would not reuse data that was persisted from
    them.
    """
    observation = Observation()
    numbered = frame.withColumn(number, F.monotonically_increasing_id()).coalesce(_ALL_PARTITIONS)
    checkpoint = numbered.observe(observation, *map(F.expr, aggregates)).localCheckpoint(eager=True)
    # Connect returns no observed values for a checkpoint. With speculation, the observed values may be from
    # another attempt than the checkpointed rows. In both cases, aggregate the checkpointed rows.
    speculative = str(frame.sparkSession.conf.get("spark.speculation", "false")).lower() == "true"
    values = {} if speculative else observation.get
    return KeptRows(checkpoint, number, values or _aggregate(checkpoint, aggregates))


def _aggregate(rows: DataFrame, aggregates: Sequence[str]) -> Mapping[str, Any]:
    values: Mapping[str, Any] = rows.selectExpr(*aggregates).collect()[0].asDict()
    return values
