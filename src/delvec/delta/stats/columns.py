"""Which columns a writer keeps statistics of, as the table's properties ask.

Without properties these are the first 32 leaf columns: a struct counts as the fields inside it, an array or
a map as one, partition columns not at all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from delvec.delta.stats.parser import Leaf
from delvec.errors import FormatError
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
    """``leaves`` are the columns, by physical path and type; longer texts are cut to ``string_length``."""

    leaves: tuple[Leaf, ...]
    string_length: int = DEFAULT_STRING_LENGTH


def stats_rules(
    schema: Schema, partition_columns: Sequence[str], properties: Mapping[str, str]
) -> StatsRules:
    """The columns whose statistics the log is to hold, in the schema's order."""
    data = [field for field in schema if field.name not in partition_columns]
    listed = properties.get(STATS_COLUMNS)
    if listed is not None:
        wanted = _parse_columns(listed)
        leaves = [leaf for names, leaf in _leaves(data) if _is_listed(names, wanted)]
    else:
        count = _number(properties, INDEXED_COLUMNS, DEFAULT_INDEXED_COLUMNS)
        leaves = [leaf for _, leaf in islice(_leaves(data), None if count < 0 else count)]
    return StatsRules(tuple(leaves), _number(properties, STRING_LENGTH, DEFAULT_STRING_LENGTH))


def table_stats_rules(
    schema: Schema,
    partition_columns: Sequence[str],
    properties: Mapping[str, str],
    clustered: Collection[NamePath],
) -> StatsRules:
    """What the properties ask for, and the columns by which the table is clustered: readers count on them."""
    rules = stats_rules(schema, partition_columns, properties)
    if not clustered:
        return rules
    every = stats_rules(schema, partition_columns, {INDEXED_COLUMNS: "-1"}).leaves
    more = [leaf for leaf in every if leaf.path in clustered and leaf not in rules.leaves]
    return replace(rules, leaves=(*rules.leaves, *more))


def _leaves(
    fields: Sequence[Field], names: NamePath = (), path: NamePath = ()
) -> Iterator[tuple[NamePath, Leaf]]:
    """Every leaf with its path in the table's own names, in lower case."""
    for field in fields:
        here, stored = (*names, field.name.lower()), (*path, field.physical_name)
        if isinstance(field.type, Struct):
            yield from _leaves(field.type.fields, here, stored)
        else:
            yield here, Leaf(stored, field.type)


def _is_listed(names: NamePath, wanted: frozenset[NamePath]) -> bool:
    """Whether the column or a struct around it is named."""
    return any(names[:length] in wanted for length in range(1, len(names) + 1))


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
