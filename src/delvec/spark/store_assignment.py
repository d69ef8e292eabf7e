"""Store assignment: values are converted to the type of their column, or refused.

The rules are those of Spark's ANSI store assignment, whatever the session's setting is. A number can be
stored in any numeric column; if it does not fit, that is an error, and never another value. Any value except
bytes can be stored in a string column, but a string only in a string column. Fields of structs are matched by
name.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from delvec.errors import InvalidOperationError
from delvec.spark.row_checks import VIOLATION

_DATES = (T.DateType, T.TimestampType, T.TimestampNTZType)
_NESTED = (T.StructType, T.ArrayType, T.MapType)


def assigned(value: Column, old: T.DataType, new: T.DataType, name: str) -> Column:
    """``value``, which is of type ``old``, converted to type ``new``. ``name`` is the column's name, for
    errors.
    """
    if _same(old, new):
        return value
    if isinstance(old, T.NullType):
        return value.cast(new)
    if isinstance(old, T.StructType) and isinstance(new, T.StructType):
        return _struct(value, old, new, name)
    if isinstance(old, T.ArrayType) and isinstance(new, T.ArrayType):
        return F.transform(value, lambda element: assigned(element, old.elementType, new.elementType, name))
    if isinstance(old, T.MapType) and isinstance(new, T.MapType):
        return _map(value, old, new, name)
    _verify_assignable(old, new, name)
    if _always_fits(old, new):
        return value.cast(new)
    result = value.try_cast(new)
    reason = f"{VIOLATION}value does not fit column {name} of type {new.simpleString()}: "
    message = F.concat(F.lit(reason), value.cast("string"), F.lit(VIOLATION))
    lost = value.isNotNull() & result.isNull()
    return F.when(lost, F.raise_error(message).cast(new)).otherwise(result)


def _struct(value: Column, old: T.StructType, new: T.StructType, name: str) -> Column:
    old_fields = {field.name.lower(): field for field in old}
    for field in old:
        if field.name.lower() not in {other.name.lower() for other in new}:
            raise InvalidOperationError(f"unknown field {name}.{field.name}, expected {_names(new)}")
    parts = []
    for field in new:
        place, source = f"{name}.{field.name}", old_fields.get(field.name.lower())
        if source is None and not field.nullable:
            raise InvalidOperationError(f"field {place} is missing, but it is NOT NULL")
        inner = (
            F.lit(None).cast(field.dataType)
            if source is None
            else assigned(value[source.name], source.dataType, field.dataType, place)
        )
        parts.append(inner.alias(field.name))
    return F.when(value.isNotNull(), F.struct(*parts))


def _map(value: Column, old: T.MapType, new: T.MapType, name: str) -> Column:
    if not _same(old.keyType, new.keyType):
        value = F.transform_keys(value, lambda key, _: assigned(key, old.keyType, new.keyType, f"{name}.key"))
    return F.transform_values(
        value, lambda _, element: assigned(element, old.valueType, new.valueType, f"{name}.value")
    )


def _verify_assignable(old: T.DataType, new: T.DataType, name: str) -> None:
    plain = not isinstance(old, _NESTED) and not isinstance(new, _NESTED)
    both_numbers = isinstance(old, T.NumericType) and isinstance(new, T.NumericType)
    both_dates = isinstance(old, _DATES) and isinstance(new, _DATES)
    to_string = isinstance(new, T.StringType) and not isinstance(old, T.BinaryType)
    if not (plain and (both_numbers or both_dates or to_string)):
        raise InvalidOperationError(
            f"value for column {name} is of type {old.simpleString()}, expected {new.simpleString()}"
        )


def _always_fits(old: T.DataType, new: T.DataType) -> bool:
    if isinstance(new, T.StringType | T.DoubleType | T.FloatType) or isinstance(old, _DATES):
        return True
    order: list[type[T.DataType]] = [T.ByteType, T.ShortType, T.IntegerType, T.LongType]
    if type(old) in order and type(new) in order:
        return order.index(type(old)) <= order.index(type(new))
    return False


def _same(old: T.DataType, new: T.DataType) -> bool:
    """Whether the types are equal, apart from nullability and field metadata."""
    match old, new:
        case T.StructType(), T.StructType():
            return old.names == new.names and all(
                _same(one.dataType, other.dataType) for one, other in zip(old, new, strict=True)
            )
        case T.ArrayType(), T.ArrayType():
            return _same(old.elementType, new.elementType)
        case T.MapType(), T.MapType():
            return _same(old.keyType, new.keyType) and _same(old.valueType, new.valueType)
    return old == new


def _names(struct: T.StructType) -> str:
    return ", ".join(struct.names)
