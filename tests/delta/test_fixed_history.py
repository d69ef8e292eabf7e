"""A fixed history of all verbs: the commit files that delvec writes for it are recorded, and must not change.

``fixed_history.jsonl`` has the result of each statement and the lines of its commit file; ids, names of
files, sizes and times are masked. If a change of what is written is intended, record it and review the
difference:

    DELVEC_RECORD=1 pytest tests/delta/test_fixed_history.py
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from delta_log import LogWriter, column, metadata, protocol
from delvec import sql
from racing import losing

pytestmark = pytest.mark.spark

RECORDED = Path(__file__).with_name("fixed_history.jsonl")
RECORDING = "DELVEC_RECORD" in os.environ
DDL = "id bigint, name string, p int"
WIDER = "id bigint, name string, p int, late struct<x int, y string>"
ROWS = [(i, f"n{i}", i % 3) for i in range(12)]
ON = "target.id = source.id"

VECTORS_OFF = {"delta.enableDeletionVectors": "false"}
CHANGES_ON = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
TRACKED = {"delta.enableRowTracking": "true"}
TIMES_IN_COMMITS = {"delta.enableInCommitTimestamps": "true"}

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VECTOR_NAME = 20  # characters: Z85 of a UUID
_MASKED_NUMBERS = {
    "size",
    "modificationTime",
    "timestamp",
    "inCommitTimestamp",
    "deletionTimestamp",
    "createdTime",
    "lastUpdated",
    "delta.inCommitTimestampEnablementTimestamp",
}
_MASKED_METRIC = re.compile(r"num\w*Bytes|\w+Ms")


class Mask:
    """Replaces ids by numbers in the order of their appearance: a file keeps its name in all commits."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._ids: dict[str, str] = {}

    def value(self, value: Any, name: str = "") -> Any:
        match value:
            case {"sizeInBytes": int()} if "cardinality" not in value:  # a checkpoint's, not a vector's
                return self.value({key: child for key, child in value.items() if key != "sizeInBytes"})
            case dict():
                return {self.text(key): self.value(child, key) for key, child in value.items()}
            case list():
                return [self.value(child) for child in value]
            case _ if value is not None and (name in _MASKED_NUMBERS or _MASKED_METRIC.fullmatch(name)):
                return "*" if isinstance(value, str) else 0
            case str() if name == "engineInfo":
                return value.partition("/")[0]
            case str() if name == "pathOrInlineDv" and len(value) == _VECTOR_NAME:
                return self._numbered(value, "vector")
            case str():
                return self.text(value)
        return value

    def text(self, text: str) -> str:
        return _UUID.sub(lambda found: self._numbered(found[0], "id"), text.replace(self._root, "<folder>"))

    def _numbered(self, key: str, kind: str) -> str:
        return self._ids.setdefault(key, f"<{kind} {len(self._ids)}>")


