"""Large vectors, read and expanded on the executors: the driver never holds them.

The one part of a scan that runs Python on executors: it asks first whether they have what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from delvec.deletes.applied import VECTOR_COLUMNS
from delvec.deletes.examine import examine_vectors
from delvec.errors import UnsupportedFeatureError
from delvec.spark.vector_join import VectorFiles, chunk_batches
from delvec.storage import Storage, open_storage

_VECTORS_PER_TASK = 64
_SCHEMA = "key bigint, words array<bigint>"


def load_chunks(spark: SparkSession, storage: Storage, vectors: VectorFiles) -> DataFrame:
    """The chunks of all vectors, as `vectors.chunks_of` has them."""
    check_executors(spark, "vectors are too large for the driver, and the executors cannot load them")
    root, options = storage.root, dict(storage.options)
    table = vectors.deletes.append_column("first_key", pa.array(vectors.first_keys))
    frame = spark.createDataFrame(table.select(["first_key", *VECTOR_COLUMNS]))
    tasks = max(1, len(table) // _VECTORS_PER_TASK)

    def expand(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _expand(root, options, batches)

    return frame.repartition(tasks, "location").mapInArrow(expand, _SCHEMA)


def _expand(
    root: str, options: Mapping[str, str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    storage = open_storage(root, options)
    for batch in batches:
        deletes = pa.Table.from_batches([batch])
        keys = deletes.column("first_key").to_pylist()
        for found in examine_vectors(storage, deletes):
            if found.bitmap is None:
                assert found.error is not None
                raise found.error
            yield from chunk_batches([(keys[found.row], found.bitmap)])


def check_executors(spark: SparkSession, why: str) -> None:
    """Refuse to go on where executors lack what delvec's code on them needs; ``why`` it is asked for."""

    def probe(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import delvec.deletes.examine  # noqa: F401, PLC0415 - whether the executor can

        yield from batches

    try:
        spark.range(1).mapInArrow(probe, "id bigint").count()
    except PySparkException as error:
        raise UnsupportedFeatureError(
            f"{why}: delvec and pyarrow must be installed there ({str(error).strip().splitlines()[-1]})",
            feature="delvec on executors",
        ) from error
