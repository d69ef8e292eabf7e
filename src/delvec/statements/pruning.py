"""What a query's WHERE says of one table, so that files without a matching row are not opened.

Only conjuncts that are certain to apply to each of the table's rows count: of the same block, on the columns
of that table alone, and not where an outer join could bring rows without them. They must be of the kind that
pruning understands whole, which no row can make fail. The query keeps its WHERE.
"""

from __future__ import annotations

import itertools

from delvec import predicate
from delvec.errors import InvalidOperationError
from delvec.predicate.tree import is_decided
from delvec.schema import Schema
from delvec.spark.session import SessionFacts
from delvec.statements.cursor import Span
from delvec.statements.edits import edited
from delvec.statements.expressions import conjuncts
from delvec.statements.parameters import Parameters
from delvec.statements.qualifiers import short_paths, without_qualifier
from delvec.statements.relations import Relation

_ADDS_NULLS_BEFORE = {"RIGHT", "FULL"}
_INNER = {"INNER", "CROSS", "NATURAL"}


def candidates(relation: Relation) -> list[Span]:
    """The conjuncts of the block's WHERE, where they apply to all rows of the table."""
    block = relation.block
    if block.where is None or block.reshaped or relation.renamed or len(block.joins) != len(block.names):
        return []
    if any(words & _ADDS_NULLS_BEFORE for words in block.joins):
        return []
    return conjuncts(block.where) if block.joins[relation.position] <= _INNER else []


def condition(relation: Relation, schema: Schema, parameters: Parameters, facts: SessionFacts) -> str | None:
    """The candidates that are about the table's columns alone, as one condition."""
    found = []
    for part in candidates(relation):
        text = _of_table(part, relation, schema, parameters)
        if text is not None and _is_understood(text, schema, facts):
            found.append(text)
    return " AND ".join(f"({text})" for text in found) or None


def _of_table(part: Span, relation: Relation, schema: Schema, parameters: Parameters) -> str | None:
    """The conjunct without the table's name before columns; None where it names another relation."""
    shown = relation.shown_as
    others = {name.lower() for name in relation.block.names} - {shown.lower()}
    tokens = part.tokens
    if any(
        token.is_name and token.name.lower() in others and after.is_symbol(".")
        for token, after in itertools.pairwise(tokens)
    ):
        return None
    try:
        edits = parameters.literals(part)
    except InvalidOperationError:  # a value that only Spark knows
        return None
    columns = {field.name.lower() for field in schema}
    edits += without_qualifier(part, shown, columns) + short_paths(tokens)
    return edited(part.source, part.start, part.end, edits)


def _is_understood(text: str, schema: Schema, facts: SessionFacts) -> bool:
    try:
        found = predicate.parse(
            text, schema, case_sensitive=facts.case_sensitive, time_zone=facts.time_zone, ansi=facts.ansi
        )
    except InvalidOperationError:
        return False
    return is_decided(found.tree)
