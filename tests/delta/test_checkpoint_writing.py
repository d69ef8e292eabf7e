"""Checkpoints: where they are written, what is kept, and that other engines read them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_log import LogWriter, add, column, metadata, protocol, remove
from delvec.delta.checkpoint_writer import unexpired, write_checkpoint
from delvec.delta.properties import interval_ms
from delvec.delta.stats.columns import stats_rules
from delvec.delta.stats.writer import new_stats_texts
from delvec.delta.table import DeltaTable
from delvec.footers.statistics import measure
from delvec.storage import Storage, open_storage

V2 = {"delta.checkpointPolicy": "v2"}
NOW = 10**12


@pytest.fixture
def log(request: pytest.FixtureRequest) -> LogWriter:
    return LogWriter(open_storage(f"memory://checkpoints/{request.node.name}"))


def names(storage: Storage) -> list[str]:
    return [entry.path.rpartition("/")[2] for entry in storage.list("_delta_log/")]


def checkpoint(log: LogWriter, *, now_ms: int = NOW) -> None:
    write_checkpoint(log.storage, DeltaTable(log.storage).snapshot(), now_ms=now_ms)


def test_classic_and_its_hint(log: LogWriter) -> None:
    log.create()
    log.commit(add("a"), add("b"), {"txn": {"appId": "x", "version": 1}})
    checkpoint(log)
    name = "00000000000000000001.checkpoint.parquet"
    size = log.storage.head(f"_delta_log/{name}").size
    hint = json.loads(log.storage.read("_delta_log/_last_checkpoint"))
    assert hint == {"version": 1, "size": 5, "sizeInBytes": size, "numOfAddFiles": 2}


def test_v2_only_where_the_feature_is_supported(log: LogWriter) -> None:
    log.create(properties=V2)
    checkpoint(log)
    assert "00000000000000000000.checkpoint.parquet" in names(log.storage)
    log.commit(protocol(features=("deletionVectors", "v2Checkpoint")), add("a"))
    checkpoint(log)
    hint = json.loads(log.storage.read("_delta_log/_last_checkpoint"))
    top = log.storage.read("_delta_log/" + hint["v2Checkpoint"]["path"])
    kinds = [next(iter(json.loads(line))) for line in top.splitlines()]
    assert kinds == ["checkpointMetadata", "sidecar", "protocol", "metaData"]
    assert hint["size"] == 5
    assert hint["v2Checkpoint"]["sizeInBytes"] == len(top)


def test_files_are_spread_over_sidecars(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delvec.delta.checkpoint_writer._SIDECAR_ACTIONS", 2)
    log.create(features=("deletionVectors", "v2Checkpoint"), properties=V2)
    log.commit(*(add(f"f{n}") for n in range(5)), remove("gone", timestamp=NOW))
    checkpoint(log)
    sidecars = log.storage.list("_delta_log/_sidecars/")
    assert len(sidecars) == 4
    log.delete("00000000000000000000.json", "00000000000000000001.json")
    snapshot = DeltaTable(log.storage).snapshot()
    assert sorted(snapshot.adds.column("path").to_pylist()) == [f"f{n}" for n in range(5)]
    assert snapshot.tombstones().column("path").to_pylist() == ["gone"]


@pytest.mark.parametrize("write", ["classic", "v2"])
def test_a_checkpoint_that_is_there_stays(log: LogWriter, write: str) -> None:
    log.create(features=("deletionVectors", "v2Checkpoint"))
    getattr(log, write)(0)
    before = names(log.storage)
    checkpoint(log)
    assert names(log.storage) == before


def test_a_lost_race_leaves_the_other_one(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create()
    snapshot = DeltaTable(log.storage).snapshot()
    real = log.storage.put_if_absent

    def slow(path: str, data: bytes) -> bool:
        log.storage.put(path, b"theirs")
        return real(path, data)

    monkeypatch.setattr(log.storage, "put_if_absent", slow)
    write_checkpoint(log.storage, snapshot, now_ms=NOW)
    assert log.storage.read("_delta_log/00000000000000000000.checkpoint.parquet") == b"theirs"
    assert "_last_checkpoint" not in names(log.storage)


@pytest.mark.parametrize(("known", "expected"), [(7, 7), (0, 1), ("broken", 1)])
def test_a_later_hint_stays(log: LogWriter, known: object, expected: int) -> None:
    log.create()
    log.commit(add("a"))
    snapshot = DeltaTable(log.storage).snapshot()
    log.hint(known)
    write_checkpoint(log.storage, snapshot, now_ms=NOW)
    assert json.loads(log.storage.read("_delta_log/_last_checkpoint"))["version"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 1 week", 604_800_000),
        ("INTERVAL 2 Days 3 hours", 183_600_000),
        ("5 seconds 7 milliseconds", 5007),
        ("interval 1500 microseconds", 1),
        ("1 hour 2 nanoseconds", 3_600_000),
        ("interval 1 month", None),
        ("interval\t7\n days ", 604_800_000),
        ("a while", None),
        ("1 millihour", None),
        ("1 days2 hours", None),
        ("٣ days", None),
        ("interval 99999999999999 weeks", None),
        (f"interval {'9' * 5000} days", None),
        ("", None),
    ],
)
def test_intervals(text: str, expected: int | None) -> None:
    assert interval_ms(text) == expected


@pytest.mark.parametrize(
    ("retention", "kept"),
    [(None, ["young"]), ("interval 1 hour", []), ("whatever", ["young", "old", "none"])],
)
def test_unexpired(retention: str | None, kept: list[str]) -> None:
    week = 604_800_000
    removes = pa.table(
        {"path": ["young", "old", "none"], "deletion_timestamp": [NOW - week + 1, NOW - week, None]}
    )
    properties = {} if retention is None else {"delta.deletedFileRetentionDuration": retention}
    assert unexpired(removes, properties, now_ms=NOW).column("path").to_pylist() == kept


def test_a_partition_of_local_times_is_not_typed(log: LogWriter) -> None:
    log.create(column("id", "long"), column("p", "timestamp"), partition_by=["p"])
    log.commit(add("a", partition={"p": "2020-01-01T00:00:00Z"}))
    checkpoint(log)
    log.commit(add("b", partition={"p": "2020-01-01 00:00:00"}))
    checkpoint(log)
    typed = []
    for version in (1, 2):
        data = log.storage.read(f"_delta_log/{version:020d}.checkpoint.parquet")
        typed.append(
            "partitionValues_parsed"
            in {f.name for f in pq.read_schema(pa.BufferReader(data)).field("add").type}
        )
    assert typed == [True, False]


def real_table(folder: Path, properties: dict[str, str]) -> DeltaTable:
    """Two files of rows, of which one comes after the checkpoint; older commits are gone."""
    storage = open_storage(str(folder))
    log = LogWriter(storage)
    fields = [
        column("id", "long"),
        column("p", "string"),
        column("t", "timestamp"),
        column("d", "decimal(20,2)"),
    ]
    features = ("v2Checkpoint",) if properties.get("delta.checkpointPolicy") == "v2" else ()
    first = protocol(1, 2) if not features else protocol(features=features)
    log.commit(first, metadata(*fields, partition_by=["p"], properties=properties))
    for number in range(3):
        log.commit(data_file(storage, DeltaTable(storage), number))
        if number == 1:
            write_checkpoint(storage, DeltaTable(storage).snapshot(), now_ms=NOW)
    log.delete(*(f"{version:020d}.json" for version in range(3)))
    return DeltaTable(storage)


def data_file(storage: Storage, table: DeltaTable, number: int) -> dict:
    moment = dt.datetime(2020, 1, 1, 0, 0, 0, 123456, tzinfo=dt.UTC)
    rows = pa.table(
        {
            "id": pa.array([10 * number, 10 * number + 1, None]),
            "t": pa.array([moment] * 3, pa.timestamp("us", tz="UTC")),
            "d": pa.array([decimal.Decimal("1.10")] * 3, pa.decimal128(20, 2)),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    path = f"p=a%20{number}/f.parquet"
    storage.put(f"p=a {number}/f.parquet", sink.getvalue().to_pybytes())
    snapshot = table.snapshot()
    rules = stats_rules(snapshot.schema, snapshot.partition_columns, snapshot.properties)
    (text,) = new_stats_texts(measure(storage, [f"p=a {number}/f.parquet"], rules.columns), rules)
    return add(path, partition={"p": f"a {number}"}, stats=text, size=sink.getvalue().size)


SHAPES = pytest.mark.parametrize(
    "properties",
    [
        {},
        V2,
        {"delta.checkpoint.writeStatsAsJson": "false"},
        {"delta.checkpoint.writeStatsAsStruct": "false"},
        V2 | {"delta.checkpoint.writeStatsAsJson": "false"},
    ],
    ids=str,
)
EXPECTED = sorted([(n, f"a {i}") for i in range(3) for n in (10 * i, 10 * i + 1)])


@SHAPES
def test_delta_rs_reads_it(tmp_path: Path, properties: dict[str, str]) -> None:
    from deltalake import DeltaTable as TheirTable
    from deltalake import QueryBuilder

    real_table(tmp_path, properties)
    query = QueryBuilder().register("t", TheirTable(str(tmp_path)))
    rows = pa.table(query.execute("SELECT id, p FROM t WHERE id IS NOT NULL")).to_pylist()
    assert sorted((row["id"], row["p"]) for row in rows) == EXPECTED
    rows = pa.table(
        query.execute("SELECT id FROM t WHERE id >= 10 AND t > '2020-01-01T00:00:00.1234Z'")
    ).to_pylist()
    assert sorted(row["id"] for row in rows) == [10, 11, 20, 21]


@SHAPES
def test_duckdb_reads_it(tmp_path: Path, properties: dict[str, str]) -> None:
    import duckdb

    extension = pytest.importorskip("duckdb_extension_delta")
    file = next(Path(extension.__path__[0]).rglob("delta.duckdb_extension"))
    real_table(tmp_path, properties)
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{file}'")
        scan = f"delta_scan('{tmp_path}')"
        rows = connection.execute(f"SELECT id, p FROM {scan} WHERE id IS NOT NULL ORDER BY id").fetchall()
        assert rows == EXPECTED
        some = connection.execute(
            f"SELECT id FROM {scan} WHERE id >= 10 AND p <> 'a 2' ORDER BY id"
        ).fetchall()
        assert some == [(10,), (11,)]
