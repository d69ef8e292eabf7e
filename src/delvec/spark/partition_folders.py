"""Partition columns: read from folder names by Spark itself where those say what the plan says.

Then a later filter on the column prunes files, and joins prune dynamically. Files whose folders say something
else, or nothing, get their values another way.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa

from delvec.chunked import Mask, Rows
from delvec.plan import ScanPlan
from delvec.row_delta import WriteRules
from delvec.schema import DataType, Decimal, Field, Primitive, Text

NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_TO_ESCAPE = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{\\[\\]^]")
_INTEGER = re.compile("-?[0-9]+")
_DOUBLE = re.compile(r"-?([0-9]+(\.[0-9]+)?([Ee][+-]?[0-9]+)?|Infinity)|NaN")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_BOOLEAN = re.compile("true|false")
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(rf"{_DATE.pattern}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?")


def in_folder_names(plan: ScanPlan, constants: tuple[Field, ...]) -> Mask:
    """For each file of the plan: whether its folders, below the table, are exactly its partition values."""
    count = len(plan.files)
    if not constants or not count:
        return np.zeros(count, dtype=bool)
    folders = _folders(plan)
    values = plan.files.column("partition").combine_chunks()
    keys = [folders.indices.to_numpy(zero_copy_only=False)]
    keys += [_codes(values.field(field.name)) for field in constants]
    # Few distinct pairs of folder and values stand for many files.
    distinct, first, back = np.unique(np.stack(keys, axis=1), axis=0, return_index=True, return_inverse=True)
    names = folders.dictionary.to_pylist()
    right = [
        _says(names[row[0]], constants, values[int(at)].as_py())
        for row, at in zip(distinct, first, strict=True)
    ]
    return np.array(right, dtype=bool)[back.reshape(-1)]


def same_partitions(plan: ScanPlan, rules: WriteRules, written: pa.ChunkedArray) -> Rows:
    """The plan's files, by row, in a partition of the ``written`` ones, given as in ``RowDelta``."""
    types = {field.name: field.type for field in rules.schema}
    kinds = [types[name] for name in rules.partition_by]
    wanted = {
        tuple(
            None if text is None else _comparable(_stated(text, kind), kind)
            for text, kind in zip(texts, kinds, strict=True)
        )
        for texts in written.to_pylist()
    }
    values = plan.files.column("partition").to_pylist()
    found = [
        tuple(_comparable(row[name], types[name]) for name in rules.partition_by) in wanted for row in values
    ]
    return np.flatnonzero(found)


def _stated(text: str, data_type: DataType) -> Any:
    """The value that a text of ``RowDelta.added`` states."""
    match data_type:
        case Primitive("string"):
            return text
        case Primitive("timestamp"):
            return dt.datetime.fromisoformat(text)
        case Primitive("float" | "double"):
            return float(text)
        case Decimal():
            return decimal.Decimal(text)
    return _parsed(text, data_type)


def _comparable(value: Any, data_type: DataType) -> Any:
    """What is equal for values that are: NaN is, and ``char`` is with and without the spaces after it."""
    if isinstance(value, str) and isinstance(data_type, Text) and data_type.padded:
        return value.ljust(data_type.length)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _folders(plan: ScanPlan) -> pa.DictionaryArray:
    root = plan.location if plan.location.endswith("/") else plan.location + "/"
    places = plan.files.column("location").to_pylist()
    below = [place[len(root) :].rpartition("/")[0] if place.startswith(root) else None for place in places]
    return pa.array([name if name is not None else "\0" for name in below]).dictionary_encode()


def _codes(values: pa.Array) -> Rows:
    encoded = values.dictionary_encode(null_encoding="encode").indices
    codes: Rows = encoded.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _says(folder: str, constants: tuple[Field, ...], values: dict[str, Any]) -> bool:
    parts = folder.split("/")
    if len(parts) != len(constants):
        return False
    for part, field in zip(parts, constants, strict=True):
        name, equals, text = part.partition("=")
        if not equals or unescaped(name) != field.physical_name:
            return False
        try:
            value = None if text == NULL else _parsed(text, field.type)
        except (ValueError, ArithmeticError):
            return False
        if not _same(value, values[field.name]):
            return False
    return True


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    return bool(one == other) and (one is None) == (other is None)


def _parsed(text: str, data_type: DataType) -> Any:
    """What Spark reads the text as; a ValueError where that is not beyond doubt."""
    match data_type:
        case Primitive("string"):
            return unescaped(text)
        case Primitive("byte" | "short" | "integer" | "long"):
            return int(_checked(text, _INTEGER))
        case Primitive("double"):
            return float(_checked(text, _DOUBLE))
        case Primitive("boolean"):
            return _checked(text, _BOOLEAN) == "true"
        case Primitive("date"):
            return dt.date.fromisoformat(_checked(text, _DATE))
        case Primitive("timestamp"):
            return _moment(text).replace(tzinfo=dt.UTC)
        case Primitive("timestamp_ntz"):
            return _moment(text)
        case Decimal(_, scale):
            value = decimal.Decimal(_checked(text, _DECIMAL))
            # Spark takes the digits of a text with fewer decimals for those of the column's scale.
            if value.as_tuple().exponent == -scale:
                return value
    raise ValueError("never read from a folder's name")


def _moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(_checked(unescaped(text), _TIMESTAMP))


def _checked(text: str, pattern: re.Pattern[str]) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(text)
    return text


def escaped(text: str) -> str:
    """The text as Spark writes it into a folder's name."""
    return _TO_ESCAPE.sub(lambda found: f"%{ord(found[0]):02X}", text)


def unescaped(text: str) -> str:
    """The text as Spark decodes it: each escape is a character, never a byte of one."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
