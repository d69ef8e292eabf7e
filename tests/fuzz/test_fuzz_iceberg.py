"""Damaged files of Iceberg tables: rows or an error of ours that names a file, quickly and in little memory.

Vectors have checksums: with a damaged one the rows are right, or it is refused. A changed byte of a metadata
file or a manifest may say something else that is well formed. DELVEC_FUZZ_SCALE multiplies the cases.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import time
from collections import Counter

import pyarrow as pa
import pytest

from connector_rows import connector_rows
from damaged_bytes import mutated
from delvec.errors import DelvecError
from delvec.iceberg.manifest_cache import MANIFESTS
from iceberg_tables import IcebergWriter
from iceberg_tables.avro import rewritten
from rows import multiset

SCALE = int(os.environ.get("DELVEC_FUZZ_SCALE", "1"))
CASES = 60 * SCALE
MAX_CASE_SECONDS = 5.0
MAX_MEMORY_GROWTH = 300 << 20
COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("s", pa.string())])
JUNK = [
    None,
    True,
    -1,
    0,
    1,
    7,
    2**31,
    2**63 - 1,
    -(2**63),
    1.5,
    "",
    "x",
    "\x00",
    "../..",
    [],
    [[]],
    {},
    {"a": 1},
]


def numbers(first, p):
    return [{"id": n, "p": p, "s": f"s{n}"} for n in range(first, first + 6)]


@pytest.fixture(scope="module", params=[2, 3])
def original(request, tmp_path_factory):
    """A small table with every kind of delete, in two partitions."""
    table = IcebergWriter(
        tmp_path_factory.mktemp("fuzz") / "t", COLUMNS, format_version=request.param, partition_by=["p"]
    )
    files = [table.add_file(numbers(p * 10, p)) for p in (1, 2)]
    table.commit()
    table.delete_rows(files[0], [0, 4])
    table.delete_keys([{"id": 22}, {"id": None}], on=["id"], partition={"p": 2})
    table.commit()
    assert multiset(connector_rows(table.root)) == multiset(table.rows())
    return table


def mutated_tree(rng, tree):
    """The JSON with one value, somewhere, replaced or dropped."""
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        key = rng.choice(list(tree))
        rest = {name: value for name, value in tree.items() if name != key}
        return rest if rng.random() < 0.1 else {**tree, key: mutated_tree(rng, tree[key])}
    if isinstance(tree, list) and tree and rng.random() < 0.8:
        place = rng.randrange(len(tree))
        return [*tree[:place], mutated_tree(rng, tree[place]), *tree[place + 1 :]]
    return rng.choice(JUNK)


def mutated_record(rng, value):
    """A record of an Avro file with one value replaced by another that its type can hold."""
    match value:
        case dict() if value:
            key = rng.choice(list(value))
            return {**value, key: mutated_record(rng, value[key])}
        case list() if value:
            place = rng.randrange(len(value))
            return [*value[:place], mutated_record(rng, value[place]), *value[place + 1 :]]
        case bool():
            return not value
        case int():
            return rng.choice([0, -1, 1, 3, 99, 2**31 - 1, -(2**31), value + 1])
        case str():
            return rng.choice(["", "x", "/", "../x", "hdfs://b/c", value[:-1], value + "é", "\x00"])
        case bytes():
            return rng.choice([b"", b"\x00", value[:-1], value + b"\xff"])
    return value


def outcome(table, damaged):
    """The rows, or None where the table was refused by an error of ours that names a file."""
    begin = time.perf_counter()
    try:
        return connector_rows(table)
    except DelvecError as error:
        message = str(error)
    finally:
        taken = time.perf_counter() - begin
        assert taken < MAX_CASE_SECONDS, f"one case took {taken:.1f} s"
    assert damaged.name in message or "/" in message, f"names no file: {message}"
    return None


@pytest.fixture
def cases(original, tmp_path):
    """Runs a number of cases: each damages one of the files, and says whether the table was read."""

    def run(seed, paths, damage):
        rng, seen = random.Random(seed), Counter()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(CASES):
            path = rng.choice(paths)
            data = path.read_bytes()
            try:
                MANIFESTS.clear()
                path.write_bytes(damage(rng, data))
                rows = outcome(original.root, path)
            finally:
                path.write_bytes(data)
            seen["refused" if rows is None else "right" if is_right(original, rows) else "other"] += 1
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        assert grown < MAX_MEMORY_GROWTH, f"{grown >> 20} MiB more than before"
        return seen

    yield run
    shutil.rmtree(tmp_path, ignore_errors=True)


def is_right(table, rows):
    return multiset(rows) == multiset(table.rows())


def metadata_file(table):
    return [table.root / f"metadata/v{table.metadata_version}.metadata.json"]


def avro_files(table):
    return [
        table.place(table.head.json["manifest-list"]),
        *(table.place(m.path) for m in table.head.manifests),
    ]


def test_bytes_of_the_metadata_file(original, cases):
    seen = cases(1, metadata_file(original), mutated)
    assert seen["refused"] > CASES / 4


def test_values_of_the_metadata_file(original, cases):
    def damage(rng, data):
        return json.dumps(mutated_tree(rng, json.loads(data))).encode()

    seen = cases(2, metadata_file(original), damage)
    assert seen["refused"] > CASES / 5


def test_bytes_of_manifest_lists_and_manifests(original, cases):
    seen = cases(3, avro_files(original), mutated)
    assert seen["refused"] > CASES / 3


def test_values_of_manifest_lists_and_manifests(original, cases):
    def damage(rng, data):
        return rewritten(data, lambda records: [mutated_record(rng, record) for record in records])

    seen = cases(4, avro_files(original), damage)
    assert seen["refused"] > CASES / 10


def test_bytes_of_delete_files(original, cases):
    """Vectors have a checksum. Parquet files have none here: what is in one may be another value."""
    entries = original.head.entries(1, 2)
    vectors = [original.place(entry.file.path) for entry in entries if entry.file.is_vector]
    others = [original.place(entry.file.path) for entry in entries if not entry.file.is_vector]
    if vectors:
        seen = cases(5, vectors, mutated)
        assert seen["refused"]  # most of a Puffin file is its footer, which is not needed to read a vector
        assert not seen["other"]
    seen = cases(6, others, mutated)
    assert seen["refused"] > CASES / 5
