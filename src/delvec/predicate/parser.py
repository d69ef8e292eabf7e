"""Parses Spark SQL text into the tree of ``delvec.predicate.tree``. Parts without a certain meaning are
``Undecided`` there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError

from delvec.errors import InvalidOperationError
from delvec.predicate.binding import Column, Names, name_parts
from delvec.predicate.comparison import Point, place, place_all
from delvec.predicate.literals import Literal, Reading, read_literal
from delvec.predicate.settings import SPARK_DEFAULTS, SqlSettings
from delvec.predicate.tree import (
    UNDECIDED,
    Among,
    And,
    Compare,
    Constant,
    Is,
    IsNull,
    Node,
    Not,
    Or,
    StartsWith,
)
from delvec.schema import Primitive, is_string

_SparkParser: Any = Spark.Parser
_WILDCARD = re.compile("[%_]")


class ConditionParser(_SparkParser):  # type: ignore[misc]
    """sqlglot's parser for Spark that keeps calls and names as they are written.

    The full parser turns some calls into operators, sometimes with operands in the wrong order, and does not
    read some names as columns (``list[0]``, ``current_date``).
    """

    FUNCTIONS: ClassVar = {name: _SparkParser.FUNCTIONS[name] for name in ("STARTSWITH", "DATE", "DOUBLE")}
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}


class _DoubleQuotedNames(Spark):
    """Spark's grammar in which ``"y"`` is a name. ``r"y"`` stays a string."""

    class Tokenizer(Spark.Tokenizer):
        QUOTES: ClassVar = ["'"]
        IDENTIFIERS: ClassVar = ["`", '"']


def dialect(settings: SqlSettings) -> Spark:
    """Spark's grammar under these settings."""
    return _DoubleQuotedNames() if settings.double_quoted_names else Spark()


def parse_expression(text: str, settings: SqlSettings = SPARK_DEFAULTS) -> exp.Expr:
    """The syntax tree of the text, which must be exactly one expression."""
    if not text.strip():
        raise InvalidOperationError("the condition is empty, expected an expression such as `id = 5`")
    grammar = dialect(settings)
    try:
        tokens = grammar.tokenize(text)
        trees = ConditionParser(dialect=grammar).parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        raise _syntax_error(text, error) from error
    except RecursionError as error:
        raise _too_deep() from error
    except Exception as error:  # sqlglot may raise any error for text that is not SQL
        raise InvalidOperationError(f"the condition {text!r} cannot be parsed: {error}") from error
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        raise InvalidOperationError(f"the condition {text!r} contains a semicolon, expected one expression")
    if len(trees) != 1 or trees[0] is None or isinstance(trees[0], exp.Command):
        raise InvalidOperationError(f"the condition {text!r} cannot be parsed, expected one expression")
    tree: exp.Expr = trees[0]
    return tree


def translate(tree: exp.Expr, names: Names, reading: Reading) -> Node:
    """The tree of the condition. All its names must be resolvable."""
    try:
        return _Translation(names, reading).node(tree)
    except RecursionError as error:
        raise _too_deep() from error


