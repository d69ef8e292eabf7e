"""What other writers' snapshots did, as the conflict rules ask for it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from delvec import detect
from delvec.iceberg.winners import won
from delvec.row_delta import Verb
from iceberg_tables.writer import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32())])


@pytest.fixture(params=[2, 3])
def writer(tmp_path, request):
    return IcebergWriter(tmp_path / "t", COLUMNS, format_version=request.param, partition_by=["p"])


def rows(*ids):
    return [{"id": number, "p": 1} for number in ids]


def snapshot(writer, version=None):
    return detect.open_table(str(writer.root)).snapshot(version)


def since(writer, before):
    """What happened after the snapshot, which was read before."""
    return won(before, snapshot(writer))


def names(column):
    return {path.rpartition("/")[2] for path in column.to_pylist()}


def name(file):
    return file.path.rpartition("/")[2]


def test_an_append(writer):
    writer.append(rows(1))
    before = snapshot(writer)
    file = writer.add_file(rows(2, 3))
    version = writer.commit()
    (commit,) = since(writer, before)
    assert (commit.version, commit.verb, names(commit.added)) == (version, Verb.APPEND, {name(file)})
    assert not len(commit.removed)
    assert not len(commit.vectors)
    assert commit.changed is None


def test_the_first_snapshot(writer):
    before = snapshot(writer)
    writer.append(rows(1))
    assert [commit.verb for commit in since(writer, before)] == [Verb.APPEND]


def test_a_delete_of_rows(writer):
    file, other = writer.add_file(rows(1, 2)), writer.add_file(rows(3))
    writer.commit()
    before = snapshot(writer)
    writer.delete_rows(file, [1])
    writer.commit()
    (commit,) = since(writer, before)
    assert (commit.verb, names(commit.vectors), len(commit.added)) == (Verb.DELETE, {name(file)}, 0)
    assert name(other) not in names(commit.vectors)


def test_position_files_of_several_data_files(tmp_path):
    writer = IcebergWriter(tmp_path / "t", COLUMNS, format_version=2)
    one, two, three = (writer.add_file(rows(number, number + 10)) for number in range(3))
    writer.commit()
    before = snapshot(writer)
    writer.delete_positions({one: [0], three: [1]})
    writer.commit()
    (commit,) = since(writer, before)
    assert (commit.verb, names(commit.vectors)) == (Verb.DELETE, {name(one), name(three)})
    assert name(two) not in names(commit.vectors)


def test_removed_files_take_their_deletes_along(writer):
    file = writer.add_file(rows(1, 2))
    writer.commit()
    writer.delete_rows(file, [0])
    writer.commit()
    before = snapshot(writer)
    writer.remove_file(file)
    writer.commit()
    (commit,) = since(writer, before)
    assert (commit.verb, names(commit.removed), len(commit.vectors)) == (Verb.DELETE, {name(file)}, 0)


def test_an_update_and_a_delete_in_a_row(writer):
    file = writer.add_file(rows(1, 2, 3))
    writer.commit()
    before = snapshot(writer)
    writer.delete_rows(file, [0])
    new = writer.add_file(rows(10))
    first = writer.commit()
    writer.delete_rows(file, [1])
    second = writer.commit()
    update, delete = since(writer, before)
    assert [(update.version, update.verb), (delete.version, delete.verb)] == [
        (first, Verb.UPDATE),
        (second, Verb.DELETE),
    ]
    assert names(update.added) == {name(new)}
    assert names(update.vectors) == names(delete.vectors) == {name(file)}


def test_a_replace_moves_rows(writer):
    files = [writer.add_file(rows(1)), writer.add_file(rows(2))]
    writer.commit()
    before = snapshot(writer)
    for file in files:
        writer.remove_file(file)
    new = writer.add_file(rows(1, 2))
    writer.commit(operation="replace")
    (commit,) = since(writer, before)
    assert commit.verb == Verb.COMPACT
    assert names(commit.rearranged) == names(commit.removed) == set(map(name, files))
    assert names(commit.carried) == {name(new)}
    assert not len(commit.added)


def test_equality_deletes(writer):
    writer.append(rows(1, 2))
    before = snapshot(writer)
    writer.delete_keys([{"id": 1}], on=["id"], partition={"p": 1})
    writer.commit()
    writer.delete_keys([{"id": 2}], on=["id"], partition={"p": 1})
    writer.append(rows(2))
    assert [commit.verb for commit in since(writer, before)] == [Verb.DELETE_KEYS, Verb.UPSERT]


def test_a_rollback_and_new_columns_run_the_statement_again(writer):
    first = writer.append(rows(1))
    writer.append(rows(2))
    before = snapshot(writer)
    writer.roll_back(first)
    writer.append(rows(3))
    assert [commit.changed for commit in since(writer, before)] == ["which snapshot the branch is at"]
    before = snapshot(writer)
    writer.add_column(pa.field("more", pa.string()))
    writer.append([{"id": 1, "p": 1, "more": "x"}])
    assert [commit.changed for commit in since(writer, before)] == ["the table's columns"]
    before = snapshot(writer)
    writer.replace_spec([])
    assert [commit.changed for commit in since(writer, before)] == ["the table's partitioning"]


def test_properties_are_no_conflict(writer):
    writer.append(rows(1))
    before = snapshot(writer)
    writer.properties["write.parquet.compression-codec"] = "zstd"
    writer.write_metadata()
    assert since(writer, before) == []


def test_writers_with_an_application_id(writer):
    writer.append(rows(1))
    before = snapshot(writer)
    writer.properties["delvec.txn.etl"] = "7"
    writer.append(rows(2))
    (commit,) = since(writer, before)
    assert (commit.verb, commit.app_ids) == (Verb.APPEND, frozenset({"etl"}))
