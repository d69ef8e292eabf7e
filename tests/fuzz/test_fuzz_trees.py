"""Damaged files of metadata trees: the right files or an error of ours that names a file, quickly and in
little memory.

Pages of manifests and the blobs of manifest vectors have checksums; the footer of a manifest has none, so a
changed byte there may say something else that is well formed. DELVEC_FUZZ_SCALE multiplies the cases.
"""

from __future__ import annotations

import os
import random
import resource
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from damaged_bytes import mutated
from delvec.deletes.loader import DeleteLoader
from delvec.detect import open_table
from delvec.errors import DelvecError
from delvec.iceberg.tree.entries import CONTENT_STATS
from delvec.iceberg.tree.manifest_file import ManifestFile, read_manifest, write_manifest
from delvec.iceberg.tree.stored_tree import TREE_MANIFESTS
from delvec.row_delta import MetadataChange
from iceberg_tables.trees import LIMITS, TreeModel

CASES = 80 * int(os.environ.get("DELVEC_FUZZ_SCALE", "1"))
MAX_CASE_SECONDS = 5.0
MAX_MEMORY_GROWTH = 300 << 20
VALUES = {
    "integer": [None, -1, 0, 1, 2, 3, 4, 5, 6, 99, 2**31 - 1, -(2**31)],
    "string": [None, "", "x", "/", "../x", "hdfs://b/c", "\x00", "parquet", "puffin"],
    "binary": [None, b"", b"\x00", b"\xff" * 40],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A table with files and vectors in the root and in leaves, and manifest vectors, inline and stored."""
    root = tmp_path_factory.mktemp("fuzz") / "t"
    limits = {"root_data_files": 2, "root_deletes": 1, "leaf_entries": 4, "affiliated_entries": 1}
    table, rng = TreeModel(root, **limits), random.Random(5)
    stored = MetadataChange(properties={LIMITS["inline_bytes"]: "0"})
    for step in range(9):
        live = sorted(table.files)
        chosen = rng.sample(live, min(len(live), 3))
        delete = {path: [0, 2] for path in chosen[1:] if not table.files[path][1]}
        added = [table.new_file(4, rng.randrange(3)) for _ in range(3)]
        removed = chosen[:1] if step % 2 else []
        table.commit(add=added, remove=removed, delete=delete, metadata=stored if step == 6 else None)
    table.check()
    kinds = Counter(entry["content_type"] for entry in table.root_entries() if entry["status"] != 2)
    assert kinds.keys() >= {3, 4, 5}, kinds
    return table


def found_in(root):
    """The live files, and the positions that are deleted in each."""
    snapshot = open_table(str(root)).snapshot()
    plan = snapshot.plan()
    deleted = DeleteLoader(snapshot.storage).by_file(plan)
    names = ("raw_location", "record_count", "first_row_id", "data_sequence")
    return sorted(
        (*(file[name] for name in names), tuple(deleted.get(file["file_id"], ())))
        for file in plan.files.to_pylist()
    )


def outcome(model, path, right):
    begin = time.perf_counter()
    try:
        found = found_in(model.root)
    except DelvecError as error:
        message = str(error)
    else:
        return "right" if found == right else "other"
    finally:
        taken = time.perf_counter() - begin
        assert taken < MAX_CASE_SECONDS, f"one case took {taken:.1f} s"
    assert "/" in message, f"names no file: {message}"
    return "refused"


@pytest.fixture
def cases(model):
    """Runs a number of cases: each damages one of the files, and says what was read."""

    def run(seed, paths, damage):
        rng, seen, right = random.Random(seed), Counter(), found_in(model.root)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(CASES):
            path = rng.choice(paths)
            data = path.read_bytes()
            try:
                TREE_MANIFESTS.clear()
                path.write_bytes(damage(rng, data))
                seen[outcome(model, path, right)] += 1
            finally:
                path.write_bytes(data)
        TREE_MANIFESTS.clear()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        assert grown < MAX_MEMORY_GROWTH, f"{grown >> 20} MiB more than before"
        return seen

    return run


def manifests_of(model):
    """The root and the live leaves."""
    leaves = {entry["location"] for entry in model.root_entries() if entry["content_type"] in (3, 4)}
    return [Path(model.root_file), *map(Path, sorted(leaves))]


def test_bytes_of_roots_and_leaves(model, cases):
    seen = cases(1, manifests_of(model), mutated)
    assert seen["refused"] > CASES / 2, seen
    assert seen["other"] < CASES / 10, seen


def test_bytes_of_stored_manifest_vectors(model, cases):
    masks = [
        Path(entry["location"])
        for entry in model.root_entries()
        if entry["content_type"] == 5 and entry["status"] != 2 and entry["location"]
    ]
    assert masks
    seen = cases(2, masks, mutated)
    assert seen["refused"], seen
    assert not seen["other"], seen


def test_values_of_roots_and_leaves(cases, model):
    """Each case has one value that the type of its column can hold. What is refused names the file."""

    def damage(rng, data):
        manifest = read_manifest(data, "manifest")
        entries = manifest.entries
        names = [field.name for field in entries.schema if kind_of(field.type)]
        at = entries.schema.get_field_index(rng.choice([n for n in names if n != CONTENT_STATS]))
        field = entries.schema.field(at)
        values = entries.column(at).to_pylist()
        values[rng.randrange(len(values))] = rng.choice(VALUES[kind_of(field.type)])
        try:
            column = pa.array(values, field.type)
            return write_manifest(ManifestFile(manifest.content, entries.set_column(at, field, column)))
        except (pa.ArrowException, OverflowError):  # a value that the file cannot hold
            return data

    seen = cases(3, manifests_of(model), damage)
    assert seen["refused"] > CASES / 4, seen


def kind_of(data_type):
    if pa.types.is_integer(data_type):
        return "integer"
    if pa.types.is_string(data_type):
        return "string"
    return "binary" if pa.types.is_binary(data_type) else None
