"""A checkpoint that delvec writes says what the commits before it say, over random histories."""

from __future__ import annotations

import random
import uuid

import pytest

from delta_log import LogWriter, State, add, column, metadata, protocol, remove, vector
from delvec.delta.checkpoint_writer import write_checkpoint
from delvec.delta.snapshot import Snapshot
from delvec.delta.table import DeltaTable
from delvec.storage import open_storage

NOW = 10 * 604_800_000
SHAPES = (
    {},
    {"delta.checkpoint.writeStatsAsStruct": "false"},
    {"delta.checkpoint.writeStatsAsJson": "false"},
    {"delta.checkpointPolicy": "v2"},
    {"delta.checkpointPolicy": "v2", "delta.checkpoint.writeStatsAsJson": "false"},
)


def random_commit(rng: random.Random, state: State, serial: int) -> list[dict]:
    actions: list[dict] = [{"commitInfo": {"operation": "WRITE"}}]
    live = list(state.adds.values())
    rng.shuffle(live)
    for body in live[: rng.randint(0, 3)]:
        old, when = body.get("deletionVector"), NOW - rng.choice([1, 604_799_999, 604_800_000, 10**9])
        actions.append(remove(body["path"], deletion_vector=old, timestamp=when))
        if rng.random() < 0.5:
            new = vector("ab^-aqEH.-t@S}K{vb[*k^", offset=serial * 50)
            actions.append(
                add(body["path"], deletion_vector=new, partition=body["partitionValues"], stats=stats(rng))
            )
    for number in range(rng.randint(0, 4)):
        partition = {"p": rng.choice([None, "1", "-7"])}
        dv = vector("cd^-aqEH.-t@S}K{vb[*k^", offset=None) if rng.random() < 0.3 else None
        made = add(f"f%20{serial}-{number}", deletion_vector=dv, partition=partition, stats=stats(rng))
        extra = {
            "tags": {"k": "v"},
            "baseRowId": serial,
            "defaultRowCommitVersion": 1,
            "clusteringProvider": "x",
        }
        made["add"] |= {name: value for name, value in extra.items() if rng.random() < 0.5}
        actions.append(made)
    if rng.random() < 0.4:
        actions.append({"txn": {"appId": rng.choice("ab"), "version": serial, "lastUpdated": 1000 + serial}})
    if rng.random() < 0.4:
        removed = rng.random() < 0.4
        actions.append(
            {"domainMetadata": {"domain": rng.choice("xy"), "configuration": "c", "removed": removed}}
        )
    return actions


def stats(rng: random.Random) -> str | None:
    return rng.choice(
        [
            None,
            '{"numRecords":10}',
            '{"numRecords":3,"minValues":{"id":-5,"t":"2020-01-01T00:00:00.123Z","s":{"d":1.10}},'
            '"maxValues":{"id":9,"t":"2020-01-01T00:00:00.124Z","s":{"d":99999999999999999.99}},'
            '"nullCount":{"id":0,"t":1,"s":{"d":2},"a":1},"tightBounds":false}',
        ]
    )


def history(seed: int, properties: dict[str, str]) -> tuple[LogWriter, random.Random]:
    rng = random.Random(seed)
    log = LogWriter(open_storage(f"memory://checkpoint-{seed}/{uuid.uuid4()}"))
    struct = {"type": "struct", "fields": [column("d", "decimal(19,2)")]}
    array = {"type": "array", "elementType": "long", "containsNull": True}
    fields = [column("id", "long"), column("p", "integer"), column("t", "timestamp"), column("s", struct)]
    made = metadata(*fields, column("a", array), partition_by=["p"], properties=properties)
    log.commit(protocol(features=("deletionVectors", "v2Checkpoint")), made)
    for serial in range(1, rng.randint(2, 9)):
        log.commit(*random_commit(rng, log.state(serial - 1), serial))
    return log, rng


def seen(snapshot: Snapshot, *, live: bool) -> list[dict]:
    files = snapshot.adds if live else snapshot.tombstones()
    dropped = {"data_change", "stats", "stats_parsed"} if live else {"data_change", "tags"}
    files = files.select([name for name in files.column_names if name not in dropped])
    return sorted(files.to_pylist(), key=repr)


def facts(snapshot: Snapshot) -> list[tuple]:
    found = snapshot.facts()
    columns = [found.record_count, found.tight, found.column(("p",)).values]
    for path in (("id",), ("t",), ("s", "d"), ("a",)):
        column_stats = found.column(path)
        columns += [column_stats.lower, column_stats.upper, column_stats.null_count]
    values = zip(snapshot.adds.column("path").to_pylist(), *(c.to_pylist() for c in columns), strict=True)
    return sorted(values, key=repr)


@pytest.mark.parametrize("properties", SHAPES, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_the_checkpoint_alone_reads_as_the_commits_do(seed: int, properties: dict[str, str]) -> None:
    log, _ = history(seed, properties)
    before = DeltaTable(log.storage).snapshot()
    assert before.state.checkpoint is None
    tombstones = seen(before, live=False)
    write_checkpoint(log.storage, before, now_ms=NOW)
    log.delete(*(f"{version:020d}.json" for version in range(before.version + 1)))
    after = DeltaTable(log.storage).snapshot()
    assert after.version == before.version
    assert seen(after, live=True) == seen(before, live=True)
    kept = [row for row in tombstones if row["deletion_timestamp"] > NOW - 604_800_000]
    assert seen(after, live=False) == kept
    assert facts(after) == facts(before)
    assert after.protocol == before.protocol
    assert after.metadata == before.metadata
    assert after.state.small.txns == before.state.small.txns
    assert after.state.small.domains == before.domains, "a removed domain is in the checkpoint"
    if properties.get("delta.checkpoint.writeStatsAsJson") != "false":
        assert texts(after) == texts(before)


def texts(snapshot: Snapshot) -> list[dict]:
    return sorted(snapshot.adds.select(["path", "stats"]).to_pylist(), key=repr)


@pytest.mark.parametrize("seed", range(5))
def test_statistics_survive_structs_and_come_back_as_text(seed: int) -> None:
    log, _ = history(seed, {"delta.checkpoint.writeStatsAsJson": "false"})
    before = DeltaTable(log.storage).snapshot()
    write_checkpoint(log.storage, before, now_ms=NOW)
    version = before.version
    properties = {"delta.checkpoint.writeStatsAsStruct": "false"}
    log.commit({"metaData": {**log.state(version).metadata, "configuration": properties}})
    write_checkpoint(log.storage, DeltaTable(log.storage).snapshot(), now_ms=NOW)
    log.delete(*(f"{v:020d}.json" for v in range(version + 2)), f"{version:020d}.checkpoint.parquet")
    after = DeltaTable(log.storage).snapshot()
    assert "stats_parsed" not in after.adds.column_names
    assert facts(after) == facts(before)
