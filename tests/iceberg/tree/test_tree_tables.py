"""Tables of format version 4: commits of deltas, plans, and what a commit writes and reads."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from delvec.row_delta import MetadataChange, Verb
from iceberg_tables.trees import LIMITS, TreeModel


def appended(model, *counts, p=1):
    files = [model.new_file(count, p) for count in counts]
    model.commit(add=files, verb=Verb.APPEND)
    return [path for path, _, _ in files]


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
