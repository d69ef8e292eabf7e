"""What goes wrong while a verb writes: in SQL and REST catalogs and by path. No row is written twice, none is
lost without an error.
"""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest

from delvec.errors import InvalidOperationError, StorageError, TableNotFoundError, UnsupportedFeatureError
from delvec.iceberg import rest_catalog
from iceberg_tables import IcebergWriter
from iceberg_tables.readers import newest_metadata
from iceberg_tables.rest_server import Fault, rest_server
from scanning import collected

pytestmark = pytest.mark.spark

DDL = "id bigint, v int"
MAPPING = "schema.name-mapping.default"


class Sql:
    """A SQLite catalog. The statement that changes the table's row fails, before or after it is committed."""

    def __init__(self, root, monkeypatch):
        from pyiceberg.catalog.sql import SqlCatalog

        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/lake")
        self.catalog.create_namespace("db")
        self.monkeypatch = monkeypatch
        self.sent = 0

    def lose_answer(self, fault, *, down=False):
        from sqlalchemy.engine import Connection

        from delvec.iceberg.sql_catalog import SqlCatalogTable

        real = Connection.commit

        def gone(_):
            raise OSError("the database is down")

        def commit(connection):
            self.sent += 1
            if fault is Fault.AFTER:
                real(connection)
            if down:
                self.monkeypatch.setattr(SqlCatalogTable, "_pointer", gone)
            raise OSError("the connection was lost")

        self.monkeypatch.setattr(Connection, "commit", commit)

    def refuse(self):
        from sqlalchemy.engine import Connection

        real = Connection.execute

        def execute(connection, statement, *args, **kwargs):
            if statement.is_update:
                raise OSError("permission denied")
            return real(connection, statement, *args, **kwargs)

        self.monkeypatch.setattr(Connection, "execute", execute)


class Rest:
    """A REST server that answers a commit with an error, before or after it has made it."""

    def __init__(self, server, monkeypatch):
        from pyiceberg.catalog.rest import RestCatalog

        monkeypatch.setattr(rest_catalog, "_LOOKUP_PAUSES", (0.0, 0.01))
        self.server, self.catalog = server, RestCatalog("rest", uri=server.uri)
        self.before = 0

    @property
    def sent(self):
        return self.server.commits - self.before

    def lose_answer(self, fault, *, down=False):
        self.before = self.server.commits
        self.server.faults = [(fault, None)]
        if down:

            def go_down():
                self.server.down = True

            self.server.after_commit = go_down

    def refuse(self):
        self.server.faults = [(Fault.BEFORE, 403)]


