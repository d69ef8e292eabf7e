"""What only the toy format has: transforms, position files, and a kind of delete that is not known yet."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from contract.kinds import POSITION_FILES
from contract.kinds.toy import TOY_KINDS
from contract.kinds.toy_format import MANIFESTS, ToyTable
from delvec import Table, detect, sql
from delvec.errors import FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.partition_spec import PartitionField
from delvec.row_delta import Operation, Read, Request, RowDelta, Verb
from delvec.schema import Field, Primitive, Struct
from delvec.storage import open_storage
from delvec.transforms import parse_transform
from verbs import frame_of, holds, rows_of

pytestmark = pytest.mark.spark

DDL = "id bigint, at timestamp, name string"
ROWS = [(i, dt.datetime(2025, 1, 1 + i % 3, i, tzinfo=dt.UTC), f"n{i}") for i in range(9)]


@pytest.fixture(params=TOY_KINDS, ids=lambda kind: kind.name)
def toy(request):
    return request.param


def transformed(spark, place, *partition, properties=None):
    """A table that is partitioned by transforms, given as (name, source, transform)."""
    kinds = {"id": "long", "at": "timestamp", "name": "string"}
    schema = Struct(tuple(Field(name, Primitive(kind)) for name, kind in kinds.items()))
    fields = [
        PartitionField(name, (source,), transform, transform.result_type(Primitive(kinds[source])))
        for name, source, text in partition
        for transform in [parse_transform(text)]
    ]
    table = ToyTable(open_storage(str(place)))
    draft = table.draft(schema, partition_by=fields, properties=properties)
    table.commit(draft, RowDelta(draft.base, Request(Operation.CREATE), Read(blind=True), Verb.ALTER))
    return Table.open(spark, str(place))


def manifest(table):
    path = Path(table.location) / MANIFESTS / f"{table.version:08d}.json"
    return path, json.loads(path.read_text())


def test_files_of_transforms_hold_one_partition_each(spark, tmp_path, toy):
    table = transformed(
        spark, tmp_path / "t", ("at_day", "at", "day"), ("b", "id", "bucket[4]"), properties=toy.having()
    )
    table.append(frame_of(spark, DDL, ROWS))
    days = {file["partition"][0] for file in manifest(table)[1]["files"]}
    assert days == {"2025-01-01", "2025-01-02", "2025-01-03"}
    assert all(0 <= int(file["partition"][1]) < 4 for file in manifest(table)[1]["files"])
    table.delete("id IN (0, 5)")
    table.update({"at": "at + INTERVAL 1 DAY"}, "id = 4")
    expected = [(i, at + dt.timedelta(days=i == 4), name) for i, at, name in ROWS if i not in {0, 5}]
    holds(table, expected)
    days = {file["partition"][0] for file in manifest(table)[1]["files"]}
    assert days == {"2025-01-01", "2025-01-02", "2025-01-03"}


def test_deletes_are_stored_in_the_form_of_the_table(spark, tmp_path, toy):
    table = toy.table(spark, tmp_path / "t", DDL, ROWS)
    table.delete("id = 1")
    table.delete("id = 2")
    (file,) = manifest(table)[1]["files"]
    expected = "position-file" if POSITION_FILES in toy.features else "position-vector"
    assert (file["delete"]["kind"], file["delete"]["cardinality"]) == (expected, 2)
    holds(table, [row for row in ROWS if row[0] not in {1, 2}])


def racing(spark, place, winner):
    """The table, opened by a writer whose first commit comes after the winner's."""
    first, second = (Table.open(spark, str(place)) for _ in range(2))
    commit, waiting = second._table.commit, [winner]

    def late(snapshot, delta):
        if waiting:
            waiting.pop()(first)
        return commit(snapshot, delta)

    second._table.commit = late
    return second


def test_two_writers_of_one_file_both_commit(spark, tmp_path, toy):
    toy.table(spark, tmp_path / "t", DDL, ROWS)
    table = racing(spark, tmp_path / "t", lambda first: first.delete("id = 1"))
    assert table.delete("id IN (2, 3)").version == 3
    holds(table, [row for row in ROWS if row[0] not in {1, 2, 3}])


def test_an_update_of_a_changed_row_runs_again(spark, tmp_path, toy):
    toy.table(spark, tmp_path / "t", DDL, ROWS)
    table = racing(spark, tmp_path / "t", lambda first: first.update({"name": "'first'"}, "id = 1"))
    table.update({"name": "concat(name, '!')"}, "id = 1")
    assert [row[2] for row in rows_of(table) if row[0] == 1] == ["first!"]


@pytest.mark.parametrize(
    ("delete_kind", "error", "message"),
    [
        ("range-file", UnsupportedFeatureError, "range-file"),  # a kind that no part of delvec knows
        ("equality-file", FormatError, "equality file has no field ids"),
    ],
)
def test_a_delete_that_cannot_be_applied_is_refused_by_name(
    spark, tmp_path, toy, delete_kind, error, message
):
    table = toy.table(spark, tmp_path / "t", DDL, ROWS)
    path, state = manifest(table)
    state["files"][0]["delete"] = {
        "kind": delete_kind,
        "encoding": "full-row",
        "location": "deletes/x",
        "length": 1,
        "cardinality": 1,
    }
    path.write_text(json.dumps(state))
    reads = [
        lambda: table.to_df().collect(),
        lambda: table.delete("id = 3"),
        lambda: table.update({"name": "'x'"}, "id = 3"),
    ]
    if error is UnsupportedFeatureError:  # of a known kind no delete is read if all rows go
        reads.append(table.delete)
    for read in reads:
        with pytest.raises(error, match=message):
            read()
    assert table.version == 1


def test_a_format_without_a_tree_refuses_it_by_name(spark, tmp_path, toy):
    table = toy.table(spark, tmp_path / "t", DDL, ROWS)
    with pytest.raises(UnsupportedFeatureError, match="toy tables have no tree"):
        table.tree()
    assert table.verify().errors == 0


def test_sql_and_time_travel(spark, tmp_path, toy):
    table = toy.table(spark, tmp_path / "t", DDL, ROWS)
    sql(spark, f"DELETE FROM delvec.`{table.location}` WHERE id > 3")
    assert sql(spark, f"SELECT count(*) FROM toy.`{table.location}`").collect()[0][0] == 4
    assert table.to_df(version=1).count() == 9
    assert [row.operation for row in table.history().collect()] == ["delete", "append", "create"]


def test_a_column_type_that_the_format_lacks_is_refused(spark, tmp_path):
    with pytest.raises(UnsupportedFeatureError, match="column s is nested"):
        Table.create(spark, str(tmp_path / "t"), "s struct<x int>", format="toy")
    assert detect.find_format(open_storage(str(tmp_path / "t"))) is None
    with pytest.raises(InvalidOperationError, match="'tou', expected"):
        Table.create(spark, str(tmp_path / "t"), "x int", format="tou")


def test_a_format_without_change_feed_refuses_it(spark, tmp_path, toy):
    table = toy.table(spark, tmp_path / "t", "id bigint", [(1,)])
    with pytest.raises(UnsupportedFeatureError, match="tables of the format toy have no change feed"):
        table.changes(0)
