"""Places and requests that no verb takes: nothing is written, and the error says why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from delvec.errors import DelvecError, InvalidOperationError, StorageError, UnsupportedFeatureError
from verbs import frame_of, refused, table_of

pytestmark = pytest.mark.spark

DDL = "id bigint, name string"


def create(spark, place, given=DDL, **options):
    from delvec.table import Table

    return Table.create(spark, str(place), given, **options)


def contents(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))


def test_a_table_is_not_created_twice(spark, tmp_path):
    table = table_of(spark, tmp_path / "t", DDL, [(1, "a")])
    for given in (DDL, frame_of(spark, DDL, [(2, "b")])):
        with refused(table, InvalidOperationError, "already exists"):
            create(spark, tmp_path / "t", given)


def test_a_path_that_is_a_file(spark, tmp_path):
    from delvec.table import Table

    place = tmp_path / "t"
    place.write_text("something else")
    for given in (DDL, frame_of(spark, DDL, [(2, "b")])):
        with pytest.raises(DelvecError, match=str(place)):
            create(spark, place, given)
    with pytest.raises(DelvecError, match=str(place)):
        Table.open(spark, str(place))
    assert place.read_text() == "something else"
    assert contents(tmp_path) == ["t"]


def test_a_read_only_location(spark, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    table = table_of(spark, tmp_path / "t", DDL, [(1, "a"), (2, "b")])
    folders = [Path(table.location), Path(table.location) / "_delta_log"]
    for folder in folders:
        folder.chmod(0o555)
    try:
        with refused(table, Exception, "(?i)permission"):
            table.append(frame_of(spark, DDL, [(3, "c")]))
        with refused(table, StorageError, "(?i)permission"):
            table.delete("id = 1")
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_a_store_that_refuses_to_write(spark, tmp_path, monkeypatch):
    """As a read-only one does; the files that Spark wrote first are no part of the table."""
    from delvec.storage import Storage

    table = table_of(spark, tmp_path / "t", DDL, [(1, "a"), (2, "b")])

    def refuse(self, path, data, *args, **options):
        raise StorageError("permission denied", path=path)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "put_if_absent", refuse)
        for verb in (
            lambda: table.append(frame_of(spark, DDL, [(3, "c")])),
            lambda: table.update({"name": "'x'"}, "id = 1"),
            lambda: table.delete("id = 1"),
            table.delete,
            lambda: table.set_properties({"mine": "1"}),
        ):
            with refused(table, StorageError, "permission denied"):
                verb()
    table.delete("id = 1")


@pytest.mark.parametrize(
    ("given", "options", "told"),
    [
        (DDL, {"partition_by": ["nope"]}, "nope"),
        (DDL, {"partition_by": ["id", "name"]}, "partition"),
        (DDL, {"partition_by": ["id", "id"]}, "id"),
        ("id bigint, ID int", {}, "(?i)id"),
        ("s struct<a int, A int>", {}, "(?i)s.a|twice"),
        ("`a b` int", {}, "a b"),
        ("id nonsense", {}, "nonsense"),
        ("", {}, "(?i)schema|column"),
        (
            5,
            {},
            r"rows are int, expected a schema \(a StructType or DDL text\), a Spark, pandas or polars",
        ),
        (DDL, {"properties": {"delta.nope": "1"}}, "delta.nope"),
        (DDL, {"properties": {"delta.appendOnly": "maybe"}}, "maybe"),
        (DDL, {"format_version": 3}, "format_version"),
        (DDL, {"format": "hudi"}, "hudi"),
        ("i interval day", {}, "interval"),
        ("id int, m map<int, int>", {"partition_by": ["m"]}, "m"),
    ],
)
def test_tables_that_are_not_created(spark, tmp_path, given, options, told):
    with pytest.raises((InvalidOperationError, UnsupportedFeatureError), match=told):
        create(spark, tmp_path / "t", given, **options)
    assert contents(tmp_path) == []


def test_a_job_that_fails_creates_no_table(spark, tmp_path):
    from pyspark.errors import PySparkException

    bad = spark.range(10).selectExpr("IF(id = 9, raise_error('too bad'), id) AS id")
    with pytest.raises(PySparkException, match="too bad"):
        create(spark, tmp_path / "t", bad)
    assert [path for path in contents(tmp_path) if path.endswith((".json", ".parquet"))] == []
    create(spark, tmp_path / "t", spark.range(1))


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({}, "no properties"),
        ({"delta.nope": "1"}, "delta.nope"),
        ({"delta.checkpointInterval": "many"}, "many"),
        ({"delta.compatibility.symlinkFormatManifest.enabled": "true"}, "symlink"),
    ],
)
def test_properties_that_are_not_set(spark, tmp_path, properties, told):
    table = table_of(spark, tmp_path / "t", DDL)
    with refused(table, DelvecError, told):
        table.set_properties(properties)


def test_properties_are_set_and_unset(spark, tmp_path):
    table = table_of(spark, tmp_path / "t", DDL)
    assert table.set_properties({"mine": "1", "delta.appendOnly": "true"}).version == 1
    assert table.properties["mine"] == "1"
    table.set_properties({"delta.appendOnly": None})
    assert table.properties == {"delta.enableDeletionVectors": "true", "mine": "1"}


@pytest.mark.parametrize("condition", ["nope > 0", "id", "rand() > 0", "max(id) > 0", "id >"])
def test_a_constraint_that_is_no_condition_is_refused(spark, tmp_path, condition):
    properties = {"delta.constraints.odd": condition}
    with pytest.raises(InvalidOperationError, match="constraint odd"):
        create(spark, tmp_path / "t", DDL, properties=properties)
    assert contents(tmp_path) == []
    table = table_of(spark, tmp_path / "t", DDL)
    with refused(table, InvalidOperationError, "constraint odd"):
        table.set_properties(properties)


@pytest.mark.parametrize("name", ["_metadata", "_Metadata", "_tmp_metadata_row_index"])
def test_columns_with_a_name_of_spark_are_refused(spark, tmp_path, name):
    with pytest.raises(InvalidOperationError, match=f"column '{name}' has a name that Spark reserves"):
        create(spark, tmp_path / "t", f"id bigint, {name} bigint")
    assert contents(tmp_path) == []
    table = table_of(spark, tmp_path / "t", f"id bigint, s struct<{name}: int>")
    with refused(table, InvalidOperationError, name):
        table.add_columns(f"{name} int")
    with refused(table, InvalidOperationError, name):
        table.append(spark.range(1).selectExpr("id", f"1 AS {name}"), merge_schema=True)
    table.append(spark.range(1).selectExpr("id", f"named_struct('{name}', 5) AS s"))
    assert table.to_df().selectExpr(f"s.{name}").collect()[0][0] == 5


def test_the_partition_value_that_means_null_is_refused(spark, tmp_path):
    table = table_of(spark, tmp_path / "t", "id int, p string", [(1, "a"), (2, None)], partition_by=["p"])
    reason = "partition column p has the value '__HIVE_DEFAULT_PARTITION__', which means null"
    with refused(table, InvalidOperationError, reason):
        table.append(frame_of(spark, "id int, p string", [(3, "b"), (4, "__HIVE_DEFAULT_PARTITION__")]))
    with refused(table, InvalidOperationError, reason):
        table.update({"p": "'__HIVE_DEFAULT_PARTITION__'"}, "id = 1")
