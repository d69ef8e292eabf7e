"""Expressions that are equal where two values of a column are the same, for types that Spark cannot compare.

Spark compares neither maps nor variants, and takes 0.0 and -0.0 for equal. Null is the same as null, and NaN
as NaN.
"""

from __future__ import annotations

from delvec.schema import Array, DataType, Map, Primitive, Struct
from delvec.spark.file_paths import sql_text
from delvec.spark.types import quoted


def comparable(value: str, data_type: DataType, depth: int = 0) -> str:
    """An expression that Spark can group rows by; ``value`` is a value of the type."""
    if _is_comparable(data_type):
        return value
    one = f"e{depth}"
    match data_type:
        case Primitive("float" | "double"):
            return f"CAST({value} AS STRING)"
        case Primitive("variant"):
            return f"to_json({value})"
        case Struct(fields):
            values = [comparable(f"{value}.{quoted(f.name)}", f.type, depth) for f in fields]
            parts = [f"{sql_text(f.name)}, {part}" for f, part in zip(fields, values, strict=True)]
            return f"if({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
        case Array(element):
            return f"transform({value}, {one} -> {comparable(one, element, depth + 1)})"
        case Map(key, item):
            parts = [comparable(f"{one}.key", key, depth + 1), comparable(f"{one}.value", item, depth + 1)]
            entry = f"named_struct('key', {parts[0]}, 'value', {parts[1]})"
            return f"array_sort(transform(map_entries({value}), {one} -> {entry}))"
    return value


def _is_comparable(data_type: DataType) -> bool:
    match data_type:
        case Struct(fields):
            return all(_is_comparable(field.type) for field in fields)
        case Array(element):
            return _is_comparable(element)
        case Map() | Primitive("float" | "double" | "variant"):
            return False
    return True
