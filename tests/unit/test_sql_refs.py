"""ALTER TABLE … CREATE and DROP of branches and tags: how they are parsed."""

from __future__ import annotations

import pytest

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.ref_changes import IfExists, NewRef, RefRetention
from delvec.statements.parser import parse
from delvec.statements.statement import CreateRef, DropFeature, DropRef, Other

DAY_MS, HOUR_MS, MINUTE_MS = 86_400_000, 3_600_000, 60_000


def parsed(text):
    return parse(text, lambda name: name.parts[0] == "t")


def of(statement):
    """The parts of a CREATE that are not its table."""
    assert isinstance(statement, CreateRef)
    durations = [
        duration and (duration.number.text, duration.unit_ms)
        for duration in (statement.max_ref_age, statement.max_version_age)
    ]
    texts = [span and span.text for span in (statement.version, statement.min_versions)]
    return statement.kind, statement.name, statement.if_exists, *texts, *durations


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_create(kind):
    word = kind.upper()
    for text, if_exists in (
        (f"CREATE {word} b", IfExists.REFUSE),
        (f"create {kind} if not exists b", IfExists.KEEP),
        (f"CREATE OR REPLACE {word} b", IfExists.REPLACE),
        (f"REPLACE {word} b", IfExists.MUST_REPLACE),
    ):
        nothing = (None, None, None, None)
        assert of(parsed(f"ALTER TABLE t {text}")) == (kind, "b", if_exists, *nothing)
        assert of(parsed(f"ALTER TABLE t {text} AS OF VERSION 7;")) == (
            kind,
            "b",
            if_exists,
            "7",
            *nothing[1:],
        )
    statement = parsed(f"ALTER TABLE t CREATE {word} `b-1` AS OF VERSION :v RETAIN :n HOURS")
    assert of(statement) == (kind, "b-1", IfExists.REFUSE, ":v", None, (":n", HOUR_MS), None)


def test_retention_of_a_branch():
    start = "ALTER TABLE t CREATE BRANCH b"
    for text, ref, least, age in (
        ("RETAIN 7 DAYS", ("7", DAY_MS), None, None),
        ("WITH SNAPSHOT RETENTION 3 SNAPSHOTS", None, "3", None),
        ("WITH SNAPSHOT RETENTION 30 MINUTES", None, None, ("30", MINUTE_MS)),
        ("RETAIN 1 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 HOURS", ("1", DAY_MS), "3", ("2", HOUR_MS)),
    ):
        found = of(parsed(f"{start} AS OF VERSION 5 {text}"))
        assert found == ("branch", "b", IfExists.REFUSE, "5", least, ref, age)
        assert of(parsed(f"{start} {text}"))[4:] == (least, ref, age)


def test_drop():
    statement = parsed("ALTER TABLE t DROP BRANCH IF EXISTS b")
    assert isinstance(statement, DropRef)
    assert (statement.table.parts, statement.name) == (("t",), "b")
    assert (statement.kind, statement.if_exists) == ("branch", True)
    statement = parsed("ALTER TABLE t DROP TAG b")
    assert (statement.kind, statement.if_exists) == ("tag", False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("CREATE BRANCH", "expected the name of a branch"),
        ("CREATE OR REPLACE TAG IF NOT EXISTS b", "expected AS OF VERSION, RETAIN or the end"),
        ("CREATE BRANCH b AS OF VERSION", "found nothing more"),
        ("CREATE BRANCH b AS OF TIMESTAMP '2024-01-01'", "found 'AS', expected AS OF VERSION, RETAIN, WITH"),
        ("CREATE BRANCH b RETAIN", "expected a whole number"),
        ("CREATE BRANCH b RETAIN 3", "expected DAYS, HOURS or MINUTES"),
        ("CREATE BRANCH b RETAIN 3 WEEKS", "found 'WEEKS', expected DAYS"),
        ("CREATE BRANCH b WITH SNAPSHOT RETENTION", "expected a whole number"),
        ("CREATE BRANCH b WITH SNAPSHOT RETENTION 2 DAYS 3 SNAPSHOTS", "found '3', expected"),
        (
            "CREATE TAG b WITH SNAPSHOT RETENTION 2 DAYS",
            "found 'WITH', expected AS OF VERSION, RETAIN or the",
        ),
        ("DROP BRANCH", "expected the name of a branch"),
        ("DROP BRANCH b c", "found 'c', expected the end"),
    ],
)
def test_errors(text, problem):
    with pytest.raises(InvalidOperationError, match=problem):
        parsed(f"ALTER TABLE t {text}")


def test_other_clauses_and_tables():
    assert isinstance(parsed("ALTER TABLE t DROP FEATURE deletionVectors"), DropFeature)
    assert isinstance(parsed("ALTER TABLE spark CREATE BRANCH b"), Other)
    with pytest.raises(UnsupportedFeatureError, match="CREATE INDEX"):
        parsed("ALTER TABLE t CREATE INDEX b")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"kind": "label"}, "kind is 'label', expected 'branch' or 'tag'"),
        ({"name": ""}, "name of a branch is '', expected a text"),
        ({"name": 5}, "name of a branch is 5, expected a text"),
        ({"kind": "tag", "retention": RefRetention(min_versions=1)}, "a tag has one snapshot"),
        ({"kind": "tag", "retention": RefRetention(max_version_age_ms=1)}, "a tag has one snapshot"),
        ({"retention": RefRetention(max_ref_age_ms=0)}, "is 0, expected a whole number, 1 or more"),
        ({"retention": RefRetention(min_versions=True)}, "is True, expected a whole number"),
        ({"retention": RefRetention(max_version_age_ms=1.5)}, r"is 1\.5, expected a whole number"),
    ],
)
def test_values_that_no_ref_can_have(arguments, problem):
    with pytest.raises(InvalidOperationError, match=problem):
        NewRef(**{"name": "b", **arguments})
