"""The write defaults of columns as SQL: values for columns that a new row lacks."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

from delvec.iceberg.default_values import parse_value
from delvec.iceberg.schema import WRITE_DEFAULT
from delvec.schema import Array, DataType, Decimal, Field, Fixed, Map, Primitive, Schema, Struct

_EPOCH = dt.datetime(1970, 1, 1)
_NUMBERS = {"integer": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE"}


def write_defaults(schema: Schema) -> dict[str, str]:
    """The expressions of top-level columns that have a write default, by name."""
    return {field.name: default_expression(field) for field in schema if _default(field) is not None}


def default_expression(field: Field) -> str:
    """The write default of a column or field as an expression that no session setting changes; NULL without
    one.
    """
    return _literal(_default(field), field.type)


def _default(field: Field) -> Any:
    recorded = field.metadata.get(WRITE_DEFAULT)
    if isinstance(field.type, Struct):  # an empty object: each field has a default of its own
        return recorded
    return parse_value(recorded, field.type, field.name)


def _literal(value: Any, data_type: DataType) -> str:
    if value is None:
        return "NULL"
    match data_type:
        case Struct(fields):
            parts = (f"{_text(field.name)}, {default_expression(field)}" for field in fields)
            return f"named_struct({', '.join(parts)})"
        case Array(element):
            return f"array({', '.join(_literal(item, element) for item in value)})"
        case Map(key, item):
            parts = (f"{_literal(k, key)}, {_literal(v, item)}" for k, v in value)
            return f"map({', '.join(parts)})"
        case Decimal(precision, scale):
            return f"CAST('{format(decimal.Decimal(value), 'f')}' AS DECIMAL({precision},{scale}))"
        case Primitive("boolean"):
            return str(value).upper()
        case Primitive(name) if name in _NUMBERS:
            return f"CAST('{value}' AS {_NUMBERS[name]})"
        case Primitive("string"):
            return _text(value)
        case Primitive("binary") | Fixed():
            return f"X'{value.hex()}'"
        case Primitive("date"):
            return f"DATE '{value.isoformat()}'"
        case Primitive("timestamp"):
            return f"timestamp_micros({_micros(value.replace(tzinfo=None))}L)"
        case Primitive("timestamp_ntz"):
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
    return "NULL"  # rows with this column are refused


def _text(value: str) -> str:
    """The text, whatever the session makes of backslashes in literals."""
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def _micros(value: dt.datetime) -> int:
    return (value - _EPOCH) // dt.timedelta(microseconds=1)
