"""The integration tests of the design of equality delete vectors, and what its commits and scans tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delvec
from delvec import detect
from delvec.deletes import DeleteWriterFactory
from delvec.spark import stored_keys
from delvec.storage import Storage
from delvec.table import Table
from delvec.verify import verify_table
from iceberg_tables import IcebergWriter
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg
from racing import log_messages
from verbs import rows_of

pytestmark = pytest.mark.spark

GATE, HINT = "write.delete.equality-vector.enabled", "write.delete.encoding-hint"
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("name", pa.string())])
ROWS = [{"id": number, "p": number % 2, "name": f"n{number}"} for number in range(10)]
VECTOR, FULL_ROW = "deletion-vector", "full-row"


def written(root: Path, *, version: int = 3, partition_by: Any = (), gate: str = "true") -> IcebergWriter:
    """A table of another writer, with a data file for each ``p``."""
    writer = IcebergWriter(root, COLUMNS, format_version=version, partition_by=list(partition_by))
    writer.properties |= {GATE: gate, **MERGE_ON_READ}
    for p in range(2):
        writer.add_file([row for row in ROWS if row["p"] == p])
    writer.commit()
    return writer


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Any:
    written(tmp_path / "t")
    return Table.open(spark, str(tmp_path / "t"))


def left(*ids: int) -> list[Any]:
    return sorted((tuple(row.values()) for row in ROWS if row["id"] not in ids), key=str)


def deletes_of(table: Any) -> list[dict[str, Any]]:
    found = detect.open_table(table.location).snapshot().live_deletes().to_pylist()
    return sorted(found, key=lambda delete: (delete["sequence"], delete["encoding"]))


def summary(table: Any) -> Any:
    return table.format_table.snapshot().record.summary


def keys(*ids: Any) -> Any:
    return pa.table({"id": pa.array(ids, pa.int64())})


def test_end_to_end(table):
    result = table.delete_keys(keys(1, 2, 99), on="id")
    assert rows_of(table) == left(1, 2)
    (delete,) = deletes_of(table)
    assert (delete["encoding"], delete["cardinality"], delete["field_ids"]) == (VECTOR, 3, [1])
    assert result.metrics["numDeletedRows"] is None
    assert (result.metrics["numKeys"], result.metrics["numKeysInVectors"]) == (3, 3)
    table.append([{"id": 1, "p": 5, "name": "new"}])
    assert rows_of(table) == sorted([*left(1, 2), (1, 5, "new")], key=str)
    table.upsert([{"id": 1, "p": 6, "name": "newer"}, {"id": 2, "p": 6, "name": "back"}], on="id")
    expected = sorted([*left(1, 2), (1, 6, "newer"), (2, 6, "back")], key=str)
    assert rows_of(table) == expected
    assert not verify_table(detect.open_table(table.location)).errors
    connector = table._spark.read.format("delvec").load(table.location).collect()
    assert sorted(map(tuple, connector), key=str) == expected


def test_mixed_formats_and_their_summary(table):
    expected = {"total-equality-deletes": 0, "equality-delete-vectors": 0, "equality-delete-files": 0}
    for hint, ids in (("auto", (1, 2)), ("full-row", (3,)), ("deletion-vector", (0, 9)), ("auto", (-1, 4))):
        table.set_properties({HINT: hint})
        table.delete_keys(keys(*ids), on="id")
        expected["total-equality-deletes"] += len(ids)
        expected["equality-delete-vectors"] += hint != "full-row"
        expected["equality-delete-files"] += hint == "full-row" or -1 in ids
        assert {name: int(summary(table)[name]) for name in expected} == expected
    encodings = [delete["encoding"] for delete in deletes_of(table)]
    assert encodings == [VECTOR, FULL_ROW, VECTOR, VECTOR, FULL_ROW]
    sizes = [delete["length"] for delete in deletes_of(table) if delete["encoding"] == VECTOR]
    assert int(summary(table)["edv-size-bytes"]) == sum(sizes)
    table.delete("name = 'n5' OR name = 'n6'")
    assert rows_of(table) == left(0, 1, 2, 3, 4, 5, 6, 9)


FALLBACKS: dict[str, tuple[Any, Any, dict[str, int]]] = {
    "the key has several columns": (
        pa.table({"id": [1], "p": pa.array([1], pa.int32())}),
        ["id", "p"],
        {"CompositeKey": 1},
    ),
    "the key's type has no codec": (pa.table({"name": ["n1"]}), "name", {"KeyType": 1}),
    "the key is negative": (keys(1, -5), "id", {"Negative": 1}),
    "the key is null": (keys(1, None), "id", {"Null": 1}),
    "the key is above": (keys(1, 0x7FFFFFFE80000001), "id", {"TooLarge": 1}),
    "the keys are too sparse": (keys(1, 10**9, 2 * 10**9), "id", {"Sparse": 3}),
}


@pytest.mark.parametrize("reason", FALLBACKS)
def test_fallbacks_are_told(table, reason):
    given, on, expected = FALLBACKS[reason]
    with log_messages() as messages:
        result = table.delete_keys(given, on=on)
    told = {name: count for name, count in result.metrics.items() if name.startswith("numKeysInRows")}
    assert told == {"numKeysInRows": sum(expected.values())} | {
        f"numKeysInRows{name}": count for name, count in expected.items()
    }
    assert any(f"are written as full rows: {reason}" in message for message in messages)
    assert rows_of(table) == left(1)


def test_version_2_is_a_fallback(spark, tmp_path):
    written(tmp_path / "t", version=2)
    table = Table.open(spark, str(tmp_path / "t"))
    result = table.delete_keys(keys(1, 2), on="id")
    assert result.metrics["numKeysInRowsFormatVersion"] == 2
    assert (rows_of(table), [d["encoding"] for d in deletes_of(table)]) == (left(1, 2), [FULL_ROW])


def test_many_keys_are_written_by_executors(table, monkeypatch):
    monkeypatch.setattr(stored_keys, "VECTOR_KEYS", 2)
    monkeypatch.setattr(stored_keys, "DRIVER_KEYS", 1)
    with log_messages() as messages:
        result = table.delete_keys(keys(1, 2, 3, 3), on="id")
    assert (result.metrics["numKeysInRows"], result.metrics["numKeysInRowsMany"]) == (3, 3)
    assert any("too many keys for one machine" in message for message in messages)
    assert table.delete_keys(keys(4, 5), on="id").metrics["numKeysInVectors"] == 2
    assert rows_of(table) == left(1, 2, 3, 4, 5)


def test_key_files_of_executors_have_ids_beside_lists(spark, tmp_path, monkeypatch):
    """Data files of a table with lists have no ids. Key files have them: other readers find keys by ids."""
    monkeypatch.setattr(stored_keys, "VECTOR_KEYS", 2)
    monkeypatch.setattr(stored_keys, "DRIVER_KEYS", 1)
    data = spark.createDataFrame([(["a"], number) for number in range(6)], "tags array<string>, id bigint")
    table = Table.create(spark, str(tmp_path / "t"), data, format="iceberg")
    table.delete_keys(keys(1, 2, 3), on="id")
    (delete,) = deletes_of(table)
    stored = pq.read_schema(delete["location"])
    assert [field.metadata[b"PARQUET:field_id"] for field in stored] == [b"2"]
    assert sorted(row["id"] for row in table.to_df().collect()) == [0, 4, 5]


def test_the_log(table):
    with log_messages() as messages:
        table.delete_keys(keys(1, 2), on="id")
    (first,) = (message for message in messages if message.startswith("Writing equality deletes"))
    assert first == "Writing equality deletes on field 'id' (long), 2 deletes"
    assert "Using an equality delete vector (bitmap)" in messages
    (file,) = (message for message in messages if message.startswith("EDV file: "))
    assert ".puffin (" in file
    assert "as rows)" in file


def test_other_readers_refuse_the_table(table):
    """So the vectors are behind a property. Full rows are for all readers."""
    table.delete_keys(keys(1), on="id")
    with pytest.raises(ValueError, match="equality deletes"):
        read_by_pyiceberg(table.location)


# Which files a delete applies to.


@pytest.mark.parametrize("gate", ["true", "false"])
def test_scopes(spark, tmp_path, gate):
    """A delete is of one partition only if its keys decide it, and all files have the newest partitioning."""
    written(tmp_path / "t", partition_by=("p",), gate=gate)
    table = Table.open(spark, str(tmp_path / "t"))
    both = pa.table({"p": pa.array([1, 0], pa.int32()), "id": [1, 2]})
    table.delete_keys(both, on=["id", "p"])
    assert sorted(delete["spec_id"] for delete in deletes_of(table)) == [0, 0]
    table.delete_keys(keys(3), on="id")
    by_id = deletes_of(table)[-1]
    specs = table.format_table.snapshot().metadata.specs
    assert not specs[by_id["spec_id"]].fields
    assert table.format_table.snapshot().spec.fields
    assert rows_of(table) == left(1, 2, 3)
    if gate == "false":  # full rows are for other readers too
        table.upsert([{"id": 4, "p": 1, "name": "moved"}], on="id")
        found = [tuple(row[name] for name in COLUMNS.names) for row in read_by_duckdb(table.location)]
        assert sorted(found, key=str) == rows_of(table)


def test_scopes_after_the_partitioning_changed(spark, tmp_path):
    writer = written(tmp_path / "t", partition_by=("p",))
    writer.replace_spec(["bucket[4](id)"])
    writer.add_file([{"id": 4, "p": 7, "name": "again"}])
    writer.commit()
    table = Table.open(spark, str(tmp_path / "t"))
    table.delete_keys(keys(4, 5), on="id")
    # Keys decide the newest partitioning, but older files have another one.
    (delete,) = deletes_of(table)
    assert not table.format_table.snapshot().metadata.specs[delete["spec_id"]].fields
    assert rows_of(table) == left(4, 5)
    table.upsert([{"id": 4, "p": 8, "name": "new"}], on="id")
    assert rows_of(table) == sorted([*left(4, 5), (4, 8, "new")], key=str)


# What is read.


@contextmanager
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files that are read in the ``with`` block."""
    read: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("read", "read_ranges", "open_input"):
            original = getattr(Storage, name)

            def recorded(self: Any, path: str, *given: Any, _original: Any = original, **more: Any) -> Any:
                read.append(path)
                return _original(self, path, *given, **more)

            patch.setattr(Storage, name, recorded)
        yield read


