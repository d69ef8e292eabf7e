"""Commits of deltas to Iceberg tables, without Spark: files, deletes, manifests, sequences, row ids."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from delvec import conflicts
from delvec.errors import InvalidOperationError, StorageError
from delvec.iceberg.swaps import SwapUnknown
from delvec.row_delta import (
    MetadataChange,
    Txn,
    Unknown,
    Verb,
    VersionTaken,
)
from iceberg_tables.commits import COLUMNS, Model
from iceberg_tables.writer import IcebergWriter


@pytest.fixture(params=[2, 3])
def model(tmp_path, request):
    return Model(tmp_path / "t", request.param)


def appended(model, *counts, p=1):
    files = [model.new_file(count, p) for count in counts]
    model.commit(add=files, verb=Verb.APPEND)
    return [path for path, _, _ in files]


def test_an_append(model):
    outcome = model.commit(add=[model.new_file(3), model.new_file(2, p=2)], verb=Verb.APPEND)
    assert outcome.version == model.snapshot.version == model.metadata()["current-snapshot-id"]
    model.check()
    model.check_others()
    (entry, _) = (entry for _, _, entry in model.entries())
    assert entry["status"] == 1
    assert entry["sequence_number"] is None
    assert entry["data_file"]["partition"] == {"p": 1}
    assert entry["data_file"]["file_format"] == "PARQUET"
    summary = model.metadata()["snapshots"][0]["summary"]
    assert summary["operation"] == "append"
    assert summary["added-records"] == summary["total-records"] == "5"
    assert summary["added-data-files"] == summary["changed-partition-count"] == "2"


def test_deletes_merge_with_those_before(model):
    (path,) = appended(model, 10)
    model.commit(delete={path: [1, 2]}, verb=Verb.DELETE)
    model.check()
    model.commit(delete={path: [2, 7]}, verb=Verb.DELETE)
    model.check()
    model.check_others()
    deletes = [entry for _, manifest, entry in model.entries() if manifest["content"] == 1]
    assert Counter(entry["status"] for entry in deletes) == {1: 1, 2: 1}
    (new,) = (entry["data_file"] for entry in deletes if entry["status"] == 1)
    assert (new["record_count"], new["referenced_data_file"]) == (3, path)
    assert new["file_format"] == ("PUFFIN" if model.version > 2 else "PARQUET")
    summary = model.metadata()["snapshots"][-1]["summary"]
    assert summary["operation"] == "delete"
    assert (summary["added-position-deletes"], summary["removed-position-deletes"]) == ("3", "2")
    assert summary["total-position-deletes"] == "3"
    kind = "dvs" if model.version > 2 else "position-delete-files"
    assert summary[f"added-{kind}"] == summary[f"removed-{kind}"] == "1"


def test_a_file_without_rows_left_is_removed_with_its_deletes(model):
    one, two = appended(model, 3, 3)
    model.commit(delete={one: [0], two: [1]})
    model.commit(delete={one: [1, 2]})
    model.check()
    model.check_others()
    gone = [entry["data_file"]["file_path"] for _, _, entry in model.entries() if entry["status"] == 2]
    assert one in gone
    assert len(gone) == 2  # its deletes, too
    model.commit(remove=[two])
    model.check()
    assert model.snapshot.plan().files.num_rows == 0


def test_manifests_in_which_nothing_changed_are_kept(model):
    (path,) = appended(model, 3)
    first = {manifest["manifest_path"] for _, manifest in model.manifests()}
    appended(model, 2)
    model.commit(delete={path: [1]})
    assert first <= {manifest["manifest_path"] for _, manifest in model.manifests()}
    model.commit(remove=[path])
    assert not first & {manifest["manifest_path"] for _, manifest in model.manifests()}
    appended(model, 1)
    # Manifests without a live file are not carried on.
    assert all(
        manifest["added_files_count"] or manifest["existing_files_count"] for _, manifest in model.manifests()
    )
    model.check()


def test_small_manifests_are_merged(tmp_path):
    for version in (2, 3):
        model = Model(tmp_path / f"t{version}", version)
        model.table.commit(
            model.snapshot,
            model.delta(metadata=MetadataChange(properties={"commit.manifest.min-count-to-merge": "3"})),
        )
        paths = [appended(model, 2)[0] for _ in range(5)]
        model.commit(delete={paths[0]: [1]})
        assert len(model.manifests()) < 5
        model.check()
        statuses = Counter(
            entry["status"] for _, manifest, entry in model.entries() if not manifest["content"]
        )
        assert statuses[0] >= 2
        model.check_others()


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, 4),  # fewer than 100 manifests
        ({"commit.manifest.min-count-to-merge": "4"}, 1),
        ({"commit.manifest.min-count-to-merge": "5"}, 4),
        ({"commit.manifest.min-count-to-merge": "4", "commit.manifest-merge.enabled": "false"}, 4),
        ({"commit.manifest.min-count-to-merge": "4", "commit.manifest.target-size-bytes": "10"}, 4),
    ],
)
def test_manifests_are_merged_as_the_properties_say(tmp_path, properties, expected):
    model = Model(tmp_path / "t", 3)
    if properties:
        model.table.commit(model.snapshot, model.delta(metadata=MetadataChange(properties=properties)))
    for _ in range(4):
        appended(model, 2)
    assert len(model.manifests()) == expected
    model.check()


def test_files_of_an_unknown_outcome_stay(model, monkeypatch):
    """The catalog may still have taken them; the commit is not sent a second time."""
    (path,) = appended(model, 3)
    asked = []

    def lost(*_):
        asked.append(1)
        return SwapUnknown("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(model.table._newest.pointer, "commit", lost)
        outcome = model.table.commit(model.snapshot, model.delta(delete={path: [0]}))
        assert isinstance(outcome, Unknown)
        assert outcome.reason == "no answer"
        assert len(list(model.root.glob(f"metadata/snap-{outcome.version}-1-*"))) == 1
        with pytest.raises(StorageError, match=r"cannot tell whether version \d+ was committed: no answer"):
            conflicts.commit(
                model.table, model.snapshot, model.delta(delete={path: [0]}), conflicts.ReadsNoRows()
            )
    assert len(asked) == 2
    model.check()


def test_a_compaction_keeps_its_sequence_number(model):
    one, two = appended(model, 2, 2)
    appended(model, 1)
    before = model.snapshot.plan().files.filter(
        pa.compute.is_in(model.snapshot.plan().files.column("raw_location"), pa.array([one, two]))
    )
    sequence = max(before.column("data_sequence").to_pylist())
    new = model.new_file(4)
    model.commit(add=[new], remove=[one, two], verb=Verb.COMPACT, data_change=False, data_sequence=sequence)
    model.check()
    files = {file["raw_location"]: file for file in model.snapshot.plan().files.to_pylist()}
    assert files[new[0]]["data_sequence"] == sequence
    assert files[new[0]]["file_sequence"] == model.metadata()["last-sequence-number"]
    assert model.metadata()["snapshots"][-1]["summary"]["operation"] == "replace"


def test_the_second_writer_of_a_version_loses_and_leaves_no_file(model):
    (path,) = appended(model, 5)
    stale, delta = model.snapshot, model.delta(delete={path: [0]})
    model.commit(delete={path: [1]})
    before = {file for file in model.root.rglob("*") if file.is_file()}
    outcome = model.table.commit(stale, delta)
    assert isinstance(outcome, VersionTaken)
    assert {file for file in model.root.rglob("*") if file.is_file()} == before
    model.check()


def test_properties_and_application_ids(model):
    model.commit(metadata=MetadataChange(properties={"a": "1"}))
    assert model.snapshot.version == -1
    appended(model, 1)
    version = model.snapshot.version
    assert model.commit(metadata=MetadataChange(properties={"a": None, "b": "2"})).version == version
    assert model.metadata()["properties"]["b"] == "2"
    assert "a" not in model.metadata()["properties"]
    model.commit(add=[model.new_file(1)], verb=Verb.APPEND, txn=Txn("etl", 4))
    assert model.snapshot.txns == {"etl": 4}
    with pytest.raises(InvalidOperationError, match="version 4 of application 'etl' is committed already"):
        model.commit(add=[model.new_file(1)], txn=Txn("etl", 4))


def test_a_delta_that_changes_nothing_commits_nothing(model):
    appended(model, 1)
    before = sorted(model.root.rglob("*"))
    assert model.commit().version == model.snapshot.version
    assert sorted(model.root.rglob("*")) == before


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("version", [2, 3])
def test_commits_after_an_upgrade_of_version_1(tmp_path, version, inline):
    writer = IcebergWriter(tmp_path / "t", COLUMNS, format_version=1, inline_manifests=inline)
    files = [writer.add_file([{"id": at, "p": 1}, {"id": at + 10, "p": 2}]) for at in range(2)]
    writer.commit()
    model = Model.of(tmp_path / "t", version)
    model.files = {file.path: (list(file.rows), set()) for file in files}
    model.commit(metadata=MetadataChange(properties={"format-version": str(version)}))
    model.commit(add=[model.new_file(3)], delete={files[0].path: [1]})
    model.check()
    if not inline:  # DuckDB refuses a table with a snapshot that lists its manifests itself
        model.check_others()
    model.commit(remove=[files[1].path])
    model.check()


def test_a_failing_store_leaves_no_file(model, monkeypatch):
    (path,) = appended(model, 5)
    before = {file for file in model.root.rglob("*") if file.is_file()}
    storage = model.table.storage
    put = type(storage).put

    def failing(self, name, data):
        if name.endswith("avro") and "snap-" in name:
            raise StorageError("the store is full", path=name)
        return put(self, name, data)

    monkeypatch.setattr(type(storage), "put", failing)
    with pytest.raises(StorageError, match="the store is full"):
        model.commit(delete={path: [1]})
    assert {file for file in model.root.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.slow] if n > 2 else []) for n in range(20)]
)
@pytest.mark.parametrize("version", [2, 3])
def test_random_commits(tmp_path, seed, version):
    rng = random.Random(seed)
    model = Model(tmp_path / "t", version, partitioned=rng.random() < 0.6)
    merging = {"commit.manifest.min-count-to-merge": str(rng.choice([2, 3, 100]))}
    if rng.random() < 0.5:
        merging["commit.manifest.target-size-bytes"] = str(rng.choice([3000, 9000, 30000]))
    model.commit(metadata=MetadataChange(properties=merging))
    for _ in range(12):
        add = [model.new_file(rng.randrange(1, 8), rng.randrange(3)) for _ in range(rng.randrange(3))]
        paths = list(model.files)
        remove = rng.sample(paths, min(len(paths), rng.choice([0, 0, 0, 1, 2])))
        delete = {}
        for path in rng.sample(paths, min(len(paths), rng.randrange(3))):
            live = set(range(len(model.files[path][0]))) - model.files[path][1]
            if path not in remove and live:
                delete[path] = rng.sample(sorted(live), rng.randrange(1, len(live) + 1))
        model.commit(add=add, remove=remove, delete=delete)
        model.check()
    model.check_others()
