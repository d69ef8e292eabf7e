"""Rewriting equality-delete files to vectors of keys: which become vectors, with which sequence numbers."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from connector_rows import connector_rows
from crashing_puts import CRASHES, crash
from delvec import sql
from delvec.deletes.equality import key_columns
from delvec.deletes.stored_keys import stored_keys
from delvec.detect import open_table
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.plan import EQUALITY_FILE
from delvec.verify import verify_table
from iceberg_tables.histories import History
from iceberg_tables.writer import IcebergWriter
from racing import log_messages, losing
from rows import multiset
from scanning import collected, opened, plain, same

pytestmark = pytest.mark.spark

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("v", pa.string())])
GATE = "write.delete.equality-vector.enabled"
TO = "equality-vector"


def rows(*ids: int, p: int = 1, v: str = "old") -> list[dict[str, Any]]:
    return [{"id": number, "p": p, "v": v} for number in ids]


def keyed(*ids: int | None) -> list[dict[str, Any]]:
    return [{"id": number} for number in ids]


class Lake(IcebergWriter):
    """Two partitions with the ids 0 to 9 each, on a table that allows vectors of keys."""

    def __init__(self, root, gate="true", version=3):
        super().__init__(root, COLUMNS, format_version=version)
        self.everywhere = self.spec
        self.replace_spec(["p"])
        self.properties[GATE] = gate
        for p in (1, 2):
            self.add_file(rows(*range(10), p=p))
        self.commit()

    def delete(self, *ids, p=None, on=("id",), keys=None):
        """A commit that deletes keys: of a partition, or everywhere."""
        where = {"spec": self.everywhere} if p is None else {"partition": {"p": p}}
        self.delete_keys(keys or keyed(*ids), on=list(on), **where)
        return self.commit()


def deletes(table) -> list[tuple[str, int, bool, list[Any]]]:
    """The equality deletes by age: encoding, sequence, whether global, and the keys."""
    handle = open_table(str(table.root))
    snapshot = handle.snapshot()
    plan, found = snapshot.plan(), []
    for delete in snapshot.live_deletes().to_pylist():
        if delete["kind"] == EQUALITY_FILE:
            columns = key_columns(plan, delete["field_ids"])
            keys = stored_keys(handle.storage, delete, columns)[0].to_pylist()
            keys = sorted(keys, key=lambda key: (key is None, key))
            found.append((delete["encoding"], delete["sequence"], delete["scope"] is None, keys))
    return sorted(found, key=lambda delete: (delete[1], *map(str, delete)))


def sound(table) -> None:
    assert verify_table(open_table(str(table.root))).errors == 0


def test_a_row_that_was_inserted_again_stays(spark, tmp_path):
    """Delete a key, insert it again, rewrite: the vector keeps the delete's sequence number."""
    table = Lake(tmp_path / "t")
    table.delete(3)
    table.append(rows(3, v="again"))
    found = opened(spark, table)
    feed = collected(found.changes(next(iter(table.snapshots))))
    result = found.rewrite_deletes(to=TO)
    assert (result.removed, result.kept, result.refused) == ({"equality files": 1}, 0, {})
    assert (result.keys, result.superseded, result.files, result.rows) == (1, 0, 2, 0)
    assert deletes(table) == [("deletion-vector", 2, True, [3])]
    same(found.to_df(), table.rows())
    assert {"id": 3, "p": 1, "v": "again"} in collected(found.to_df())
    assert multiset(connector_rows(table.root)) == multiset(table.rows())
    assert collected(found.changes(result.version)) == []
    assert multiset(collected(found.changes(next(iter(table.snapshots))))) == multiset(feed)
    summary = open_table(str(table.root)).snapshot().record.summary
    assert (summary["operation"], summary["total-equality-deletes"]) == ("replace", "1")
    sound(table)
    again = found.rewrite_deletes(to=TO)
    assert (again.version, again.removed) == (result.version, {})


def test_only_deletes_of_one_sequence_and_scope_are_merged(spark, tmp_path):
    table = Lake(tmp_path / "t")
    table.delete_keys(keyed(1, 2), on=["id"], partition={"p": 1})
    table.delete_keys(keyed(2, 4), on=["id"], partition={"p": 1})
    table.delete_keys(keyed(5), on=["id"], partition={"p": 2})
    table.delete_keys(keyed(6), on=["id"], spec=table.everywhere)
    table.commit()
    table.delete(7, p=1)
    found = opened(spark, table)
    result = found.rewrite_deletes(to=TO)
    assert (result.removed, result.keys, result.superseded) == ({"equality files": 5}, 6, 0)
    assert deletes(table) == [
        ("deletion-vector", 2, False, [1, 2, 4]),
        ("deletion-vector", 2, False, [5]),
        ("deletion-vector", 2, True, [6]),
        ("deletion-vector", 3, False, [7]),
    ]
    same(found.to_df(), table.rows())
    sound(table)


