"""Opening a Delta log whose checkpoint has a million files, beside delta-rs, and planning scans of it.

The log is generated in the layout of Delta-Spark's classic checkpoints: one ``add`` per live file with
statistics of eight columns as JSON, a partition column, a vector on every tenth file; tombstones; and
ten commits after the checkpoint. ``parsed`` logs hold the statistics as columns too, as newer writers do.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import (
    Figure,
    Section,
    alternate,
    as_megabytes,
    as_seconds,
    at_most,
    cache,
    memory,
    probe,
    seconds,
)

MILLION, HUNDRED_THOUSAND = 1_000_000, 100_000
GENERATION = 3  # part of the folder's name: raised when what is generated changes
CHECKPOINT_VERSION, LATER_COMMITS = 100, 10
DAYS, RECORDS = 1000, 5000
ROW_GROUP = 200_000
FIRST_DAY = dt.date(2023, 1, 1)
NOW_MS = 1_760_000_000_000
PLAN_BAR_SECONDS = 0.050

COLUMNS = {
    "order_id": "long",
    "customer_id": "long",
    "price": "double",
    "quantity": "integer",
    "shipped": "date",
    "ordered_at": "timestamp",
    "status": "string",
    "note": "string",
    "day": "date",
}

# --- the log ---------------------------------------------------------------------------------------

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
        ("maxRowIndex", pa.int64()),
    ]
)
_VALUES = pa.struct(
    [
        ("order_id", pa.int64()),
        ("customer_id", pa.int64()),
        ("price", pa.float64()),
        ("quantity", pa.int32()),
        ("shipped", pa.date32()),
        ("ordered_at", pa.timestamp("us", tz="UTC")),
        ("status", pa.string()),
        ("note", pa.string()),
    ]
)
_NULLS = pa.struct([(field.name, pa.int64()) for field in _VALUES])
_STATS = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", _VALUES),
        ("maxValues", _VALUES),
        ("nullCount", _NULLS),
        ("tightBounds", pa.bool_()),
    ]
)
_ADD = [
    ("path", pa.string()),
    ("partitionValues", _TEXT_MAP),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("tags", _TEXT_MAP),
    ("deletionVector", _VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
    ("clusteringProvider", pa.string()),
    ("stats", pa.string()),
]
_ADD_PARSED = [*_ADD, ("partitionValues_parsed", pa.struct([("day", pa.date32())])), ("stats_parsed", _STATS)]
_REMOVE = [
    ("path", pa.string()),
    ("deletionTimestamp", pa.int64()),
    ("dataChange", pa.bool_()),
    ("extendedFileMetadata", pa.bool_()),
    ("partitionValues", _TEXT_MAP),
    ("size", pa.int64()),
    ("deletionVector", _VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
]
_METADATA = [
    ("id", pa.string()),
    ("name", pa.string()),
    ("description", pa.string()),
    ("format", pa.struct([("provider", pa.string()), ("options", _TEXT_MAP)])),
    ("schemaString", pa.string()),
    ("partitionColumns", pa.list_(pa.field("element", pa.string()))),
    ("configuration", _TEXT_MAP),
    ("createdTime", pa.int64()),
]
_PROTOCOL = [
    ("minReaderVersion", pa.int32()),
    ("minWriterVersion", pa.int32()),
    ("readerFeatures", pa.list_(pa.field("element", pa.string()))),
    ("writerFeatures", pa.list_(pa.field("element", pa.string()))),
]
_TXN = [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
_DOMAIN = [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]


def _checkpoint_schema(*, parsed: bool) -> pa.Schema:
    actions = {
        "txn": _TXN,
        "add": _ADD_PARSED if parsed else _ADD,
        "remove": _REMOVE,
        "metaData": _METADATA,
        "protocol": _PROTOCOL,
        "domainMetadata": _DOMAIN,
    }
    return pa.schema([(name, pa.struct(fields)) for name, fields in actions.items()])


class Files:
    """The data files by number, each the same in every run."""

    def __init__(self, count: int) -> None:
        self.count = count
        draw = random.Random(7)
        self._names = draw.randbytes(16 * count)
        self._vectors = [_random_z85(draw) for _ in range(1000)]

    def day(self, i: int) -> dt.date:
        return FIRST_DAY + dt.timedelta(days=i % DAYS)

    def path(self, i: int) -> str:
        name = uuid.UUID(bytes=self._names[16 * i : 16 * i + 16])
        return f"day={self.day(i)}/part-{i % 200:05d}-{name}.c000.snappy.parquet"

    def vector(self, i: int) -> dict[str, Any] | None:
        if i % 10:
            return None
        slot = i // 10
        return {
            "storageType": "u",
            "pathOrInlineDv": self._vectors[slot % 1000],
            "offset": 1 + 48 * (slot // 1000),
            "sizeInBytes": 40,
            "cardinality": 1 + slot % 4,
        }

    def bounds(self, i: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The lowest and highest values: orders ascend with the file's number, the rest is by chance."""
        chance = int.from_bytes(self._names[16 * i : 16 * i + 16])
        texts = chance.to_bytes(16).hex()
        day, second = self.day(i), chance % 3600
        low = _values(
            order_id=i * RECORDS,
            customer_id=chance % 99_991,
            price=1 + chance % 9973 / 100,
            quantity=1,
            shipped=day,
            ordered_at=f"{day}T00:{second // 60:02d}:{second % 60:02d}.{chance % 1000:03d}Z",
            status="cancelled",
            note=f"a {texts}",
        )
        high = _values(
            order_id=(i + 1) * RECORDS - 1,
            customer_id=99_000_000 + chance % 999_983,
            price=5000 + chance % 99_991 / 100,
            quantity=90 + chance % 10,
            shipped=day + dt.timedelta(days=chance % 30),
            ordered_at=f"{day}T23:{second // 60:02d}:{second % 60:02d}.{chance % 1000:03d}Z",
            status="shipped",
            note=f"z {texts[::-1]}",
        )
        return low, high

    def stats(self, i: int) -> str:
        low, high = self.bounds(i)
        nulls = dict.fromkeys(low, 0) | {"note": i % 50}
        stats = {"numRecords": RECORDS, "minValues": low, "maxValues": high, "nullCount": nulls}
        if i % 10 == 0:
            stats["tightBounds"] = False
        return json.dumps(stats, separators=(",", ":"))

    def add(self, i: int) -> dict[str, Any]:
        return {
            "path": self.path(i),
            "partitionValues": {"day": str(self.day(i))},
            "size": 200_000 + i % 7919,
            "modificationTime": NOW_MS + i,
            "dataChange": False,
            "stats": self.stats(i),
        } | ({} if i % 10 else {"deletionVector": self.vector(i)})


