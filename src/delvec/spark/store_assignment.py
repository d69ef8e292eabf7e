"""Values for a column: brought to the column's type, or refused.

What may be stored where follows Spark's ANSI store assignment, whatever the session's setting: numbers in any
numeric column, where a value that does not fit is an error and never another value; anything in a string; no
string in anything else. Structs go by the names of their fields.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from delvec.errors import InvalidOperationError
from delvec.spark.row_checks import VIOLATION

_DATES = (T.DateType, T.TimestampType, T.TimestampNTZType)
_NESTED = (T.StructType, T.ArrayType, T.MapType)


def assigned(value: Column, held: T.DataType, wanted: T.DataType, name: str) -> Column:
    """``value``, which is of type ``held``, as one of type ``wanted``; ``name`` is the column's."""
    if _same(held, wanted):
        return value
    if isinstance(held, T.NullType):
        return value.cast(wanted)
    if isinstance(held, T.StructType) and isinstance(wanted, T.StructType):
        return _struct(value, held, wanted, name)
    if isinstance(held, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return F.transform(value, lambda one: assigned(one, held.elementType, wanted.elementType, name))
    if isinstance(held, T.MapType) and isinstance(wanted, T.MapType):
        return _map(value, held, wanted, name)
    _verify_assignable(held, wanted, name)
    if _always_fits(held, wanted):
        return value.cast(wanted)
    fitting = value.try_cast(wanted)
    reason = f"{VIOLATION}value does not fit column {name} of type {wanted.simpleString()}: "
    message = F.concat(F.lit(reason), value.cast("string"), F.lit(VIOLATION))
    lost = value.isNotNull() & fitting.isNull()
    return F.when(lost, F.raise_error(message).cast(wanted)).otherwise(fitting)


def _struct(value: Column, held: T.StructType, wanted: T.StructType, name: str) -> Column:
    known = {field.name.lower(): field for field in held}
    for field in held:
        if field.name.lower() not in {other.name.lower() for other in wanted}:
            raise InvalidOperationError(f"unknown field {name}.{field.name}, expected {_names(wanted)}")
    parts = []
    for field in wanted:
        place, found = f"{name}.{field.name}", known.get(field.name.lower())
        if found is None and not field.nullable:
            raise InvalidOperationError(f"field {place} is missing, but it is NOT NULL")
        inner = (
            F.lit(None).cast(field.dataType)
            if found is None
            else assigned(value[found.name], found.dataType, field.dataType, place)
        )
        parts.append(inner.alias(field.name))
    return F.when(value.isNotNull(), F.struct(*parts))


def _map(value: Column, held: T.MapType, wanted: T.MapType, name: str) -> Column:
    if not _same(held.keyType, wanted.keyType):
        value = F.transform_keys(
            value, lambda key, _: assigned(key, held.keyType, wanted.keyType, f"{name}.key")
        )
    return F.transform_values(
        value, lambda _, one: assigned(one, held.valueType, wanted.valueType, f"{name}.value")
    )


def _verify_assignable(held: T.DataType, wanted: T.DataType, name: str) -> None:
    plain = not isinstance(held, _NESTED) and not isinstance(wanted, _NESTED)
    both_numbers = isinstance(held, T.NumericType) and isinstance(wanted, T.NumericType)
    both_dates = isinstance(held, _DATES) and isinstance(wanted, _DATES)
    to_string = isinstance(wanted, T.StringType) and not isinstance(held, T.BinaryType)
    if not (plain and (both_numbers or both_dates or to_string)):
        raise InvalidOperationError(
            f"value for column {name} is of type {held.simpleString()}, expected {wanted.simpleString()}"
        )


def _always_fits(held: T.DataType, wanted: T.DataType) -> bool:
    if isinstance(wanted, T.StringType | T.DoubleType | T.FloatType) or isinstance(held, _DATES):
        return True
    order: list[type[T.DataType]] = [T.ByteType, T.ShortType, T.IntegerType, T.LongType]
    if type(held) in order and type(wanted) in order:
        return order.index(type(held)) <= order.index(type(wanted))
    return False


def _same(held: T.DataType, wanted: T.DataType) -> bool:
    """Equal but for nullability and field metadata."""
    match held, wanted:
        case T.StructType(), T.StructType():
            return held.names == wanted.names and all(
                _same(one.dataType, other.dataType) for one, other in zip(held, wanted, strict=True)
            )
        case T.ArrayType(), T.ArrayType():
            return _same(held.elementType, wanted.elementType)
        case T.MapType(), T.MapType():
            return _same(held.keyType, wanted.keyType) and _same(held.valueType, wanted.valueType)
    return held == wanted


def _names(struct: T.StructType) -> str:
    return ", ".join(struct.names)
