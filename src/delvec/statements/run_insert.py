"""Runs INSERT: the rows of a query under the table's columns, by position unless it says BY NAME."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from delvec.errors import InvalidOperationError
from delvec.spark.target import OperationResult
from delvec.spark.types import quoted, type_text
from delvec.statements.constants import constant
from delvec.statements.default_keyword import default_edits
from delvec.statements.error_positions import pointed_at
from delvec.statements.opened_tables import snapshot_of
from delvec.statements.parameters import literal
from delvec.statements.run_query import Frames
from delvec.statements.statement import Insert, MultiInsert
from delvec.table import Table

_MODE = "spark.sql.sources.partitionOverwriteMode"


def insert(frames: Frames, statement: Insert, *, dry_run: bool = False) -> OperationResult:
    """Run the INSERT. ``dry_run``, for an INSERT that replaces rows: return what it would do."""
    source = _source(frames, statement)
    return _write(frames, statement, source, source.rows, dry_run=dry_run)


def insert_all(frames: Frames, statement: MultiInsert) -> list[OperationResult]:
    """One commit for each target, in order. All queries read the versions from before the first commit."""
    sources = [_source(frames, insert) for insert in statement.inserts]
    frozen = [source.rows() for source in sources]
    results: list[OperationResult] = []
    for insert, source, rows in zip(statement.inserts, sources, frozen, strict=True):
        try:
            results.append(_write(frames, insert, source, rows))
        except BaseException as error:  # an interrupt too
            committed = zip(statement.inserts, results, strict=False)
            for earlier, result in committed:
                error.add_note(f"INSERT INTO {earlier.table} is committed as version {result.version}")
            raise
    return results


@dataclass(frozen=True, slots=True)
class _Source:
    """``fixed``: partition columns that have one value for all rows; ``rows``: returns the new rows."""

    table: Table
    fixed: Mapping[str, str]
    rows: Callable[[], DataFrame]


def _source(frames: Frames, statement: Insert) -> _Source:
    table = frames.tables.of(statement.table)
    fixed = _fixed(frames, table, statement)
    columns = _columns(table, statement, fixed)

    def rows() -> DataFrame:
        defaults = default_edits(table, statement.query, columns)
        return _rows(frames.of(statement.query, replaced=defaults), table, columns, fixed)

    return _Source(table, fixed, rows)


def _write(
    frames: Frames,
    statement: Insert,
    source: _Source,
    rows: DataFrame | Callable[[], DataFrame],
    *,
    dry_run: bool = False,
) -> OperationResult:
    table, fixed = source.table, source.fixed
    if statement.where is not None:
        with pointed_at(frames.spark, statement.where):
            return table.overwrite(rows, where=frames.parameters.text(statement.where), dry_run=dry_run)
    if not statement.overwrite:
        assert not dry_run
        return table.append(rows)
    fields = snapshot_of(table).spec.fields
    dynamic = str(frames.spark.conf.get(_MODE, "static")).lower() == "dynamic"
    if dynamic and len(fields) > len(fixed):
        return table.overwrite(rows, partitions="dynamic", dry_run=dry_run)
    where = " AND ".join(f"{quoted(name)} <=> {text}" for name, text in fixed.items())
    return table.overwrite(rows, where=where or None, dry_run=dry_run)


def _fixed(frames: Frames, table: Table, statement: Insert) -> Mapping[str, str]:
    """The partition columns that have one value for all rows, as literals."""
    partitions = {name.lower(): name for name in snapshot_of(table).spec.identity_columns}
    literals: dict[str, str] = {}
    seen: set[str] = set()
    for column, value in statement.partition:
        name = partitions.get(column.parts[-1].lower())
        if name is None or len(column.parts) > 1:
            expected = ", ".join(partitions.values()) or "none"
            raise InvalidOperationError(
                f"{column} is not a partition column of {statement.table}, expected {expected}"
            )
        if name in seen:
            raise InvalidOperationError(f"partition column {name} appears twice")
        seen.add(name)
        if value is not None:
            column_type = type_text(snapshot_of(table).schema.find(name, case_sensitive=True)[0].type)
            what = f"partition column {name}"
            literals[name] = literal(
                constant(frames.spark, value, frames.parameters, column_type, what), what
            )
    return literals


def _columns(table: Table, statement: Insert, fixed: Mapping[str, str]) -> Sequence[str] | None:
    """The target columns of the query's columns, in order; None: by name."""
    if statement.by_name:
        if statement.columns is not None:
            raise InvalidOperationError("INSERT has BY NAME and a list of columns, expected one of them")
        return None
    names = table.schema.names
    if statement.columns is None:
        return [name for name in names if name not in fixed]
    by_lower_case = {name.lower(): name for name in names}
    targets: list[str] = []
    for column in statement.columns:
        name = by_lower_case.get(column.parts[0].lower()) if len(column.parts) == 1 else None
        if name is None:
            raise InvalidOperationError(
                f"unknown column {column} in INSERT, expected one of {', '.join(names)}"
            )
        if name in targets or name in fixed:
            raise InvalidOperationError(f"column {column} appears twice in INSERT")
        targets.append(name)
    return targets


def _rows(
    query: DataFrame, table: Table, columns: Sequence[str] | None, fixed: Mapping[str, str]
) -> DataFrame:
    """The query's rows under the table's column names, with the fixed columns."""
    rows = query if columns is None else _renamed(query, table.schema, columns)
    for name, text in fixed.items():
        if name.lower() in {column.lower() for column in rows.columns}:
            raise InvalidOperationError(f"column {name} is both in PARTITION and in the query")
        rows = rows.withColumn(name, F.expr(text).cast(table.schema[name].dataType))
    return rows


def _renamed(query: DataFrame, schema: T.StructType, columns: Sequence[str]) -> DataFrame:
    query_schema = query.schema
    if len(query_schema) != len(columns):
        raise InvalidOperationError(
            f"the query has {len(query_schema)} columns ({', '.join(query_schema.names)}), "
            f"expected {len(columns)}: {', '.join(columns)}"
        )
    frame = query.toDF(*columns)
    casts = [
        F.col(quoted(name)).cast(data_type).alias(name)
        if data_type != field.dataType
        else F.col(quoted(name))
        for name, field in zip(columns, query_schema, strict=True)
        for data_type in [_named_as(field.dataType, schema[name].dataType)]
    ]
    return frame.select(*casts)


def _named_as(data_type: T.DataType, target: T.DataType) -> T.DataType:
    """``data_type`` with the field names of ``target``: the fields of structs match by position too."""
    match data_type, target:
        case T.StructType(), T.StructType() if len(data_type) == len(target):
            pairs = zip(data_type, target, strict=True)
            return T.StructType(
                [
                    T.StructField(new.name, _named_as(old.dataType, new.dataType), old.nullable)
                    for old, new in pairs
                ]
            )
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(_named_as(data_type.elementType, target.elementType), data_type.containsNull)
        case T.MapType(), T.MapType():
            value = _named_as(data_type.valueType, target.valueType)
            return T.MapType(_named_as(data_type.keyType, target.keyType), value, data_type.valueContainsNull)
    return data_type
