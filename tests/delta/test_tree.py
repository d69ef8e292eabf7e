"""The tree of a version: checkpoint and commits, the live files that each added, their vectors."""

from __future__ import annotations

import pytest

from delta_log import LogWriter, add, column, remove, vector
from delta_writer import memory_location
from delvec.browse import metadata_tree
from delvec.delta.table import DeltaTable


@pytest.fixture
def log() -> LogWriter:
    """Files a and b in version 1, c in 2, a vector on a in 3, b removed in 4."""
    log = LogWriter(memory_location())
    log.create(column("id", "long"))
    log.commit(add("a"), add("b"))
    log.commit(add("c"))
    log.commit(remove("a"), add("a", deletion_vector=vector("ab^-aqEH.-t@S}K{vb[*k^")))
    log.commit(remove("b"))
    return log


def tree(log: LogWriter, version: int | None = None) -> list:
    """Each entry below the version: its kind and name, and the names of its files."""
    table = DeltaTable(log.storage)
    root = metadata_tree(table, table.snapshot(version)).document()["tree"]
    assert root["kind"] == "version"
    return [
        (child["kind"], child["name"].lstrip("0"), [file["name"] for file in child["children"]])
        for child in root["children"]
    ]


COMMITS = [
    ("commit", ".json", []),
    ("commit", "1.json", []),
    ("commit", "2.json", ["c"]),
    ("commit", "3.json", ["a"]),
    ("commit", "4.json", []),
]


def test_a_log_without_a_checkpoint(log):
    assert tree(log) == COMMITS
    assert tree(log, 2) == [*COMMITS[:1], ("commit", "1.json", ["a", "b"]), ("commit", "2.json", ["c"])]


def test_a_checkpoint_has_the_files_that_no_later_commit_added_again(log):
    log.classic(2)
    assert tree(log) == [("checkpoint", "2.checkpoint.parquet", ["c"]), *COMMITS[3:]]
    assert tree(log, 2) == [("checkpoint", "2.checkpoint.parquet", ["a", "b", "c"])]


def test_compacted_commits_are_one_entry(log):
    log.compact(1, 2)
    kind, name, files = tree(log)[1]
    assert (kind, files) == ("compacted commits", ["c"])
    assert name.endswith("2.compacted.json")


@pytest.mark.parametrize(("write", "fact"), [("parts", "parts"), ("v2", "sidecars")])
def test_the_files_of_a_checkpoint_are_counted(log, write, fact):
    log.parts(4, 3) if write == "parts" else log.v2(4, sidecars=3)
    table = DeltaTable(log.storage)
    (checkpoint,) = metadata_tree(table, table.snapshot()).document()["tree"]["children"]
    assert checkpoint["facts"][fact] == 3
    assert sorted(file["name"] for file in checkpoint["children"]) == ["a", "c"]


def test_a_vector_is_below_its_file(log):
    table = DeltaTable(log.storage)
    root = metadata_tree(table, table.snapshot()).root
    commit = root.first(0)[3]
    (file,) = commit.first(0)
    (of_file,) = file.first(0)
    assert (of_file.kind, of_file.count) == ("vector", 0)
    assert of_file.name.endswith(".bin @ 1")
    assert file.facts["bytes"] is not None
    assert root.facts["vectors"] == 1


def test_a_kept_snapshot_shows_a_checkpoint_that_was_written_since(log):
    table = DeltaTable(log.storage)
    snapshot = table.snapshot()
    log.classic(3)
    root = metadata_tree(table, snapshot).root
    assert [child.kind for child in root.first(0)] == ["checkpoint", "commit"]
