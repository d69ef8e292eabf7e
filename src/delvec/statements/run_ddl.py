"""CREATE TABLE and ALTER TABLE, as the verbs of a table."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from delvec import location
from delvec.errors import InvalidOperationError, TableNotFoundError
from delvec.spark.conditions import reason_of
from delvec.spark.types import parse_ddl, quoted
from delvec.statements.constants import properties, text_of
from delvec.statements.cursor import Name
from delvec.statements.error_positions import COLUMNS, pointed_at
from delvec.statements.parse_ddl import is_path
from delvec.statements.run_query import Frames
from delvec.statements.statement import AddColumns, Create, NewColumn, SetProperties, UnsetProperties
from delvec.statements.table_names import snapshot_of
from delvec.table import Table, registered_table

_COMMENT = "comment"


def create(frames: Frames, asked: Create) -> None:
    """Make the table, and give it the name where it has one; IF NOT EXISTS leaves one that is there."""
    spark = frames.spark
    known = None if is_path(asked.table) else registered_table(asked.table.parts[0], spark)
    if known is not None and asked.if_not_exists:
        frames.tables.is_ours(asked.table)
        return
    if known is not None:
        raise InvalidOperationError(f"{asked.table} is already the name of a table: {known.location}")
    place = _place(spark, asked)
    if not is_path(asked.table):
        frames.tables.verify_unknown_to_spark(asked.table, place)
    table = _existing(spark, place) if asked.if_not_exists else None
    if table is None:
        table = _created(frames, asked, place)
    if not is_path(asked.table):
        table.register(asked.table.parts[0])


def set_properties(frames: Frames, asked: SetProperties) -> None:
    given = properties(frames.spark, asked.properties, frames.parameters)
    frames.tables.of(asked.table).set_properties(given)


def unset_properties(frames: Frames, asked: UnsetProperties) -> None:
    table = frames.tables.of(asked.table)
    names, held = list(properties(frames.spark, asked.properties, frames.parameters)), set(table.properties)
    if "description" in snapshot_of(table).details():
        held.add(_COMMENT)
    missing = [name for name in names if name not in held]
    if missing and not asked.if_exists:
        raise InvalidOperationError(
            f"{asked.table} has no property {missing[0]}, expected one of {', '.join(sorted(held))} "
            "(or IF EXISTS)"
        )
    present = {name: None for name in names if name in held}
    if present:
        table.set_properties(present)


def add_columns(frames: Frames, asked: AddColumns) -> None:
    table = frames.tables.of(asked.table)
    fields = T.StructType()
    for column in asked.columns:
        _add(fields, column.name, _leaf(column), table.schema)
    table.add_columns(fields)


def _created(frames: Frames, asked: Create, place: str) -> Table:
    spark = frames.spark
    by_type = [span.text for _, span in asked.partition_by if span is not None]
    given = {
        name: value or "" for name, value in properties(spark, asked.properties, frames.parameters).items()
    }
    if asked.comment is not None:
        given[_COMMENT] = text_of(spark, asked.comment)
    by = [name for name, _ in asked.partition_by]
    if asked.query is not None:
        if asked.columns is not None or by_type:
            raise InvalidOperationError(
                f"CREATE TABLE {asked.table} has both columns and a query, expected one of them"
            )
        rows = frames.of(asked.query)
        return Table.create(spark, place, rows, partition_by=_spelled(by, rows.schema), properties=given)
    if asked.columns is None:
        raise InvalidOperationError(f"CREATE TABLE {asked.table} has no columns and no query")
    text = ", ".join([asked.columns.text, *by_type])
    try:
        with pointed_at(spark, asked.columns, around=COLUMNS):
            schema = parse_ddl(text)
    except PySparkException as error:
        raise InvalidOperationError(f"columns ({text}) are invalid: {reason_of(error)}") from None
    return Table.create(spark, place, schema, partition_by=_spelled(by, schema), properties=given)


def _spelled(names: list[str], schema: T.StructType) -> list[str]:
    """Names in the schema's spelling."""
    known = {name.lower(): name for name in schema.names}
    return [known.get(name.lower(), name) for name in names]


def _place(spark: SparkSession, asked: Create) -> str:
    given = None if asked.location is None else text_of(spark, asked.location)
    if is_path(asked.table):
        path = asked.table.parts[1]
        if given is not None and location.normalize(given) != location.normalize(path):
            raise InvalidOperationError(f"LOCATION is {given}, expected none or {path} for {asked.table}")
        return path
    if given is None:
        raise InvalidOperationError(
            f"CREATE TABLE {asked.table} has no location, expected LOCATION '…' or delvec.`path`"
        )
    return given


def _existing(spark: SparkSession, place: str) -> Table | None:
    try:
        return Table.open(spark, place)
    except TableNotFoundError:
        return None


def _leaf(column: NewColumn) -> T.StructField:
    """The column itself, without the structs around it."""
    name = column.name.parts[-1]
    try:
        return parse_ddl(f"{quoted(name)} {column.definition.text}")[0]
    except PySparkException as error:
        raise InvalidOperationError(
            f"new column {column.name} is {column.definition.text}, expected a type: {reason_of(error)}"
        ) from None


def _add(fields: T.StructType, name: Name, leaf: T.StructField, held: T.DataType) -> None:
    """Add the field inside of what encloses it in the table: structs, elements of arrays, values of maps."""
    inside, path = held, name.parts[:-1]
    field = leaf
    kinds: list[tuple[str, T.DataType]] = []
    for part in path:
        found = _child(inside, part)
        if found is None:
            raise InvalidOperationError(
                f"new column {name} is inside {part}, which is not a column of the table"
            )
        kinds.append((part, inside))
        inside = found
    if not isinstance(inside, T.StructType):
        raise InvalidOperationError(f"new column {name} is inside {inside.simpleString()}, expected a struct")
    data_type: T.DataType = T.StructType([field])
    for part, kind in reversed(kinds):
        data_type = _around(data_type, part, kind)
    assert isinstance(data_type, T.StructType)
    fields.fields.extend(data_type.fields)
    fields.names = [each.name for each in fields.fields]


def _child(kind: T.DataType, part: str) -> T.DataType | None:
    match kind:
        case T.StructType():
            found = [field.dataType for field in kind if field.name.lower() == part.lower()]
            return found[0] if found else None
        case T.ArrayType() if part.lower() == "element":
            return kind.elementType
        case T.MapType() if part.lower() == "value":
            return kind.valueType
    return None


def _around(inner: T.DataType, part: str, kind: T.DataType) -> T.DataType:
    match kind:
        case T.ArrayType():
            return T.ArrayType(inner)
        case T.MapType():
            return T.MapType(kind.keyType, inner)
    return T.StructType([T.StructField(part, inner)])
