"""Counts of rows and of a run, under the names of Delta's history."""

from __future__ import annotations

import pytest

from delta_writer import NUMBERS, append, committed, memory_location, numbers
from delvec.delta.table import DeltaTable
from delvec.row_delta import Execution, Operation, Request, RowCounts

ALL = RowCounts(source=1, inserted=2, updated=3, deleted=4, copied=5)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Operation.DELETE, {"numDeletedRows": 4, "numCopiedRows": 5}),
        (Operation.UPDATE, {"numUpdatedRows": 3, "numCopiedRows": 5}),
        (Operation.APPEND, {"numOutputRows": 2, "numDeletedRows": 4, "numCopiedRows": 5}),
        (
            Operation.MERGE,
            {
                "numSourceRows": 1,
                "numTargetRowsUpdated": 3,
                "numTargetRowsDeleted": 4,
                "numTargetRowsInserted": 2,
                "numOutputRows": 5,
                "numTargetRowsCopied": 5,
            },
        ),
    ],
)
def test_counts_of_rows_by_operation(operation: Operation, expected: dict[str, int]) -> None:
    table = DeltaTable.open(memory_location())
    assert list(table.metrics(Request(operation), ALL).items()) == list(expected.items())


def test_counts_that_are_not_known_are_left_out() -> None:
    table = DeltaTable.open(memory_location())
    assert table.metrics(Request(Operation.DELETE), RowCounts()) == {}
    assert table.metrics(Request(Operation.DELETE), RowCounts(deleted=0)) == {"numDeletedRows": 0}


def test_runs_and_attempts_are_told_from_the_second_on() -> None:
    table, request = DeltaTable.open(memory_location()), Request(Operation.APPEND)
    assert table.metrics(request, RowCounts(), Execution(7)) == {"executionTimeMs": 7}
    raced = Execution(7, runs=2, attempts=3, united_files=1)
    assert list(table.metrics(request, RowCounts(), raced).items()) == [
        ("executionTimeMs", 7),
        ("numRuns", 2),
        ("numCommitTries", 3),
        ("numFilesUnited", 1),
    ]


def test_a_commit_returns_the_metrics_of_its_history() -> None:
    table = DeltaTable.create(memory_location(), NUMBERS)
    outcome = committed(append(table, numbers(0, 4), counts=RowCounts(inserted=4)))
    row = table.history(1).to_pylist()[0]
    assert {name: str(value) for name, value in outcome.metrics.items()} == dict(row["metrics"])


@pytest.mark.parametrize(
    ("properties", "expected"),
    [({"a": "1"}, "SET TBLPROPERTIES"), ({"a": None}, "UNSET TBLPROPERTIES"), ({}, "SET TBLPROPERTIES")],
)
def test_the_name_of_a_change_of_properties(properties: dict[str, str | None], expected: str) -> None:
    request = Request(Operation.SET_PROPERTIES, properties=properties)
    assert DeltaTable.open(memory_location()).operation_name(request) == expected
