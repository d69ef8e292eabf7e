"""Broken logs: a well-formed value or an error of ours, whatever the bytes."""

from __future__ import annotations

import itertools
import json
import os
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from delta_log import LogWriter, add, column, lines, metadata, parquet, protocol, remove, replay, vector
from delvec.delta import checkpoint_reader
from delvec.delta.action_reader import parse_actions
from delvec.delta.actions import Actions
from delvec.delta.schema import parse_schema
from delvec.delta.table import DeltaTable
from delvec.errors import DelvecError
from delvec.storage import open_storage
from plans import plan_where

SCALE = int(os.environ.get("DELVEC_FUZZ_SCALE", "1"))
LINE_CASES = 20_000 * SCALE
TABLE_CASES = 2_500 * SCALE
CHECKPOINT_CASES = 2_500 * SCALE
SCHEMA_CASES = 5_000 * SCALE

NAME = "ab^-aqEH.-t@S}K{vb[*k^"
STATS = json.dumps({"numRecords": 10, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}})
INLINE = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
COMMITS: list[list[dict[str, Any]]] = [
    [
        protocol(),
        metadata(column("id", "long"), column("p", "date"), partition_by=["p"], properties={"a": "b"}),
        {"commitInfo": {"operation": "CREATE TABLE", "operationParameters": {"x": "[]"}, "timestamp": 5}},
    ],
    [
        add("p=2024-01-01/a%20b.parquet", partition={"p": "2024-01-01"}, stats=STATS),
        add("2.parquet", partition={"p": None}, stats=STATS, deletion_vector=vector(NAME, cardinality=3)),
        add("3.parquet", deletion_vector=vector(INLINE, kind="i", offset=None, size=44, cardinality=6)),
        {"txn": {"appId": "app", "version": 3}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    ],
    [
        remove("2.parquet", deletion_vector=vector(NAME, cardinality=3)),
        add("2.parquet", stats=STATS, deletion_vector=vector("s3://x/y.bin", kind="p")),
        {"sidecar": {"path": "x.parquet", "sizeInBytes": 4, "modificationTime": 1}},
    ],
]
JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    1.5,
    1e400,
    "",
    "x",
    "\x00",
    "..",
    "%zz",
    [],
    [[]],
    {},
    {"a": {}},
]
_NUMBERS = itertools.count()


def mutate_tree(rng: random.Random, tree: Any) -> Any:
    """The tree with one value, somewhere, replaced, dropped or doubled."""
    if isinstance(tree, dict) and tree and rng.random() < 0.85:
        key = rng.choice(list(tree))
        match rng.randint(0, 9):
            case 0:
                return {k: v for k, v in tree.items() if k != key}
            case 1:
                return {**tree, key: rng.choice(JUNK)}
            case 2:
                return {
                    **{k: v for k, v in tree.items() if k != key},
                    rng.choice(["path", "add", "z"]): tree[key],
                }
        return {**tree, key: mutate_tree(rng, tree[key])}
    if isinstance(tree, list) and tree and rng.random() < 0.7:
        place = rng.randrange(len(tree))
        return [*tree[:place], mutate_tree(rng, tree[place]), *tree[place + 1 :]]
    return rng.choice(JUNK)


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    broken = bytearray(data)
    match rng.randint(0, 3):
        case 0:
            return bytes(broken[: rng.randrange(len(broken) + 1)])
        case 1:
            for _ in range(rng.randint(1, 4)):
                broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        case 2:
            place = rng.randrange(len(broken))
            broken[place : place + rng.randint(1, 8)] = rng.randbytes(rng.randint(0, 8))
        case 3:
            start, stop = sorted((rng.randrange(len(broken)), rng.randrange(len(broken))))
            broken[start:start] = broken[start:stop][:200]
    return bytes(broken)


def mutated_commit(rng: random.Random, actions: list[dict[str, Any]]) -> bytes:
    if rng.random() < 0.5:
        return mutate_bytes(rng, lines(actions))
    place = rng.randrange(len(actions))
    return lines([*actions[:place], mutate_tree(rng, actions[place]), *actions[place + 1 :]])


def refused_or(read: Callable[[], Any]) -> bool:
    """Whether ``read`` was refused by an error of ours; any other exception is a failure."""
    try:
        read()
    except DelvecError:
        return True
    return False


def test_log_lines() -> None:
    rng = random.Random(1)
    refused = 0
    for _ in range(LINE_CASES):
        data = mutated_commit(rng, rng.choice(COMMITS))

        def read(data: bytes = data) -> None:
            found = parse_actions(data)
            assert isinstance(found, Actions)
            assert found.adds.column("path").null_count == 0

        refused += refused_or(read)
    assert LINE_CASES * 0.1 < refused < LINE_CASES * 0.95


def test_schemas() -> None:
    rng = random.Random(2)
    nested = {"type": "array", "elementType": {"type": "struct", "fields": [column("x", "decimal(4,2)")]}}
    tree = {
        "type": "struct",
        "fields": [column("a", "long", metadata={"delta.typeChanges": []}), column("b", nested)],
    }
    refused = sum(
        refused_or(lambda: parse_schema(json.dumps(mutate_tree(rng, tree)))) for _ in range(SCHEMA_CASES)
    )
    assert 0 < refused < SCHEMA_CASES


def test_whole_tables() -> None:
    """From the log to a plan: everything that looks at an action looks at broken ones."""
    rng = random.Random(3)
    refused = 0
    for _ in range(TABLE_CASES):
        log = LogWriter(open_storage(f"memory://fuzz-{next(_NUMBERS)}/t"))
        broken = rng.randrange(len(COMMITS))
        for number, actions in enumerate(COMMITS):
            legal = [a for a in actions if "sidecar" not in a]
            data = mutated_commit(rng, legal) if number == broken else lines(legal)
            log.put(f"{number:020d}.json", data)

        def read(log: LogWriter = log) -> None:
            table = DeltaTable(log.storage)
            snapshot = table.snapshot()
            plan = plan_where(snapshot, "id > 5 AND p >= DATE '2024-01-01'")
            assert len(plan.files) + plan.skipped == len(snapshot.adds)
            snapshot.plan()
            snapshot.tombstones()
            table.history()

        refused += refused_or(read)
        log.storage.delete(entry.path for entry in log.storage.list())
    assert 0 < refused < TABLE_CASES


@pytest.mark.parametrize("kind", ["checkpoint", "sidecar"])
def test_checkpoints(kind: str) -> None:
    rng = random.Random(4)
    actions = replay(COMMITS).actions() * 3
    whole = parquet(actions) if kind == "checkpoint" else parquet(actions, names=("add", "remove"))
    readers = (
        checkpoint_reader.read_adds,
        checkpoint_reader.read_removes,
        checkpoint_reader.read_small_actions,
    )
    refused = 0
    for _ in range(CHECKPOINT_CASES // 2):
        data = mutate_bytes(rng, whole)

        def read(data: bytes = data) -> None:
            for reader in readers:
                reader(pa.BufferReader(data))

        refused += refused_or(read)
    assert refused > 0


def test_a_long_line_of_nothing_takes_memory_in_proportion() -> None:
    data = b'{"add":' + b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"}"
    tracemalloc.start()
    try:
        assert refused_or(lambda: parse_actions(data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(data)
