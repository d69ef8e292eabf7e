"""Rewriting deletes: what becomes vectors, what stays, who may commit meanwhile."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from connector_rows import connector_rows
from crashing_puts import CRASHES, crash
from delvec.detect import open_table
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.spark import find_rows
from iceberg_tables.avro import DATA
from iceberg_tables.writer import IcebergWriter
from racing import log_messages, losing
from rows import multiset
from scanning import collected, opened, same

pytestmark = pytest.mark.spark

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("v", pa.string())])
KINDS = {"position-vector": "vectors", "position-file": "positions", "equality-file": "keys"}


def rows(*ids: int, p: int = 1, v: str = "old") -> list[dict[str, Any]]:
    return [{"id": number, "p": p, "v": v} for number in ids]


def made(root, version=3):
    """Two partitions of two files each; keys deleted everywhere, in one partition, of one and two columns."""
    table = IcebergWriter(root, COLUMNS, format_version=2)
    everywhere = table.spec
    table.replace_spec(["p"])
    table.files = [table.add_file(rows(*range(at * 10, at * 10 + 10), p=1 + at // 2)) for at in range(4)]
    table.commit()
    if version == 2:
        table.delete_positions({table.files[0]: [0], table.files[1]: [1]})  # shared
        table.commit()
    table.upgrade(version)
    if version > 2:
        table.delete_by_vectors({table.files[0]: [0]})
        table.commit()
    table.delete_keys([{"id": 14, "v": "old"}, {"id": 25, "v": "other"}], on=["id", "v"], partition={"p": 1})
    table.commit()
    table.delete_keys([{"id": 3}, {"id": 33}], on=["id"], spec=everywhere)
    table.append(rows(3, v="again"))
    return table


def kinds(table) -> dict[str, int]:
    found: dict[str, int] = {}
    for delete in open_table(str(table.root)).snapshot().live_deletes().to_pylist():
        name = KINDS[delete["kind"]]
        found[name] = found.get(name, 0) + 1
    return found


def summary(table) -> dict[str, str]:
    return dict(open_table(str(table.root)).snapshot().record.summary)


def test_all_kinds_become_vectors(spark, tmp_path):
    table = made(tmp_path / "t")
    found = opened(spark, table)
    feed = collected(found.changes(table.head.id))
    first_ids = open_table(str(table.root)).snapshot().plan().files.column("first_row_id")
    result = found.rewrite_deletes()
    assert (result.files, result.rows, result.kept) == (4, 3, 0)
    assert result.removed == {"equality files": 2}
    assert kinds(table) == {"vectors": 3}
    same(found.to_df(), table.rows())
    assert {"id": 3, "p": 1, "v": "again"} in collected(found.to_df())
    plan = open_table(str(table.root)).snapshot().plan()
    assert plan.files.column("first_row_id") == first_ids
    recorded = summary(table)
    assert recorded["operation"] == "replace"
    assert (recorded["removed-equality-delete-files"], recorded["total-equality-deletes"]) == ("2", "0")
    assert (recorded["added-dvs"], recorded["removed-dvs"]) == ("3", "1")
    assert found.history(1).collect()[0]["operation"] == "replace"
    assert collected(found.changes(result.version)) == []
    assert multiset(collected(found.changes(table.head.id))) == multiset(feed)
    assert result.metrics["numDeletionVectorsAdded"] == 3


def test_a_file_whose_rows_are_all_deleted_goes(spark, tmp_path):
    table = made(tmp_path / "t")
    table.delete_keys(rows(*range(20, 30), p=2), on=["id"], partition={"p": 2})
    table.commit()
    found = opened(spark, table)
    assert found.rewrite_deletes().version == found.version
    assert len(open_table(str(table.root)).snapshot().plan().files) == 4
    same(found.to_df(), table.rows())


def test_a_delete_that_other_partitions_need_stays(spark, tmp_path):
    table = made(tmp_path / "t")
    found = opened(spark, table)
    result = found.rewrite_deletes(where="p = 1")
    assert (result.files, result.rows, result.kept) == (2, 2, 1)
    assert kinds(table) == {"vectors": 2, "keys": 1}
    same(found.to_df(), table.rows())
    with pytest.raises(InvalidOperationError, match="partition columns only"):
        found.rewrite_deletes(where="id = 1")
    result = found.rewrite_deletes(where="p = 2")
    assert (result.files, result.rows, result.kept) == (2, 1, 1)
    assert kinds(table) == {"vectors": 3, "keys": 1}
    result = found.rewrite_deletes()
    assert (result.rows, result.kept, result.removed) == (0, 0, {"equality files": 1})
    assert kinds(table) == {"vectors": 3}
    same(found.to_df(), table.rows())


def test_deletes_that_apply_to_no_file_go(spark, tmp_path):
    table = made(tmp_path / "t")
    for file in table.files:
        table._removed.add(file.key)  # its vector stays
    table.commit()
    found = opened(spark, table)
    result = found.rewrite_deletes()
    assert (result.files, result.rows) == (0, 0)
    assert result.removed == {"equality files": 2, "unused vectors": 1}
    assert kinds(table) == {}
    same(found.to_df(), table.rows())
    version = found.version
    assert found.rewrite_deletes().version == version


def test_keys_that_hit_no_row(spark, tmp_path):
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=3)
    table.append(rows(1, 2))
    table.delete_keys([{"id": 77}], on=["id"])
    table.commit()
    result = opened(spark, table).rewrite_deletes()
    assert (result.files, result.rows, result.removed) == (1, 0, {"equality files": 1})
    assert kinds(table) == {}
    same(opened(spark, table).to_df(), table.rows())


def test_position_files_of_version_2_become_vectors_after_an_upgrade(spark, tmp_path):
    table = made(tmp_path / "t", version=2)
    found = opened(spark, table)
    with pytest.raises(
        UnsupportedFeatureError, match=r"format version is 2, expected 3 or more: call upgrade\(3\)"
    ):
        found.rewrite_deletes()
    found.upgrade(3)
    result = found.rewrite_deletes()
    assert result.removed == {"position files": 1, "equality files": 2}
    assert kinds(table) == {"vectors": 3}
    same(found.to_df(), table.rows())
    with pytest.raises(UnsupportedFeatureError, match=r"store deletes by position as vectors"):
        found.rewrite_deletes("position-deletes")


def test_version_2_gets_position_files(spark, tmp_path):
    table = made(tmp_path / "t", version=2)
    found = opened(spark, table)
    result = found.rewrite_deletes(to="position-deletes")
    assert result.removed == {"position files": 1, "equality files": 2}
    assert kinds(table) == {"positions": 3}
    same(found.to_df(), table.rows())
    assert summary(table)["operation"] == "replace"


def test_delta_has_nothing_to_rewrite(spark, tmp_path):
    from delvec import Table

    table = Table.create(spark, str(tmp_path / "t"), spark.range(100))
    table.delete("id = 3")
    version = table.version
    result = table.rewrite_deletes()
    assert (result.version, result.files, result.removed, result.kept) == (version, 0, {}, 0)
    with pytest.raises(
        UnsupportedFeatureError, match="delta tables of this version store deletes by position"
    ):
        table.rewrite_deletes(to="position-deletes")


def test_a_dry_run_changes_nothing(spark, tmp_path):
    table = made(tmp_path / "t")
    found = opened(spark, table)
    stored = sorted(path for path in table.root.rglob("*"))
    result = found.rewrite_deletes(dry_run=True)
    assert (result.dry_run, result.version, result.files, result.rows) == (True, table.head.id, 4, 0)
    assert result.removed == {"equality files": 2}
    assert sorted(path for path in table.root.rglob("*")) == stored


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"to": "vectors"},
            "to is 'vectors', expected one of deletion-vector, position-deletes, equality-vector",
        ),
        ({"encoding": "hash-map"}, "encoding 'hash-map' is reserved, expected one of auto, deletion-vector"),
        (
            {"encoding": "zip"},
            "encoding is 'zip', expected one of auto, deletion-vector with to='deletion-vector'",
        ),
        ({"to": "position-deletes", "encoding": "deletion-vector"}, "expected one of auto, full-row"),
        ({"to": "equality-vector", "encoding": "full-row"}, "expected one of auto, deletion-vector"),
    ],
)
def test_bad_requests(spark, tmp_path, options, message):
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=3)
    with pytest.raises(InvalidOperationError, match=message):
        opened(spark, table).rewrite_deletes(**options)


@pytest.mark.slow
def test_executors_store_large_vectors(spark, tmp_path, monkeypatch):
    table = made(tmp_path / "t", version=2)
    table.upgrade(3)
    for name in ("FEW_ROWS", "FEW_REPEATED_ROWS", "DRIVER_BYTES"):
        monkeypatch.setattr(find_rows, name, 0)
    found = opened(spark, table)
    result = found.rewrite_deletes()
    assert (result.rows, kinds(table)) == (5, {"vectors": 3})
    same(found.to_df(), table.rows())


# Other writers


def deleting(table):
    table.delete("id IN (4, 34)")


def removing(table):
    table.delete("p = 2")


def appending(table):
    table.append(table._spark.createDataFrame([(3, 1, "later")], "id bigint, p int, v string"))


def updating(table):
    table.update({"v": "'new'"}, "id IN (5, 15)")


def compacting(table):
    table.optimize()


def rewriting(table):
    table.rewrite_deletes()


WINNERS = [
    (deleting, 1, {"vectors": 3}),
    (removing, 2, {"vectors": 2}),
    pytest.param(appending, 1, {"vectors": 3}, marks=pytest.mark.slow),
    pytest.param(updating, 1, {"vectors": 3}, marks=pytest.mark.slow),
    pytest.param(compacting, 2, {}, marks=pytest.mark.slow),
    pytest.param(rewriting, 1, {"vectors": 3}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(
    ("winner", "runs", "after"), WINNERS, ids=lambda value: getattr(value, "__name__", "")
)
def test_another_writer_commits_first(spark, tmp_path, winner, runs, after):
    """The rows are those of the other writer alone, as rewriting deletes changes none."""
    alone, raced = made(tmp_path / "alone"), made(tmp_path / "raced")
    for table in (alone, raced):
        table.set_properties({"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"})
    winner(opened(spark, alone))
    with log_messages() as messages:
        result = losing(spark, str(raced.root), winner).rewrite_deletes()
    assert (sum("must run again" in message for message in messages), kinds(raced)) == (runs - 1, after)
    assert result.version == opened(spark, raced).version
    same(opened(spark, raced).to_df(), collected(opened(spark, alone).to_df()))


LOSERS = [
    deleting,
    pytest.param(updating, marks=pytest.mark.slow),
    pytest.param(removing, marks=pytest.mark.slow),
    pytest.param(compacting, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("loser", LOSERS, ids=lambda f: f.__name__)
def test_deletes_are_rewritten_first(spark, tmp_path, loser):
    """A statement that started before deletes became vectors does not bring their rows back."""
    alone, raced = made(tmp_path / "alone"), made(tmp_path / "raced")
    for table in (alone, raced):
        table.set_properties({"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"})
    loser(opened(spark, alone))
    loser(losing(spark, str(raced.root), rewriting))
    assert "keys" not in kinds(raced)
    same(opened(spark, raced).to_df(), collected(opened(spark, alone).to_df()))


def test_keys_that_another_writer_deletes_meanwhile_stay(spark, tmp_path):
    table = made(tmp_path / "t")

    def winner(_):
        table.delete_keys([{"id": 16}], on=["id"], partition={"p": 1})
        table.commit()

    losing(spark, str(table.root), winner).rewrite_deletes()
    assert kinds(table) == {"vectors": 3, "keys": 1}
    same(opened(spark, table).to_df(), table.rows())


def test_rows_of_a_removed_position_file_stay_deleted(spark, tmp_path):
    """A writer of version 2 adds a position file with its new rows alone. The rows of the removed file are
    then in no other delete than that of the rewrite.
    """
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=2)
    first, second = (table.add_file(rows(*range(at, at + 10))) for at in (0, 10))
    table.commit()
    table.delete_positions({first: [0, 1], second: [2]})
    table.commit()
    table.delete_keys([{"id": 999}], on=["id"])
    table.commit()

    def winner(_):
        table.delete_positions({first: [7]})
        table.commit()

    losing(spark, str(table.root), winner).rewrite_deletes(to="position-deletes")
    assert "keys" not in kinds(table)
    same(opened(spark, table).to_df(), table.rows())


def test_a_compaction_into_another_partitioning_beside_a_delete_of_keys(spark, tmp_path):
    """A delete of keys in a partition of the old spec would not reach the new file."""
    table = IcebergWriter(tmp_path / "t", COLUMNS, format_version=2, partition_by=["p"])
    for at in (0, 10):
        table.add_file(rows(*range(at, at + 10)))
    table.commit()
    old = table.spec
    table.replace_spec(["id"])

    def winner(_):
        table.delete_keys([{"id": 3}], on=["id"], spec=old, partition={"p": 1})
        table.commit()

    losing(spark, str(table.root), winner).optimize()
    same(opened(spark, table).to_df(), table.rows())


def test_an_older_file_that_appears_below_a_removed_delete(spark, tmp_path):
    """A file whose rows keep an old sequence number, as another engine's compaction adds it: the key delete
    applies to it. The first attempt would have removed the delete without having looked at the file.
    """
    table = made(tmp_path / "t")

    def winner(_):
        table.add_file(rows(33, 99, p=2), sequence=1)
        table.commit(operation="append")

    with log_messages() as messages:
        losing(spark, str(table.root), winner).rewrite_deletes()
    assert any("to which a delete applies that this operation removes" in message for message in messages)
    assert kinds(table) == {"vectors": 4}
    same(opened(spark, table).to_df(), table.rows())


@pytest.mark.parametrize(("at", "when"), CRASHES)
def test_a_crash_at_a_request(spark, tmp_path, monkeypatch, at, when):
    """The table has the old version or the new one, and the same rows."""
    counted, table = opened(spark, made(tmp_path / "counted")), made(tmp_path / "t")
    crash(
        monkeypatch,
        at,
        when,
        counted=counted.rewrite_deletes,
        crashing=lambda: opened(spark, table).rewrite_deletes(),
    )
    assert multiset(connector_rows(table.root)) == multiset(table.rows())
    assert kinds(table) in ({"vectors": 3}, {"vectors": 1, "keys": 2})
    if at < 0:
        assert kinds(table) == {"vectors": 1, "keys": 2}


def test_data_files_are_as_they_were(spark, tmp_path):
    table = made(tmp_path / "t")
    before = {entry.file.path for entry in table.head.entries(DATA)}
    opened(spark, table).rewrite_deletes()
    after = open_table(str(table.root)).snapshot().plan().files.column("raw_location").to_pylist()
    assert set(after) == before