class History:
    """A table, and what each statement on it returned and wrote."""

    def __init__(self, spark: Any, folder: Path, name: str) -> None:
        self.spark, self.folder, self.place = spark, folder, str(folder / name)
        self.lines: list[str] = []
        self._name = name
        self._mask = Mask(folder)
        self._seen = -1

    @property
    def table(self) -> Any:
        from delvec.table import Table

        return Table.open(self.spark, self.place)

    def create(self, given: Any, **options: Any) -> None:
        from delvec.table import Table

        rows = self.frame(given, DDL) if isinstance(given, list) else given
        self.run("create", lambda: Table.create(self.spark, self.place, rows, **options))

    def frame(self, rows: list[Any], ddl: str = DDL) -> Any:
        return self.spark.createDataFrame(rows, ddl).coalesce(1)

    def run(self, statement: str, action: Callable[[], Any]) -> None:
        """Run it, and record its result and every commit that came with it."""
        result = action()
        head: dict[str, Any] = {"table": self._name, "statement": statement}
        if hasattr(result, "metrics"):
            head |= {"version": result.version, "metrics": dict(result.metrics)}
        self._line(head)
        for version in range(self._seen + 1, self.table.version + 1):
            self._record_commit(version)

    def skip_commits(self) -> None:
        """Do not record the commits that are there."""
        self._seen = self.table.version

    def record_checkpoints(self) -> None:
        log = Path(self.place) / "_delta_log"
        for path in sorted(log.glob("*.checkpoint*.parquet")):
            self._record_parquet(path)
        for path in sorted(log.glob("*.checkpoint*.json")):
            self._line({"file": path.name})
            for line in path.read_text().splitlines():
                self._line(json.loads(line))
        for path in sorted((log / "_sidecars").glob("*")):
            self._record_parquet(path)
        self._line({"file": "_last_checkpoint"} | json.loads((log / "_last_checkpoint").read_text()))

    def _record_commit(self, version: int) -> None:
        text = (Path(self.place) / f"_delta_log/{version:020d}.json").read_text()
        assert text.endswith("\n")
        for line in text.splitlines():
            action = json.loads(line)
            assert json.dumps(action, separators=(",", ":"), ensure_ascii=False) == line
            self._line(action)
        self._seen = version

    def _record_parquet(self, path: Path) -> None:
        held = pq.read_table(path)
        self._line({"file": path.name, "schema": str(held.schema).split("\n")})
        for row in held.to_pylist(maps_as_pydicts="strict"):
            self._line({name: value for name, value in row.items() if value is not None})

    def _line(self, value: Any) -> None:
        self.lines.append(json.dumps(self._mask.value(value), ensure_ascii=False, default=str))


def all_verbs(history: History, properties: dict[str, str]) -> None:
    """Each verb of ``Table``, on a partitioned table."""
    run, frame = history.run, history.frame
    history.create(ROWS[:6], partition_by=["p"], properties=properties)
    table = history.table
    run("append", lambda: table.append(frame(ROWS[6:])))
    run("append of no rows", lambda: table.append(frame([])))
    wider = frame([(12, "n12", 0, (1, "x")), (13, None, None, None)], WIDER)
    run("append with a new column", lambda: table.append(wider, merge_schema=True))
    run("append once", lambda: table.append(frame([(14, "n14", 1)]), app_id="job", app_version=7))
    run("append again", lambda: table.append(frame([(14, "n14", 1)]), app_id="job", app_version=7))
    run("delete", lambda: table.delete("id IN (0, 3, 7) OR name = 'n8'"))
    run("delete in files with vectors", lambda: table.delete("id = 6 OR id = 4"))
    run("delete of a partition", lambda: table.delete("p IS NULL"))
    run("delete of no rows", lambda: table.delete("id = 99"))
    run("update", lambda: table.update({"name": "upper(name)", "late.x": "5"}, "id IN (2, 11)"))
    run("update of a partition column", lambda: table.update({"p": "p + 10"}, "id = 5"))
    source = frame([(9, "s9", 0, (9, "y")), (10, "s10", 4, None), (20, "s20", 0, None)], WIDER)
    run(
        "merge",
        lambda: (
            table.merge(source, ON)
            .when_matched_delete("source.id = 9")
            .when_matched_update({"name": "source.name", "p": "source.p"}, "source.id = 10")
            .when_matched_update_all()
            .when_not_matched_insert({"id": "source.id", "name": "'new'"}, "source.id = 20")
            .when_not_matched_insert_all()
            .when_not_matched_by_source_update({"name": "concat(name, '!')"}, "target.id = 1")
            .when_not_matched_by_source_delete("target.id = 12")
            .execute()
        ),
    )
    run("upsert", lambda: upsert(table, source))
    run("merge that changes nothing", lambda: table.merge(source, ON).when_matched_delete("false").execute())
    run("overwrite where", lambda: table.overwrite(frame([(30, "n30", 0)]), where="p = 0 AND id >= 9"))
    run("overwrite of partitions", lambda: table.overwrite(frame([(31, "n31", 1)]), partitions="dynamic"))
    run(
        "set properties",
        lambda: table.set_properties({"owner": "me", "delta.logRetentionDuration": "7 days"}),
    )
    run("unset a property", lambda: table.set_properties({"owner": None}))
    run("add columns", lambda: table.add_columns("later string, late struct<z double>"))
    run("overwrite", lambda: table.overwrite(frame([(40, "n40", 0), (41, "n41", 1)])))
    run("delete all", table.delete)
    run("delete all again", table.delete)


