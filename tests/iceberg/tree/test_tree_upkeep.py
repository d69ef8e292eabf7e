"""Branches, restore, time travel and vacuum of tables with trees."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from connector_rows import connector_rows
from delvec.detect import open_table
from delvec.ref_changes import NewRef
from delvec.restore import restore
from delvec.row_delta import MetadataChange, Verb
from delvec.vacuum import vacuum
from iceberg_tables.trees import TreeModel


def ids(model, **options):
    return sorted(row["id"] for row in connector_rows(model.root, **options))


@pytest.fixture(params=[0, 2, 1000], ids="root-{}".format)
def model(tmp_path, request):
    return TreeModel(
        tmp_path / "t", root_data_files=request.param, root_deletes=request.param, affiliated_entries=1
    )


def history(model, seed=1, steps=8):
    """Random commits. The model's files after each, by the snapshot."""
    rng, states = random.Random(seed), {}
    for _ in range(steps):
        add = [model.new_file(rng.randrange(1, 6)) for _ in range(rng.randrange(1, 4))]
        paths = list(model.files)
        remove = rng.sample(paths, min(len(paths), rng.choice([0, 1, 1])))
        delete = {path: [0] for path in rng.sample(paths, min(len(paths), 2)) if path not in remove}
        model.commit(add=add, remove=remove, delete=delete)
        states[model.snapshot.version] = dict(model.files)
    return states


def expected(files):
    return sorted(
        row["id"] for rows, deleted in files.values() for at, row in enumerate(rows) if at not in deleted
    )


def test_older_snapshots_are_read_as_they_were(model):
    for version, files in history(model).items():
        assert ids(model, version=version) == expected(files)


def test_commits_after_a_restore(model):
    states = history(model)
    for version in list(states)[1:4]:
        restore(open_table(str(model.root)), version=version)
        model.files = dict(states[version])
        model.check()
        path = next(iter(model.files))
        model.commit(add=[model.new_file(2)], remove=[path])
        model.check()
        assert ids(model) == expected(model.files)


def test_branches(model):
    history(model, steps=3)
    before = ids(model)
    model.table.create_ref(NewRef("b"))
    main, model.table = model.table, model.table.on_ref("b")
    model.commit(add=[model.new_file(3)], delete={next(iter(model.files)): [0]})
    assert ids(model, ref="b") == expected(model.files)
    assert ids(model) == before
    model.table = main


def test_a_first_branch_of_a_table_without_snapshots(model):
    model.table.create_ref(NewRef("b"))
    model.table = model.table.on_ref("b")
    model.commit(add=[model.new_file(3)], verb=Verb.APPEND)
    assert len(ids(model, ref="b")) == 3
    assert ids(model) == []


def files_of(model):
    found = {str(file) for file in model.root.rglob("*") if file.is_file()}
    return {path for path in found if "/metadata/v" not in path}


def named(model):
    """What the snapshots of the table need, by the naive reader."""
    found = set()
    for snapshot in model.metadata()["snapshots"]:
        root = model.root_entries(snapshot["root-manifest"])
        found |= {snapshot["root-manifest"], *(entry.name for entry in model.live(root))}
        found |= {entry["location"] for entry in root if entry["status"] != 2 and entry["location"]}
    return found


@pytest.mark.parametrize("inline_bytes", [0, 2048])
def test_vacuum_leaves_what_retained_snapshots_need(model, inline_bytes):
    properties = {
        "delvec.tree.inline-vector-bytes": str(inline_bytes),
        "history.expire.max-snapshot-age-ms": "1",
        "history.expire.min-snapshots-to-keep": "2",
    }
    model.commit(metadata=MetadataChange(properties=properties))
    states = history(model)
    assert vacuum(open_table(str(model.root)), dry_run=True).files > 0
    vacuum(open_table(str(model.root)), retain_hours=0, force=True)
    kept = [snapshot["snapshot-id"] for snapshot in model.metadata()["snapshots"]]
    assert kept == list(states)[-len(kept) :]
    assert len(kept) < len(states)
    assert files_of(model) == named(model)
    for version in kept:
        assert Counter(ids(model, version=version)) == Counter(expected(states[version]))
    model.check()
    history(model, seed=2, steps=2)
    model.check()
