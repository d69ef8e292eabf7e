"""Log replay against the naive model, over random legal histories and random files of the log."""

from __future__ import annotations

import random
from typing import Any

import pytest

from delta_log import Action, LogWriter, State, add, column, key_of, metadata, protocol, remove, vector
from delvec.delta.file_keys import vector_ids
from delvec.delta.snapshot import Snapshot
from delvec.delta.table import DeltaTable
from delvec.storage import open_storage

HISTORIES = 150


def random_commit(rng: random.Random, state: State, serial: int) -> list[Action]:
    """A legal commit on top of ``state``: every path at most once among adds and among removes."""
    actions: list[Action] = [{"commitInfo": {"operation": "WRITE", "timestamp": serial}}]
    touched: set[str] = set()
    live = list(state.adds.values())
    gone = [body for body in state.removes.values() if body["path"] not in {b["path"] for b in live}]
    for _ in range(rng.randint(0, 4)):
        match rng.choice(("new", "new", "remove", "vector", "vector", "again", "restore")):
            case "new":
                path = f"part={rng.randint(0, 3)}/f-{serial}-{rng.randint(0, 10**6)}.parquet"
                if path not in touched:
                    touched.add(path)
                    actions.append(add(path, stats='{"numRecords":10}', deletion_vector=random_vector(rng)))
            case "restore" if gone:
                body = rng.choice(gone)
                if body["path"] not in touched:
                    touched.add(body["path"])
                    actions.append(add(body["path"], deletion_vector=body.get("deletionVector")))
            case verb if live:
                body = rng.choice(live)
                if body["path"] not in touched:
                    touched.add(body["path"])
                    actions += change(rng, verb, body)
    if rng.random() < 0.3:
        actions.append({"txn": {"appId": rng.choice("ab"), "version": serial, "lastUpdated": 1000 + serial}})
    if rng.random() < 0.3:
        domain = {"domain": rng.choice("xy"), "configuration": str(serial), "removed": rng.random() < 0.4}
        actions.append({"domainMetadata": domain})
    if rng.random() < 0.1:
        actions.append(metadata(column("id", "long"), properties={"serial": str(serial)}))
    rng.shuffle(actions)
    return actions


def change(rng: random.Random, verb: str, body: Action) -> list[Action]:
    old = body.get("deletionVector")
    if verb == "remove":
        return [remove(body["path"], deletion_vector=old)]
    if verb == "again":  # the same key once more, with other statistics
        return [add(body["path"], deletion_vector=old, stats='{"numRecords":11}')]
    new = random_vector(rng, always=True)
    if new == old:
        return []
    return [remove(body["path"], deletion_vector=old), add(body["path"], deletion_vector=new)]


def random_vector(rng: random.Random, *, always: bool = False) -> Action | None:
    if not always and rng.random() < 0.7:
        return None
    offset = rng.choice([None, 1, 47, 93])
    return vector(rng.choice(["ab^-aqEH.-t@S}K{vb[*k^", "cd^-aqEH.-t@S}K{vb[*k^"]), offset=offset)


