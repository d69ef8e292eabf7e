"""DESCRIBE HISTORY and DESCRIBE DETAIL."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame

from delvec.statements.definitions import is_path
from delvec.statements.frames import Frames
from delvec.statements.tables import snapshot_of
from delvec.statements.tree import DescribeDetail, DescribeHistory
from delvec.table import Table

_DETAIL = (
    "format string, id string, name string, description string, location string, createdAt timestamp, "
    "lastModified timestamp, partitionColumns array<string>, numFiles bigint, sizeInBytes bigint, "
    "properties map<string,string>, minReaderVersion int, minWriterVersion int, tableFeatures array<string>"
)


def history(frames: Frames, asked: DescribeHistory) -> DataFrame:
    return frames.tables.of(asked.table).history(asked.limit)


def detail(frames: Frames, asked: DescribeDetail) -> DataFrame:
    """One row; what the format does not tell is null there."""
    table = frames.tables.of(asked.table)
    snapshot = snapshot_of(table)
    files, told = snapshot.plan().files, snapshot.details()
    features = sorted({*told.get("reader features", ()), *told.get("writer features", ())})
    row: dict[str, Any] = {
        "format": table.format,
        "id": told.get("id"),
        "name": told.get("name") if is_path(asked.table) else asked.table.parts[0],
        "description": told.get("description"),
        "location": table.location,
        "createdAt": _committed_at(table, 0),
        "lastModified": _committed_at(table, snapshot.version),
        "partitionColumns": list(snapshot.partition_columns),
        "numFiles": len(files),
        "sizeInBytes": int(pc.sum(files.column("size")).as_py() or 0),
        "properties": dict(snapshot.properties),
        "minReaderVersion": told.get("reader version"),
        "minWriterVersion": told.get("writer version"),
        "tableFeatures": features,
    }
    return frames.spark.createDataFrame([tuple(row.values())], _DETAIL)


def _committed_at(table: Table, version: int) -> dt.datetime | None:
    return table._table.committed_at(version)
