"""Filters that Spark pushes to the data source, as tests with exactly Spark's results.

A test is used twice: as a condition that prunes files and row groups (``condition_text``), and as a filter of
the rows of a batch (``mask``). Spark does not evaluate an accepted filter again. So a filter whose result
could differ for any row is not accepted: Spark evaluates it.

Spark's order of floats: NaN equals NaN and is above all numbers; -0.0 equals 0.0.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delvec.file_facts import ColumnPath
from delvec.predicate.binding import quoted
from delvec.schema import Array, DataType, Decimal, Map, Primitive, Schema, Struct, arrow_type, is_string

_OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "EqualTo": "=",
        "EqualNullSafe": "<=>",
        "GreaterThan": ">",
        "GreaterThanOrEqual": ">=",
        "LessThan": "<",
        "LessThanOrEqual": "<=",
    }
)
_NULL_TESTS = ("IsNull", "IsNotNull")
_TEXT_TESTS = ("StringStartsWith", "StringEndsWith", "StringContains")
_IN, _NOT = "In", "Not"

_TRUE, _FALSE, _NULL = (pa.scalar(value, pa.bool_()) for value in (True, False, None))

# The Python type of Spark's values of each type; a value of another Python type is not accepted.
_PYTHON_TYPES: Mapping[str, type] = MappingProxyType(
    {
        "boolean": bool,
        "byte": int,
        "short": int,
        "integer": int,
        "long": int,
        "float": float,
        "double": float,
        "string": str,
        "binary": bytes,
        "date": dt.date,
        "timestamp": dt.datetime,
        "timestamp_ntz": dt.datetime,
    }
)
# Texts that a condition cannot contain, or whose meaning depends on the session's settings.
_NO_LITERAL = re.compile(r"""['"\\\r\0]|\$\{""")


@dataclass(frozen=True, slots=True)
class FilterTest:
    """One filter: ``kind`` is the name of Spark's class, ``value`` what the column is compared with.

    ``value`` is a tuple for ``In``, of which None may be a member.
    """

    path: ColumnPath
    type: DataType
    kind: str
    value: Any = None
    negated: bool = False

    @property
    def is_float(self) -> bool:
        return self.type in (Primitive("float"), Primitive("double"))


def read_filter(pushed: Any, schema: Schema) -> FilterTest | None:
    """The filter as a test of a column of ``schema``; None if Spark must evaluate it."""
    # By the names of the classes: PySpark 4.0 does not have them.
    kind, negated = type(pushed).__name__, False
    if kind == _NOT:
        pushed, negated = pushed.child, True
        kind = type(pushed).__name__
    path = tuple(getattr(pushed, "attribute", ()))
    data_type = _type_at(schema, path)
    if data_type is None:
        return None
    if kind in _NULL_TESTS:
        return FilterTest(path, data_type, kind, negated=negated)
    value: Any = getattr(pushed, "value", None)
    if not _is_comparable(kind, data_type, value):
        return None
    value = tuple(value) if kind == _IN else value
    return FilterTest(path, data_type, kind, value, negated)


def condition_text(tests: Iterable[FilterTest]) -> str | None:
    """A Spark SQL condition that is true for every row that passes the tests; None if there is none."""
    parts = [text for test in tests if (text := _condition(test)) is not None]
    return " AND ".join(parts) or None


def mask(tests: Sequence[FilterTest], columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
    """Which rows pass all tests. ``columns`` are those of a batch, by name; there is at least one test."""
    return reduce(pc.and_, (pc.fill_null(_answers(test, columns), _FALSE) for test in tests))


def _type_at(schema: Struct, path: ColumnPath) -> DataType | None:
    data_type: DataType = schema
    for name in path:
        fields = data_type.find(name, case_sensitive=True) if isinstance(data_type, Struct) else []
        if len(fields) != 1:
            return None
        data_type = fields[0].type
    return data_type if path else None


def _is_comparable(kind: str, data_type: DataType, value: Any) -> bool:
    if kind in _TEXT_TESTS:
        return is_string(data_type) and isinstance(value, str)
    if kind == _IN:
        values = value if isinstance(value, list | tuple) else ()
        return bool(values) and all(item is None or _is_value(item, data_type) for item in values)
    if kind == "EqualNullSafe" and value is None:
        return not isinstance(data_type, Array | Map | Struct)
    return kind in _OPERATORS and _is_value(value, data_type)


def _is_value(value: Any, data_type: DataType) -> bool:
    """Whether Arrow can represent the value in the column's type without a change."""
    match data_type:
        case Decimal():
            expected: type | None = decimal.Decimal
        case Primitive(name):
            expected = _PYTHON_TYPES.get(name)
        case _:
            expected = None
    if expected is None or type(value) is not expected:
        return False
    if isinstance(value, dt.datetime) and (value.tzinfo is None) != (data_type == Primitive("timestamp_ntz")):
        return False
    try:
        converted = pa.scalar(value, arrow_type(data_type)).as_py()
    except (pa.ArrowException, ValueError, OverflowError):
        return False
    return bool(converted == value) or (
        isinstance(value, float) and math.isnan(value) and math.isnan(converted)
    )


def _answers(test: FilterTest, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
    """TRUE, FALSE or NULL for each row."""
    values = columns[test.path[0]]
    for name in test.path[1:]:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    answers = _answer(test, values)
    return pc.invert(answers) if test.negated else answers


def _answer(test: FilterTest, values: pa.Array) -> pa.BooleanArray:
    match test.kind:
        case "IsNull":
            return pc.is_null(values)
        case "IsNotNull":
            return pc.is_valid(values)
        case "StringStartsWith":
            return pc.starts_with(values, pattern=test.value)
        case "StringEndsWith":
            return pc.ends_with(values, pattern=test.value)
        case "StringContains":
            return pc.match_substring(values, pattern=test.value)
        case "In":
            return _among(test, values)
        case "EqualNullSafe" if test.value is None:
            return pc.is_null(values)
        case "EqualNullSafe":
            return pc.fill_null(_compare(test, "EqualTo", values, test.value), _FALSE)
    return _compare(test, test.kind, values, test.value)


def _among(test: FilterTest, values: pa.Array) -> pa.BooleanArray:
    items = [item for item in test.value if item is not None]
    if test.is_float:  # Arrow's sets compare zeros and NaN in another way than Spark
        equal = [_compare(test, "EqualTo", values, item) for item in items]
        answers = reduce(pc.or_, equal, pc.if_else(pc.is_valid(values), _FALSE, _NULL))
    else:
        members = pa.array(items, arrow_type(test.type))
        answers = pc.if_else(pc.is_valid(values), pc.is_in(values, value_set=members), _NULL)
    return answers if len(items) == len(test.value) else pc.if_else(answers, _TRUE, _NULL)


_COMPARISONS: Mapping[str, Callable[[pa.Array, pa.Scalar], pa.BooleanArray]] = MappingProxyType(
    {
        "EqualTo": pc.equal,
        "GreaterThan": pc.greater,
        "GreaterThanOrEqual": pc.greater_equal,
        "LessThan": pc.less,
        "LessThanOrEqual": pc.less_equal,
    }
)


def _compare(test: FilterTest, kind: str, values: pa.Array, value: Any) -> pa.BooleanArray:
    if not test.is_float:
        return _COMPARISONS[kind](values, pa.scalar(value, arrow_type(test.type)))
    nan = pc.is_nan(values)
    if math.isnan(value):
        match kind:
            case "EqualTo" | "GreaterThanOrEqual":
                return nan
            case "LessThan":
                return pc.invert(nan)
        return pc.equal(nan, nan) if kind == "LessThanOrEqual" else pc.not_equal(nan, nan)
    answers = _COMPARISONS[kind](values, pa.scalar(value, arrow_type(test.type)))
    return pc.or_(answers, nan) if kind.startswith("Greater") else answers


def _condition(test: FilterTest) -> str | None:
    column = quoted(test.path)
    match test.kind:
        case "IsNull" | "IsNotNull":
            text: str | None = f"{column} IS {'NOT ' if test.kind == 'IsNotNull' else ''}NULL"
        case "StringStartsWith":
            prefix = _literal(test.value, test.type)
            text = None if prefix is None else f"startswith({column}, {prefix})"
        case "In":
            items = [_literal(item, test.type) for item in test.value]
            text = None if None in items else f"{column} IN ({', '.join(map(str, items))})"
        case kind if kind in _OPERATORS:
            literal = _literal(test.value, test.type)
            text = None if literal is None else f"{column} {_OPERATORS[kind]} {literal}"
        case _:
            text = None
    if text is None or _NO_LITERAL.search(column):
        return None
    return f"NOT ({text})" if test.negated else f"({text})"


def _literal(value: Any, data_type: DataType) -> str | None:
    """The value as SQL; None if its meaning could differ."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return _float_literal(value)
        case decimal.Decimal():
            return format(value, "f")
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            return None if _NO_LITERAL.search(value) else f"'{value}'"
        case dt.datetime() if data_type == Primitive("timestamp_ntz"):
            return f"TIMESTAMP_NTZ '{value.isoformat(' ', 'microseconds')}'"
        case dt.datetime():
            utc = value.astimezone(dt.UTC).replace(tzinfo=None)
            return f"TIMESTAMP '{utc.isoformat(' ', 'microseconds')}Z'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
    return None


def _float_literal(value: float) -> str | None:
    if math.isnan(value):
        return "CAST('NaN' AS DOUBLE)"
    if math.isinf(value):
        return None
    text = repr(abs(value) if value == 0 else value)
    return text if "e" in text else f"{text}E0"