def upsert(table: Any, source: Any) -> Any:
    return table.merge(source, ON).when_matched_update_all().when_not_matched_insert_all().execute()


def plain(history: History) -> None:
    all_verbs(history, {})


def copy_on_write_with_changes(history: History) -> None:
    all_verbs(history, VECTORS_OFF | CHANGES_ON)


def everything_on(history: History) -> None:
    all_verbs(history, MAPPED | TRACKED | CHANGES_ON | TIMES_IN_COMMITS)


TYPES = """
    id int NOT NULL, tiny tinyint, small smallint, big bigint, f float, d double, price decimal(20,3),
    flag boolean, day date, at timestamp, local timestamp_ntz, text string, code char(3), raw binary,
    s struct<a int, b struct<c string>>, l array<int>, m map<string, int>
"""
OF_ALL_TYPES = """
    SELECT
        CAST(id + 1 AS int) AS id, 2Y AS tiny, 3S AS small, 4L AS big, 1.5F AS f, -0.0D AS d,
        12345678901234567.891BD AS price, true AS flag, DATE'1582-10-15' AS day,
        TIMESTAMP'2024-02-29 12:00:00.123456' AS at, TIMESTAMP_NTZ'1900-01-01 00:00:00.000001' AS local,
        repeat('é', 40) AS text, 'ab' AS code, X'00FF' AS raw,
        named_struct('a', 7, 'b', named_struct('c', 'deep')) AS s, array(1, 2) AS l, map('k', 1) AS m
    FROM range(0, 8, 1, 1)
"""


def types(history: History) -> None:
    """The statistics of every type, in a table without partitions that has a constraint."""
    properties = {"delta.constraints.positive": "id > 0", "delvec.rewriteDeletedShare": "0.5"}
    history.create(TYPES, properties=properties)
    table, run = history.table, history.run
    run("append", lambda: table.append(history.spark.sql(OF_ALL_TYPES)))
    run("append of nulls", lambda: table.append(history.frame([(20,)], "id int")))
    new = {"text": "NULL", "s.b.c": "'x'", "d": "double('NaN')"}
    run("update to null", lambda: table.update(new, "id IN (3, 4)"))
    run("delete by a vector", lambda: table.delete("id = 1"))
    run("delete that writes the file again", lambda: table.delete("id IN (5, 6)"))


def own_values(history: History) -> None:
    """Generated columns, and columns with defaults."""
    Path(history.place).mkdir()
    body = protocol()
    body["protocol"]["writerFeatures"] += ["generatedColumns", "allowColumnDefaults"]
    fields = (
        column("id", "integer"),
        column("doubled", "long", metadata={"delta.generationExpression": "id * 2"}),
        column("note", "string", metadata={"CURRENT_DEFAULT": "upper('none')"}),
    )
    on = {"delta.enableDeletionVectors": "true"}
    LogWriter(history.place).commit(body, metadata(*fields, partition_by=["doubled"], properties=on))
    history.skip_commits()
    table, run = history.table, history.run
    run("append", lambda: table.append(history.frame([(1,), (2,)], "id int")))
    run("update", lambda: table.update({"id": "id + 10"}, "id = 1"))
    merge = table.merge(history.frame([(2,), (3,)], "id int"), ON).when_matched_update({"note": "'seen'"})
    run("merge", lambda: merge.when_not_matched_insert({"id": "source.id"}).execute())


def checkpoints(history: History) -> None:
    some_commits(history, {"delta.checkpointInterval": "2"})


def checkpoints_v2(history: History) -> None:
    some_commits(history, {"delta.checkpointInterval": "2", "delta.checkpointPolicy": "v2"} | TRACKED)


def some_commits(history: History, properties: dict[str, str]) -> None:
    history.create(ROWS[:4], partition_by=["p"], properties=properties)
    table, run = history.table, history.run
    run("append", lambda: table.append(history.frame([(9, "n9", 0)]), app_id="job", app_version=1))
    run("delete", lambda: table.delete("id IN (0, 1)"))
    history.record_checkpoints()


