"""Two writers of a tree: the loser builds its root from the winner's, whatever the winner did to it."""

from __future__ import annotations

import random

import pytest

import naive_tree
from delvec import conflicts
from delvec.row_delta import MetadataChange, Verb
from iceberg_tables.trees import LIMITS, TreeModel

IN_LEAVES = {"root_data_files": 0, "root_deletes": 0, "affiliated_entries": 1, "leaf_entries": 4}
FLUSH = MetadataChange(properties={LIMITS[name]: str(value) for name, value in IN_LEAVES.items()})


def appended(model, *counts, p=1):
    files = [model.new_file(count, p) for count in counts]
    model.commit(add=files, verb=Verb.APPEND)
    return [path for path, _, _ in files]


def settled(model, base, delta):
    outcome = conflicts.commit(model.table, base, delta, conflicts.ReadsNoRows())
    assert isinstance(outcome, conflicts.Settled), outcome


def entries_of(model, *types):
    return [entry for entry in model.root_entries() if entry["content_type"] in types]


def test_the_winner_flushed_the_files_that_the_loser_names(tmp_path):
    model = TreeModel(tmp_path / "t")
    one, two, three = appended(model, 4, 4, 4)
    base = model.snapshot
    stale = model.delta(add=[(new := model.new_file(2))], delete={one: [1]}, remove=[two])
    model.commit(add=[model.new_file(3)], metadata=FLUSH, verb=Verb.APPEND)
    assert not entries_of(model, naive_tree.DATA)
    settled(model, base, stale)
    del model.files[two]
    model.files[one] = (model.files[one][0], {1})
    model.files[new[0]] = (new[1], set())
    model.check()
    (mask,) = entries_of(model, naive_tree.MASK)
    assert (mask["status"], mask["record_count"]) == (naive_tree.ADDED, 1)
    assert three in model.files


def test_the_winner_masked_the_same_leaf(tmp_path):
    model = TreeModel(tmp_path / "t", **IN_LEAVES)
    paths = appended(model, 4, 4, 4, 4)
    base = model.snapshot
    stale = model.delta(remove=[paths[2]])
    model.commit(remove=[paths[0]], verb=Verb.DELETE)
    settled(model, base, stale)
    del model.files[paths[2]]
    model.check()
    old, new = sorted(entries_of(model, naive_tree.MASK), key=lambda entry: entry["record_count"])
    assert (old["status"], new["status"]) == (naive_tree.DELETED, naive_tree.ADDED)
    positions = [naive_tree.mask_of(entry, None) for entry in (old, new)]
    assert positions == [{0}, {0, 2}]


@pytest.mark.parametrize("limits", [{}, IN_LEAVES], ids=["in the root", "in a leaf"])
def test_the_winner_removed_the_same_file(tmp_path, limits):
    model = TreeModel(tmp_path / "t", **limits)
    one, two = appended(model, 4, 4)
    base = model.snapshot
    stale = [model.delta(remove=[one]), model.delta(delete={one: [1], two: [0]})]
    model.commit(remove=[one], verb=Verb.DELETE)
    before = {path for path in model.root.rglob("*") if path.is_file()}
    for delta in stale:
        outcome = conflicts.commit(model.table, base, delta, conflicts.ReadsNoRows())
        assert isinstance(outcome, conflicts.Rerun)
        assert one in outcome.message
    model.check()
    metadata = {path for path in model.root.rglob("metadata/*") if path.is_file()}
    assert metadata <= before, "what the loser stored is deleted"


@pytest.mark.parametrize("limits", [{}, IN_LEAVES], ids=["in the root", "in a leaf"])
def test_vectors_of_the_same_file_are_united(tmp_path, limits):
    model = TreeModel(tmp_path / "t", **limits)
    one, two = appended(model, 6, 4)
    model.commit(delete={one: [0]}, verb=Verb.DELETE)
    base = model.snapshot
    stale = model.delta(delete={one: [2]})
    model.commit(delete={one: [1], two: [3]}, verb=Verb.DELETE)
    settled(model, base, stale)
    model.files[one] = (model.files[one][0], {0, 1, 2})
    model.check()


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.slow] if n > 2 else []) for n in range(30)]
)
def test_random_races(tmp_path, seed):
    """The loser's change is on top of the winner's, or it is refused because both changed a file."""
    rng = random.Random(seed)
    model = TreeModel(
        tmp_path / "t",
        root_data_files=rng.choice([0, 2, 100]),
        root_deletes=rng.choice([0, 1, 100]),
        leaf_entries=rng.choice([2, 100]),
        inline_bytes=rng.choice([0, 2048]),
        affiliated_entries=rng.choice([1, 32]),
    )
    appended(model, *(5 for _ in range(6)))
    for _ in range(6):
        live = sorted(model.files)
        base, mine = model.snapshot, rng.sample(live, min(len(live), 3))
        removed, deleted = mine[:1], {path: [free(model, path)] for path in mine[1:]}
        new = model.new_file(3, rng.randrange(3))
        stale = model.delta(add=[new], remove=removed, delete=deleted)
        theirs = rng.sample(live, min(len(live), 2))
        model.commit(
            add=[model.new_file(2, rng.randrange(3)) for _ in range(rng.randrange(3))],
            remove=theirs[:1],
            delete={path: [free(model, path)] for path in theirs[1:]},
        )
        gone = {path for path in mine if path not in model.files}
        outcome = conflicts.commit(model.table, base, stale, conflicts.ReadsNoRows())
        if isinstance(outcome, conflicts.Rerun):
            assert set(mine) & set(theirs)
            model.check()
            continue
        assert not gone
        for path in removed:
            del model.files[path]
        for path, positions in deleted.items():
            rows, old = model.files[path]
            model.files[path] = rows, old | set(positions)
            if len(model.files[path][1]) == len(rows):
                del model.files[path]
        model.files[new[0]] = (new[1], set())
        model.check()


def free(model, path):
    rows, deleted = model.files[path]
    return min(set(range(len(rows))) - deleted)
