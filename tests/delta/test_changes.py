"""Change plans of logs that are written by hand: which files say what, which ranges are refused."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest

from delta_log import LogWriter, add, column, metadata, remove, vector
from delvec.change_plan import CHANGE_TYPE, ChangePlan, CommitFiles
from delvec.delta.table import DeltaTable
from delvec.errors import DelvecError, FormatError, InvalidOperationError

FEED = {"delta.enableChangeDataFeed": "true"}
ID, NAME = column("id", "long"), column("name", "string")
DV1, DV2 = vector("ab^-aqEH.-t@S}K{vb[*k^", cardinality=2), vector("cd^-aqEH.-t@S}K{vb[*k^", cardinality=3)


class Log:
    """A table with a change feed, on the local disk."""

    def __init__(self, root: Path, *fields: Any, **options: Any) -> None:
        self.root, self.log = root, LogWriter(str(root))
        self.options: dict[str, Any] = {"properties": FEED, **options}
        self.log.create(*(fields or (ID,)), features=("deletionVectors", "columnMapping"), **self.options)

    def commit(self, *actions: Any, info: dict[str, Any] | None = None) -> int:
        first = [] if info is None else [{"commitInfo": info}]
        return self.log.commit(*first, *actions)

    def columns(self, *fields: Any, **options: Any) -> int:
        return self.commit(metadata(*fields, **{**self.options, **options}))

    def plan(self, first: Any, last: Any = None, **options: Any) -> ChangePlan:
        return DeltaTable.open(str(self.root)).change_plan(first, last, **options)

    def told(self, first: int, last: int | None = None) -> dict[str, list[tuple[int, str]]]:
        """The files of each kind, with their versions."""
        plan = self.plan(first, last)
        kinds = {name: getattr(plan, name) for name in ("recorded", "added", "removed", "before")}
        return {name: files_of(plan, files) for name, files in kinds.items() if len(files)}


def files_of(plan: ChangePlan, files: CommitFiles) -> list[tuple[int, str]]:
    versions = plan.commits.column("version").take(files.commit).to_pylist()
    places = files.plan.files.column("location").to_pylist()
    return sorted((v, place.rpartition("/")[2]) for v, place in zip(versions, places, strict=True))


def changing(action: dict[str, Any], **fields: Any) -> dict[str, Any]:
    ((name, body),) = action.items()
    return {name: {**body, **fields}}


def cdc(path: str, **fields: Any) -> dict[str, Any]:
    return {"cdc": {"path": path, "partitionValues": {}, "size": 1, "dataChange": False, **fields}}


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "t")


def test_files_of_each_kind(log: Log) -> None:
    log.commit(add("a.parquet"), add("b.parquet"))
    log.commit(remove("a.parquet"), add("a.parquet", deletion_vector=DV1))
    log.commit(remove("a.parquet", deletion_vector=DV1), add("c.parquet"), cdc("_change_data/d.parquet"))
    log.commit(remove("b.parquet"), add("e%20f.parquet"))
    assert log.told(0) == {
        "added": [(1, "a.parquet"), (1, "b.parquet"), (4, "e f.parquet")],
        "before": [(2, "a.parquet")],
        "recorded": [(3, "d.parquet")],
        "removed": [(4, "b.parquet")],
    }
    assert log.told(3, 3) == {"recorded": [(3, "d.parquet")]}
    plan = log.plan(2, 3)
    assert plan.before.plan.deleted_rows.to_pylist() == [0]
    assert plan.after.deleted_rows.to_pylist() == [2]
    assert [field.name for field in plan.recorded.plan.schema] == ["id", CHANGE_TYPE]
    assert plan.commits.column("version").to_pylist() == [2, 3]


def test_a_vector_may_shrink(log: Log) -> None:
    log.commit(add("a.parquet", deletion_vector=DV2))
    log.commit(remove("a.parquet", deletion_vector=DV2), add("a.parquet", deletion_vector=DV1))
    log.commit(remove("a.parquet", deletion_vector=DV1), add("a.parquet"))
    plan = log.plan(1)
    assert plan.added.plan.deleted_rows.to_pylist() == [3]
    assert plan.before.plan.deleted_rows.to_pylist() == [3, 2]
    assert plan.after.deleted_rows.to_pylist() == [2, 0]
    assert plan.before.commit.tolist() == [1, 2]


def test_commits_that_change_no_row_have_no_files(log: Log) -> None:
    log.commit(add("a.parquet"))
    log.commit(changing(remove("a.parquet"), dataChange=False), changing(add("b.parquet"), dataChange=False))
    none = dict.fromkeys(("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"), "0")
    merge = {"operation": "MERGE", "operationMetrics": none}
    log.commit(remove("b.parquet"), add("c.parquet"), info=merge)
    some = {**none, "numTargetRowsUpdated": "1"}
    assert log.told(2) == {}
    log.commit(remove("c.parquet"), add("d.parquet"), info={**merge, "operationMetrics": some})
    assert log.told(2) == {"added": [(4, "d.parquet")], "removed": [(4, "c.parquet")]}


def test_times_are_those_of_the_commits(tmp_path: Path) -> None:
    stated = {**FEED, "delta.enableInCommitTimestamps": "true"}
    stated |= {"delta.inCommitTimestampEnablementVersion": "2"}
    log = Log(tmp_path / "t", properties=FEED)
    log.commit(add("a.parquet"))
    os.utime(tmp_path / "t/_delta_log/00000000000000000001.json", (1_700_000_000, 1_700_000_000))
    os.utime(tmp_path / "t/_delta_log/00000000000000000000.json", (1_600_000_000, 1_600_000_000))
    log.commit(metadata(ID, properties=stated), info={"inCommitTimestamp": 1_800_000_000_123})
    times = log.plan(1).commits.column("timestamp").to_pylist()
    first = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
    assert times == [first, dt.datetime.fromtimestamp(1_800_000_000.123, dt.UTC)]
    assert log.told(first) == log.told(1)
    assert log.told(first + dt.timedelta(microseconds=1)) == {}


def test_partition_values_of_removes_that_do_not_state_them(tmp_path: Path) -> None:
    p = column("p", "integer")
    log = Log(tmp_path / "t", ID, p, partition_by=["p"])
    log.commit(add("a.parquet", partition={"p": "1"}))
    log.commit(add("b.parquet", partition={"p": "2"}))
    log.commit(remove("a.parquet"), remove("b.parquet"))
    for first in (1, 2, 3):
        plan = log.plan(first).removed.plan
        values = [row["p"] for row in plan.files.column("partition").to_pylist()]
        assert values == [1, 2]
        assert plan.files.column("size").to_pylist() == [0, 0]
    log.log.classic(3)
    log.log.delete(*(f"{n:020d}.json" for n in range(3)))
    with pytest.raises(FormatError, match=r"commit 3 removes 'a.parquet' without its partition values"):
        log.plan(3)


def test_new_columns_are_shown_and_old_rows_lack_them(log: Log) -> None:
    log.commit(add("a.parquet"))
    log.columns(ID, NAME)
    log.columns(ID, NAME, column("s", {"type": "struct", "fields": [ID]}))
    log.columns(ID, NAME, column("s", {"type": "struct", "fields": [ID, NAME]}))
    for last in (1, 2, 4):  # of the newest version, as Delta-Spark has it
        assert [field.name for field in log.plan(1, last).schema] == ["id", "name", "s"]


MAPPING = {**FEED, "delta.columnMapping.mode": "name"}


def mapped(name: str, kind: str, number: int, physical: str | None = None) -> dict[str, Any]:
    stored = {
        "delta.columnMapping.id": number,
        "delta.columnMapping.physicalName": physical or f"col-{number}",
    }
    return column(name, kind, metadata=stored)


def test_mapped_columns_are_those_of_the_last_version(tmp_path: Path) -> None:
    one, two = mapped("a", "long", 1), mapped("b", "long", 2)
    log = Log(tmp_path / "t", one, properties=MAPPING)
    log.columns(one, two)
    log.columns(one, mapped("c", "long", 2))
    log.columns(one)
    names = [[field.name for field in log.plan(0, last).schema] for last in (0, 1)]
    assert names == [["a"], ["a", "b"]]
    assert [field.name for field in log.plan(2, 2).schema] == ["a", "c"]
    with pytest.raises(
        InvalidOperationError,
        match=r"version 2 cannot be shown together with version 1: column b was renamed to c, expected",
    ):
        log.plan(0, 2)
    with pytest.raises(InvalidOperationError, match=r"version 3 .* version 2: column c was dropped"):
        log.plan(2, 3)


def test_mapping_may_begin_in_the_range(log: Log) -> None:
    log.commit(add("a.parquet"))
    log.columns(mapped("id", "long", 1, "id"), properties=MAPPING)
    assert [(f.name, f.physical_name) for f in log.plan(0).schema] == [("id", "id")]


@pytest.mark.parametrize(
    ("later", "options", "message"),
    [
        ((NAME,), {}, "column id was dropped"),
        ((column("id", "string"),), {}, "column id changed its type from long to string"),
        ((column("id", "integer"),), {}, "column id changed its type from long to integer"),
        ((ID,), {"partition_by": ["id"]}, "partitioned by nothing and then by id"),
    ],
)
def test_columns_that_cannot_be_shown(log: Log, later: Any, options: Any, message: str) -> None:
    log.commit(add("a.parquet"))
    log.columns(*later, **options)
    with pytest.raises(InvalidOperationError, match=f"version 2 cannot be shown .*version 0: .*{message}"):
        log.plan(0)
    assert len(log.plan(0, 1).added) == 1  # the range before it has the columns of its own end
    assert log.told(2) == {}


def test_wider_types_are_shown(tmp_path: Path) -> None:
    log = Log(tmp_path / "t", column("id", "integer"), column("d", "decimal(5,2)"))
    log.columns(ID, column("d", "decimal(9,2)"))
    assert [str(field.type) for field in log.plan(0).schema] == ["long", "decimal(9,2)"]


def test_rows_that_the_first_commit_removes_must_be_readable(log: Log) -> None:
    log.commit(add("a.parquet"))
    log.commit(remove("a.parquet"), metadata(column("id", "string"), **log.options))
    with pytest.raises(InvalidOperationError, match="rows that version 2 deletes cannot be shown: column id"):
        log.plan(2)


def test_commits_that_were_cleaned_up(log: Log) -> None:
    for name in "abcd":
        log.commit(add(f"{name}.parquet"))
    log.log.classic(2)
    log.log.delete(f"{0:020d}.json")  # commit 1 is there, but not the columns that it has
    with pytest.raises(InvalidOperationError, match="version 1 can no longer be read, expected 2 to 4"):
        log.plan(1)
    log.log.delete(f"{1:020d}.json")
    assert log.told(2) == {"added": [(2, "b.parquet"), (3, "c.parquet"), (4, "d.parquet")]}
    for first in (0, 1):
        with pytest.raises(
            InvalidOperationError, match=f"version {first} can no longer be read, expected 2 to 4"
        ):
            log.plan(first)
    log.log.delete(f"{3:020d}.json")
    log.log.classic(4)
    with pytest.raises(InvalidOperationError, match="changes of version 3 can no longer be read"):
        log.plan(2)
    assert log.told(4) == {"added": [(4, "d.parquet")]}


def test_a_damaged_checkpoint_is_passed_over(log: Log) -> None:
    for name in "abcd":
        log.commit(add(f"{name}.parquet"))
    log.log.put(f"{2:020d}.checkpoint.parquet", b"PAR1 no")
    with pytest.warns(UserWarning, match="skipped a damaged checkpoint"):
        assert log.told(3, 3) == {"added": [(3, "c.parquet")]}


def test_many_commits(log: Log) -> None:
    for number in range(40):
        log.commit(add(f"{number}.parquet"))
    log.log.classic(20)
    log.log.compact(5, 9)
    assert len(log.told(0)["added"]) == 40
    assert log.told(7, 8) == {"added": [(7, "6.parquet"), (8, "7.parquet")]}


def test_bad_actions_are_errors(log: Log) -> None:
    log.commit({"cdc": {"partitionValues": {}, "size": 1}})
    with pytest.raises(DelvecError, match="has no path"):
        log.plan(0)