def test_a_key_goes_where_a_later_delete_of_the_same_or_of_all_files_has_it(spark, tmp_path):
    table = Lake(tmp_path / "t")
    table.delete(1, 2, 3, p=1)  # 1: later globally; 2: later in p = 1; 3: later in p = 2 only
    table.delete(1, 4)  # 4: later in p = 1 only
    table.delete(2, 4, p=1)
    table.delete(3, p=2)
    table.append(rows(1, 2, v="again"))
    found = opened(spark, table)
    result = found.rewrite_deletes(to=TO)
    assert (result.keys, result.superseded) == (6, 2)
    assert deletes(table) == [
        ("deletion-vector", 2, False, [3]),
        ("deletion-vector", 3, True, [1, 4]),
        ("deletion-vector", 4, False, [2, 4]),
        ("deletion-vector", 5, False, [3]),
    ]
    same(found.to_df(), table.rows())


def test_a_delete_whose_keys_are_all_superseded_goes(spark, tmp_path):
    table = Lake(tmp_path / "t")
    table.delete(1, 2)
    table.delete(2, 1, 5)
    found = opened(spark, table)
    result = found.rewrite_deletes(to=TO)
    assert (result.removed, result.keys, result.superseded) == ({"equality files": 2}, 3, 2)
    assert deletes(table) == [("deletion-vector", 3, True, [1, 2, 5])]
    same(found.to_df(), table.rows())


def test_deletes_of_other_columns_supersede_nothing(spark, tmp_path):
    table = Lake(tmp_path / "t")
    table.delete(1, 2)
    table.delete(on=("id", "v"), keys=[{"id": 1, "v": "new"}, {"id": 2, "v": "old"}])
    table.delete(on=("p",), keys=[{"p": 2}])
    found = opened(spark, table)
    result = found.rewrite_deletes(to=TO)
    assert deletes(table)[0] == ("deletion-vector", 2, True, [1, 2])
    assert (result.keys, result.kept) == (2, 2)
    assert result.refused == {
        "the key has several columns": 1,
        "the key's type has no codec that is used without a hint": 1,
    }
    same(found.to_df(), table.rows())


def test_keys_that_cannot_be_in_a_vector(spark, tmp_path):
    """Null and negative keys stay full rows beside the vector; a file of such keys alone stays as it is."""
    table = Lake(tmp_path / "t")
    table.append([*rows(-5), *rows(2**62, 2**63 - 1), {"id": None, "p": 1, "v": "null"}])
    table.delete(1, None, -5, 2**63 - 1)
    table.delete(None, -7)
    table.delete(2, 2**40)
    found = opened(spark, table)
    result = found.rewrite_deletes(to=TO)
    assert result.refused == {"the key is null": 1, "the keys are too sparse": 1}
    assert [delete[:2] for delete in deletes(table)] == [
        ("deletion-vector", 3),
        ("full-row", 3),
        ("full-row", 4),
        ("full-row", 5),
    ]
    assert deletes(table)[1][3] == [-5, 2**63 - 1, None]
    same(found.to_df(), table.rows())
    hinted = found.rewrite_deletes(to=TO, encoding="deletion-vector")
    assert (hinted.removed, hinted.keys) == ({"equality files": 1}, 2)
    assert deletes(table)[-1][:2] == ("deletion-vector", 5)
    same(found.to_df(), table.rows())
    sound(table)


def test_partitions(spark, tmp_path):
    table = Lake(tmp_path / "t")
    table.delete(1)
    table.delete(2, p=1)
    table.delete(3, p=2)
    found = opened(spark, table)
    result = found.rewrite_deletes(to=TO, where="p = 1")
    assert (result.removed, result.kept, result.files) == ({"equality files": 1}, 2, 1)
    assert [(encoding, keys) for encoding, *_, keys in deletes(table)] == [
        ("full-row", [1]),
        ("deletion-vector", [2]),
        ("full-row", [3]),
    ]
    same(found.to_df(), table.rows())


