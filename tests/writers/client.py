"""The processes: each has a Spark session of its own, and every storage call of its statements.

A writer says in its journal what it is about to do, and what became of it: a line of JSON each, which
outlives the process. Nothing is said of a statement that the process did not survive.
"""

from __future__ import annotations

import json
import logging
import random
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from writers import crashing
from writers.schedule import statements
from writers.statements import (
    APPEND,
    CREATE,
    DDL,
    DELETE,
    DELETE_KEYS,
    MERGE,
    OPTIMIZE,
    OVERWRITE,
    PROPERTIES,
    PURGE,
    UPDATE,
    UPSERT,
    VACUUM,
    Row,
    Statement,
    mark,
)

CLASSIC = "classic"
"""The address of no server: the process has a classic session, and a JVM, of its own."""


@dataclass(frozen=True, slots=True)
class Place:
    """A table as clients reach it: the server's address, the location, and the storage's options."""

    server: str
    location: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """A writer's part: so many of a seed's statements for it, or those of ``seconds``, or those ``given``.

    ``point``: where something happens to it, counted from its first statement on.
    """

    seed: int
    writer: int
    journal: Path
    count: int | None = None
    seconds: float | None = None
    given: tuple[Statement, ...] | None = None
    point: crashing.Point | None = None

    def statements(self) -> Iterator[Statement]:
        if self.given is not None:
            return iter(self.given)
        return islice(statements(self.seed, self.writer), self.count)


def session(server: str) -> Any:
    from pyspark.sql import SparkSession

    logging.getLogger("delvec").setLevel(logging.ERROR)  # what it warns of is made to happen here
    if server != CLASSIC:
        return SparkSession.builder.remote(server).getOrCreate()
    builder = SparkSession.builder.master("local[1]").config("spark.driver.memory", "512m")
    for name, value in (
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.sql.shuffle.partitions", "1"),
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.driver.host", "localhost"),
        ("spark.driver.bindAddress", "127.0.0.1"),
    ):
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def frame(spark: Any, rows: Sequence[Row]) -> Any:
    """The rows in one task; columns beside the table's own are texts."""
    more = [name for name in rows[0] if name not in ("id", "p", "v", "n")]
    ddl = ", ".join([DDL, *(f"{name} STRING" for name in more)])
    return spark.createDataFrame([tuple(row.values()) for row in rows], ddl).coalesce(1)


def created(spark: Any, place: Place, statement: Statement) -> Any:
    from delvec.table import Table

    return Table.create(
        spark,
        place.location,
        frame(spark, statement.rows),
        statement.format,
        statement.format_version,
        partition_by=statement.partition_by,
        properties=statement.properties,
        storage_options=place.options,
    )


def opened(spark: Any, place: Place) -> Any:
    from delvec.table import Table

    return Table.open(spark, place.location, storage_options=place.options)


def performed(spark: Any, table: Any, statement: Statement) -> Any:
    """The statement's OperationResult."""
    rows = frame(spark, statement.rows) if statement.rows else None
    match statement.verb:
        case verb if verb == APPEND:
            named = {} if statement.app_version is None else {"app_id": str(statement.token)}
            return table.append(
                rows, merge_schema=statement.merge_schema, app_version=statement.app_version, **named
            )
        case verb if verb == DELETE:
            return table.delete(statement.condition)
        case verb if verb == UPDATE:
            return table.update(statement.assignments, statement.condition)
        case verb if verb == DELETE_KEYS:
            return table.delete_keys(rows, on="id")
        case verb if verb == UPSERT:
            return table.upsert(rows, on="id")
        case verb if verb == OVERWRITE:
            return table.overwrite(rows, where=statement.condition)
        case verb if verb == OPTIMIZE:
            return table.optimize(f"true {mark(statement.token)}")
        case verb if verb == PURGE:
            return table.purge(f"true {mark(statement.token)}")
        case verb if verb == PROPERTIES:
            return table.set_properties(statement.properties)
        case verb if verb == VACUUM:
            return table.vacuum(0, force=True)
    assert statement.verb == MERGE
    merging = table.merge(rows, statement.on)
    if statement.delete_from is not None:
        merging = merging.when_matched_delete(f"target.n >= {statement.delete_from}")
    new = {"p": "source.p", "v": "source.v", "n": "target.n + 1"}
    return merging.when_matched_update(new).when_not_matched_insert_all().execute()