@pytest.fixture(params=["sql", "rest"])
def held(request, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        if request.param == "rest":
            with rest_server(tmp_path / "lake") as server:
                yield Rest(server, patch)
            return
        found = Sql(tmp_path, patch)
        yield found
        found.catalog.engine.dispose()


def ids(table):
    return sorted(row["id"] for row in collected(table.to_df()))


def stored_files(root):
    return {path for path in root.rglob("*") if path.suffix in (".puffin", ".parquet", ".avro")}


def numbers(spark, *found):
    return spark.createDataFrame([(number, 0) for number in found], DDL).coalesce(1)


def test_a_commit_whose_answer_is_lost_is_looked_up(spark, held):
    from delvec import Table

    table = Table.create(spark, "db.t", numbers(spark, 1, 2), catalog=held.catalog)
    assert table.format == "iceberg"  # the format of the catalog's tables
    held.lose_answer(Fault.AFTER)
    assert table.append(numbers(spark, 3)).version == table.version
    assert (held.sent, ids(table)) == (1, [1, 2, 3])


def test_a_commit_whose_outcome_is_not_known_is_not_sent_again(spark, held):
    from delvec import Table

    table = Table.create(spark, "db.t", numbers(spark, 1, 2), catalog=held.catalog)
    held.lose_answer(Fault.BEFORE, down=True)
    with pytest.raises(StorageError, match=r"cannot tell whether version \d+ was committed"):
        table.delete("id = 1")
    assert held.sent == 1


def test_a_catalog_that_refuses(spark, held, tmp_path):
    """The new files are deleted."""
    from delvec import Table

    table = Table.create(spark, "db.t", numbers(spark, 1, 2), catalog=held.catalog)
    before = stored_files(tmp_path)
    held.refuse()
    with pytest.raises(StorageError, match=r"permission denied|refused the request with 403"):
        table.delete("id = 1")
    assert stored_files(tmp_path) == before


def test_a_table_that_is_dropped_under_a_writer(spark, held):
    from delvec import Table

    table = Table.create(spark, "db.t", numbers(spark, 1, 2), catalog=held.catalog)
    real = table._table.commit

    def commit(snapshot, delta):
        held.catalog.drop_table("db.t")
        return real(snapshot, delta)

    table._table.commit = commit
    with pytest.raises(TableNotFoundError, match=r"dropped while it was changed: \w+\.db\.t"):
        table.append(numbers(spark, 3))


def test_a_table_at_a_path_that_is_deleted_under_a_writer(spark, tmp_path):
    from delvec import Table

    table = Table.create(spark, str(tmp_path / "t"), numbers(spark, 1, 2), format="iceberg")
    real = table._table.commit

    def commit(snapshot, delta):
        shutil.rmtree(tmp_path / "t")
        return real(snapshot, delta)

    table._table.commit = commit
    with pytest.raises((TableNotFoundError, StorageError), match="dropped while it was changed"):
        table.delete("id = 1")
    assert not list(tmp_path.glob("t/metadata/*.json"))


def test_a_branch_that_does_not_exist(spark, tmp_path):
    from delvec import Table

    table = Table.create(spark, str(tmp_path / "t"), numbers(spark, 1, 2), format="iceberg")
    missing = "'b' does not exist, expected one of main"
    for read in (
        lambda: Table.open(spark, table.location, ref="b"),
        lambda: table.to_df(ref="b"),
        lambda: table.count(ref="b"),
        lambda: table.drop_ref("b"),
    ):
        with pytest.raises(InvalidOperationError, match=missing):
            read()
    table.create_ref("b")
    branch = Table.open(spark, table.location, ref="b")
    with pytest.raises(InvalidOperationError, match="branch 'b' exists already"):
        table.create_ref("b")
    table.drop_ref("b")
    for write in (
        lambda: branch.append(numbers(spark, 3)),
        lambda: branch.delete("id = 1"),
        lambda: branch.overwrite(numbers(spark, 3)),
        lambda: branch.update({"v": "1"}),
        branch.optimize,
        lambda: branch.set_properties({"a": "b"}),
    ):
        with pytest.raises(InvalidOperationError, match=missing):
            write()
    assert ids(table) == [1, 2]


def test_the_first_rows_of_a_branch(spark, tmp_path):
    """Of a table without snapshots; main stays empty."""
    from delvec import Table

    table = Table.create(spark, str(tmp_path / "t"), DDL, format="iceberg")
    table.create_ref("audit")
    audit = Table.open(spark, table.location, ref="audit")
    audit.append(numbers(spark, 1, 2))
    audit.delete("id = 1")
    assert (ids(audit), ids(table), table.version) == ([2], [], -1)
    table.append(numbers(spark, 9))
    assert (ids(audit), ids(table)) == ([2], [9])
    assert audit.verify().findings == ()


def test_a_name_mapping_that_no_longer_covers_a_column(spark, tmp_path):
    """Files of a table with lists have no field ids. A column that the mapping lacks is null, as for
    Iceberg's own readers, until a writer of delvec completes the mapping.
    """
    from delvec import Table

    rows = spark.sql("SELECT 1L AS id, array('a') AS tags")
    table = Table.create(spark, str(tmp_path / "t"), rows, format="iceberg")
    whole = json.loads(table.properties[MAPPING])
    assert [item["names"] for item in whole][:2] == [["id"], ["tags"]]
    table.set_properties({MAPPING: json.dumps(whole[:1] + whole[2:])})
    assert collected(table.to_df()) == [{"id": 1, "tags": None}]
    table.append(spark.sql("SELECT 2L AS id, array('b') AS tags"))
    assert {tuple(item["names"]) for item in json.loads(table.properties[MAPPING])} == {
        tuple(item["names"]) for item in whole
    }
    assert sorted(collected(table.to_df()), key=str) == [
        {"id": 1, "tags": ["a"]},
        {"id": 2, "tags": ["b"]},
    ]
    wrong = [{"field-id": 1, "names": ["id", "tags"]}]
    table.set_properties({MAPPING: json.dumps(wrong)})
    before = newest_metadata(tmp_path / "t")
    for verb in (lambda: table.append(rows), lambda: table.update({"id": "7"}), table.optimize):
        with pytest.raises(UnsupportedFeatureError, match="the name 'tags' for the field id 1, expected 2"):
            verb()
    assert newest_metadata(tmp_path / "t") == before


def test_new_tables_that_cannot_be(spark, tmp_path):
    from delvec import Table

    place = str(tmp_path / "t")
    for version in (1, 5):
        with pytest.raises(InvalidOperationError, match=f"format_version is {version}, expected 2, 3 or 4"):
            Table.create(spark, place, DDL, format="iceberg", format_version=version)
    for partition, problem in {
        "days(v)": "transform day is not defined for type integer",
        "hours(id)": "transform hour is not defined for type long",
        "truncate(2, b)": "transform truncate\\[2\\] is not defined for type boolean",
        "bucket(4, d)": "transform bucket\\[4\\] is not defined for type double",
    }.items():
        with pytest.raises(InvalidOperationError, match=problem):
            Table.create(
                spark, place, f"{DDL}, b boolean, d double", format="iceberg", partition_by=[partition]
            )
    assert not (tmp_path / "t").exists()


TYPES = {
    "u": pa.field("u", pa.binary(16), metadata={"iceberg-type": "uuid"}),
    "fixed": pa.field("fixed", pa.binary(3)),
    "time": pa.field("time", pa.time64("us")),
    "ns": pa.field("ns", pa.timestamp("ns")),
    "place": pa.field("place", pa.binary(), metadata={"iceberg-type": "geometry(OGC:CRS84)"}),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ("u", "time") else pytest.mark.slow) for name in TYPES]
)
def test_columns_that_are_not_written(spark, tmp_path, name):
    """Verbs that write rows are refused by the column's name; rows are deleted by vectors."""
    from delvec import Table

    modes = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
    schema = pa.schema([("id", pa.int64()), ("v", pa.int32()), TYPES[name]])
    writer = IcebergWriter(tmp_path / "t", schema, format_version=3, properties=modes)
    writer.append([{"id": number, "v": 0, name: None} for number in range(6)])
    table, rows = Table.open(spark, str(writer.root)), numbers(spark, 9)
    for verb in (
        lambda: table.append(rows),
        lambda: table.overwrite(rows),
        lambda: table.overwrite(rows, where="id = 1"),
        lambda: table.update({"v": "1"}, "id = 1"),
        lambda: table.merge(rows, "target.id = source.id").when_matched_delete().execute(),
        table.optimize,
        table.purge,
    ):
        with pytest.raises(UnsupportedFeatureError, match=f"column {name} is of type"):
            verb()
    assert table.delete("id < 2 OR id = 5").metrics["numDeletedRows"] == 3
    assert table.delete(f"{name} IS NULL AND id = 2" if name in ("u", "fixed") else "id = 2").version
    assert sorted(row.id for row in table.to_df(columns=["id"]).collect()) == [3, 4]
    assert list(tmp_path.glob("t/data/*.puffin"))
    assert table.verify().findings == ()
    table.set_properties({"write.delete.mode": "copy-on-write"})
    with pytest.raises(UnsupportedFeatureError, match=f"column {name} is of type"):
        table.delete("id = 3")