def random_log_files(rng: random.Random, log: LogWriter) -> None:
    """Checkpoints, compactions, hints and foreign files at random places."""
    last = len(log.commits) - 1
    checkpoints = []
    for version in range(last + 1):
        if rng.random() < 0.2:
            checkpoints.append(version)
            match rng.choice(("classic", "parts", "incomplete", "v2-json", "v2-parquet", "v2-classic")):
                case "classic":
                    log.classic(version)
                case "parts":
                    log.parts(version, 3)
                case "incomplete":
                    checkpoints.pop()
                    log.parts(version, 3)
                    log.delete(f"{version:020d}.checkpoint.{rng.randint(1, 3):010d}.{3:010d}.parquet")
                case "v2-json":
                    log.v2(version, manifest="json", sidecars=rng.randint(0, 2))
                case "v2-parquet":
                    log.v2(version, manifest="parquet", sidecars=rng.randint(0, 2))
                case "v2-classic":
                    log.v2(version, manifest="parquet", sidecars=2, classic_name=True)
    for _ in range(rng.randint(0, 3)):
        first, second = sorted((rng.randint(0, last), rng.randint(0, last)))
        if first < second:
            log.compact(first, second)
    log.put("foreign.txt", b"not ours")
    log.put("00000000000000000001.crc", b"{}")
    log.put("00000000000000000000.json.tmp", b"half")
    hint = rng.choice(["right", "missing", "stale", "beyond", "broken"])
    if hint == "right" and checkpoints:
        log.hint(checkpoints[-1])
    elif hint == "stale" and checkpoints:
        log.hint(checkpoints[0])
    elif hint == "beyond":
        log.hint(last + 5)
    elif hint == "broken":
        log.put("_last_checkpoint", b'{"version": "')


def seen(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot in the model's terms."""
    return {
        "version": snapshot.version,
        "adds": dict(keyed(snapshot.adds, "stats")),
        "removes": dict(keyed(snapshot.tombstones(), "deletion_timestamp")),
        "properties": dict(snapshot.properties),
        "txns": {app: (txn.version, txn.last_updated) for app, txn in snapshot.state.small.txns.items()},
        "domains": {name: domain.configuration for name, domain in snapshot.domains.items()},
    }


def keyed(table: Any, name: str) -> list[tuple[Any, Any]]:
    keys = list(zip(table.column("path").to_pylist(), vector_ids(table).to_pylist(), strict=True))
    assert len(keys) == len(set(keys)), "a key stands twice"
    return list(zip(keys, table.column(name).to_pylist(), strict=True))


def expected(state: State, version: int) -> dict[str, Any]:
    return {
        "version": version,
        "adds": {key_of(body): body.get("stats") for body in state.adds.values()},
        "removes": {key_of(body): body["deletionTimestamp"] for body in state.removes.values()},
        "properties": state.metadata["configuration"],
        "txns": {app: (txn["version"], txn.get("lastUpdated")) for app, txn in state.txns.items()},
        "domains": {n: d["configuration"] for n, d in state.domains.items() if not d["removed"]},
    }


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_version_is_as_the_model_has_it(seed: int) -> None:
    rng = random.Random(seed)
    storage = open_storage(f"memory://replay-{seed}/table")
    log = LogWriter(storage)
    log.commit(protocol(), metadata(column("id", "long")))
    watched = DeltaTable(storage)
    for serial in range(1, rng.randint(2, 14)):
        log.commit(*random_commit(rng, log.state(serial - 1), serial))
        if rng.random() < 0.3:  # brought up to date from whatever it saw last
            assert seen(watched.snapshot()) == expected(log.state(serial), serial)
    random_log_files(rng, log)
    last = len(log.commits) - 1
    assert seen(watched.snapshot()) == expected(log.state(last), last)
    assert seen(DeltaTable(storage).snapshot()) == expected(log.state(last), last)
    for version in range(last + 1):
        assert seen(DeltaTable(storage).snapshot(version)) == expected(log.state(version), version)


@pytest.mark.parametrize("seed", range(20))
def test_a_cleaned_up_log_reads_from_its_checkpoint(seed: int) -> None:
    rng = random.Random(1000 + seed)
    storage = open_storage(f"memory://cleaned-{seed}/table")
    log = LogWriter(storage)
    log.commit(protocol(), metadata(column("id", "long")))
    for serial in range(1, 10):
        log.commit(*random_commit(rng, log.state(serial - 1), serial))
    cut = rng.randint(1, 8)
    rng.choice([log.classic, log.v2, lambda version: log.parts(version, 2)])(cut)
    log.delete(*(f"{version:020d}.json" for version in range(cut)))
    table = DeltaTable(storage)
    for version in range(cut, 10):
        assert seen(table.snapshot(version)) == expected(log.state(version), version)
