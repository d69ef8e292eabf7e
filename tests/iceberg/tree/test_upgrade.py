"""Upgrades to format version 4: what is written, what the first root has, and what goes on afterwards."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import naive_tree
from delvec import conflicts
from delvec.deletes.loader import DeleteLoader
from delvec.detect import open_table
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg import restore
from delvec.iceberg.file_lifetimes import _delete_keys
from delvec.iceberg.tree.manifest_file import read_manifest
from delvec.ref_changes import NewRef
from delvec.row_delta import Committed, MetadataChange, Operation, Request, Verb
from delvec.schema import Field, Primitive, Struct
from delvec.vacuum import vacuum
from iceberg_tables.commits import Model, avro
from iceberg_tables.trees import LIMITS, read_blob
from iceberg_tables.writer import IcebergWriter


class UpgradedModel(Model):
    """A table that was of version 2 or 3. Its naive reader reads Avro leaves too."""

    def root_entries(self):
        metadata = self.metadata()
        (place,) = [
            snapshot["root-manifest"]
            for snapshot in metadata["snapshots"]
            if snapshot["snapshot-id"] == metadata["current-snapshot-id"]
        ]
        return naive_tree.parquet_entries(Path(place).read_bytes())

    def live(self):
        return naive_tree.live_entries(self.root_entries(), read_leaf, read_blob)

    def check_naive(self):
        found = {one.name: one for one in self.live() if one.content == naive_tree.DATA}
        assert found.keys() == self.files.keys()
        plan = open_table(str(self.root)).snapshot().plan()
        own = {
            row["raw_location"]: (row["data_sequence"], row["file_sequence"], row["first_row_id"])
            for row in plan.files.to_pylist()
        }
        assert own == {
            name: (one.sequence, one.file_sequence, one.first_row_id) for name, one in found.items()
        }
        ids = [n for one in found.values() for n in range(one.first_row_id, one.first_row_id + one.rows)]
        assert len(ids) == len(set(ids))
        assert max(ids, default=-1) < self.metadata()["next-row-id"]


def read_leaf(place):
    data = Path(place).read_bytes()
    return avro_leaf(place) if data.startswith(b"Obj") else naive_tree.parquet_entries(data)


def avro_leaf(place):
    """The entries of an Avro manifest, by their ordinals."""
    names = {"location": "file_path", "content_type": "content", "first_row_id": "first_row_id"}
    names |= {"record_count": "record_count", "referenced_file": "referenced_data_file"}
    tracking = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
    return [
        {name: entry.get(name) for name in tracking}
        | {name: entry["data_file"].get(source) for name, source in names.items()}
        for entry in avro(place)
    ]


def files_of(root):
    return {path: path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


def history(root, version=3, *, partitioned=True, **properties):
    """Three appends, a delete and a removal."""
    model = UpgradedModel(root, version, partitioned=partitioned, **properties)
    paths = []
    for p in (1, 2, 3):
        files = [model.new_file(4, p), model.new_file(3, p)]
        model.commit(add=files, verb=Verb.APPEND)
        paths += [path for path, _, _ in files]
    model.commit(delete={paths[0]: [1], paths[4]: [0, 2]}, verb=Verb.DELETE)
    model.commit(remove=[paths[3]], verb=Verb.DELETE)
    return model, paths


def plan_of(model):
    return [
        (row["raw_location"], row["data_sequence"], row["file_sequence"], row["first_row_id"])
        for row in model.snapshot.plan().files.to_pylist()
    ]


@pytest.mark.parametrize("partitioned", [True, False])
def test_every_manifest_is_carried_and_nothing_is_written_anew(tmp_path, partitioned):
    model, _ = history(tmp_path / "t", partitioned=partitioned)
    before, planned, listed = files_of(model.root), plan_of(model), model.manifests()
    old = model.metadata()
    model.table.upgrade(4)
    after, new = files_of(model.root), model.metadata()
    assert {path: after[path] for path in before if path.name != "version-hint.text"} == {
        path: data for path, data in before.items() if path.name != "version-hint.text"
    }
    added = sorted(path.name.split(".", 1)[1] for path in after.keys() - before.keys())
    assert added == ["metadata.json", "parquet"]
    assert sorted(plan_of(model)) == sorted(planned)
    model.check_plan()
    model.check_naive()
    root = model.root_entries()
    assert [entry["status"] for entry in root] == [naive_tree.EXISTING] * len(listed)
    for entry, (_, manifest) in zip(root, listed, strict=True):
        assert entry["location"] == manifest["manifest_path"]
        assert entry["file_size_in_bytes"] == manifest["manifest_length"]
        assert entry["content_type"] == 3 + manifest["content"]
        assert entry["snapshot_id"] == manifest["added_snapshot_id"]
        assert entry["sequence_number"] == entry["file_sequence_number"] == manifest["sequence_number"]
        assert entry["first_row_id"] == manifest["first_row_id"]
        for name in ("added", "existing", "deleted"):
            for kind in ("files", "rows"):
                assert entry[f"{name}_{kind}_count"] == manifest[f"{name}_{kind}_count"]
        assert entry["record_count"] == len(avro(manifest["manifest_path"]))
    assert (new["format-version"], new["properties"]["delvec.tree-profile"]) == (4, "seed-1")
    assert new["properties"]["delvec.tree-since"] == str(old["last-sequence-number"])
    assert new["snapshots"][:-1] == old["snapshots"]
    assert new["snapshot-log"][:-1] == old["snapshot-log"]
    last, previous = new["snapshots"][-1], old["snapshots"][-1]
    assert last["sequence-number"] == old["last-sequence-number"] + 1
    assert (last["parent-snapshot-id"], last["added-rows"]) == (previous["snapshot-id"], 0)
    assert "manifest-list" not in last
    totals = {name: value for name, value in previous["summary"].items() if name.startswith("total-")}
    assert last["summary"].items() >= {"operation": "replace", **totals}.items()
    if partitioned:
        assert [field["expr-id"] for field in new["partition-specs"][0]["fields"]] == [2]


def test_statistics_of_partitions_prune_avro_leaves(tmp_path):
    model, _ = history(tmp_path / "t")
    model.table.upgrade(4)
    root = read_manifest(Path(model.snapshot.record.root_manifest).read_bytes(), "root").entries
    bounds = [
        (row["content_stats"]["2"]["lower_bound"], row["content_stats"]["2"]["upper_bound"])
        for row in root.to_pylist()
        if row["content_type"] == 3
    ]
    assert sorted(bounds) == [(1, 1), (2, 2), (3, 3)]


def test_older_snapshots_are_read_by_their_lists(tmp_path):
    model, _ = history(tmp_path / "t")
    planned = {
        snapshot["snapshot-id"]: model.table.snapshot(snapshot["snapshot-id"]).plan().files.to_pylist()
        for snapshot in model.metadata()["snapshots"]
    }
    model.table.upgrade(4)
    table = open_table(str(model.root))
    for number, files in planned.items():
        assert table.snapshot(number).plan().files.to_pylist() == files
    model.commit(add=[model.new_file(2)], verb=Verb.APPEND)
    for number, files in planned.items():
        assert table.snapshot(number).plan().files.to_pylist() == files


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_commits_go_on_with_manifest_vectors_on_avro_leaves(tmp_path, version, seed):
    rng = random.Random(seed)
    model, paths = history(tmp_path / "t", version)
    model.table.upgrade(4)
    model.check_plan()
    change = MetadataChange(properties={LIMITS["root_data_files"]: "2", LIMITS["root_deletes"]: "1"})
    if seed:
        model.commit(metadata=change, verb=Verb.ALTER)
    model.commit(remove=[paths[0]], verb=Verb.DELETE)  # masks its entry, and that of its delete file
    masks = [entry for entry in model.root_entries() if entry["content_type"] == naive_tree.MASK]
    assert masks
    assert all(mask["referenced_file"].endswith(".avro") for mask in masks)
    model.check_plan()
    model.check_naive()
    for _ in range(6):
        live = sorted(model.files)
        chosen = rng.sample(live, min(len(live), 2))
        positions = {
            path: [min(set(range(len(model.files[path][0]))) - model.files[path][1])] for path in chosen[1:]
        }
        model.commit(add=[model.new_file(3, rng.randrange(4))], remove=chosen[:1], delete=positions)
        model.check_plan()
        model.check_naive()


def test_a_table_of_version_2_gets_row_ids(tmp_path):
    model, _ = history(tmp_path / "t", 2)
    model.table.upgrade(4)
    model.check_plan()
    model.check_naive()
    new = model.metadata()
    records = sum(len(rows) for rows, _ in model.files.values())
    assert new["next-row-id"] >= records
    last = new["snapshots"][-1]
    assert (last["first-row-id"], last["added-rows"]) == (0, new["next-row-id"])


def test_each_branch_gets_a_root_and_tags_stay(tmp_path):
    model, _ = history(tmp_path / "t")
    first, second = [snapshot["snapshot-id"] for snapshot in model.metadata()["snapshots"][:2]]
    model.table.create_ref(NewRef("old", "branch", second))
    model.table.create_ref(NewRef("v1", "tag", first))
    branch = model.table.on_ref("old").snapshot().plan().files.to_pylist()
    model.table.upgrade(4)
    table, metadata = open_table(str(model.root)), model.metadata()
    names = ("raw_location", "data_sequence", "first_row_id")

    def chosen(files):
        return sorted(tuple(file[name] for name in names) for file in files)

    snapshot = table.on_ref("old").snapshot()
    assert snapshot.record.root_manifest is not None
    assert snapshot.record.parent_id == second
    assert chosen(snapshot.plan().files.to_pylist()) == chosen(branch)
    assert table.on_ref("v1").snapshot().version == first
    assert len(metadata["snapshots"]) == 7
    model.check_plan()


def test_an_empty_table_has_no_snapshot_to_carry(tmp_path):
    model = UpgradedModel(tmp_path / "t", 3)
    model.table.upgrade(4)
    assert model.metadata()["snapshots"] == []
    model.commit(add=[model.new_file(2)], verb=Verb.APPEND)
    model.check_plan()
    model.check_naive()
    model.table.upgrade(4)  # changes nothing


def test_setting_the_property_upgrades_in_one_swap(tmp_path):
    model, _ = history(tmp_path / "t")
    change = MetadataChange(properties={"format-version": "4"})
    outcome = model.commit(metadata=change, verb=Verb.ALTER)
    assert isinstance(outcome, Committed)
    metadata = model.metadata()
    assert (metadata["format-version"], metadata["current-snapshot-id"]) == (4, outcome.version)
    assert "root-manifest" in metadata["snapshots"][-1]
    model.check_plan()
    model.check_naive()


def test_an_upgrade_and_a_change_of_files_are_two_commits(tmp_path):
    model, _ = history(tmp_path / "t")
    before = files_of(model.root)
    delta = model.delta(add=[model.new_file(2)], metadata=MetadataChange(properties={"format-version": "4"}))
    with pytest.raises(InvalidOperationError, match="upgrade the table first"):
        model.table.commit(model.snapshot, delta)
    assert [path for path in files_of(model.root).keys() - before.keys() if "metadata" in path.parts] == []


def test_there_is_no_way_back(tmp_path):
    model, _ = history(tmp_path / "t")
    model.table.upgrade(4)
    with pytest.raises(InvalidOperationError, match="cannot get an older one"):
        model.table.upgrade(3)
    with pytest.raises(UnsupportedFeatureError, match="expected 2, 3 or 4"):
        model.table.upgrade(5)


def test_an_upgrade_that_another_writer_was_faster_than_is_made_again(tmp_path, monkeypatch):
    model, _ = history(tmp_path / "t")
    other = UpgradedModel.of(model.root, 3)
    other.files, other._next = model.files, 900
    table, commit = open_table(str(model.root)), type(model.table._newest.pointer).commit
    raced = []

    def slow(self, storage, base, updates):
        if not raced:
            raced.append(base)
            other.commit(add=[other.new_file(2)], verb=Verb.APPEND)
        return commit(self, storage, base, updates)

    monkeypatch.setattr(type(table._newest.pointer), "commit", slow)
    table.upgrade(4)
    monkeypatch.undo()
    model.check_plan()
    model.check_naive()
    roots = [path for path in model.root.rglob("*.parquet") if path.parent.name == "metadata"]
    assert len(roots) == 1, "the root of the first attempt is deleted"


@pytest.mark.parametrize("version", [2, 3])
def test_commits_to_older_snapshots_carry_their_manifests(tmp_path, version):
    """A branch at a snapshot from before the upgrade, and a table that is restored to one."""
    model, paths = history(tmp_path / "t", version)
    old = model.metadata()["snapshots"][3]["snapshot-id"]  # before the removal of paths[3]
    before = model.table.snapshot(old).plan()
    model.table.upgrade(4)
    newest = model.snapshot
    outcome = conflicts.commit(
        model.table,
        newest,
        restore.state_at(newest, model.table.snapshot(old), Request(Operation.RESTORE)).delta,
        conflicts.ReadsNoRows(),
    )
    assert isinstance(outcome, conflicts.Settled)
    assert model.snapshot.version == old
    added, removed = model.new_file(2), paths[5]
    delta = model_delta(model, add=[added], remove=[removed], delete={paths[3]: [0]})
    assert isinstance(model.table.commit(model.snapshot, delta), Committed)
    snapshot = open_table(str(model.root)).snapshot()
    assert snapshot.record.root_manifest is not None
    found = {row["raw_location"]: row["record_count"] for row in snapshot.plan().files.to_pylist()}
    expected = {row["raw_location"]: row["record_count"] for row in before.files.to_pylist()}
    del expected[removed]
    assert found == expected | {added[0]: 2}
    assert list(model.table.findings(snapshot)) == []
    deleted = DeleteLoader(snapshot.storage).by_file(snapshot.plan())
    by_path = {
        row["raw_location"]: list(deleted.get(row["file_id"], ()))
        for row in snapshot.plan().files.to_pylist()
    }
    assert {path: positions for path, positions in by_path.items() if positions} == {
        paths[0]: [1],
        paths[3]: [0],
        paths[4]: [0, 2],
    }


def model_delta(model, **changes):
    """A delta of a snapshot that the model does not follow."""
    model.files = {path: ([None] * 9, set()) for path in changes["delete"]} | model.files
    return model.delta(**changes)


@pytest.mark.parametrize("expire", [False, True])
def test_vacuum_keeps_what_avro_leaves_and_older_snapshots_need(tmp_path, expire):
    model, paths = history(tmp_path / "t")
    model.table.upgrade(4)
    model.commit(add=[model.new_file(2)], remove=[paths[0]], verb=Verb.DELETE)
    old = None if expire else {
        snapshot["snapshot-id"]: model.table.snapshot(snapshot["snapshot-id"]).plan().files.num_rows
        for snapshot in model.metadata()["snapshots"]
    }  # fmt: skip
    result = vacuum(open_table(str(model.root)), retain_hours=0 if expire else None, force=True)
    model.check_plan()
    model.check_naive()
    assert list(model.table.findings(open_table(str(model.root)).snapshot())) == []
    gone = {path for path in paths if not Path(path).exists()}
    if expire:
        assert gone == {paths[0], paths[3]}
        assert len(open_table(str(model.root))._newest.read()[1].snapshots) == 1
    else:
        assert (gone, result.files) == (set(), 0)
        for number, count in old.items():
            snapshot = open_table(str(model.root)).snapshot(number)
            plan = snapshot.plan()
            assert plan.files.num_rows == count
            assert all(Path(path).exists() for path in plan.files.column("location").to_pylist())


def test_vacuum_keeps_what_a_tag_from_before_the_upgrade_needs(tmp_path):
    """The tag's manifest list masks nothing of the manifest that the root masks."""
    model, paths = history(tmp_path / "t")
    model.table.create_ref(NewRef("old", "tag"))
    tagged = model.snapshot.version
    model.table.upgrade(4)
    model.commit(remove=[paths[0]], verb=Verb.DELETE)
    vacuum(open_table(str(model.root)), retain_hours=0, force=True)
    kept = {snapshot["snapshot-id"] for snapshot in model.metadata()["snapshots"]}
    assert kept == {tagged, model.snapshot.version}
    plan = open_table(str(model.root)).snapshot(tagged).plan()
    assert paths[0] in plan.files.column("location").to_pylist()
    assert all(Path(path).exists() for path in plan.files.column("location").to_pylist())
    DeleteLoader(model.table.storage).by_file(plan)
    model.check_plan()