def test_deletes_that_apply_to_no_file_go_and_supersede_nothing(spark, tmp_path):
    table = Lake(tmp_path / "t")
    table.delete(1, 2)
    for entry in table.head.entries(0):
        table._removed.add(entry.file.key)
    table.append(rows(1, 2))
    found = opened(spark, table)
    result = found.rewrite_deletes(to=TO)
    assert (result.removed, result.keys, deletes(table)) == ({"equality files": 1}, 0, [])
    same(found.to_df(), table.rows())


@pytest.mark.parametrize("gate", ["true", "false"])
def test_back_to_what_every_engine_reads(spark, tmp_path, gate):
    """Vectors of keys become vectors of positions, also after the gate was closed."""
    table = Lake(tmp_path / "t")
    table.delete(3)
    table.delete(4, p=1)
    table.append(rows(3, v="again"))
    found = opened(spark, table)
    found.rewrite_deletes(to=TO)
    found.set_properties({GATE: gate})
    result = found.rewrite_deletes()
    assert (result.removed, result.rows, deletes(table)) == ({"equality vectors": 2}, 3, [])
    same(found.to_df(), table.rows())
    assert open_table(str(table.root)).snapshot().record.summary["total-equality-deletes"] == "0"
    from pyiceberg.table import StaticTable

    metadata = max(table.root.rglob("metadata/*.json"), key=lambda path: path.stat().st_mtime)
    read = StaticTable.from_metadata(str(metadata)).scan().to_arrow().to_pylist()
    assert multiset(read) == multiset(table.rows())


def test_what_the_table_must_allow(spark, tmp_path):
    table = Lake(tmp_path / "t", gate="false")
    table.delete(1)
    found = opened(spark, table)
    with pytest.raises(InvalidOperationError, match=rf"property {GATE} is not true"):
        found.rewrite_deletes(to=TO)
    old = Lake(tmp_path / "old", version=2)
    with pytest.raises(UnsupportedFeatureError, match=r"version is 2, expected 3 or more: call upgrade\(3\)"):
        opened(spark, old).rewrite_deletes(to=TO)
    from delvec import Table

    delta = Table.create(spark, str(tmp_path / "delta"), spark.range(3))
    with pytest.raises(UnsupportedFeatureError, match="delta tables store no keys of deleted rows"):
        delta.rewrite_deletes(to=TO)


def test_a_dry_run_reads_no_delete(spark, tmp_path):
    table = Lake(tmp_path / "t")
    table.delete(1)
    table.delete(on=("id", "v"), keys=[{"id": 2, "v": "old"}])
    for path in table.root.rglob("*equality.parquet"):
        path.unlink()
    stored = sorted(table.root.rglob("*"))
    result = opened(spark, table).rewrite_deletes(to=TO, dry_run=True)
    assert (result.dry_run, result.removed, result.keys) == (True, {"equality files": 1}, 0)
    assert (result.kept, result.refused) == (1, {"the key has several columns": 1})
    assert (result.version, sorted(table.root.rglob("*"))) == (table.head.id, stored)


def test_no_data_file_is_read(spark, tmp_path):
    table = Lake(tmp_path / "t")
    table.delete(1)
    for entry in table.head.entries(0):
        (table.root / entry.file.path.split(f"{table.root.name}/")[-1]).unlink()
    opened(spark, table).rewrite_deletes(to=TO)
    assert deletes(table) == [("deletion-vector", 2, True, [1])]


SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 4002 else []) for seed in range(4000, 4040)]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_tables(spark, tmp_path, seed):
    """The newest and every older version keep their rows; then everything becomes vectors of positions."""
    history = History(tmp_path / "t", random.Random(seed), 2)
    for _ in range(history.rng.randrange(2, 8)):
        history.step()
    for _ in range(4):
        history.delete_keys()
        history.append()
    if history.table.format_version < 3:
        history.table.upgrade(3)
    table = history.table
    history.append()
    found, versions = opened(spark, table), list(table.snapshots)
    found.set_properties({GATE: "true"})
    for options in ({"to": TO, "encoding": "deletion-vector"}, {}):
        result = found.rewrite_deletes(**options)
        same(found.to_df(), table.rows())
        sound(table)
        for version in (result.version, *versions):
            expected = table.rows() if version == result.version else table.rows(version)
            assert multiset(map(plain, connector_rows(table.root, version=version))) == multiset(expected)
        again = found.rewrite_deletes(**options)
        assert (again.version, again.removed) == (result.version, {})
    assert deletes(table) == []


