"""Runs DESCRIBE and SHOW. The results have Spark's columns."""

from __future__ import annotations

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
from delvec.statements.opened_tables import snapshot_of
from delvec.statements.run_query import Frames
from delvec.statements.statement import (
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    ShowColumns,
    ShowProperties,
)
from delvec.table import Table

_DETAIL = (
    "format string, id string, name string, description string, location string, createdAt timestamp, "
    "lastModified timestamp, partitionColumns array<string>, numFiles bigint, sizeInBytes bigint, "
    "properties map<string,string>, minReaderVersion int, minWriterVersion int, tableFeatures array<string>"
)


def history(frames: Frames, statement: DescribeHistory) -> DataFrame:
    return frames.tables.of(statement.table).history(statement.limit)


def detail(frames: Frames, statement: DescribeDetail) -> DataFrame:
    """One row; null for what the format does not have."""
    table = frames.tables.of(statement.table)
    snapshot = snapshot_of(table)
    files, details = snapshot.plan().files, snapshot.details()
    features = sorted({*details.get("reader features", ()), *details.get("writer features", ())})
    row: dict[str, Any] = {
        "format": table.format,
        "id": details.get("id"),
        "name": details.get("name") if statement.table.is_path else statement.table.parts[-1],
        "description": details.get("description"),
        "location": table.location,
        "createdAt": table._table.created_at(),
        "lastModified": table._table.committed_at(snapshot.version),
        "partitionColumns": list(map(str, snapshot.spec.fields)),
        "numFiles": len(files),
        "sizeInBytes": int(pc.sum(files.column("size")).as_py() or 0),
        "properties": dict(snapshot.properties),
        "minReaderVersion": details.get("reader version"),
        "minWriterVersion": details.get("writer version"),
        "tableFeatures": features,
    }
    return frames.spark.createDataFrame([tuple(row.values())], _DETAIL)


_TABLE = "col_name string, data_type string, comment string"
_COLUMN = "info_name string, info_value string"
_HEADING = ("# col_name", "data_type", "comment")

_Row = tuple[str, str, str | None]


def table(frames: Frames, statement: DescribeTable) -> DataFrame:
    """The columns, then the partition columns again, as Spark shows them."""
    opened = frames.tables.of(statement.table)
    snapshot = snapshot_of(opened)
    fields = {field.name: _row(field) for field in logical(snapshot.schema)}
    if statement.column is not None:
        row = fields[_column_of(snapshot.schema, statement, case_sensitive=frames.settings.case_sensitive)]
        pairs = [("col_name", row[0]), ("data_type", row[1]), ("comment", row[2])]
        return frames.spark.createDataFrame(pairs, _COLUMN)
    rows = list(fields.values())
    if snapshot.spec.fields:
        rows += [("# Partition Information", "", ""), _HEADING]
        rows += [_partition_row(field, fields) for field in snapshot.spec.fields]
    if statement.extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [(name, text, "") for name, text in _details(opened, snapshot, statement.table)]
    return frames.spark.createDataFrame(rows, _TABLE)


def _partition_row(field: PartitionField, columns: Mapping[str, _Row]) -> _Row:
    """An identity field as its column; another transform with its own type."""
    return columns[field.source[0]] if field.is_identity else (str(field), str(field.type), None)


def _row(field: StructField) -> _Row:
    type_text = field.metadata.get(CHAR_OR_VARCHAR, field.dataType.simpleString())
    return field.name, type_text, field.metadata.get("comment")


def _column_of(schema: Schema, statement: DescribeTable, *, case_sensitive: bool) -> str:
    """The name of the column to describe."""
    assert statement.column is not None
    first, *nested = statement.column.parts
    fields = schema.find(first, case_sensitive=case_sensitive)
    if len(fields) != 1:
        column_names = ", ".join(field.name for field in schema)
        raise InvalidOperationError(
            f"{statement.table} has no column {statement.column}, expected one of {column_names}"
        )
    if nested:
        raise UnsupportedFeatureError(
            f"delvec has no DESCRIBE of a nested column ({statement.column}): use DESCRIBE "
            f"{statement.table} {first}",
            feature="DESCRIBE of a nested column",
        )
    return fields[0].name


def _details(opened: Table, snapshot: formats.Snapshot, name: Name) -> Iterator[tuple[str, str]]:
    yield "Name", str(name)
    yield "Type", "EXTERNAL"
    description = snapshot.details().get("description")
    if description is not None:
        yield "Comment", description
    yield "Location", opened.location
    yield "Provider", opened.format
    yield "Table Properties", f"[{','.join(f'{k}={v}' for k, v in sorted(snapshot.properties.items()))}]"


def columns(frames: Frames, statement: ShowColumns) -> DataFrame:
    names = [(field.name,) for field in snapshot_of(frames.tables.of(statement.table)).schema]
    return frames.spark.createDataFrame(names, "col_name string")


def table_properties(frames: Frames, statement: ShowProperties) -> DataFrame:
    """All properties, or one; if the table does not have it, the row says so, as in Spark."""
    values = snapshot_of(frames.tables.of(statement.table)).properties
    rows = sorted(values.items())
    if statement.key is not None:
        (key,) = properties(frames.spark, [statement.key], frames.parameters)
        rows = [(key, values.get(key, f"Table {statement.table} does not have property: {key}"))]
    return frames.spark.createDataFrame(rows, "key string, value string")
