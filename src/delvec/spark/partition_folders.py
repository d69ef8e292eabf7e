"""Partition values in folder names: which files have folders that agree with the plan.

For these files Spark reads the partition columns from the folder names, so that later filters on the columns
prune files, and joins prune dynamically. The values of all other files are joined to the scan.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delvec.chunked import Mask, Rows
from delvec.hive_folders import NULL_FOLDER, unescaped
from delvec.partition_spec import PartitionSpec, column_values
from delvec.plan import ScanPlan
from delvec.schema import DataType, Decimal, Field, Primitive, Text, arrow_type

_INTEGER = re.compile("-?[0-9]+")
_DOUBLE = re.compile(r"-?([0-9]+(\.[0-9]+)?([Ee][+-]?[0-9]+)?|Infinity)|NaN")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_BOOLEAN = re.compile("true|false")
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(rf"{_DATE.pattern}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?")


def in_folder_names(plan: ScanPlan, constants: tuple[Field, ...]) -> Mask:
    """For each file of the plan, whether its folders below the table's location state exactly the partition
    values of the plan. ``constants`` are the columns that come from partition values.
    """
    count = len(plan.files)
    if not constants or not count:
        return np.zeros(count, dtype=bool)
    folders = _folders(plan)
    partitions = plan.files.column("partition").combine_chunks()
    values = column_values(partitions, plan.specs.values(), [field.name for field in constants])
    keys = [folders.indices.to_numpy(zero_copy_only=False)]
    keys += [_codes(values.field(field.name)) for field in constants]
    # Many files share few distinct pairs of folder and values: compare each pair once.
    distinct, first, inverse = np.unique(
        np.stack(keys, axis=1), axis=0, return_index=True, return_inverse=True
    )
    names = folders.dictionary.to_pylist()
    agrees = [
        _agrees(names[row[0]], constants, values[int(at)].as_py())
        for row, at in zip(distinct, first, strict=True)
    ]
    return np.array(agrees, dtype=bool)[inverse.reshape(-1)]


def same_partitions(plan: ScanPlan, spec: PartitionSpec, written: pa.ChunkedArray) -> Rows:
    """The plan's files, by row, that are in a partition of ``written``, the partition values of new files.

    A file with another spec is in none of them.
    """
    count = len(plan.files)
    old = plan.files.column("partition").combine_chunks()
    new = written.combine_chunks()
    keys = [np.zeros(count + len(new), dtype=np.int64)]
    for field in spec.fields:
        values = [_comparable(part.field(field.name), field.type) for part in (old, new)]
        keys.append(_codes(pa.concat_arrays(values)))
    partitions = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    of_spec = plan.files.column("spec_id").to_numpy() == spec.spec_id
    return np.flatnonzero(of_spec & np.isin(partitions[:count], partitions[count:]))


def _comparable(values: pa.Array, data_type: DataType) -> pa.Array:
    """Values that are the same bytes if they are equal in SQL: ``char`` is padded, and -0.0 is 0.0."""
    values = values.cast(arrow_type(data_type))
    if isinstance(data_type, Text) and data_type.padded:
        return pc.utf8_rpad(values, data_type.length)
    return pc.add(values, pa.scalar(0, values.type)) if pa.types.is_floating(values.type) else values


def _folders(plan: ScanPlan) -> pa.DictionaryArray:
    root = plan.location if plan.location.endswith("/") else plan.location + "/"
    places = plan.files.column("location").to_pylist()
    below = [place[len(root) :].rpartition("/")[0] if place.startswith(root) else None for place in places]
    return pa.array([name if name is not None else "\0" for name in below]).dictionary_encode()


def _codes(values: pa.Array) -> Rows:
    encoded = values.dictionary_encode(null_encoding="encode").indices
    codes: Rows = encoded.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _agrees(folder: str, constants: tuple[Field, ...], values: dict[str, Any]) -> bool:
    parts = folder.split("/")
    if len(parts) != len(constants):
        return False
    for part, field in zip(parts, constants, strict=True):
        name, equals, text = part.partition("=")
        if not equals or unescaped(name) != field.physical_name:
            return False
        try:
            value = None if text == NULL_FOLDER else _parsed(text, field.type)
        except (ValueError, ArithmeticError):
            return False
        if not _same(value, values[field.name]):
            return False
    return True


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, float) and math.isnan(value) and math.isnan(other):
        return True
    return bool(value == other) and (value is None) == (other is None)


def _parsed(text: str, data_type: DataType) -> Any:
    """The value that Spark reads from the text; ValueError if Spark might read another value."""
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
            return _timestamp(text).replace(tzinfo=dt.UTC)
        case Primitive("timestamp_ntz"):
            return _timestamp(text)
        case Decimal(_, scale):
            value = decimal.Decimal(_checked(text, _DECIMAL))
            # If the text has fewer decimals than the column, Spark reads another value: 1.5 as 0.15.
            if value.as_tuple().exponent == -scale:
                return value
    raise ValueError(f"Spark does not read {data_type} from the name of a folder")


def _timestamp(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(_checked(unescaped(text), _TIMESTAMP))


def _checked(text: str, pattern: re.Pattern[str]) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(text)
    return text
