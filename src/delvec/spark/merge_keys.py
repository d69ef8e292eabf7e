"""Which target rows a MERGE can match, derived from the text of ON and the range of the source's keys.

    ON                          condition on a target row
    target.id = source.id       `id` BETWEEN 5 AND 90: the least and the greatest id of the source
    target.id <=> source.id     (`id` BETWEEN 5 AND 90 OR `id` IS NULL), if the source has a null
    target.p = 'x'              `p` = 'x'

Only conjuncts of these forms are used, and only if both sides are integers, both strings or both dates:
Spark compares these without a cast. The other conjuncts of ON can only exclude more rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyspark.sql import types as spark
from sqlglot import exp

from delvec.declared_types import is_collated
from delvec.errors import InvalidOperationError
from delvec.predicate.binding import Names, name_parts
from delvec.predicate.condition import is_readable
from delvec.predicate.date_times import iso_day
from delvec.predicate.literals import Reading, read_literal
from delvec.predicate.parser import parse_expression
from delvec.predicate.settings import SqlSettings
from delvec.schema import Field, Primitive, Schema, Struct
from delvec.spark.types import quoted, spark_type

ROWS = "rows"
"""The name under which the number of source rows is observed."""

NO_ROW = "false"
"""The condition that no row satisfies."""

_INTEGER, _STRING, _DATE = "integer", "string", "date"
_KINDS = MappingProxyType(
    dict.fromkeys(("byte", "short", "integer", "long"), _INTEGER) | {"string": _STRING, "date": _DATE}
)
_SPARK_TYPES = MappingProxyType({spark_type(Primitive(name)): Primitive(name) for name in _KINDS})

# Bounds are observed as numbers or texts, because Python cannot represent every date of Spark.
_OBSERVED = MappingProxyType({_INTEGER: "CAST({} AS BIGINT)", _STRING: "{}", _DATE: "unix_date({})"})

# The longest prefix of a text that is the same literal under all settings. U+FFFD is excluded: it may replace
# bytes that are not UTF-8, which Spark orders differently.
_PLAIN = re.compile(r"""[^'"\\$\x00-\x1f\ufffd]{0,200}""")

_OPERATORS: Mapping[type[exp.Expr], tuple[str, str]] = MappingProxyType(
    {
        exp.EQ: ("=", "="),
        exp.LT: ("<", ">"),
        exp.LTE: ("<=", ">="),
        exp.GT: (">", "<"),
        exp.GTE: (">=", "<="),
    }
)
"""The operator if the column is on the left side, and if it is on the right side."""


@dataclass(frozen=True, slots=True)
class Key:
    """A conjunct of ON: these two columns, in their schemas' spelling, are equal. ``null_safe``: null equals
    null.
    """

    target: str
    source: str
    kind: str
    null_safe: bool = False


@dataclass(frozen=True, slots=True)
class Matching:
    """The conditions of ON on a target row. ``limits`` are conditions on its columns alone. ``cannot_fail``:
    ON has no other conjunct, so it raises no error for any row.
    """

    keys: tuple[Key, ...] = ()
    limits: tuple[str, ...] = ()
    cannot_fail: bool = False

    def observed(self) -> list[str]:
        """The aggregates over the source that ``condition`` needs, as Spark SQL."""
        aggregates = [f"count(1) AS {ROWS}"]
        for number, key in enumerate(self.keys):
            for bound in ("min", "max"):
                value = _OBSERVED[key.kind].format(f"{bound}({quoted(key.source)})")
                aggregates.append(f"{value} AS {bound}{number}")
            if key.null_safe:
                aggregates.append(f"count_if({quoted(key.source)} IS NULL) AS nulls{number}")
        return aggregates

    def condition(self, values: Mapping[str, Any]) -> str | None:
        """A condition that every matching target row satisfies, from the observed ``values``; None: any row
        may match.

        A key that is null in all source rows matches nothing, unless null equals null.
        """
        if not values[ROWS]:
            return NO_ROW
        parts = list(self.limits)
        for number, key in enumerate(self.keys):
            low, high, nulls = (values.get(f"{name}{number}") for name in ("min", "max", "nulls"))
            if low is None and not nulls:
                return NO_ROW
            ranges = [] if low is None else _range(key, low, high)
            if nulls:
                is_null = f"{quoted(key.target)} IS NULL"
                ranges = [is_null] if low is None else [f"({one} OR {is_null})" for one in ranges]
            parts += ranges
        return " AND ".join(parts) or None


@dataclass(frozen=True, slots=True)
class Sides:
    """The target and the source of a MERGE, to resolve the names in ON."""

    target: Schema
    target_alias: str
    source: Schema
    source_alias: str
    settings: SqlSettings

    def matching(self, on: str) -> Matching:
        """The conditions in ON that certainly apply to target rows. Spark must have analysed ON before."""
        if "\\" in on or not is_readable(on, self.settings):
            return Matching()
        try:
            tree = parse_expression(on, self.settings)
        except InvalidOperationError:  # text that only Spark understands
            return Matching()
        reading = Reading.of(on, self.settings)
        keys, limits, cannot_fail = [], [], True
        for part in _conjuncts(tree):
            key, limit = self._key(part), self._limit(part, reading)
            if key is not None:
                keys.append(key)
            if limit is not None:
                limits.append(limit)
            cannot_fail &= key is not None or limit is not None
        return Matching(tuple(dict.fromkeys(keys)), tuple(limits), cannot_fail)

    def _key(self, part: exp.Expr) -> Key | None:
        if not isinstance(part, exp.EQ | exp.NullSafeEQ):
            return None
        fields = {side: field for side, field in map(self._column, (part.this, part.expression)) if field}
        if len(fields) < 2:
            return None
        target, source = fields[self.target_alias], fields[self.source_alias]
        kinds = {_kind(target), _kind(source)}
        kind = kinds.pop()
        if kinds or kind is None:
            return None
        return Key(target.name, source.name, kind, null_safe=isinstance(part, exp.NullSafeEQ))

    def _limit(self, part: exp.Expr, reading: Reading) -> str | None:
        """A comparison of a target column with a literal of its kind."""
        if type(part) not in _OPERATORS:
            return None
        sides = (part.this, part.expression)
        for operator, column, other in zip(_OPERATORS[type(part)], sides, sides[::-1], strict=True):
            side, field = self._column(column)
            literal = read_literal(other, reading)
            if side == self.target_alias and field and literal and literal.kind == _kind(field):
                text = _literal(literal.kind, literal.value)
                return None if text is None else f"{quoted(field.name)} {operator} {text}"
        return None

    def _column(self, node: exp.Expr) -> tuple[str, Field | None]:
        """The alias of the side and the top-level column that ``node`` names; None if the column is not
        certain.

        As in Spark, a first part that is an alias is a qualifier. A name without a qualifier must be in
        exactly one of the two sides.
        """
        parts = name_parts(node.unnest()) or []
        sides = [(self.target_alias, self.target), (self.source_alias, self.source)]
        if len(parts) == 2:
            sides = [side for side in sides if self._same(side[0], parts[0])]
        elif len(parts) != 1:
            return "", None
        candidates = [
            (alias, field)
            for alias, schema in sides
            for field in schema.find(parts[-1], case_sensitive=self.settings.case_sensitive)
        ]
        return candidates[0] if len(candidates) == 1 else ("", None)

    def _same(self, name: str, other: str) -> bool:
        return name == other if self.settings.case_sensitive else name.lower() == other.lower()


def source_schema(struct: spark.StructType) -> Schema:
    """The source's columns. A column whose type cannot be a key has the type void."""
    return Struct(
        tuple(
            Field(
                f.name,
                _SPARK_TYPES.get(f.dataType, Primitive("void")),
                collated=is_collated(f.metadata or {}),
            )
            for f in struct
        )
    )


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    pending = [tree]
    while pending:
        node = pending.pop().unnest()
        if isinstance(node, exp.And):
            pending += [node.expression, node.this]
        else:
            yield node


def _kind(field: Field) -> str | None:
    """How values of the column compare; None if they do not compare by value alone (collations, padding)."""
    column = Names(Struct((field,)), case_sensitive=True, text=field.name).resolve([field.name])
    name = field.type.name if isinstance(field.type, Primitive) else ""
    return _KINDS.get(name) if column.comparable else None


def _range(key: Key, low: Any, high: Any) -> Sequence[str]:
    """The condition that a target column is between two values. A bound that cannot be a literal is weakened
    or left out.
    """
    name = quoted(key.target)
    least, greatest = _literal(key.kind, low), _literal(key.kind, high)
    if least is None and key.kind == _STRING:
        least = f"'{_plain(low)}'"  # a text is never less than its prefix
    if least is not None and greatest is not None:
        return [f"{name} BETWEEN {least} AND {greatest}"]
    if least is not None:
        return [f"{name} >= {least}"]
    return [] if greatest is None else [f"{name} <= {greatest}"]


def _literal(kind: str, value: Any) -> str | None:
    """The value as Spark SQL that has one meaning under all settings; None if there is none."""
    if kind == _INTEGER:
        return str(int(value))
    if kind == _STRING:
        return f"'{value}'" if _plain(value) == value else None
    try:
        return f"DATE'{iso_day(value)}'"
    except OverflowError:  # the year does not have four digits
        return None


def _plain(text: str) -> str:
    match = _PLAIN.match(text)
    return match.group() if match else ""
