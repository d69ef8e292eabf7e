"""Runs OPTIMIZE and REORG. The result has the columns that Delta-Spark returns."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructType

from delvec.spark.compaction import CompactionResult, FileSizes
from delvec.spark.types import parse_ddl
from delvec.statements.cursor import Span
from delvec.statements.error_positions import pointed_at
from delvec.statements.opened_tables import snapshot_of
from delvec.statements.run_query import Frames
from delvec.statements.statement import Optimize, Purge
from delvec.table import Table

_SIZES = "struct<min:bigint,max:bigint,avg:double,totalFiles:bigint,totalSize:bigint>"
_NUMBER = "struct<num:bigint,size:bigint>"
_ZORDER = (
    f"struct<strategyName:string,inputCubeFiles:{_NUMBER},inputOtherFiles:{_NUMBER},inputNumCubes:bigint,"
    f"mergedFiles:{_NUMBER},numOutputCubes:bigint,mergedNumCubes:bigint>"
)
_CLUSTERED = "struct<numFiles:bigint,size:bigint>"
_CLUSTERING = (
    f"struct<inputZCubeFiles:{_CLUSTERED},inputOtherFiles:{_CLUSTERED},inputNumZCubes:bigint,"
    f"mergedFiles:{_CLUSTERED},numOutputZCubes:bigint>"
)
_PARALLELISM = (
    "struct<maxClusterActiveParallelism:bigint,minClusterActiveParallelism:bigint,"
    "maxSessionActiveParallelism:bigint,minSessionActiveParallelism:bigint>"
)
_METRICS = (
    f"numFilesAdded:bigint,numFilesRemoved:bigint,filesAdded:{_SIZES},filesRemoved:{_SIZES},"
    f"partitionsOptimized:bigint,zOrderStats:{_ZORDER},clusteringStats:{_CLUSTERING},numBins:bigint,"
    "numBatches:bigint,totalConsideredFiles:bigint,totalFilesSkipped:bigint,preserveInsertionOrder:boolean,"
    "numFilesSkippedToReduceWriteAmplification:bigint,numBytesSkippedToReduceWriteAmplification:bigint,"
    "startTimeMs:bigint,endTimeMs:bigint,totalClusterParallelism:bigint,totalScheduledTasks:bigint,"
    f"autoCompactParallelismStats:{_PARALLELISM},"
    "deletionVectorStats:struct<numDeletionVectorsRemoved:bigint,numDeletionVectorRowsRemoved:bigint>,"
    "numTableColumns:bigint,numTableColumnsWithStats:bigint"
)
"""The metrics of Delta-Spark. Those that delvec does not have are null or 0."""


def optimize(frames: Frames, statement: Optimize) -> DataFrame:
    table = frames.tables.of(statement.table)
    columns = [".".join(name.parts) for name in statement.zorder_by]
    where, spans = _condition(frames, statement.where)
    with pointed_at(frames.spark, *spans):
        result = table.optimize(where, zorder_by=columns)
    return _frame(frames, table, result, zorder=bool(columns))


def purge(frames: Frames, statement: Purge) -> DataFrame:
    table = frames.tables.of(statement.table)
    where, spans = _condition(frames, statement.where)
    with pointed_at(frames.spark, *spans):
        result = table.purge(where)
    return _frame(frames, table, result, zorder=False)


def _condition(frames: Frames, span: Span | None) -> tuple[str | None, tuple[Span, ...]]:
    return (None, ()) if span is None else (frames.parameters.text(span), (span,))


def _frame(frames: Frames, table: Table, result: CompactionResult, *, zorder: bool) -> DataFrame:
    removed = (result.removed.count, result.removed.total)
    metrics: dict[str, Any] = {
        "numFilesAdded": result.added.count,
        "numFilesRemoved": result.removed.count,
        "filesAdded": _sizes(result.added),
        "filesRemoved": _sizes(result.removed),
        "partitionsOptimized": result.partitions,
        "zOrderStats": ("all", (0, 0), removed, 0, removed, result.groups, None) if zorder else None,
        "numBins": result.groups,
        "numBatches": max(1, len(result.versions)),
        "totalConsideredFiles": result.considered,
        "totalFilesSkipped": result.considered - result.removed.count,
        "preserveInsertionOrder": False,
        "deletionVectorStats": (result.vectors, result.deleted_rows) if result.vectors else None,
        "numTableColumns": len(snapshot_of(table).schema.fields),
    }
    schema = parse_ddl(f"path string, metrics struct<{_METRICS}>")
    fields = schema["metrics"].dataType
    assert isinstance(fields, StructType)
    values = [metrics.get(field.name, 0 if field.dataType == LongType() else None) for field in fields]
    return frames.spark.createDataFrame([(table.location, tuple(values))], schema)


def _sizes(sizes: FileSizes) -> tuple[int | None, int | None, float, int, int]:
    average = sizes.total / sizes.count if sizes.count else 0.0
    return sizes.smallest, sizes.largest, average, sizes.count, sizes.total
