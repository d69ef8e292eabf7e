"""RETAIN n HOURS: one number or one marker, nothing else."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace

import pytest

from delvec.errors import InvalidOperationError
from delvec.statements import parser, run_maintenance
from delvec.statements.lexer import tokenize
from delvec.statements.parameters import Parameters


def retained(text, args):
    """The hours that a VACUUM statement passes to ``Table.vacuum``."""
    statement = f"VACUUM delta.`/x` RETAIN {text} HOURS"
    parsed = parser.parse(statement, lambda _: True)
    hours = []

    def vacuum(given, **_):
        hours.append(given)
        return SimpleNamespace(location="/x")

    frames = SimpleNamespace(
        parameters=Parameters(statement, tokenize(statement), args),
        spark=SimpleNamespace(
            conf=SimpleNamespace(get=lambda *_: "true"), createDataFrame=lambda rows, _: rows
        ),
        tables=SimpleNamespace(of=lambda _: SimpleNamespace(vacuum=vacuum)),
    )
    run_maintenance.vacuum(frames, parsed)
    return hours


@pytest.mark.parametrize(
    ("text", "args", "hours"),
    [
        ("168", None, 168),
        ("1.5", None, 1.5),
        (":d", {"d": 7}, 7),
        ("?", [0.5], 0.5),
        (":d", {"d": Decimal("2.5")}, 2.5),
    ],
)
def test_hours(text, args, hours):
    assert retained(text, args) == [hours]


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("24 * :d", {"d": 7}),
        ("-:d", {"d": 7}),
        ("- 1", None),
        ("24 * 7", None),
        ("1 6 8", None),
        ("1_0", None),
        ("10L", None),
        ("٣", None),
        ("'7'", None),
        (":d", {"d": True}),
        (":d", {"d": "7"}),
        (":d", {"d": None}),
        (":d", {"d": Decimal("sNaN")}),
    ],
)
def test_what_is_no_number_is_refused(text, args):
    with pytest.raises(InvalidOperationError, match=r"RETAIN is .*, expected a number of hours"):
        retained(text, args)
