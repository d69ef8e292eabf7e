"""Names in a condition, bound to the columns of a schema as Spark binds them.

``a.b`` is the field ``b`` of the column ``a``; a column whose own name holds a dot needs backquotes.
Names qualified by a table are not known here: the conditions of one table have no need of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from sqlglot import exp

from delvec.declared_types import CHAR_OR_VARCHAR
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

_COLLATIONS = "__COLLATIONS"
_CHAR = re.compile(r"(?<!var)char\(")

_COMPARABLE = PRIMITIVES.keys() - {"void", "variant", "time", "uuid", "timestamp_ns", "timestamp_ntz_ns"}
_NAMES_SHOWN = 20

# Spark reads these names as functions where no column has them.
_NAMED_FUNCTION = re.compile(
    "current_(date|timestamp|time|user|catalog|database|schema|timezone)|session_user|user|"
    "localtimestamp|grouping__id"
)
# Words that functions of dates take in the place of an argument: timestampadd(HOUR, 1, t).
_UNIT = re.compile("(year|quarter|month|week|day|dayofyear|hour|minute|second|millisecond|microsecond)s?")


@dataclass(frozen=True, slots=True)
class Column:
    """A column or a field of one.

    ``path`` is in the schema's spelling and ends where an array or a map begins. ``type`` is None
    for what lies inside one of these. ``comparable`` says that values compare by their type alone:
    no collation, no padding.
    """

    path: ColumnPath
    type: DataType | None
    comparable: bool


@dataclass(frozen=True, slots=True)
class Names:
    """How names are looked up: the schema, case sensitivity, and the text to show in errors."""

    schema: Schema
    case_sensitive: bool
    text: str

    def resolve(self, parts: Sequence[str]) -> Column:
        """The column that ``parts`` name, outermost first; refuses unknown and ambiguous names."""
        fields: list[Field] = []
        inside: Struct = self.schema
        for depth, name in enumerate(parts):
            found = inside.find(name, case_sensitive=self.case_sensitive)
            if not found:
                raise self._unknown(parts, depth, fields, inside)
            if len(found) > 1:
                raise self._ambiguous(parts, depth, [f.name for f in found])
            fields.append(found[0])
            kind = found[0].type
            if depth + 1 == len(parts):
                return Column(tuple(f.name for f in fields), kind, _is_comparable(fields))
            if isinstance(kind, Array | Map) or kind == Primitive("variant"):
                return Column(tuple(f.name for f in fields), None, comparable=False)
            if not isinstance(kind, Struct):
                raise self._no_struct(parts, depth, kind)
            inside = kind
        raise InvalidOperationError(f"a column without a name in the condition {self.text!r}")

    def _unknown(
        self, parts: Sequence[str], depth: int, fields: Sequence[Field], inside: Struct
    ) -> InvalidOperationError:
        what = f"unknown column {quoted(parts)}"
        if fields:
            what += f" (no field {quoted([parts[depth]])} in {quoted([f.name for f in fields])})"
        near = nearest(parts[depth], [f.name for f in inside])
        return InvalidOperationError(f"{what} in the condition {self.text!r}: expected one of {near}")

    def _ambiguous(self, parts: Sequence[str], depth: int, found: Sequence[str]) -> InvalidOperationError:
        candidates = ", ".join(quoted([name]) for name in found)
        return InvalidOperationError(
            f"ambiguous column {quoted(parts)} in the condition {self.text!r}: "
            f"{quoted([parts[depth]])} may be {candidates}; names are compared ignoring case"
        )

    def _no_struct(self, parts: Sequence[str], depth: int, kind: DataType) -> InvalidOperationError:
        return InvalidOperationError(
            f"unknown column {quoted(parts)} in the condition {self.text!r}: "
            f"{quoted(parts[: depth + 1])} is of type {kind}, expected a struct with a field "
            f"{quoted([parts[depth + 1]])} (a name with a dot in it needs backquotes)"
        )


def referenced(tree: exp.Expr, names: Names) -> frozenset[ColumnPath]:
    """Every column that ``tree`` names, in parts that are understood and in others.

    Inside a subquery a name may be another table's: there, what cannot be bound is left out.
    """
    found: set[ColumnPath] = set()
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
        elif not (parts[0].lower() in variables or _is_word(node, parts, names)):
            try:
                found.add(names.resolve(parts).path)
            except InvalidOperationError:
                if strict:
                    raise
    return frozenset(found)


def name_parts(node: exp.Expr) -> list[str] | None:
    """The parts of the name that ``node`` is, or None where it is something else."""
    outer: list[str] = []
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        outer.append(node.expression.name)
        node = node.this
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    return [part.name for part in node.parts] + outer[::-1]


def quoted(parts: Iterable[str]) -> str:
    """A name as one writes it in SQL: ```a`.`b```."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def _children(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier):
        yield node.expression  # schema.function(…): what is before the dot is no column
    elif isinstance(node, exp.Column):
        return  # a star: t.*
    else:
        yield from node.iter_expressions()


def _is_word(node: exp.Expr, parts: Sequence[str], names: Names) -> bool:
    """Whether an unquoted single name that no column has is a word of Spark's own."""
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
    # Both notes may stand on an enclosing field, about the ones inside.
    return not any(
        _COLLATIONS in f.metadata or _CHAR.search(str(f.metadata.get(CHAR_OR_VARCHAR, "")).lower())
        for f in fields
    )


def nearest(name: str, candidates: Sequence[str]) -> str:
    """The candidates, those most like ``name`` first, as far as an error shows them."""

    def distance(candidate: str) -> float:
        return -SequenceMatcher(None, name.lower(), candidate.lower()).ratio()

    shown = sorted(candidates, key=distance)[:_NAMES_SHOWN]
    more = len(candidates) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
