"""Resolves names in a condition to columns of a schema, as Spark does.

``a.b`` is the field ``b`` of the column ``a``. A column whose name contains a dot needs backquotes. A
condition is about one table, so names qualified by a table are not supported here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from sqlglot import exp

from delvec.errors import InvalidOperationError
from delvec.file_facts import ColumnPath
from delvec.schema import (
    PRIMITIVES,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Schema,
    Struct,
    Text,
    is_string,
)

_COMPARABLE = PRIMITIVES.keys() - {
    *("void", "variant", "time", "uuid", "timestamp_ns", "timestamp_ntz_ns", "geometry", "geography")
}
_NAMES_SHOWN = 20

# Spark reads these names as functions if no column has the name.
_NAMED_FUNCTION = re.compile(
    "current_(date|timestamp|time|user|catalog|database|schema|timezone)|session_user|user|"
    "localtimestamp|grouping__id"
)
# Keywords that date functions take as an argument: timestampadd(HOUR, 1, t).
_UNIT = re.compile("(year|quarter|month|week|day|dayofyear|hour|minute|second|millisecond|microsecond)s?")


@dataclass(frozen=True, slots=True)
class Column:
    """A column or a field of one.

    ``path`` is in the schema's spelling and ends at an array or a map. ``type`` is None for a value inside of
    one. ``comparable``: values compare by their type alone, without collation or padding.
    """

    path: ColumnPath
    type: DataType | None
    comparable: bool


@dataclass(frozen=True, slots=True)
class Names:
    """Looks up names in ``schema``. ``text`` is the condition, for errors."""

    schema: Schema
    case_sensitive: bool
    text: str

    def resolve(self, parts: Sequence[str]) -> Column:
        """The column with the name ``parts``, outermost first. Refuses unknown and ambiguous names."""
        fields: list[Field] = []
        struct: Struct = self.schema
        for depth, name in enumerate(parts):
            matches = struct.find(name, case_sensitive=self.case_sensitive)
            if not matches:
                raise self._unknown(parts, depth, fields, struct)
            if len(matches) > 1:
                raise self._ambiguous(parts, depth, [f.name for f in matches])
            fields.append(matches[0])
            kind = matches[0].type
            if depth + 1 == len(parts):
                return Column(tuple(f.name for f in fields), kind, _is_comparable(fields))
            if isinstance(kind, Array | Map) or kind == Primitive("variant"):
                return Column(tuple(f.name for f in fields), None, comparable=False)
            if not isinstance(kind, Struct):
                raise self._not_a_struct(parts, depth, kind)
            struct = kind
        raise InvalidOperationError(f"a column without a name in the condition {self.text!r}")

    def _unknown(
        self, parts: Sequence[str], depth: int, fields: Sequence[Field], struct: Struct
    ) -> InvalidOperationError:
        problem = f"unknown column {quoted(parts)}"
        if fields:
            problem += f" (no field {quoted([parts[depth]])} in {quoted([f.name for f in fields])})"
        suggestions = nearest(parts[depth], [f.name for f in struct])
        return InvalidOperationError(
            f"{problem} in the condition {self.text!r}: expected one of {suggestions}"
        )

    def _ambiguous(self, parts: Sequence[str], depth: int, names: Sequence[str]) -> InvalidOperationError:
        candidates = ", ".join(quoted([name]) for name in names)
        return InvalidOperationError(
            f"ambiguous column {quoted(parts)} in the condition {self.text!r}: "
            f"{quoted([parts[depth]])} may be {candidates}; names are compared ignoring case"
        )

    def _not_a_struct(self, parts: Sequence[str], depth: int, kind: DataType) -> InvalidOperationError:
        return InvalidOperationError(
            f"unknown column {quoted(parts)} in the condition {self.text!r}: "
            f"{quoted(parts[: depth + 1])} is of type {kind}, expected a struct with a field "
            f"{quoted([parts[depth + 1]])} (a name with a dot in it needs backquotes)"
        )


def referenced(tree: exp.Expr, names: Names) -> frozenset[ColumnPath]:
    """All columns that ``tree`` names, also in parts that decide nothing.

    In a subquery, a name may belong to another table: names that cannot be resolved are left out there.
    """
    columns: set[ColumnPath] = set()
    pending: list[tuple[exp.Expr, frozenset[str], bool]] = [(tree, frozenset(), True)]
    while pending:
        node, variables, strict = pending.pop()
        if isinstance(node, exp.Lambda):
            variables |= {variable.name.lower() for variable in node.expressions}
            pending.append((node.this, variables, strict))
            continue
        parts = name_parts(node)
        if parts is None:
            inner = strict and not isinstance(node, exp.Query)
            pending.extend((child, variables, inner) for child in _children(node))
        elif not (parts[0].lower() in variables or _is_keyword(node, parts, names)):
            try:
                columns.add(names.resolve(parts).path)
            except InvalidOperationError:
                if strict:
                    raise
    return frozenset(columns)


def name_parts(node: exp.Expr) -> list[str] | None:
    """The parts of the column name ``node``; None if the node is not a column name."""
    outer: list[str] = []
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        outer.append(node.expression.name)
        node = node.this
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    return [part.name for part in node.parts] + outer[::-1]


def quoted(parts: Iterable[str]) -> str:
    """A name in SQL: ```a`.`b```."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def _children(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier):
        yield node.expression  # schema.function(…): the schema before the dot is not a column
    elif isinstance(node, exp.Column):
        return  # a star: t.*
    else:
        yield from node.iter_expressions()


def _is_keyword(node: exp.Expr, parts: Sequence[str], names: Names) -> bool:
    """Whether the name is a keyword or function of Spark: one unquoted part that no column is named."""
    if len(parts) > 1 or node.this.args.get("quoted"):
        return False
    if names.schema.find(parts[0], case_sensitive=names.case_sensitive):
        return False
    word = parts[0].lower()
    if _NAMED_FUNCTION.fullmatch(word):
        return True
    return _UNIT.fullmatch(word) is not None and isinstance(node.parent, exp.Func)


def _is_comparable(fields: Sequence[Field]) -> bool:
    kind = fields[-1].type
    if not (isinstance(kind, Decimal) or (isinstance(kind, Primitive) and kind.name in _COMPARABLE)):
        return False
    if not is_string(kind):
        return True
    if isinstance(kind, Text) and kind.padded:
        return False
    return not any(field.collated for field in fields)  # a struct may be marked for its fields


def nearest(name: str, candidates: Sequence[str]) -> str:
    """The candidates as an error shows them: the most similar ones first, and not too many."""

    def distance(candidate: str) -> float:
        return -SequenceMatcher(None, name.lower(), candidate.lower()).ratio()

    first = sorted(candidates, key=distance)[:_NAMES_SHOWN]
    more = len(candidates) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
