"""How often a commit is tried again, by the table's properties: of rows, and of metadata alone."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from delvec import conflicts
from delvec.commit_retries import CommitRetries
from delvec.detect import open_table
from delvec.errors import CommitConflictError, InvalidOperationError
from delvec.iceberg.commit_retry import commit_retries
from delvec.iceberg.swaps import Taken
from delvec.ref_changes import NewRef
from delvec.row_delta import MetadataChange, Operation, Read, Request, RowDelta, Verb
from iceberg_tables import IcebergWriter


@pytest.fixture
def table_of(tmp_path, monkeypatch):
    """A table whose commits are always too late, and the list of them."""

    def create(**properties):
        writer = IcebergWriter(tmp_path / "t", pa.schema([("id", pa.int64())]))
        writer.append([{"id": 1}])
        if properties:
            writer.set_properties(properties)
        table, tries = open_table(str(writer.root)), []

        def commit(*_):
            tries.append(time.monotonic())
            return Taken()

        monkeypatch.setattr(table._newest.pointer, "commit", commit)
        return table, tries

    return create


def changed(table, pauses):
    base = table.snapshot()
    change = MetadataChange(properties={"a": "b"})
    request = Request(Operation.SET_PROPERTIES, properties={"a": "b"})
    delta = RowDelta(base.base, request, Read(blind=True), Verb.ALTER, metadata=change)
    conflicts.commit(table, base, delta, conflicts.ReadsNoRows(), pause=pauses.append)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_the_number_of_retries(table_of, number):
    table, tries = table_of(**{"commit.retry.num-retries": str(number)})
    with pytest.raises(CommitConflictError, match=f"committed first {number + 1} times in a row"):
        changed(table, [])
    assert len(tries) == number + 1
    tries.clear()
    table.snapshot().metadata.properties["commit.retry.max-wait-ms"] = "0"
    with pytest.raises(CommitConflictError, match=f"committed first {number + 1} times in a row"):
        table.create_ref(NewRef("b"))
    assert len(tries) == number + 1


def test_without_properties(table_of):
    table, tries = table_of()
    pauses = []
    with pytest.raises(CommitConflictError, match="committed first 100 times in a row"):
        changed(table, pauses)
    assert (len(tries), len(pauses)) == (100, 99)
    assert max(pauses) <= 1.0


def test_pauses(table_of):
    waits = {"commit.retry.min-wait-ms": "200", "commit.retry.max-wait-ms": "500"}
    table, _ = table_of(**waits, **{"commit.retry.num-retries": "30"})
    pauses = []
    with pytest.raises(CommitConflictError):
        changed(table, pauses)
    assert len(pauses) == 30
    assert all(0.2 <= pause <= 0.5 for pause in pauses)
    assert max(pauses) > 0.4


def test_a_time_limit(table_of):
    table, tries = table_of(**{"commit.retry.total-timeout-ms": "0"})
    with pytest.raises(CommitConflictError, match="committed first 1 times in a row"):
        changed(table, [])
    assert len(tries) == 1
    assert CommitRetries(timeout=2).allow(5, 1.9)
    assert not CommitRetries(timeout=2).allow(5, 2.1)


@pytest.mark.parametrize("name", ["num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms"])
def test_values_that_are_no_numbers(table_of, name):
    property_name = f"commit.retry.{name}"
    with pytest.raises(InvalidOperationError, match=f"{property_name} is '-1', expected a whole number"):
        commit_retries({property_name: "-1"})
    table, _ = table_of(**{property_name: "often"})
    base = table.snapshot()
    with pytest.raises(InvalidOperationError, match=f"{property_name} is 'x', expected a whole number"):
        base.rules(Verb.ALTER, MetadataChange(properties={property_name: "x"}))
    assert base.rules(Verb.ALTER, MetadataChange(properties={property_name: "4"})).change