def statements(history: History) -> None:
    """SQL: what statements add to the commits of the verbs."""
    name, spark = f"delvec.`{history.place}`", history.spark

    def run(text: str) -> None:
        history.run(text.replace(name, "t"), lambda: sql(spark, text))

    run(
        f"CREATE TABLE {name} (id BIGINT COMMENT 'the key', name STRING, p INT) USING delvec "
        "PARTITIONED BY (p) COMMENT 'a table' TBLPROPERTIES ('owner' = 'me')"
    )
    run(f"INSERT INTO {name} VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2), (4, 'd', 2)")
    run(f"INSERT INTO {name} (p, id) SELECT 3, 5L")
    run(f"DELETE FROM {name} AS t WHERE t.id = 1")
    run(f"DELETE FROM {name} WHERE id IN (SELECT 3L)")
    run(f"UPDATE {name} SET name = 'x' WHERE id = 2")
    run(
        f"MERGE INTO {name} AS t USING (SELECT 4L AS id, 'm' AS name, 2 AS p) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    run(f"INSERT INTO {name} REPLACE WHERE p = 3 SELECT 6L, 'r', 3")
    run(f"INSERT OVERWRITE {name} PARTITION (p = 2) SELECT 7L, 'o'")
    run(f"ALTER TABLE {name} SET TBLPROPERTIES ('team' = 'us', 'comment' = 'another')")
    run(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('team')")
    run(f"ALTER TABLE {name} ADD COLUMNS (extra INT COMMENT 'more')")
    run(f"TRUNCATE TABLE {name}")


def table_of_a_query(history: History) -> None:
    text = (
        f"CREATE TABLE delvec.`{history.place}` USING delvec AS SELECT id, id % 2 AS p FROM range(0, 4, 1, 1)"
    )
    history.run("CREATE TABLE AS", lambda: sql(history.spark, text))


def races(history: History) -> None:
    """Statements that lost to another: on top of it, with united vectors, and run again."""
    history.create(ROWS[:6], properties={})
    spark, place, run = history.spark, history.place, history.run
    appended = losing(spark, place, lambda other: other.append(history.frame([(9, "n9", 0)])))
    run("append after an append", lambda: appended.append(history.frame([(10, "n10", 0)])))
    united = losing(spark, place, lambda other: other.delete("id = 1"))
    run("delete in a file with a new vector", lambda: united.delete("id = 2"))
    again = losing(spark, place, lambda other: other.update({"name": "'first'"}, "id = 3"))
    run("update of an updated row", lambda: again.update({"name": "concat(name, '+')"}, "id = 3"))
    replaced = losing(spark, place, lambda other: other.append(history.frame([(11, "n11", 0)])))
    run("overwrite after an append", lambda: replaced.overwrite(history.frame([(12, "n12", 0)])))


HISTORIES = (
    plain,
    copy_on_write_with_changes,
    everything_on,
    types,
    own_values,
    checkpoints,
    checkpoints_v2,
    statements,
    table_of_a_query,
    races,
)


def recorded(name: str) -> list[str]:
    return [line for table, line in _by_table() if table == name]


def _by_table() -> Iterator[tuple[str, str]]:
    table = ""
    for line in RECORDED.read_text().splitlines() if RECORDED.exists() else []:
        if line.startswith('{"table": '):
            table = json.loads(line)["table"]
        yield table, line


def record(name: str, lines: list[str]) -> None:
    """Put the lines in the place of those that the table has in the file."""
    sections: dict[str, list[str]] = {made.__name__: [] for made in HISTORIES}
    for table, line in _by_table():
        sections.setdefault(table, []).append(line)
    sections[name] = lines
    RECORDED.write_text("".join(f"{line}\n" for section in sections.values() for line in section))


@pytest.mark.parametrize("made", HISTORIES, ids=lambda made: made.__name__)
def test_the_same_statements_write_the_same_commits(
    spark: Any, tmp_path: Path, made: Callable[[History], None]
) -> None:
    history = History(spark, tmp_path, made.__name__)
    made(history)
    if RECORDING:
        record(made.__name__, history.lines)
    assert history.lines == recorded(made.__name__)