def _values(*, shipped: dt.date, note: str, **values: Any) -> dict[str, Any]:
    """The columns in the order of the schema, as statistics hold them: dates as text, long text cut."""
    named = values | {"shipped": str(shipped), "note": note[:32]}
    return {name: named[name] for name in COLUMNS if name in named}


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _random_z85(draw: random.Random) -> str:
    """Z85 text of random 16 bytes."""
    text = ""
    for _ in range(4):
        word = draw.getrandbits(32)
        text += "".join(_Z85[word // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def log_table(count: int, *, parsed: bool) -> Path:
    """The table whose checkpoint has ``count`` files; generated when it is not in the cache."""
    name = f"log-{count}-{'parsed' if parsed else 'json'}-{GENERATION}"
    folder = cache() / "bench" / name
    if not folder.is_dir():
        scratch = folder.with_name(f"{name}.{uuid.uuid4().hex}")
        try:
            _write_log(scratch / "_delta_log", Files(count + LATER_COMMITS * 100), count, parsed=parsed)
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _write_log(log: Path, files: Files, count: int, *, parsed: bool) -> None:
    log.mkdir(parents=True)
    target = log / f"{CHECKPOINT_VERSION:020d}.checkpoint.parquet"
    schema = _checkpoint_schema(parsed=parsed)
    with pq.ParquetWriter(target, schema, compression="snappy") as writer:
        for batch in _checkpoint(files, count, schema, parsed=parsed):
            writer.write_table(batch, row_group_size=ROW_GROUP)
    hint = {"version": CHECKPOINT_VERSION, "size": 2 + count + count // 100, "numOfAddFiles": count}
    (log / "_last_checkpoint").write_text(json.dumps(hint))
    for later in range(1, LATER_COMMITS + 1):
        lines = "".join(json.dumps(action) + "\n" for action in _commit(files, count, later))
        (log / f"{CHECKPOINT_VERSION + later:020d}.json").write_text(lines)


def _checkpoint(files: Files, count: int, schema: pa.Schema, *, parsed: bool) -> Iterator[pa.Table]:
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": features, "writerFeatures": features}
    yield pa.Table.from_pylist([{"protocol": protocol}, {"metaData": _metadata()}], schema=schema)
    for start in range(0, count, ROW_GROUP):
        rows = [{"add": _row(files, i, parsed=parsed)} for i in range(start, min(start + ROW_GROUP, count))]
        yield pa.Table.from_pylist(rows, schema=schema)
    removes = [{"remove": _tombstone(i)} for i in range(count // 100)]
    yield pa.Table.from_pylist(removes, schema=schema)


def _metadata() -> dict[str, Any]:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in COLUMNS.items()]
    return {
        "id": str(uuid.UUID(int=7)),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["day"],
        "configuration": {"delta.enableDeletionVectors": "true"},
        "createdTime": NOW_MS,
    }


def _row(files: Files, i: int, *, parsed: bool) -> dict[str, Any]:
    add = files.add(i)
    if parsed:
        low, high = (_typed(values) for values in files.bounds(i))
        nulls = dict.fromkeys(low, 0) | {"note": i % 50}
        add["partitionValues_parsed"] = {"day": files.day(i)}
        add["stats_parsed"] = {
            "numRecords": RECORDS,
            "minValues": low,
            "maxValues": high,
            "nullCount": nulls,
            "tightBounds": False if i % 10 == 0 else None,
        }
    return add


def _typed(values: dict[str, Any]) -> dict[str, Any]:
    moment = dt.datetime.fromisoformat(values["ordered_at"])
    return values | {"shipped": dt.date.fromisoformat(values["shipped"]), "ordered_at": moment}


def _tombstone(i: int) -> dict[str, Any]:
    day = FIRST_DAY + dt.timedelta(days=i % DAYS)
    return {
        "path": f"day={day}/part-{i % 200:05d}-{uuid.UUID(int=i)}.c000.snappy.parquet",
        "deletionTimestamp": NOW_MS + i,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {"day": str(day)},
        "size": 100_000,
    }


def _commit(files: Files, count: int, later: int) -> Iterator[dict[str, Any]]:
    """A commit that adds 100 files and gives 50 old ones their first vector."""
    yield {"commitInfo": {"timestamp": NOW_MS + count + later, "operation": "MERGE"}}
    for i in range(count + (later - 1) * 100, count + later * 100):
        yield {"add": files.add(i) | {"dataChange": True}}
    for step in range(50):
        i = ((later * 50 + step) * 131 % (count // 10)) * 10 + 1
        old = files.add(i)
        remove = {key: old[key] for key in ("path", "partitionValues", "size")}
        yield {
            "remove": remove | {"deletionTimestamp": NOW_MS, "dataChange": True, "extendedFileMetadata": True}
        }
        stats = json.loads(old["stats"]) | {"tightBounds": False}
        vector = {"deletionVector": files.vector(i - 1), "stats": json.dumps(stats), "dataChange": True}
        yield {"add": old | vector}


def live(count: int) -> tuple[int, int]:
    """How many files, and how many vectors, the newest version has."""
    later = LATER_COMMITS * 100
    return count + later, count // 10 + later // 10 + LATER_COMMITS * 50


# --- the probes ------------------------------------------------------------------------------------


def open_delvec(path: str) -> dict[str, Any]:
    from delvec.delta.table import DeltaTable

    before = memory()
    opened: list[Any] = []
    took = seconds(lambda: opened.append(DeltaTable.open(path).snapshot()))
    after = memory()
    adds = opened[0].adds
    vectors = len(adds) - adds.column("dv_storage").null_count
    return {"seconds": took, "before": before, "peak": after, "files": len(adds), "vectors": vectors}


def open_delta_rs(path: str) -> dict[str, Any]:
    from deltalake import DeltaTable

    before = memory()
    opened: list[Any] = []
    took = seconds(lambda: opened.append(DeltaTable(path)))
    after = memory()
    listing = seconds(lambda: opened.append(len(opened[0].file_uris())))
    actions: list[Any] = []
    telling = seconds(lambda: actions.append(pa.table(opened[0].get_add_actions())))
    return {
        "seconds": took,
        "before": before,
        "peak": after,
        "files": opened[1],
        "listing": listing,
        "telling": telling,
        "later_peak": memory(),
    }


def plan_delvec(path: str) -> dict[str, Any]:
    from delvec.delta.table import DeltaTable
    from delvec.predicate import parse

    snapshot = DeltaTable.open(path).snapshot()
    plans: list[Any] = []

    def plan(where: str) -> None:
        plans.append(snapshot.plan(parse(where, snapshot.schema)))

    times = [seconds(lambda w=where: plan(w)) for where in _selections(snapshot)]
    return {
        "first": times[0],
        "again": times[1],
        "other": times[2],
        "kept": len(plans[1].files),
        "kept_other": len(plans[2].files),
        "peak": memory(),
    }


def _selections(snapshot: Any) -> tuple[str, str, str]:
    """A day and a range of orders, twice, and then another day and range."""
    count = len(snapshot.adds)
    return tuple(_selection(i, 100 * DAYS) for i in (count // 2, count // 2, count // 3))  # type: ignore[return-value]


def _selection(first: int, files: int) -> str:
    day = FIRST_DAY + dt.timedelta(days=first % DAYS)
    return f"day = DATE'{day}' AND order_id BETWEEN {first * RECORDS} AND {(first + files) * RECORDS}"


PROBES = {"open-delvec": open_delvec, "open-delta-rs": open_delta_rs, "plan-delvec": plan_delvec}


# --- the figures -----------------------------------------------------------------------------------


def bench(*, quick: bool) -> list[Section]:
    count, runs = (HUNDRED_THOUSAND, 3) if quick else (MILLION, 5)
    return [_section(count, runs, parsed=parsed) for parsed in (False, True)]


def _section(count: int, runs: int, *, parsed: bool) -> Section:
    path = str(log_table(count, parsed=parsed))
    probes = {name: lambda n=name: probe("bench.log", n, path) for name in PROBES}
    results = alternate(runs, probes)
    ours, theirs, plan = (results[name] for name in PROBES)
    _verify_counts(ours, theirs, count)
    kind = "JSON and as columns" if parsed else "JSON"
    how = (
        f"A checkpoint of {count:,} files (statistics of {len(COLUMNS) - 1} columns as {kind}, every tenth "
        f"file with a vector), {count // 100:,} tombstones, {LATER_COMMITS} commits after it; local disk, "
        f"file cache warm; the median of {runs} runs, each in a fresh process, imports not counted."
    )
    figures = _figures(ours, theirs, plan)
    if count < MILLION:  # the bars are set for a million: fixed costs weigh more in a small log
        figures = [replace(figure, bar="", holds=None) for figure in figures]
    return Section(
        f"Opening a log of {count:,} files, statistics as {kind}",
        how,
        figures,
        "delta-rs",
    )


def _figures(ours: dict[str, Any], theirs: dict[str, Any], plan: dict[str, Any]) -> list[Figure]:
    above = [result["peak"] - result["before"] for result in (ours, theirs)]
    listed = theirs["seconds"] + theirs["telling"]
    return [
        at_most("open the newest version", ours["seconds"], theirs["seconds"], 1.0, as_seconds),
        at_most("… memory, the process's peak", ours["peak"], theirs["peak"], 1.5, as_megabytes),
        at_most("… memory above the imports'", above[0], above[1], 1.5, as_megabytes),
        Figure("… and hand the files out as Arrow", as_seconds(ours["seconds"]), as_seconds(listed)),
        Figure("plan a selective scan, first time", as_seconds(plan["first"])),
        _plan_figure("… the same scan again", plan["again"]),
        _plan_figure("… another scan of the same columns", plan["other"]),
        Figure("memory after planning, the process's peak", as_megabytes(plan["peak"])),
    ]


def _plan_figure(what: str, took: float) -> Figure:
    return Figure(
        what, as_seconds(took), bar=f"≤ {as_seconds(PLAN_BAR_SECONDS)}", holds=took <= PLAN_BAR_SECONDS
    )


def _verify_counts(ours: dict[str, Any], theirs: dict[str, Any], count: int) -> None:
    files, vectors = live(count)
    if (ours["files"], ours["vectors"], theirs["files"]) != (files, vectors, files):
        raise RuntimeError(f"live files and vectors are {ours}, {theirs}, expected {files} and {vectors}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["probe", "generate"])
    parser.add_argument("arguments", nargs="*")
    given = parser.parse_args()
    if given.command == "generate":
        print(log_table(int(given.arguments[0]), parsed="parsed" in given.arguments))
    else:
        name, path = given.arguments
        print(json.dumps(PROBES[name](path)))


if __name__ == "__main__":
    main()
