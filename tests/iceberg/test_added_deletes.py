"""Commits with deletes by key, that stay or that replace others: what is on disk, and what DuckDB reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from delvec.deletes.equality import EqualityDeletes
from delvec.deletes.model import DeleteContent, DeleteScope
from delvec.errors import FormatError, InvalidOperationError
from delvec.row_delta import (
    MetadataChange,
    Verb,
)
from iceberg_tables.key_deletes import KeyLake
from iceberg_tables.readers import read_by_duckdb


@pytest.fixture(params=[2, 3])
def lake(tmp_path, request):
    return KeyLake(tmp_path / "t", request.param)


def test_global_full_rows(lake):
    """The table gets a partition spec without fields, once, and keeps its own."""
    before = lake.snapshot.metadata
    lake.commit(lake.rows(3, 4, 40))
    lake.commit(lake.rows("n8", column="name"))
    after = lake.snapshot.metadata
    assert after.default_spec_id == before.default_spec_id
    assert [len(spec.fields) for _, spec in sorted(after.specs.items())] == [1, 0]
    one, two = sorted(lake.entries(), key=lambda entry: entry["sequence_number"])
    assert (one["content"], one["file_format"], one["equality_ids"]) == (2, "parquet", [1])
    assert (one["spec_id"], one["partition.p"], one["sort_order_id"]) == (1, None, 0)
    assert dict_of(one["lower_bounds"]) == {1: (3).to_bytes(8, "little")}
    assert dict_of(one["upper_bounds"]) == {1: (40).to_bytes(8, "little")}
    assert dict_of(two["lower_bounds"]) == {3: b"n8"}
    assert two["sequence_number"] == one["sequence_number"] + 1
    assert lake.summary()["operation"] == "delete"
    assert lake.summary()["total-equality-deletes"] == "4"
    assert lake.summary()["equality-delete-files"] == "2"
    assert lake.summary()["equality-delete-vectors"] == lake.summary()["edv-size-bytes"] == "0"
    left = {row["id"] for row in read_by_duckdb(str(lake.root))}
    assert left == {0, 1, 2, 5, 6, 7, 9}


def test_a_delete_of_one_partition(lake):
    lake.commit(lake.rows(2, 3, scope=DeleteScope(0, {"p": 1})))
    (entry,) = lake.entries()
    assert (entry["spec_id"], entry["partition.p"]) == (0, 1)
    assert len(lake.snapshot.metadata.specs) == 1
    plan = lake.snapshot.plan()
    of_files = zip(plan.files.to_pylist(), EqualityDeletes.of(plan).has_deletes.tolist(), strict=True)
    assert {file["partition"]["p"]: has_deletes for file, has_deletes in of_files} == {0: False, 1: True}


def test_a_vector_of_keys(tmp_path):
    lake = KeyLake(tmp_path / "t")
    lake.commit(lake.vector(1, 2, 99), lake.rows(5))
    entry, rows = sorted(lake.entries(), key=lambda entry: entry["file_format"], reverse=True)
    assert rows["file_format"] == "parquet"
    assert (entry["content"], entry["file_format"], entry["equality_ids"]) == (2, "puffin", [1])
    assert entry["content_offset"] == 4
    assert entry["content_size"] < entry["file_size"]
    assert entry["referenced_data_file"] is None
    assert dict_of(entry["lower_bounds"]) == {1: (1).to_bytes(8, "little")}
    assert dict_of(entry["upper_bounds"]) == {1: (99).to_bytes(8, "little")}
    assert dict_of(entry["null_value_counts"]) == {1: 0}
    summary = lake.summary()
    assert summary["added-equality-deletes"] == summary["total-equality-deletes"] == "4"
    assert summary["equality-delete-vectors"] == summary["equality-delete-files"] == "1"
    assert summary["edv-size-bytes"] == str(entry["content_size"])
    assert "added-dvs" not in summary
    (vector,) = (
        row for row in lake.snapshot.plan().deletes.to_pylist() if row["encoding"] == "deletion-vector"
    )
    assert vector["kind"] == "equality-file"
    assert (vector["offset"], vector["length"]) == (entry["content_offset"], entry["content_size"])


def test_a_delete_that_replaces_another_keeps_its_sequence_and_partition(lake):
    lake.commit(lake.rows(3, scope=DeleteScope(0, {"p": 1})))
    (old,) = lake.entries()
    lake.commit(lake.rows(4))
    lake.commit(
        lake.rows(3, 5, sequence=old["sequence_number"], scope=DeleteScope(beside=(old["file_path"], None))),
        remove=[(old["file_path"], None)],
        verb=Verb.REWRITE_DELETES,
        data_change=False,
    )
    entries = {(*entry["equality_ids"], entry["record_count"]): entry for entry in lake.entries()}
    assert set(entries) == {(1, 1), (1, 2)}
    new = entries[1, 2]
    assert (new["sequence_number"], new["spec_id"], new["partition.p"]) == (old["sequence_number"], 0, 1)
    assert new["file_sequence_number"] > new["sequence_number"]
    assert lake.summary()["operation"] == "replace"
    assert lake.summary()["total-equality-deletes"] == "3"
    assert lake.summary()["equality-delete-files"] == "2"
    assert {row["id"] for row in read_by_duckdb(str(lake.root))} == set(range(10)) - {3, 4, 5}


def test_a_delete_that_is_not_there_cannot_be_removed(lake):
    with pytest.raises(InvalidOperationError, match=r"a delete to replace is not in snapshot \d+: /gone"):
        lake.commit(lake.rows(1), remove=[("/gone.parquet", None)])
    with pytest.raises(InvalidOperationError, match="a delete to replace is not in snapshot"):
        lake.commit(lake.rows(1, scope=DeleteScope(beside=("/gone", 4))))


def test_bad_deletes_are_refused_and_leave_nothing(lake):
    before = set(lake.root.rglob("metadata/*"))
    with pytest.raises(FormatError, match="compare no column"):
        lake.commit(replace(lake.rows(1), field_ids=()))
    positions = replace(lake.rows(1), content=DeleteContent.POSITION_DELETES, field_ids=())
    with pytest.raises(InvalidOperationError, match="position deletes have no partition"):
        lake.commit(positions)
    if lake.snapshot.format_version == 2:
        with pytest.raises(InvalidOperationError, match="a table of format version 2, expected 3 or more"):
            lake.commit(lake.vector(1))
    else:
        with pytest.raises(InvalidOperationError, match="expected vectors"):
            lake.commit(replace(positions, scope=DeleteScope(0, {"p": 1})))
    assert set(lake.root.rglob("metadata/*")) == before


def test_the_gate_must_be_on_for_a_vector(tmp_path):
    lake = KeyLake(tmp_path / "t", gate="false")
    with pytest.raises(InvalidOperationError, match=r"equality-vector\.enabled is not true, expected full"):
        lake.commit(lake.vector(1))
    lake.commit(lake.rows(1))


def test_an_unpartitioned_table_needs_no_other_spec(tmp_path):
    lake = KeyLake(tmp_path / "t", partition_by=())
    lake.commit(lake.rows(3))
    assert len(lake.snapshot.metadata.specs) == 1
    assert {row["id"] for row in read_by_duckdb(str(lake.root))} == set(range(10)) - {3}


def test_winners_with_keys(lake):
    start = lake.snapshot
    lake.commit(lake.rows(3))
    lake.commit(lake.rows(4), metadata=MetadataChange(properties={"a": "b"}))
    won = lake.table.won(start, lake.snapshot)
    assert [each.verb for each in won] == [Verb.DELETE_KEYS] * 2
    file_id = start.plan().files.column("file_id")[0]
    start = lake.snapshot
    lake.commit(lake.rows(5), removed=pa.array([file_id.as_py()]))
    (won,) = lake.table.won(start, lake.snapshot)
    assert won.verb == Verb.UPSERT  # it conflicts with more than a delete of keys
    assert len(won.removed) == 1


def dict_of(items):
    return {item["key"]: item["value"] for item in items or ()}


def test_counter_of_rows_is_unchanged_by_a_delete_of_absent_keys(lake):
    lake.commit(lake.rows(1000))
    assert Counter(row["id"] for row in read_by_duckdb(str(lake.root))) == Counter(range(10))
