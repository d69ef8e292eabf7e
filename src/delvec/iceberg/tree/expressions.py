"""Expressions of a table of format version 4: transforms of columns, with ids of the table's field id space.

    "expressions": [{"expr-id": 8, "expr": {"source-id": 2, "transform": "day", "name": "ts_day"},
                     "partition-field-id": 1000}]
    "partition-specs": [{"spec-id": 0, "fields": [{"expr-id": 8}]}]

Fields of several specs with the same transform of the same column share an expression. An identity has the id
of its column, any other expression an id of its own, so statistics are found by one kind of id. Where a field
of a spec has another name or another partition field id than its expression, the field says so itself.
Expressions that no spec uses are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from delvec.errors import FormatError
from delvec.iceberg.json_object import JsonObject
from delvec.iceberg.partitions import Spec, SpecField
from delvec.transforms import IDENTITY, Transform, parse_transform

EXPRESSIONS, EXPR_ID, EXPR = "expressions", "expr-id", "expr"
PARTITION_FIELD_ID, NAME = "partition-field-id", "name"


@dataclass(frozen=True, slots=True)
class Expression:
    """A transform of columns. ``source_ids`` are several if it has several arguments, which delvec keeps but
    cannot compute. ``partition_field_id``: None if no partition spec ever used it.
    """

    expr_id: int
    source_ids: tuple[int, ...]
    transform: Transform
    name: str
    partition_field_id: int | None


def parse_expressions(root: JsonObject) -> dict[int, Expression]:
    """The expressions of a table's metadata by id."""
    expressions: dict[int, Expression] = {}
    for item in root.children(EXPRESSIONS):
        expression = _parse_expression(item)
        if expression.expr_id in expressions:
            raise FormatError(f"expression {expression.expr_id} is listed twice, expected once")
        expressions[expression.expr_id] = expression
    return expressions


def parse_tree_spec(item: JsonObject, expressions: Mapping[int, Expression]) -> Spec:
    """An item of ``partition-specs``, with the fields of its expressions."""
    spec_id = item.number("spec-id")
    fields = [_parse_field(field, spec_id, expressions) for field in item.children("fields")]
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        raise FormatError(
            f"partition spec {spec_id} has fields {', '.join(map(repr, names))}, expected different names"
        )
    return Spec(spec_id, tuple(fields))


def spec_json(spec: Spec) -> dict[str, Any]:
    """A partition spec as versions 2 and 3 have it."""
    return {"spec-id": spec.spec_id, "fields": [_field_json(field) for field in spec.fields]}


def with_expressions(members: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of version 2 or 3 with an expression for each field of all partition specs."""
    result = {**members, EXPRESSIONS: list(members.get(EXPRESSIONS) or []), "partition-specs": []}
    for spec in members.get("partition-specs") or []:
        result, converted = with_spec_expressions(result, spec)
        result["partition-specs"] = [*result["partition-specs"], converted]
    return result


def with_spec_expressions(
    members: Mapping[str, Any], spec: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metadata with the expressions that a spec in the form of version 3 needs, and the spec with their
    ids.
    """
    result = dict(members)
    fields = []
    for field in spec["fields"]:
        expressions = list(result.get(EXPRESSIONS) or [])
        found = next((item for item in expressions if _meaning(item[EXPR]) == _meaning(field)), None)
        if found is None:
            found = _new_expression(field, result)
            result[EXPRESSIONS] = [*expressions, found]
            result["last-column-id"] = max(result.get("last-column-id", 0), found[EXPR_ID])
        fields.append(_reference(found, field))
    return result, {**spec, "fields": fields}


def _parse_expression(item: JsonObject) -> Expression:
    expr_id = item.number(EXPR_ID)
    item = JsonObject(item.members, f"expression {expr_id}")
    expr = item.child(EXPR)
    source_ids = _source_ids(expr)
    text = expr.text("transform")
    transform = (
        parse_transform(text) if len(source_ids) == 1 else Transform(text)
    )  # of several: an unknown one
    if transform == IDENTITY and source_ids != (expr_id,):
        raise FormatError(
            f"{EXPR_ID} of the identity of column {source_ids[0]} is {expr_id}, expected its id"
        )
    # The seed has this id beside the expression, and in one place inside of it.
    field_id = item.number_or_none(PARTITION_FIELD_ID)
    if field_id is None:
        field_id = expr.number_or_none(PARTITION_FIELD_ID)
    return Expression(expr_id, source_ids, transform, expr.text(NAME), field_id)


def _source_ids(expr: JsonObject) -> tuple[int, ...]:
    return tuple(expr.numbers("source-ids")) or (expr.number("source-id"),)


def _parse_field(field: JsonObject, spec_id: int, expressions: Mapping[int, Expression]) -> SpecField:
    expr_id = field.number(EXPR_ID)
    expression = expressions.get(expr_id)
    if expression is None:
        known = ", ".join(map(str, sorted(expressions))) or "none"
        raise FormatError(f"{EXPR_ID} of partition spec {spec_id} is {expr_id}, expected one of {known}")
    field_id = field.number_or_none(PARTITION_FIELD_ID)
    if field_id is None:
        field_id = expression.partition_field_id
    if field_id is None:
        raise FormatError(
            f"expression {expr_id} of partition spec {spec_id} has no {PARTITION_FIELD_ID}, expected a number"
        )
    name = field.text(NAME, expression.name)
    return SpecField(name, field_id, expression.source_ids, expression.transform, expr_id)


def _new_expression(field: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
    sources = _json_sources(field)
    if parse_transform(field["transform"]) == IDENTITY:
        expr_id = sources[0]
    else:
        taken = [item[EXPR_ID] for item in members.get(EXPRESSIONS) or []]
        expr_id = max([members.get("last-column-id", 0), *taken]) + 1
    expr = {**_sources_json(sources), "transform": field["transform"], NAME: field["name"]}
    return {EXPR_ID: expr_id, EXPR: expr, PARTITION_FIELD_ID: field["field-id"]}


def _reference(expression: Mapping[str, Any], field: Mapping[str, Any]) -> dict[str, Any]:
    """The field of a spec that stands for an expression."""
    reference: dict[str, Any] = {EXPR_ID: expression[EXPR_ID]}
    if expression[EXPR][NAME] != field["name"]:
        reference[NAME] = field["name"]
    if expression.get(PARTITION_FIELD_ID) != field["field-id"]:
        reference[PARTITION_FIELD_ID] = field["field-id"]
    return reference


def _meaning(expr: Mapping[str, Any]) -> tuple[Sequence[int], str]:
    return _json_sources(expr), expr["transform"]


def _json_sources(expr: Mapping[str, Any]) -> list[int]:
    return list(expr.get("source-ids") or [expr["source-id"]])


def _sources_json(source_ids: Sequence[int]) -> dict[str, Any]:
    return {"source-id": source_ids[0]} if len(source_ids) == 1 else {"source-ids": list(source_ids)}


def _field_json(field: SpecField) -> dict[str, Any]:
    sources = _sources_json(field.source_ids)
    return {"field-id": field.field_id, **sources, NAME: field.name, "transform": str(field.transform)}