def test_a_position_file_is_the_same_delete_before_and_after(tmp_path):
    """A manifest may name its data file by the bounds of the paths alone. The change feed compares both."""
    writer = IcebergWriter(tmp_path / "t", pa.schema([("id", pa.int64())]), format_version=2)
    file = writer.add_file([{"id": number} for number in range(4)])
    writer.commit()
    writer.delete_positions({file: [3]})
    writer.commit()
    old = open_table(str(writer.root)).snapshot().version
    table = open_table(str(writer.root))
    table.upgrade(4)
    keys = []
    for version in (old, None):
        snapshot = table.snapshot(version)
        keys.append(_delete_keys(snapshot.live_at(snapshot.record).deletes()).to_pylist())
    assert keys[0] == keys[1]
    assert len(keys[0]) == 1


def test_an_upgrade_and_new_columns_are_two_commits(tmp_path):
    """New columns would get the ids of the expressions."""
    model, _ = history(tmp_path / "t")
    schema = Struct((*model.snapshot.schema, Field("c", Primitive("long"))))
    change = MetadataChange(schema=schema, properties={"format-version": "4"})
    with pytest.raises(InvalidOperationError, match="files or columns and upgrades"):
        model.table.commit(model.snapshot, model.delta(metadata=change, verb=Verb.ALTER))
    assert model.metadata()["format-version"] == 3


def test_a_writer_that_an_upgrade_was_faster_than_runs_again(tmp_path):
    model, paths = history(tmp_path / "t")
    base = model.snapshot
    stale = model.delta(add=[model.new_file(2)], remove=[paths[5]], delete={paths[0]: [2]})
    open_table(str(model.root)).upgrade(4)
    outcome = conflicts.commit(open_table(str(model.root)), base, stale, conflicts.ReadsNoRows())
    assert isinstance(outcome, conflicts.Rerun)
    assert "it changed the format version to 4" in outcome.message
    assert outcome.repeatable
    model.check_plan()
    model.check_naive()
