"""delvec and Iceberg-Spark write at the same time to one table of a catalog: no row is lost or twice.

Each writer changes rows of its own keys, which share files with those of the others. A writer knows what its
statements did; a statement that lost to another writer is sent again. Tables at a path have no such test:
Iceberg-Spark may overwrite commits of others there.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from delvec.errors import CommitConflictError
from rows import multiset
from shared_tables import SharedTable

pytestmark = [pytest.mark.interop, pytest.mark.spark]

Row = dict[str, Any]

SEED = 7
KEYS = 20
STATEMENTS = 5
SECONDS = 600
SCHEMA = pa.schema([("id", pa.int64()), ("writer", pa.int32()), ("v", pa.int64())])
# What Iceberg-Spark says of a statement whose commit lost.
LOST = ("ValidationException", "CommitFailedException", "SQLITE_BUSY")


@dataclass(slots=True)
class Writer:
    """A writer of the keys ``number``, ``number`` + ``writers`` and so on, between those of the others."""

    table: SharedTable
    number: int
    writers: int
    rows: dict[int, Row] = field(default_factory=dict)
    commits: int = 0
    lost: int = 0

    def row(self, at: int, v: int) -> Row:
        key = at * self.writers + self.number
        return {"id": key, "writer": self.number, "v": v}

    def fill(self) -> list[Row]:
        rows = [self.row(at, 0) for at in range(KEYS)]
        self.rows = {row["id"]: row for row in rows}
        return rows

    def statements(self) -> None:
        rng = random.Random(SEED + self.number)
        for step in range(1, STATEMENTS + 1):
            keys = sorted(rng.sample(sorted(self.rows), 3))
            new = [self.row(KEYS + step, step), self.rows[keys[0]] | {"v": 100 * step}]
            verb = rng.choice(["delete", "update", "merge", "insert"])
            self.sent(verb, keys, new, step)
            match verb:
                case "delete":
                    for key in keys:
                        del self.rows[key]
                case "update":
                    for key in keys:
                        self.rows[key] = self.rows[key] | {"v": self.rows[key]["v"] + step}
                case "merge":
                    self.rows |= {row["id"]: row for row in new}
                case "insert":
                    self.rows |= {new[0]["id"]: new[0]}
            self.commits += 1

    def sent(self, verb: str, keys: list[int], new: list[Row], step: int) -> None:
        """Until it has committed."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return self.send(verb, keys, new, step)
            except Exception as error:  # of Java or ours
                if not self.is_lost(error) or time.monotonic() > deadline:
                    raise
                self.lost += 1

    def send(self, verb: str, keys: list[int], new: list[Row], step: int) -> None:
        raise NotImplementedError

    def is_lost(self, error: Exception) -> bool:
        raise NotImplementedError


class Delvec(Writer):
    def send(self, verb: str, keys: list[int], new: list[Row], step: int) -> None:
        table, where = self.table.open(), f"id IN ({', '.join(map(str, keys))})"
        match verb:
            case "delete":
                assert table.delete(where).metrics["numDeletedRows"] == len(keys)
            case "update":
                assert table.update({"v": f"v + {step}"}, where).metrics["numUpdatedRows"] == len(keys)
            case "merge":
                merging = table.merge(pa.Table.from_pylist(new, SCHEMA), "target.id = source.id")
                merging.when_matched_update_all().when_not_matched_insert_all().execute()
            case "insert":
                table.append(pa.Table.from_pylist(new[:1], SCHEMA))

    def is_lost(self, error: Exception) -> bool:
        return isinstance(error, CommitConflictError)


class IcebergSpark(Writer):
    def send(self, verb: str, keys: list[int], new: list[Row], step: int) -> None:
        where = f"id IN ({', '.join(map(str, keys))})"
        texts = [f"({row['id']}L, {row['writer']}, {row['v']}L)" for row in new]
        match verb:
            case "delete":
                self.table.sql(f"DELETE FROM {{t}} WHERE {where}")
            case "update":
                self.table.sql(f"UPDATE {{t}} SET v = v + {step} WHERE {where}")
            case "merge":
                values = f"(SELECT * FROM VALUES {', '.join(texts)} AS s(id, writer, v))"
                self.table.sql(
                    f"MERGE INTO {{t}} t USING {values} s ON t.id = s.id "
                    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
                )
            case "insert":
                self.table.sql(f"INSERT INTO {{t}} VALUES {texts[0]}")

    def is_lost(self, error: Exception) -> bool:
        return any(name in str(error) for name in LOST)


def raced(table: SharedTable, kinds: list[Callable[..., Writer]], **options: Any) -> list[Writer]:
    writers = [kind(table, number, len(kinds)) for number, kind in enumerate(kinds)]
    table.create("id BIGINT, writer INT, v BIGINT", **options)
    table.open().append(pa.Table.from_pylist([row for writer in writers for row in writer.fill()], SCHEMA))
    start = threading.Barrier(len(writers))

    def run(writer: Writer) -> None:
        start.wait(SECONDS)
        writer.statements()

    with ThreadPoolExecutor(len(writers)) as pool:
        for done in [pool.submit(run, writer) for writer in writers]:
            done.result()
    return writers


LEVELS = {f"write.{verb}.isolation-level": "snapshot" for verb in ("delete", "update", "merge")}
REWRITES = {f"write.{verb}.mode": "copy-on-write" for verb in ("delete", "update", "merge")}


@pytest.mark.parametrize(
    ("place", "version", "properties"),
    [
        ("sqlite", 3, LEVELS),
        ("rest", 3, LEVELS),
        pytest.param("sqlite", 2, LEVELS, marks=pytest.mark.slow),
        pytest.param("rest", 2, {}, marks=pytest.mark.slow),
        pytest.param("sqlite", 3, REWRITES, marks=pytest.mark.slow),
    ],
    ids=["sqlite-3", "rest-3", "sqlite-2", "rest-2-serializable", "sqlite-3-copy-on-write"],
)
def test_no_row_is_lost_or_twice(
    shared_catalog: Any, place: str, version: int, properties: dict[str, str]
) -> None:
    table = shared_catalog(place).table(f"raced_{version}_{len(properties)}_{len(str(properties))}")
    writers = raced(table, [Delvec, Delvec, IcebergSpark], format_version=version, properties=properties)
    expected = multiset(row for writer in writers for row in writer.rows.values())
    found = {**table.read_by_all(), "pyiceberg": table.read_by_pyiceberg()}
    for engine, rows in found.items():
        held = multiset(rows)
        assert held == expected, f"{engine} lost {expected - held}, gained {held - expected}"
    snapshots = table.metadata()["snapshots"]
    assert len(snapshots) == 1 + sum(writer.commits for writer in writers), "each statement commits once"
    assert table.open().verify().findings == ()
