"""Large delete sets, loaded and expanded on the executors, so that the driver never has them in memory.

This is the only part of a scan that runs Python on executors. It checks first that delvec is installed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from delvec.chunked import Rows
from delvec.deletes.examine import examine
from delvec.deletes.loader import trusted
from delvec.deletes.sets import DeleteSets
from delvec.errors import UnsupportedFeatureError
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.vector_chunks import chunk_batches
from delvec.storage import Storage, open_storage

_DELETES_PER_TASK = 64
_FIRST_KEY = "first_key"
_SCHEMA = "key bigint, words array<bigint>"


def load_chunks(spark: SparkSession, storage: Storage, sets: DeleteSets, first_keys: Rows) -> DataFrame:
    """The chunks of `vector_join.chunks_of`. If several deletes apply to a file, each has its own chunks."""
    check_executors(spark, "vectors are too large for the driver, and the executors cannot load them")
    root, options = storage.root, dict(storage.options)
    table = sets.describe().append_column(_FIRST_KEY, pa.array(first_keys[sets.file]))
    frame = frame_of_table(spark, table)
    tasks = max(1, len(table) // _DELETES_PER_TASK)

    def expand(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _expand(root, options, batches)

    return frame.repartition(tasks, "location").mapInArrow(expand, _SCHEMA)


def _expand(
    root: str, options: Mapping[str, str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    storage = open_storage(root, options)
    for batch in batches:
        table = pa.Table.from_batches([batch])
        first_keys = table.column(_FIRST_KEY).to_pylist()
        for examined in examine(storage, DeleteSets.from_description(table)):
            yield from chunk_batches([(first_keys[examined.pair], trusted(examined))])


def check_executors(spark: SparkSession, reason: str) -> None:
    """Raise an error if the executors cannot run delvec; ``reason`` says what needs it."""

    def probe(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import delvec.deletes.examine  # noqa: F401, PLC0415 - fails if it is not installed

        yield from batches

    try:
        spark.range(1).mapInArrow(probe, "id bigint").count()
    except PySparkException as error:
        raise UnsupportedFeatureError(
            f"{reason}: delvec and pyarrow must be installed there ({str(error).strip().splitlines()[-1]})",
            feature="delvec on executors",
        ) from error