@dataclass(frozen=True, slots=True)
class _Translation:
    names: Names
    reading: Reading

    def node(self, tree: exp.Expr) -> Node:
        tree = tree.unnest()
        translator = _TRANSLATORS.get(type(tree))
        if translator is not None and _is_plain(tree):
            return translator(self, tree)
        return UNDECIDED

    def column(self, tree: exp.Expr) -> Column | None:
        parts = name_parts(tree.unnest())
        if parts is None or not self.names.schema.find(parts[0], case_sensitive=self.names.case_sensitive):
            return None
        return self.names.resolve(parts)

    def comparable(self, tree: exp.Expr) -> Column | None:
        column = self.column(tree)
        return column if column is not None and column.comparable else None

    def point(self, column: Column, literal: Literal) -> Point | None:
        return None if column.type is None else place(literal, column.type, self.reading)

    def constant(self, tree: exp.Expr) -> Node:
        return Constant(tree.this if isinstance(tree, exp.Boolean) else None)

    def connective(self, tree: exp.Expr) -> Node:
        operands = tuple(self.node(operand) for operand in tree.flatten())
        return And(operands) if isinstance(tree, exp.And) else Or(operands)

    def negation(self, tree: exp.Expr) -> Node:
        return Not(self.node(tree.this))

    def bare_column(self, tree: exp.Expr) -> Node:
        column = self.comparable(tree)
        if column is None or column.type != Primitive("boolean"):
            return UNDECIDED
        return Compare(column, Point(value=True), equal=True)

    def comparison(self, tree: exp.Expr) -> Node:
        sides = _SIDES[type(tree)]
        left, right = (read_literal(side, self.reading) for side in (tree.this, tree.expression))
        if left is not None and right is not None and left.kind == right.kind == "integer":
            return _of_integers(left.value, right.value, tree)
        column, literal = self.comparable(tree.this), right
        if column is None:
            column, literal, sides = self.comparable(tree.expression), left, sides[::-1]
        if column is None or literal is None:
            return UNDECIDED
        null_safe = isinstance(tree, exp.NullSafeEQ | exp.NullSafeNEQ)
        if literal.kind == "null":
            node: Node = IsNull(column) if null_safe else Constant(None)
            return Not(node) if isinstance(tree, exp.NullSafeNEQ) else node
        point = self.point(column, literal)
        if point is None:
            return UNDECIDED
        compare = Compare(column, point, *sides, null_safe=null_safe)
        return Not(compare) if isinstance(tree, exp.NullSafeNEQ) else compare

    def between(self, tree: exp.Expr) -> Node:
        low = exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
        high = exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
        return And((self.comparison(low), self.comparison(high)))

    def among(self, tree: exp.Expr) -> Node:
        column = self.comparable(tree.this)
        literals = [read_literal(item, self.reading) for item in tree.expressions]
        if column is None or column.type is None or not literals:
            return UNDECIDED
        certain = [literal for literal in literals if literal is not None]
        values = [literal for literal in certain if literal.kind != "null"]
        points = place_all(values, column.type, self.reading)
        if len(certain) < len(literals) or points is None:
            return UNDECIDED
        return Among(column, tuple(points), with_null=len(values) < len(certain))

    def test(self, tree: exp.Expr) -> Node:
        right = tree.expression
        if not isinstance(right, exp.Null | exp.Boolean):
            return UNDECIDED
        value = right.this if isinstance(right, exp.Boolean) else None
        column = self.column(tree.this)
        if column is not None and value is None:
            return IsNull(column) if _has_null_count(column) else UNDECIDED
        return Is(self.node(tree.this), value)

    def like(self, tree: exp.Expr) -> Node:
        column, pattern = self._text_operands(tree)
        if column is None or pattern is None:
            return UNDECIDED
        prefix = _WILDCARD.split(pattern, maxsplit=1)[0]
        node: Node = StartsWith(column, prefix, whole=pattern == prefix + "%")
        if prefix == pattern:
            node = Compare(column, Point(pattern), equal=True)
        return Not(node) if tree.args.get("negate") else node

    def starts_with(self, tree: exp.Expr) -> Node:
        column, prefix = self._text_operands(tree)
        return UNDECIDED if column is None or prefix is None else StartsWith(column, prefix, whole=True)

    def _text_operands(self, tree: exp.Expr) -> tuple[Column | None, str | None]:
        column, literal = self.comparable(tree.this), read_literal(tree.expression, self.reading)
        if column is None or not is_string(column.type):
            return None, None
        return column, literal.value if literal is not None and literal.kind == "string" else None


# Whether the comparison is true if its left side is below, equal to, above its right side.
_SIDES: Mapping[type[exp.Expr], tuple[bool, bool, bool]] = MappingProxyType(
    {
        exp.EQ: (False, True, False),
        exp.NullSafeEQ: (False, True, False),
        exp.NullSafeNEQ: (False, True, False),  # negated by the caller
        exp.NEQ: (True, False, True),
        exp.LT: (True, False, False),
        exp.LTE: (True, True, False),
        exp.GT: (False, False, True),
        exp.GTE: (False, True, True),
    }
)

_TRANSLATORS: Mapping[type[exp.Expr], Callable[[_Translation, exp.Expr], Node]] = MappingProxyType(
    {
        exp.And: _Translation.connective,
        exp.Or: _Translation.connective,
        exp.Not: _Translation.negation,
        exp.Boolean: _Translation.constant,
        exp.Null: _Translation.constant,
        exp.Column: _Translation.bare_column,
        exp.Dot: _Translation.bare_column,
        exp.Between: _Translation.between,
        exp.In: _Translation.among,
        exp.Is: _Translation.test,
        exp.Like: _Translation.like,
        exp.StartsWith: _Translation.starts_with,
        **dict.fromkeys(_SIDES, _Translation.comparison),
    }
)


def _of_integers(left: int, right: int, tree: exp.Expr) -> Node:
    answer = _SIDES[type(tree)][(left > right) - (left < right) + 1]
    return Constant(answer != isinstance(tree, exp.NullSafeNEQ))


_OPERANDS = frozenset(("this", "expression", "expressions", "low", "high"))
_NAME = frozenset(("this", "table", "db", "catalog", "expression"))


def _is_plain(tree: exp.Expr) -> bool:
    """Whether the node has only operands, and no flag that could change its meaning."""
    operands = _OPERANDS
    if isinstance(tree, exp.Column | exp.Dot):
        operands = _NAME
    elif isinstance(tree, exp.Like):
        operands = _OPERANDS | {"negate"}
    return all(name in operands for name, value in tree.args.items() if value)


def _has_null_count(column: Column) -> bool:
    # Nulls of structs are not counted, and a value inside an array is not one value per row.
    return column.comparable or is_string(column.type)


def _syntax_error(text: str, error: ParseError) -> InvalidOperationError:
    if not error.errors:
        return InvalidOperationError(f"the condition {text!r} cannot be parsed: {error}")
    first = error.errors[0]
    # If an operand is missing, sqlglot's message names one of its classes.
    description = str(first.get("description"))
    problem = "an operand is missing" if "<class" in description else description
    before, highlighted, after = (
        first.get(part) or "" for part in ("start_context", "highlight", "end_context")
    )
    return InvalidOperationError(
        f"syntax error in the condition at line {first.get('line')}, column {first.get('col')}: "
        f"{before}⟦{highlighted}⟧{after} ({problem})"
    )


def _too_deep() -> InvalidOperationError:
    return InvalidOperationError("the condition is nested too deeply to be parsed")
