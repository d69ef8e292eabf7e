"""Runs CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from delvec import location, name_resolver
from delvec.errors import InvalidOperationError, TableNotFoundError
from delvec.name_resolver import AtPath, InCatalog, Reference
from delvec.spark.conditions import reason_of
from delvec.spark.types import parse_ddl, quoted
from delvec.statements.constants import properties, text_of
from delvec.statements.cursor import Name, Span
from delvec.statements.error_positions import COLUMNS, pointed_at
from delvec.statements.opened_tables import snapshot_of
from delvec.statements.run_query import Frames
from delvec.statements.statement import (
    AddColumns,
    Create,
    DropTable,
    NewColumn,
    SetProperties,
    UnsetProperties,
)
from delvec.table import Table, create_table, open_reference

_COMMENT = "comment"


def create(frames: Frames, statement: Create) -> None:
    """Create the table, and register its name if it has one. With IF NOT EXISTS an existing table stays."""
    spark, name = frames.spark, statement.table
    reference = name.reference
    if isinstance(reference, InCatalog):
        if not (statement.if_not_exists and _exists(spark, reference)):
            _created(frames, statement, reference, place=_location_clause(spark, statement))
        return
    existing = None if name.is_path else name_resolver.registered(name.parts[0])
    if existing is not None and statement.if_not_exists:
        frames.tables.is_ours(name)
        return
    if existing is not None:
        raise InvalidOperationError(f"{name} is already the name of a table: {existing.location}")
    place = _location(spark, statement)
    if not name.is_path:
        frames.tables.verify_unknown_to_spark(name, place)
    table = _existing(spark, place) if statement.if_not_exists else None
    if table is None:
        table = _created(frames, statement, AtPath(place))
    if not name.is_path:
        table.register(name.parts[0])


def drop(statement: DropTable) -> None:
    """Drop the name: of a catalog, or one that was registered. Files stay."""
    reference = statement.table.reference
    if not isinstance(reference, InCatalog):
        name_resolver.unregister(statement.table.parts[0])
        return
    with suppress(TableNotFoundError) if statement.if_exists else nullcontext():
        name_resolver.creating(reference.catalog, reference.identifier).drop_table(reference.identifier)


def set_properties(frames: Frames, statement: SetProperties) -> None:
    values = properties(frames.spark, statement.properties, frames.parameters)
    frames.tables.of(statement.table).set_properties(values)


def unset_properties(frames: Frames, statement: UnsetProperties) -> None:
    table = frames.tables.of(statement.table)
    names = list(properties(frames.spark, statement.properties, frames.parameters))
    existing = set(table.properties)
    if "description" in snapshot_of(table).details():
        existing.add(_COMMENT)
    missing = [name for name in names if name not in existing]
    if missing and not statement.if_exists:
        raise InvalidOperationError(
            f"{statement.table} has no property {missing[0]}, expected one of {', '.join(sorted(existing))} "
            "(or IF EXISTS)"
        )
    present = {name: None for name in names if name in existing}
    if present:
        table.set_properties(present)


def add_columns(frames: Frames, statement: AddColumns) -> None:
    table = frames.tables.of(statement.table)
    fields = T.StructType()
    for column in statement.columns:
        _add(fields, column.name, _leaf(column), table.schema)
    table.add_columns(fields)


def _created(frames: Frames, statement: Create, reference: Reference, *, place: str | None = None) -> Table:
    spark = frames.spark
    partition_columns = [span.text for _, span in statement.partition_by if span is not None]
    values = properties(spark, statement.properties, frames.parameters)
    table_properties = {name: value or "" for name, value in values.items()}
    if statement.comment is not None:
        table_properties[_COMMENT] = text_of(spark, statement.comment)
    partition_names = [name for name, _ in statement.partition_by]
    rows_or_schema: DataFrame | T.StructType
    if statement.query is not None:
        if statement.columns is not None or partition_columns:
            raise InvalidOperationError(
                f"CREATE TABLE {statement.table} has both columns and a query, expected one of them"
            )
        rows_or_schema = frames.of(statement.query)
        schema = rows_or_schema.schema
    elif statement.columns is None:
        raise InvalidOperationError(f"CREATE TABLE {statement.table} has no columns and no query")
    else:
        rows_or_schema = schema = _declared(spark, statement.columns, partition_columns)
    return create_table(
        spark,
        reference,
        rows_or_schema,
        table_format=name_resolver.created_format(statement.provider, reference),
        partition_by=_as_in_schema(partition_names, schema),
        properties=table_properties,
        place=place,
    )


def _declared(spark: SparkSession, columns: Span, partition_columns: Sequence[str]) -> T.StructType:
    """The columns of the statement and those that only PARTITIONED BY defines."""
    text = ", ".join([columns.text, *partition_columns])
    try:
        with pointed_at(spark, columns, around=COLUMNS):
            return parse_ddl(text)
    except PySparkException as error:
        raise InvalidOperationError(f"columns ({text}) are invalid: {reason_of(error)}") from None


def _as_in_schema(names: list[str], schema: T.StructType) -> list[str]:
    """The names with upper and lower case as in the schema."""
    spelling = {name.lower(): name for name in schema.names}
    return [spelling.get(name.lower(), name) for name in names]


def _location(spark: SparkSession, statement: Create) -> str:
    location_text = _location_clause(spark, statement)
    if statement.table.is_path:
        path = statement.table.parts[1]
        if location_text is not None and location.normalize(location_text) != location.normalize(path):
            raise InvalidOperationError(
                f"LOCATION is {location_text}, expected none or {path} for {statement.table}"
            )
        return path
    if location_text is None:
        raise InvalidOperationError(
            f"CREATE TABLE {statement.table} has no location, expected LOCATION '…' or delvec.`path`"
        )
    return location_text


def _location_clause(spark: SparkSession, statement: Create) -> str | None:
    return None if statement.location is None else text_of(spark, statement.location)


def _exists(spark: SparkSession, reference: InCatalog) -> bool:
    try:
        open_reference(spark, reference)
    except TableNotFoundError:
        return False
    return True


def _existing(spark: SparkSession, place: str) -> Table | None:
    try:
        return Table.open(spark, place)
    except TableNotFoundError:
        return None


def _leaf(column: NewColumn) -> T.StructField:
    """The new field itself, without the structs around it."""
    name = column.name.parts[-1]
    try:
        return parse_ddl(f"{quoted(name)} {column.definition.text}")[0]
    except PySparkException as error:
        raise InvalidOperationError(
            f"new column {column.name} is {column.definition.text}, expected a type: {reason_of(error)}"
        ) from None


def _add(fields: T.StructType, name: Name, leaf: T.StructField, schema: T.DataType) -> None:
    """Add the new field to ``fields``, inside of the types that enclose it in the table's schema: structs,
    elements of arrays, values of maps.
    """
    parent = schema
    enclosing: list[tuple[str, T.DataType]] = []
    for part in name.parts[:-1]:
        child = _child(parent, part)
        if child is None:
            raise InvalidOperationError(
                f"new column {name} is inside {part}, which is not a column of the table"
            )
        enclosing.append((part, parent))
        parent = child
    if not isinstance(parent, T.StructType):
        raise InvalidOperationError(f"new column {name} is inside {parent.simpleString()}, expected a struct")
    data_type: T.DataType = T.StructType([leaf])
    for part, outer in reversed(enclosing):
        data_type = _enclosed(data_type, part, outer)
    assert isinstance(data_type, T.StructType)
    fields.fields.extend(data_type.fields)
    fields.names = [each.name for each in fields.fields]


def _child(parent: T.DataType, part: str) -> T.DataType | None:
    match parent:
        case T.StructType():
            return next((field.dataType for field in parent if field.name.lower() == part.lower()), None)
        case T.ArrayType() if part.lower() == "element":
            return parent.elementType
        case T.MapType() if part.lower() == "value":
            return parent.valueType
    return None


def _enclosed(inner: T.DataType, part: str, outer: T.DataType) -> T.DataType:
    match outer:
        case T.ArrayType():
            return T.ArrayType(inner)
        case T.MapType():
            return T.MapType(outer.keyType, inner)
    return T.StructType([T.StructField(part, inner)])
