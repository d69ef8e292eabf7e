"""The partitioning that a user asks for, as texts: ``region``, ``days(ts)``, ``bucket(16, id)``.

    column                                   its value
    years(c) months(c) days(c) hours(c)      also year, month, day, hour and date(c), date_hour(c)
    bucket(N, c)                             also bucket(c, N)
    truncate(W, c)                           also truncate(c, W)

A column is a name, or a path of names into structs: ``address.city``. Names with other characters are in
backquotes. A text that is the name of a column means this column, whatever characters it has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from delvec.errors import InvalidOperationError
from delvec.file_facts import ColumnPath
from delvec.partition_spec import PartitionField, identity_fields
from delvec.schema import DataType, Schema, Struct
from delvec.transforms import IDENTITY, Transform

_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
# One part of a column's path: in backquotes, which are doubled inside, or bare.
_PART = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.,\s()][^`.,()]*))\s*")
_NUMBER = re.compile(r"\s*([0-9]{1,10})\s*")
_UNITS = {
    **{name: name for name in ("year", "month", "day", "hour")},
    **{f"{name}s": name for name in ("year", "month", "day", "hour")},
    "date": "day",
    "date_hour": "hour",
}
_SUFFIXES = {"truncate": "trunc"}
_EXPECTED = "a column, or years, months, days, hours, bucket(N, …) or truncate(W, …) of one"


def partition_fields(schema: Schema, texts: Sequence[str]) -> tuple[PartitionField, ...]:
    """The fields of a partitioning that users give as texts.

    Their names are those that Iceberg's own library gives: ``ts_day``, ``id_bucket``, ``name_trunc``.
    """
    fields: list[PartitionField] = []
    for text in texts:
        field = _field(schema, text)
        _verify_new(schema, field, fields)
        fields.append(field)
    return tuple(fields)


def _field(schema: Schema, text: str) -> PartitionField:
    if any(field.name == text for field in schema):
        return identity_fields(schema, [text])[0]
    call = _CALL.fullmatch(text)
    transform, column = _parse_call(text, call[1], call[2]) if call else (IDENTITY, text)
    path = _parse_path(column)
    if path is None:
        raise InvalidOperationError(f"partition field {text!r} is invalid, expected {_EXPECTED}")
    path, data_type = _find(schema, path, text)
    if transform == IDENTITY and len(path) == 1:
        return identity_fields(schema, path)[0]
    try:
        result = transform.result_type(data_type)
    except InvalidOperationError as error:
        raise InvalidOperationError(f"partition field {text!r}: {error}") from None
    return PartitionField(_name(path, transform), path, transform, result)


def _parse_call(text: str, name: str, arguments: str) -> tuple[Transform, str]:
    """The transform, and the text of its column."""
    unit = _UNITS.get(name.lower())
    if unit is not None:
        return Transform(unit), arguments
    if name.lower() == "identity":
        return IDENTITY, arguments
    if name.lower() not in ("bucket", "truncate"):
        raise InvalidOperationError(
            f"partition field {text!r} has the unknown transform {name}, expected {_EXPECTED}"
        )
    first, last = arguments.partition(","), arguments.rpartition(",")
    for number, column in ((first[0], first[2]), (last[2], last[0])):
        if (width := _NUMBER.fullmatch(number)) is not None:
            transform = Transform(name.lower(), int(width[1]))
            if transform.is_known:
                return transform, column
    raise InvalidOperationError(
        f"partition field {text!r} is invalid, expected {name}(N, column) with a number of 1 to {2**31 - 1}"
    )


def _parse_path(text: str) -> ColumnPath | None:
    """The path that the text means; None if it is not one."""
    parts: list[str] = []
    position = 0
    while True:
        part = _PART.match(text, position)
        if part is None:
            return None
        parts.append(part[1].replace("``", "`") if part[1] else part[2].rstrip())
        position = part.end()
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            return None
        position += 1


def _find(schema: Schema, path: ColumnPath, text: str) -> tuple[ColumnPath, DataType]:
    """The path as the schema spells it, and the type of the column."""
    data_type: DataType = schema
    found: list[str] = []
    for name in path:
        inner = data_type if isinstance(data_type, Struct) else Struct(())
        matches = inner.find(name, case_sensitive=True) or inner.find(name)
        if len(matches) != 1:
            where = f" of {'.'.join(found)}" if found else ""
            names = ", ".join(field.name for field in inner) or "none"
            if len(path) == 1 and text == name:
                raise InvalidOperationError(
                    f"partition column {name!r} is not in the schema, expected one of {names}"
                )
            raise InvalidOperationError(
                f"partition field {text!r} has the column {name!r}, expected one{where}: {names}"
            )
        found.append(matches[0].name)
        data_type = matches[0].type
    return tuple(found), data_type


def _name(path: ColumnPath, transform: Transform) -> str:
    name = ".".join(path)
    return name if transform == IDENTITY else f"{name}_{_SUFFIXES.get(transform.name, transform.name)}"


def _verify_new(schema: Schema, field: PartitionField, fields: Sequence[PartitionField]) -> None:
    """Refuse a field that is named twice, that has the name of another column, or that another field of the
    same column makes redundant.
    """
    if field in fields:
        kind = "column" if field.is_identity else "field"
        raise InvalidOperationError(f"partition {kind} {field.name!r} is named twice, expected once")
    if any(other.name == field.name for other in fields):
        raise InvalidOperationError(
            f"two partition fields have the name {field.name!r}, expected one ({field})"
        )
    if not field.is_identity and any(column.name == field.name for column in schema):
        raise InvalidOperationError(
            f"partition field {field} has the name {field.name!r}, which is also the name of a column"
        )
    for other in fields:
        times = {other.transform.name, field.transform.name} <= set(_UNITS)
        if other.source == field.source and times:
            raise InvalidOperationError(f"partition field {field} is redundant beside {other}, expected one")
