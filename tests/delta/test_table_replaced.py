"""A location that holds something else than it did: an error that says so, or the new table; no old rows."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from delvec.errors import DelvecError, InvalidOperationError
from lake import Lake
from scanning import opened, same

pytestmark = pytest.mark.spark

IDS = pa.schema([("id", pa.int64()), ("p", pa.int32())])
OTHERS = pa.schema([("name", pa.string()), ("p", pa.int32())])


def rows(first):
    return [{"id": first + i, "p": 1} for i in range(20)]


def written(root, schema=IDS, first=0, *, deleted=(3, 4), versions=2):
    """A table of so many versions; always the same file names."""
    lake = Lake(root, schema, partition_by=["p"])
    for version in range(versions):
        made = rows(first + 100 * version)
        if schema is OTHERS:
            made = [{"name": f"n{row['id']}", "p": 1} for row in made]
        lake.write(made, deleted=deleted, name=f"p=1/part-{version}.parquet")
        lake.commit()
    return lake


def log_removed(root):
    shutil.rmtree(root / "_delta_log")


def all_removed(root):
    shutil.rmtree(root)


def iceberg_instead(root):
    shutil.rmtree(root / "_delta_log")
    (root / "metadata").mkdir()
    (root / "metadata" / "version-hint.text").write_text("1")
    (root / "metadata" / "v1.metadata.json").write_text("{}")


def replaced(root, *args, **options):
    shutil.rmtree(root)
    return written(root, *args, **options)


def connected(spark, lake, **options):
    return spark.read.format("delvec").options(**options).load(str(lake.root))


def error_of(action):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark wraps ours in classes of its own
        action()
    return str(caught.value)


GONE = [log_removed, all_removed, iceberg_instead]


@pytest.mark.parametrize("change", GONE)
def test_a_table_that_is_none_any_more(spark, tmp_path, change):
    lake = written(tmp_path / "t")
    table = opened(spark, lake)
    assert table.to_df().count() == 36
    change(lake.root)
    for ask in (table.to_df, table.files, table.history, lambda: table.version, lambda: table.schema):
        with pytest.raises(DelvecError, match=str(lake.root)):
            ask()
    with pytest.raises(DelvecError, match=str(lake.root)):
        table.to_df(version=0)


@pytest.mark.parametrize("change", GONE)
def test_a_loaded_relation_whose_table_is_none_any_more(spark, tmp_path, change):
    lake = written(tmp_path / "t")
    frame = connected(spark, lake)
    change(lake.root)
    message = error_of(frame.collect)
    assert str(lake.root) in message
    expected = "v1.metadata.json" if change is iceberg_instead else "no table at"
    assert expected in message


@pytest.mark.parametrize(("versions", "first"), [(1, 500), (2, 500), (4, 500)])
def test_another_table_of_the_same_columns(spark, tmp_path, versions, first):
    """Older, as old and newer than the one before, and its files have the same names."""
    table = opened(spark, written(tmp_path / "t"))
    assert table.to_df().count() == 36
    new = replaced(tmp_path / "t", first=first, deleted=[0], versions=versions)
    same(table.to_df(), new.live)
    same(table.to_df(version=versions - 1), new.live)
    assert table.version == versions - 1


def test_another_table_of_other_columns(spark, tmp_path):
    table = opened(spark, written(tmp_path / "t"))
    assert table.to_df().count() == 36
    new = replaced(tmp_path / "t", OTHERS)
    same(table.to_df(), new.live)
    assert table.schema.names == ["name", "p"]


def test_a_version_that_the_new_table_lacks(spark, tmp_path):
    table = opened(spark, written(tmp_path / "t"))
    replaced(tmp_path / "t", versions=1)
    with pytest.raises(InvalidOperationError, match="1"):
        table.to_df(version=1)


def test_asking_for_the_newest_version_by_number_first(spark, tmp_path):
    table = opened(spark, written(tmp_path / "t"))
    new = replaced(tmp_path / "t", first=500, deleted=[0])
    same(table.to_df(version=1), new.live)


def test_a_data_frame_of_the_old_table_is_an_error(spark, tmp_path):
    """Its files are gone, whatever is in their folder now."""
    lake = written(tmp_path / "t")
    frame = opened(spark, lake).to_df()
    shutil.rmtree(lake.root)
    new = Lake(lake.root, IDS, partition_by=["p"])
    new.write(rows(500), deleted=[0], name="p=1/another.parquet")
    new.commit()
    assert "part-" in error_of(frame.collect)


def test_a_loaded_relation_of_the_old_table(spark, tmp_path):
    frame = connected(spark, written(tmp_path / "t"))
    new = replaced(tmp_path / "t", OTHERS)
    assert "another table replaced the one that was loaded" in error_of(frame.collect)
    same(connected(spark, new), new.live)


def test_a_loaded_relation_of_the_same_columns(spark, tmp_path):
    """The new table's rows of that version, or no rows where it has no such version; never both tables'."""
    lake = written(tmp_path / "t")
    frames = [connected(spark, lake) for _ in range(2)]
    new = replaced(tmp_path / "t", first=500, deleted=[0])
    same(frames[0], new.live)
    replaced(tmp_path / "t", versions=1)
    message = error_of(frames[1].collect)
    assert "InvalidOperationError" in message
    assert str(lake.root) in message