def test_a_delete_of_keys_reads_no_data(table, monkeypatch):
    data = table.format_table.snapshot().plan().files.column("location").to_pylist()
    with requests(monkeypatch) as read:
        table.delete_keys(keys(1), on="id")
        table.upsert([{"id": 2, "p": 1, "name": "x"}], on="id")
        table.delete("id = 3")
    assert read
    assert not {Path(place).name for place in data} & {Path(path).name for path in read}


def test_vectors_are_not_read_where_they_cannot_delete(table, monkeypatch):
    table.delete_keys(keys(1, 2), on="id")
    table.delete_keys(keys(500, 501), on="id")
    with requests(monkeypatch) as read:
        fresh = Table.open(table._spark, table.location)
        assert len(fresh.format_table.snapshot().plan().files) == 2
        assert len(fresh.to_df(where="id = 7").collect()) == 1
        assert not [path for path in read if path.endswith(".puffin")]
        assert len(fresh.to_df(where="id < 3").collect()) == 1
    assert len([path for path in read if path.endswith(".puffin")]) == 1


# A commit is seen at once.


def test_queries_see_a_commit_without_a_refresh(spark, tmp_path):
    written(tmp_path / "t")
    place = str(tmp_path / "t")
    reader, writer = Table.open(spark, place), Table.open(spark, place)
    reader.register("edv_orders")
    frame = reader.to_df()
    spark.read.format("delvec").load(place).createOrReplaceTempView("edv_view")
    assert frame.count() == 10
    assert detect.open_table(place).snapshot().version == writer.version

    def counts() -> list[int]:
        names = ("edv_orders", f"delvec.`{place}`")
        found = [delvec.sql(spark, f"SELECT count(*) AS n FROM {name}").first().n for name in names]
        return [*found, reader.to_df().count(), reader.count()]

    writer.delete_keys(keys(1, 2), on="id")
    assert counts() == [8] * 4
    stored = DeleteWriterFactory.for_table(writer).create_equality_writer([1])
    stored.write({"id": 3})
    assert counts() == [8] * 4  # not committed
    writer.delete("id = 3")
    assert counts() == [7] * 4
    # A DataFrame, and a view over the connector, stay at their version.
    assert frame.count() == 10
    assert spark.sql("SELECT count(*) AS n FROM edv_view").first().n == 10
    spark.catalog.dropTempView("edv_view")
