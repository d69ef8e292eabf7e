"""Tables of format version 4: commits of deltas, plans, and what a commit writes and reads."""

from __future__ import annotations

import random

import pytest

from delvec.browse import metadata_tree
from delvec.iceberg.locations import Locations
from delvec.iceberg.needed_files import SnapshotFiles
from delvec.row_delta import Verb
from iceberg_tables.trees import TreeModel


def appended(model, *counts, p=1):
    files = [model.new_file(count, p) for count in counts]
    model.commit(add=files, verb=Verb.APPEND)
    return [path for path, _, _ in files]


def needed(model):
    """The locations of what all snapshots need, but for the metadata files."""
    metadata = model.snapshot.metadata
    files = SnapshotFiles(model.table.storage, Locations(metadata.location))
    found = files.metadata_files(metadata.snapshots.values())
    tables = [found.lists, found.manifests, found.contents, *files.live_files(found.manifests, found.masks)]
    return {place for table in tables for place in table.column("location").to_pylist()}


def expected_needed(model):
    """The same, by the naive reader."""
    found = set()
    for snapshot in model.metadata()["snapshots"]:
        root = model.root_entries(snapshot["root-manifest"])
        found |= {snapshot["root-manifest"], *(entry.name for entry in model.live(root))}
        found |= {entry["location"] for entry in root if entry["status"] != 2 and entry["location"]}
    return found


def files_of(model):
    return {str(file.relative_to(model.root)) for file in model.root.rglob("*") if file.is_file()}


def test_a_small_commit_writes_one_root_and_one_metadata_file(tmp_path):
    model = TreeModel(tmp_path / "t")
    (path,) = appended(model, 5)
    before = files_of(model)
    model.commit(delete={path: [1]}, verb=Verb.DELETE)
    new = sorted(files_of(model) - before)
    assert [name.split("/")[0] for name in new] == ["data", "metadata", "metadata"]
    assert [name.rsplit(".", 1)[1] for name in new] == ["puffin", "parquet", "json"]
    model.check()
    summary = model.metadata()["snapshots"][-1]["summary"]
    assert (summary["operation"], summary["added-dvs"], summary["total-records"]) == ("delete", "1", "5")


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.slow] if n > 3 else []) for n in range(24)]
)
def test_random_commits(tmp_path, seed):
    rng = random.Random(seed)
    limits = {
        "root_data_files": rng.choice([0, 1, 3, 1000]),
        "root_deletes": rng.choice([0, 1, 3, 1000]),
        "leaf_entries": rng.choice([1, 2, 5, 100]),
        "inline_bytes": rng.choice([0, 60, 2048]),
        "affiliated_entries": rng.choice([1, 2, 32]),
        "affiliated_manifests": rng.choice([1, 2]),
        "unaffiliated_manifests": rng.choice([1, 2, 4]),
    }
    model = TreeModel(tmp_path / "t", partitioned=rng.random() < 0.6, **limits)
    for _ in range(12):
        add = [model.new_file(rng.randrange(1, 8), rng.randrange(3)) for _ in range(rng.randrange(4))]
        paths = list(model.files)
        remove = rng.sample(paths, min(len(paths), rng.choice([0, 0, 0, 1, 2])))
        delete = {}
        for path in rng.sample(paths, min(len(paths), rng.randrange(4))):
            live = set(range(len(model.files[path][0]))) - model.files[path][1]
            if path not in remove and live:
                delete[path] = rng.sample(sorted(live), rng.randrange(1, len(live) + 1))
        model.commit(add=add, remove=remove, delete=delete)
        model.check()
        assert not list(model.table.findings(model.snapshot))
        assert str(shown(model))
    assert needed(model) == expected_needed(model)


def names_of(won):
    return tuple(set(column.to_pylist()) for column in (won.added, won.removed, won.vectors))


@pytest.mark.parametrize("limit", [0, 1000])
def test_the_root_says_what_its_snapshot_changed(tmp_path, limit):
    """In the root, and in leaves: by manifest vectors."""
    model = TreeModel(tmp_path / "t", root_data_files=limit, root_deletes=limit, affiliated_entries=1)
    one, two, three = appended(model, 3, 3, 3)
    before = model.snapshot
    model.commit(delete={one: [0]})
    model.commit(delete={one: [1], two: [2]}, remove=[three])
    new = model.new_file(2)
    model.commit(add=[new], remove=[one])
    commits = model.table.won(before, model.snapshot)
    assert [names_of(won) for won in commits] == [
        (set(), set(), {one}),
        (set(), {three}, {one, two}),
        ({new[0]}, {one}, set()),
    ]


def shown(model):
    found = model.table
    return metadata_tree(found, found.snapshot(), limit=0)


def outline(node):
    """Kinds and statuses."""
    head = f"{node['kind']} {node['facts'].get('status', '')}".strip()
    return [head, *(outline(child) for child in node["children"])]


def test_the_tree_has_statuses_manifest_vectors_and_affinity(tmp_path):
    model = TreeModel(tmp_path / "t", root_data_files=0, root_deletes=0, affiliated_entries=1)
    one, _ = appended(model, 3, 3)
    model.commit(delete={one: [0]})
    model.commit(delete={one: [1]})
    model.commit(delete={one: [2]}, remove=[])
    tree = shown(model)
    (root,) = tree.document()["tree"]["children"]
    assert outline(root) == [
        "root",
        ["data manifest existing", ["manifest vector added"], ["data file"]],
        ["delete manifest existing", ["manifest vector added"]],
    ], str(tree)
    assert root["facts"]["leaves"] == 2
