"""Conditions as sets of keys."""

from __future__ import annotations

from decimal import Decimal

import pytest

from delvec import predicate
from delvec.predicate.key_sets import key_set
from delvec.schema import Decimal as DecimalType
from delvec.schema import Field, Primitive, Struct

SCHEMA = Struct(
    (
        Field("id", Primitive("long")),
        Field("n", Primitive("integer")),
        Field("s", Primitive("string")),
        Field("b", Primitive("boolean")),
        Field("d", Primitive("date")),
        Field("dec", DecimalType(10, 2)),
        Field("f", Primitive("double")),
        Field("nested", Struct((Field("x", Primitive("long")),))),
    )
)


def keys(text):
    found = key_set(predicate.parse(text, SCHEMA).tree)
    if found is None:
        return None
    table = found.table()
    assert len(found) == len(table)
    return dict(zip(table.column_names, (c.to_pylist() for c in table.columns), strict=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 5", {"id": [5]}),
        ("5 = id", {"id": [5]}),
        ("id = 5.00", {"id": [5]}),
        ("(id) = (5)", {"id": [5]}),
        ("id <=> 5", {"id": [5]}),
        ("id <=> NULL", {"id": [None]}),
        ("id IN (3, 1, 3)", {"id": [3, 1]}),
        ("id IN (3, NULL)", {"id": [3]}),
        ("id IS NULL", {"id": [None]}),
        ("id IN (1, 2) AND id IN (2, 3)", {"id": [2]}),
        ("id IS NULL AND id = 5", {"id": []}),
        ("id = 1.5", {"id": []}),
        ("id IN (1, 2) AND s = 'a'", {"id": [1, 2], "s": ["a", "a"]}),
        ("(id IN (1, 2) AND s IN ('a', 'b')) AND n IS NULL",
         {"id": [1, 2, 1, 2], "s": ["a", "a", "b", "b"], "n": [None] * 4}),
        ("b", {"b": [True]}),
        ("dec = 1.25", {"dec": [Decimal("1.25")]}),
        ("dec IN (1.25, 1.255)", {"dec": [Decimal("1.25")]}),
        ("s = 'é'", {"s": ["é"]}),
        ("f = 1.5D", {"f": [1.5]}),
    ],
)  # fmt: skip
def test_conjunctions_of_literals(text, expected):
    assert keys(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "id = 1 OR id = 2",
        "NOT id = 1",
        "id <> 1",
        "id > 1",
        "id >= 1 AND id <= 1",
        "id BETWEEN 1 AND 1",
        "id IS NOT NULL",
        "NOT b",
        "id = n",
        "id = 1 + 1",
        "id = '1'",
        "id = abs(1)",
        "id = (SELECT 1)",
        "id = 1 AND rand() < 2",
        "s LIKE 'a%'",
        "s IN ('a', upper('b'))",
        "nested.x = 1",
        "nested IS NULL",
        "id = 1 AND nested.x = 1",
        "true",
        "id = NULL",
        "d = '2024-02-30'",
    ],
)
def test_other_conditions_are_none(text):
    assert keys(text) is None


def test_products_are_known():
    def found(text):
        return key_set(predicate.parse(text, SCHEMA).tree)

    assert not found("id IN (1, 2, 3) AND s = 'a'").is_product
    assert found("id IN (1, 2, 3) AND s IN ('a', 'b')").is_product
    many = ", ".join(map(str, range(1000)))
    assert len(found(f"id IN ({many}) AND n IN ({many}) AND dec IN ({many})")) == 10**9
