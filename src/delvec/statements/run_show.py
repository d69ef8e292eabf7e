"""DESCRIBE and SHOW: what is known of a table, under the columns that Spark has for it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField

from delvec import formats
from delvec.declared_types import CHAR_OR_VARCHAR
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.partition_spec import PartitionField
from delvec.schema import Schema
from delvec.spark.types import logical
from delvec.statements.constants import properties
from delvec.statements.cursor import Name
from delvec.statements.parse_ddl import is_path
from delvec.statements.run_query import Frames
from delvec.statements.statement import (
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    ShowColumns,
    ShowProperties,
)
from delvec.statements.table_names import snapshot_of
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
        "partitionColumns": list(map(str, snapshot.spec.fields)),
        "numFiles": len(files),
        "sizeInBytes": int(pc.sum(files.column("size")).as_py() or 0),
        "properties": dict(snapshot.properties),
        "minReaderVersion": told.get("reader version"),
        "minWriterVersion": told.get("writer version"),
        "tableFeatures": features,
    }
    return frames.spark.createDataFrame([tuple(row.values())], _DETAIL)


_TABLE = "col_name string, data_type string, comment string"
_COLUMN = "info_name string, info_value string"
_HEADING = ("# col_name", "data_type", "comment")

_Row = tuple[str, str, str | None]


def table(frames: Frames, asked: DescribeTable) -> DataFrame:
    """The columns, and those of partitions once more, as Spark shows them."""
    opened = frames.tables.of(asked.table)
    snapshot = snapshot_of(opened)
    fields = {field.name: _shown(field) for field in logical(snapshot.schema)}
    if asked.column is not None:
        row = fields[_column_of(snapshot.schema, asked, case_sensitive=frames.settings.case_sensitive)]
        found = [("col_name", row[0]), ("data_type", row[1]), ("comment", row[2])]
        return frames.spark.createDataFrame(found, _COLUMN)
    rows = list(fields.values())
    if snapshot.spec.fields:
        rows += [("# Partition Information", "", ""), _HEADING]
        rows += [_partition_row(field, fields) for field in snapshot.spec.fields]
    if asked.extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [(name, text, "") for name, text in _details(opened, snapshot, asked.table)]
    return frames.spark.createDataFrame(rows, _TABLE)


def _partition_row(field: PartitionField, columns: Mapping[str, _Row]) -> _Row:
    """A partition column as the column itself, a transform of one with the type of its result."""
    return columns[field.source[0]] if field.is_identity else (str(field), str(field.type), None)


def _shown(field: StructField) -> _Row:
    shown = field.metadata.get(CHAR_OR_VARCHAR, field.dataType.simpleString())
    return field.name, shown, field.metadata.get("comment")


def _column_of(schema: Schema, asked: DescribeTable, *, case_sensitive: bool) -> str:
    """The name of the column that is described."""
    assert asked.column is not None
    first, *nested = asked.column.parts
    found = schema.find(first, case_sensitive=case_sensitive)
    if len(found) != 1:
        known = ", ".join(field.name for field in schema)
        raise InvalidOperationError(f"{asked.table} has no column {asked.column}, expected one of {known}")
    if nested:
        raise UnsupportedFeatureError(
            f"delvec has no DESCRIBE of a nested column ({asked.column}): use DESCRIBE {asked.table} {first}",
            feature="DESCRIBE of a nested column",
        )
    return found[0].name


def _details(opened: Table, snapshot: formats.Snapshot, name: Name) -> Iterator[tuple[str, str]]:
    yield "Name", str(name)
    yield "Type", "EXTERNAL"
    description = snapshot.details().get("description")
    if description is not None:
        yield "Comment", description
    yield "Location", opened.location
    yield "Provider", opened.format
    yield "Table Properties", f"[{','.join(f'{k}={v}' for k, v in sorted(snapshot.properties.items()))}]"


def columns(frames: Frames, asked: ShowColumns) -> DataFrame:
    names = [(field.name,) for field in snapshot_of(frames.tables.of(asked.table)).schema]
    return frames.spark.createDataFrame(names, "col_name string")


def table_properties(frames: Frames, asked: ShowProperties) -> DataFrame:
    """All properties, or one; a row says so where the table lacks it, as in Spark."""
    held = snapshot_of(frames.tables.of(asked.table)).properties
    rows = sorted(held.items())
    if asked.key is not None:
        (key,) = properties(frames.spark, [asked.key], frames.parameters)
        rows = [(key, held.get(key, f"Table {asked.table} does not have property: {key}"))]
    return frames.spark.createDataFrame(rows, "key string, value string")


def _committed_at(table: Table, version: int) -> dt.datetime | None:
    return table._table.committed_at(version)
