"""Deletes by key in trees: full rows and vectors, in the root and in leaves."""

from __future__ import annotations

from collections import Counter

import pytest

import naive_tree
from connector_rows import connector_rows
from delvec.deletes.equality import EqualityDeletes
from delvec.deletes.model import DeleteScope
from delvec.row_delta import Verb
from iceberg_tables.trees import TreeKeyLake


@pytest.fixture(params=[0, 1000], ids=["in leaves", "in the root"])
def lake(tmp_path, request):
    return TreeKeyLake(tmp_path / "t", root_deletes=request.param, root_data_files=request.param)


def ids_of(lake):
    return sorted(row["id"] for row in connector_rows(lake.root))


def equality_entries(lake):
    return [entry for entry in lake.model.live() if entry.content == naive_tree.EQUALITY]


def test_full_rows_and_vectors_for_all_files(lake):
    lake.commit(lake.rows(3, 4, 40))
    lake.commit(lake.vector(1, 2, 99), lake.rows("n8", column="name"))
    assert ids_of(lake) == [0, 5, 6, 7, 9]
    assert sorted(entry.rows for entry in equality_entries(lake)) == [1, 3, 3]
    deletes = {(d["encoding"], d["cardinality"]): d for d in lake.snapshot.plan().deletes.to_pylist()}
    vector, rows = deletes["deletion-vector", 3], deletes["full-row", 3]
    assert vector["kind"] == rows["kind"] == "equality-file"
    assert vector["offset"] == 4  # after the magic: the footer says so, not the entry
    assert vector["length"] > 0
    assert (vector["lower"], vector["upper"], rows["lower"], rows["upper"]) == (1, 99, 3, 40)
    assert not list(lake.table.findings(lake.snapshot))


def test_a_delete_of_one_partition(lake):
    lake.commit(lake.rows(2, 3, scope=DeleteScope(0, {"p": 1})))
    plan = lake.snapshot.plan()
    of_files = zip(plan.files.to_pylist(), EqualityDeletes.of(plan).has_deletes.tolist(), strict=True)
    assert {file["partition"]["p"]: has_deletes for file, has_deletes in of_files} == {0: False, 1: True}
    assert ids_of(lake) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_newer_files_keep_their_rows(lake):
    lake.commit(lake.vector(3))
    lake.append([{"id": 3, "p": 1, "name": "again"}])
    assert Counter(ids_of(lake)) == Counter(range(10))
    lake.commit(lake.rows(3))
    assert ids_of(lake) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_delete_that_replaces_others_keeps_their_sequence_number(lake):
    lake.commit(lake.rows(3))
    (old,) = equality_entries(lake)
    lake.append([{"id": 3, "p": 1, "name": "again"}])
    lake.commit(
        lake.rows(3, 5, sequence=old.sequence, scope=DeleteScope(beside=(old.name, None))),
        remove=[(old.name, None)],
        verb=Verb.REWRITE_DELETES,
        data_change=False,
    )
    (new,) = equality_entries(lake)
    assert (new.rows, new.sequence) == (2, old.sequence)
    assert new.file_sequence > new.sequence
    assert ids_of(lake) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_winners_with_keys(lake):
    start = lake.snapshot
    lake.commit(lake.rows(3))
    lake.commit(lake.vector(4))
    assert [each.verb for each in lake.table.won(start, lake.snapshot)] == [Verb.DELETE_KEYS] * 2


def test_vectors_and_keys_are_in_leaves_of_their_own(lake):
    lake.commit(lake.rows(3), lake.rows("n5", column="name"))
    lake.delete(0, [1])
    assert ids_of(lake) == [0, 1, 4, 6, 7, 8, 9]
    assert not list(lake.table.findings(lake.snapshot))


def test_vectors_of_positions_and_keys_in_one_commit(lake):
    path = next(iter(lake.model.files))
    lake.commit(lake.rows(7), vectors=lake.model.delta(delete={path: [1]}).vectors)
    assert ids_of(lake) == [0, 1, 3, 4, 5, 6, 8, 9]
    kinds = Counter(entry.content for entry in lake.model.live())
    assert (kinds[naive_tree.VECTOR], kinds[naive_tree.EQUALITY]) == (1, 1)
    assert not list(lake.table.findings(lake.snapshot))
