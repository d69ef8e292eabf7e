"""Which columns the log has statistics of, as the table's properties set it.

Without properties these are the first 32 leaf columns. The fields of a struct count one by one, an array or a
map counts as one column, and partition columns do not count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from delvec.errors import FormatError
from delvec.footers.statistics import MeasuredColumn
from delvec.schema import Field, Schema, Struct

INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
STATS_COLUMNS = "delta.dataSkippingStatsColumns"
STRING_LENGTH = "delta.dataSkippingStringPrefixLength"

DEFAULT_INDEXED_COLUMNS = 32
DEFAULT_STRING_LENGTH = 32

_NUMBER = re.compile(r"-?\d+")
# One part of a column's name: in backquotes, which are doubled inside, or bare.
_PART = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.,\s][^`.,]*))\s*")

NamePath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatsRules:
    """``columns`` are those that have statistics; bounds of strings are cut to ``string_length``."""

    columns: tuple[MeasuredColumn, ...]
    string_length: int = DEFAULT_STRING_LENGTH


def stats_rules(
    schema: Schema, partition_columns: Sequence[str], properties: Mapping[str, str]
) -> StatsRules:
    """The columns that need statistics in the log, in the schema's order."""
    data = [field for field in schema if field.name not in partition_columns]
    listed = properties.get(STATS_COLUMNS)
    if listed is not None:
        paths = _parse_columns(listed)
        columns = [column for names, column in _leaves(data) if _is_listed(names, paths)]
    else:
        count = _number(properties, INDEXED_COLUMNS, DEFAULT_INDEXED_COLUMNS)
        columns = [column for _, column in islice(_leaves(data), None if count < 0 else count)]
    return StatsRules(tuple(columns), _number(properties, STRING_LENGTH, DEFAULT_STRING_LENGTH))


def table_stats_rules(
    schema: Schema,
    partition_columns: Sequence[str],
    properties: Mapping[str, str],
    clustered: Collection[NamePath],
) -> StatsRules:
    """The rules of a table: from its properties, and its clustering columns, whose statistics readers rely
    on.
    """
    rules = stats_rules(schema, partition_columns, properties)
    if not clustered:
        return rules
    all_columns = stats_rules(schema, partition_columns, {INDEXED_COLUMNS: "-1"}).columns
    additional = [
        column for column in all_columns if column.path in clustered and column not in rules.columns
    ]
    return replace(rules, columns=(*rules.columns, *additional))


def _leaves(
    fields: Sequence[Field], names: NamePath = (), path: NamePath = ()
) -> Iterator[tuple[NamePath, MeasuredColumn]]:
    """Each leaf column with its path in the table's logical names, in lower case."""
    for field in fields:
        name_path, stored = (*names, field.name.lower()), (*path, field.physical_name)
        if isinstance(field.type, Struct):
            yield from _leaves(field.type.fields, name_path, stored)
        else:
            yield name_path, MeasuredColumn(stored, field.type)


def _is_listed(names: NamePath, listed: frozenset[NamePath]) -> bool:
    """Whether ``listed`` has the column or a struct that contains it."""
    return any(names[:length] in listed for length in range(1, len(names) + 1))


def _parse_columns(text: str) -> frozenset[NamePath]:
    """The paths in ``a, b.c, `d.e`.f``, in lower case."""
    columns: list[list[str]] = [[]]
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            break
        quoted, bare = part.groups()
        columns[-1].append((quoted.replace("``", "`") if quoted else bare.rstrip()).lower())
        position = part.end()
        if position == len(text):
            return frozenset(tuple(column) for column in columns)
        if text[position] == ",":
            columns.append([])
        elif text[position] != ".":
            break
        position += 1
    raise FormatError(f"property {STATS_COLUMNS} is {text!r}, expected columns such as a, b.c, `d.e`")


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text.strip()):
        raise FormatError(f"property {name} is {text!r}, expected a number")
    return int(text)