# Other writers


def deleting(table):
    table.delete("v = 'old' AND id IN (5, 6)")


def removing(table):
    table.delete("p = 2")


def deleting_keys(table):
    table.delete_keys([{"id": 1}, {"id": 8}], on="id")


def upserting(table):
    rows = table._spark.createDataFrame([(1, 1, "new"), (9, 2, "new")], "id bigint, p int, v string")
    table.upsert(rows, on="id")


def appending(table):
    table.append(table._spark.createDataFrame([(1, 1, "later")], "id bigint, p int, v string"))


def compacting(table):
    table.optimize()


def to_positions(table):
    table.rewrite_deletes()


def to_keys(table):
    table.rewrite_deletes(to=TO)


def updating(table):
    table.update({"v": "'new'"}, "id IN (0, 7)")


OTHERS = [
    deleting_keys,
    compacting,
    to_positions,
    *(pytest.param(f, marks=pytest.mark.slow) for f in (deleting, removing, upserting, appending, updating)),
    pytest.param(to_keys, marks=pytest.mark.slow),
]


def raced(tmp_path, name):
    table = Lake(tmp_path / name)
    table.add_file(rows(10, 11, 12))
    table.commit()
    table.delete(1, 2)
    table.append(rows(1, v="again"))
    table.delete(2, 4, 10, p=1)
    return table


@pytest.mark.parametrize("winner", OTHERS, ids=lambda f: f.__name__)
def test_another_writer_commits_first(spark, tmp_path, winner):
    alone, table = raced(tmp_path, "alone"), raced(tmp_path, "raced")
    winner(opened(spark, alone))
    losing(spark, str(table.root), winner).rewrite_deletes(to=TO)
    same(opened(spark, table).to_df(), collected(opened(spark, alone).to_df()))
    assert {encoding for encoding, *_ in deletes(table)} <= {"deletion-vector"}
    sound(table)


@pytest.mark.parametrize("loser", OTHERS, ids=lambda f: f.__name__)
def test_deletes_are_rewritten_first(spark, tmp_path, loser):
    alone, table = raced(tmp_path, "alone"), raced(tmp_path, "raced")
    loser(opened(spark, alone))
    loser(losing(spark, str(table.root), to_keys))
    same(opened(spark, table).to_df(), collected(opened(spark, alone).to_df()))
    sound(table)


def test_a_file_that_appears_below_a_removed_delete(spark, tmp_path):
    """The delete of which all keys are superseded applied to it: the statement runs again."""
    table = Lake(tmp_path / "t")
    table.delete(1, 2)

    def winner(_):
        table.add_file(rows(2, 99), sequence=1)
        table.commit(operation="append")

    with log_messages() as messages:
        losing(spark, str(table.root), winner).rewrite_deletes(to=TO)
    assert any("must run again" in message for message in messages)
    assert deletes(table) == [("deletion-vector", 2, True, [1, 2])]
    same(opened(spark, table).to_df(), table.rows())


@pytest.mark.parametrize(("at", "when"), CRASHES)
def test_a_crash_at_a_request(spark, tmp_path, monkeypatch, at, when):
    """The table has the old version or the new one, and the same rows."""
    counted, table = opened(spark, raced(tmp_path, "counted")), raced(tmp_path, "t")
    crash(
        monkeypatch,
        at,
        when,
        counted=lambda: counted.rewrite_deletes(to=TO),
        crashing=lambda: opened(spark, table).rewrite_deletes(to=TO),
    )
    assert multiset(connector_rows(table.root)) == multiset(table.rows())
    encodings = {encoding for encoding, *_ in deletes(table)}
    assert encodings in ({"full-row"}, {"deletion-vector"})
    if at < 0:
        assert encodings == {"full-row"}


# SQL