def outcome_of(act: Any) -> dict[str, Any]:
    """What a statement came to, as the journal has it."""
    from delvec.errors import DelvecError

    try:
        result = act()
    except DelvecError as error:
        return {"error": type(error).__name__, "message": str(error)}
    except Exception:
        return {"bug": traceback.format_exc()}
    return {"version": result.version, "metrics": dict(result.metrics)}


class Journal:
    """Lines of JSON, each with the operating system before the next thing happens."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def tell(self, **facts: Any) -> None:
        self._file.write(json.dumps(facts).encode() + b"\n")


def write(place: Place, task: Task, start: Any = None, meeting: Any = None) -> None:
    """A writer: waits for others at ``start``, and at ``meeting`` when it has its first commit ready."""
    journal = Journal(task.journal)
    spark = session(place.server)
    table = opened(spark, place)
    if start is not None:
        start.wait()
    ends = None if task.seconds is None else time.monotonic() + task.seconds
    calls = crashing.Calls(task.point)
    watching = crashing.watched(calls) if task.point is not None else nullcontext()
    waiting = crashing.meeting_at_commit(meeting.wait) if meeting is not None else nullcontext()
    with watching, waiting:
        for number, statement in enumerate(task.statements()):
            if ends is not None and time.monotonic() > ends:
                break
            journal.tell(begins=number)
            journal.tell(ended=number, **outcome_of(lambda one=statement: performed(spark, table, one)))
    spark.stop()


def create_and_write(place: Place, task: Task, statement: Statement, start: Any) -> None:
    """A writer who makes the table before the others come."""
    created(session(place.server), place, statement)
    write(place, task, start)


def write_when_created(place: Place, task: Task, start: Any) -> None:
    """A writer who waits for the table to be there."""
    from delvec.errors import TableNotFoundError

    spark = session(place.server)
    while True:
        try:
            opened(spark, place)
            break
        except TableNotFoundError:
            time.sleep(0.05)
    write(place, task, start)


def read(place: Place, journal: Path, seed: int, seconds: float) -> None:
    """A reader: each version twice, and a DataFrame that is made before others commit and read after it."""
    told, chance = Journal(journal), random.Random(seed)
    spark = session(place.server)
    table = opened(spark, place)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        version = table.version
        made = table.to_df(version=version)
        first = counted(table.to_df(version=version))
        time.sleep(chance.random())
        told.tell(version=version, rows=first, again=counted(made))
    spark.stop()


def read_late(place: Place, pipe: Any) -> None:
    """A reader who is told when to make DataFrames of the newest version, and at last to read them all."""
    spark = session(place.server)
    table = opened(spark, place)
    frames = []
    while (asked := pipe.recv()) is not None:
        if asked == "make":
            frames += [table.to_df(), table.to_df(where="id >= 0")]
            pipe.send("made")
        else:
            pipe.send([counted(frame) for frame in frames])
    spark.stop()


def counted(frame: Any) -> dict[str, int]:
    """The rows of a DataFrame, each with its number, by texts that JSON can hold."""
    return Counter(row_text(row.asDict()) for row in frame.collect())


def row_text(row: Row) -> str:
    return json.dumps(dict(row), sort_keys=True)


def serve(server: str, options: Mapping[str, str], pipe: Any) -> None:
    """A client that does as it is told through a pipe, until it is told nothing more.

    Each request is (location, statement, point): the answer has the outcome and the storage calls.
    """
    spark = session(server)
    while (request := pipe.recv()) is not None:
        location, statement, point = request
        pipe.send(carried_out(spark, Place(server, location, options), statement, point))
    spark.stop()


def carried_out(
    spark: Any, place: Place, statement: Statement, point: crashing.Point | None
) -> dict[str, Any]:
    """The statement's outcome, with the storage calls counted from when the table is open.

    As in a process of its own: no metadata is known from before.
    """
    from delvec.iceberg.manifest_cache import MANIFESTS

    MANIFESTS.clear()
    calls = crashing.Calls(point)
    if statement.verb == CREATE:
        with crashing.watched(calls):
            outcome = outcome_of(lambda: _Created(created(spark, place, statement)))
    else:
        table = opened(spark, place)
        with crashing.watched(calls):
            outcome = outcome_of(lambda: performed(spark, table, statement))
    return outcome | {"calls": calls.names, "met": calls.met}


@dataclass(frozen=True, slots=True)
class _Created:
    """A new table as a statement's result."""

    table: Any
    version: int = 0
    metrics: Mapping[str, int] = field(default_factory=dict)


def die(place: Place, statement: Statement, point: crashing.Point) -> None:
    """A client whose statement is its last."""
    carried_out(session(place.server), place, statement, point)
