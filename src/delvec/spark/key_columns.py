"""The columns of keys: named by the user, verified, and converted to the table's types without loss."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from delvec.deletes.key_columns import is_key_type
from delvec.errors import InvalidOperationError
from delvec.predicate.binding import nearest
from delvec.row_delta import Operation, Request
from delvec.schema import Field, Schema, Struct
from delvec.spark.row_checks import VIOLATION
from delvec.spark.store_assignment import assigned
from delvec.spark.text_lengths import with_padding
from delvec.spark.types import quoted, spark_type

KeyFields = tuple[Field, ...]


def key_fields(schema: Schema, on: str | Sequence[str], *, case_sensitive: bool) -> KeyFields:
    """The columns that ``on`` names. Refuses columns whose values cannot be keys."""
    names = [on] if isinstance(on, str) else on
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidOperationError(f"on is {on!r}, expected the name of a column or a list of names")
    if not names:
        raise InvalidOperationError("on is empty, expected at least one column")
    fields: list[Field] = []
    for name in names:
        field = _field(schema, name, case_sensitive=case_sensitive)
        if field in fields:
            raise InvalidOperationError(f"on names column {field.name!r} twice, expected it once")
        fields.append(_verified(field))
    return tuple(fields)


def is_key(field: Field) -> bool:
    """Whether values of the column are equal exactly if they are stored alike."""
    return is_key_type(field.type) and not field.collated


def key_rows(frame: DataFrame, fields: KeyFields) -> DataFrame:
    """The key columns of ``frame``, in the table's types. Its other columns are left out."""
    rows = with_exact_keys(frame, fields).select(*(F.col(quoted(field.name)) for field in fields))
    return with_padding(rows, Struct(fields))


def with_exact_keys(frame: DataFrame, fields: KeyFields) -> DataFrame:
    """The frame with its key columns in the table's spelling and types. The job that computes it fails at a
    value that another value of the type would replace.
    """
    names = [_column(frame.schema, field, fields).name for field in fields]
    keys = dict(zip(names, fields, strict=True))
    columns = []
    for one in frame.schema:
        column = F.col(quoted(one.name))
        if one.name in keys:
            column = _exact(column, one.dataType, keys[one.name]).alias(keys[one.name].name)
        columns.append(column)
    return frame.select(*columns)


def key_request(operation: Operation, fields: KeyFields) -> Request:
    """DELETE_KEYS or UPSERT by these columns, for the history and for messages."""
    return Request(operation, f"({', '.join(quoted(field.name) for field in fields)}) IN (keys)")


def _field(schema: Schema, name: str, *, case_sensitive: bool) -> Field:
    found = schema.find(name, case_sensitive=case_sensitive)
    if len(found) != 1:
        problem = "is ambiguous" if found else "does not exist"
        expected = nearest(name, [field.name for field in schema])
        raise InvalidOperationError(f"key column {name!r} {problem}, expected one of {expected}")
    return found[0]


def _verified(field: Field) -> Field:
    if not is_key(field):
        kind = f"{field.type} with a collation" if field.collated else str(field.type)
        raise InvalidOperationError(
            f"key column {field.name!r} is of type {kind}, expected an integer, a decimal, a boolean, "
            "a string without a collation, binary, a date or a timestamp"
        )
    return field


def _column(rows: T.StructType, field: Field, fields: KeyFields) -> T.StructField:
    found = [one for one in rows if one.name.lower() == field.name.lower()]
    if len(found) != 1:
        problem = f"have column {field.name!r} twice" if found else f"have no column {field.name!r}"
        expected = ", ".join(one.name for one in fields)
        raise InvalidOperationError(f"the rows {problem}, expected the key columns {expected}")
    return found[0]


def _exact(value: Column, old: T.DataType, field: Field) -> Column:
    new = spark_type(field.type)
    result = assigned(value, old, new, field.name)
    if old == new or isinstance(old, T.NullType) or isinstance(new, T.StringType):
        return result
    reason = f"{VIOLATION}key column {field.name} is of type {new.simpleString()}, which cannot hold "
    message = F.concat(F.lit(reason), value.cast("string"), F.lit(VIOLATION))
    is_same = result.try_cast(old).eqNullSafe(value)
    return F.when(is_same, result).otherwise(F.raise_error(message).cast(new))