def test_sql(spark, tmp_path):
    table = Lake(tmp_path / "t")
    table.delete(1, 3, p=1)
    table.delete(2, p=2)
    found, name = opened(spark, table), f"delvec.`{table.root}`"
    would = sql(spark, f"REWRITE DELETES {name} TO 'equality-vector' WHERE p = 1 DRY RUN").first()
    assert (would["version"], would["num_removed_deletes"], would["num_keys"]) == (table.head.id, 1, 0)
    assert would["removed"] == {"equality files": 1}
    done = sql(
        spark, f"REWRITE DELETES {name} TO :to ENCODING 'auto' WHERE p = :p", {"to": TO, "p": 1}
    ).first()
    assert (done["num_keys"], done["num_kept_deletes"], done["refused"]) == (2, 1, {})
    assert [encoding for encoding, *_ in deletes(table)] == ["deletion-vector", "full-row"]
    done = sql(spark, f"rewrite deletes {name};").first()
    assert (done["version"], done["num_rows"], done["num_files"]) == (found.version, 3, 2)
    assert done["removed"] == {"equality files": 1, "equality vectors": 1}
    assert deletes(table) == []
    same(found.to_df(), table.rows())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("REWRITE DELETES {t} TO vectors", "expected a form such as 'deletion-vector'"),
        ("REWRITE DELETES {t} TO 'vectors'", "to is 'vectors', expected one of deletion-vector"),
        ("REWRITE DELETES {t} ENCODING 'hash-map'", "encoding 'hash-map' is reserved"),
        ("REWRITE DELETES {t} WHERE DRY RUN", "expected a condition"),
        ("REWRITE DELETES {t} WHERE id = 1", "expected partition columns only"),
        ("REWRITE DELETES {t} DRY", "expected the end of the statement"),
        ("REWRITE DELETES nowhere", "REWRITE names no table of delvec"),
        ("REWRITE {t}", "REWRITE names no table of delvec"),
    ],
)
def test_bad_sql(spark, tmp_path, text, message):
    table = Lake(tmp_path / "t")
    with pytest.raises(InvalidOperationError, match=message):
        sql(spark, text.format(t=f"delvec.`{table.root}`"))


# Many deletes


def test_deletes_that_pile_up_are_told(spark, tmp_path, monkeypatch):
    from delvec import piled_up
    from delvec.advice import advice

    def told():
        handle = open_table(str(table.root))
        snapshot = handle.snapshot()
        found = [each for each in advice(handle, snapshot, snapshot.plan()) if each.verb == "rewrite_deletes"]
        warnings = [each for each in verify_table(handle).findings if each.check == "deletes"]
        assert len(warnings) == len(found)
        return [(each.numbers["deletes"], each.numbers["rows"]) for each in found], warnings

    monkeypatch.setattr(piled_up, "MANY_DELETES", 3)
    table = Lake(tmp_path / "t")
    table.delete(1, 2)
    table.delete(3, p=1)
    assert told() == ([], [])
    table.delete(4)
    numbers, (warning,) = told()
    assert (numbers, warning.severity) == ([(3, 4)], "warning")
    assert "3 deletes with 4 keys or positions" in warning.message
    assert "call rewrite_deletes" in warning.message
    opened(spark, table).rewrite_deletes(to=TO)
    assert told()[0] == [(3, 4)]
    opened(spark, table).rewrite_deletes()
    assert told() == ([], [])
    table = Lake(tmp_path / "old", version=2)
    for key in range(3):
        table.delete(key)
    assert "(to position-deletes, or upgrade the table first)" in told()[1][0].message


@pytest.mark.parametrize("version", [pytest.param(3, marks=pytest.mark.slow), 4])
def test_tables_that_delvec_made(spark, tmp_path, version):
    """Through all forms, with rows that are inserted again between."""
    from delvec import Table

    ddl = "id bigint, v string"
    table = Table.create(
        spark,
        str(tmp_path / "t"),
        ddl,
        format="iceberg",
        format_version=version,
        properties={GATE: "false"},
    )
    table.append(spark.createDataFrame([(number, "old") for number in range(20)], ddl).coalesce(1))
    table.delete_keys([{"id": 3}, {"id": 4}], on="id")
    table.upsert([(3, "again"), (5, "new")], on="id")
    rows = multiset(collected(table.to_df()))
    handle = open_table(table.location)

    def encodings():
        found = handle.snapshot().live_deletes().to_pylist()
        return sorted(delete["encoding"] for delete in found if delete["kind"] == EQUALITY_FILE)

    assert encodings() == ["full-row"] * 2
    table.set_properties({GATE: "true"})
    result = table.rewrite_deletes(to=TO)
    assert (result.keys, result.superseded, encodings()) == (3, 1, ["deletion-vector"] * 2)
    assert multiset(collected(table.to_df())) == rows
    assert table.rewrite_deletes().rows == 3
    assert encodings() == []
    assert multiset(collected(table.to_df())) == rows
    assert multiset(connector_rows(table.location)) == rows
    assert table.verify().errors == 0
