"""How files are named to Spark, and which go by folder."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is absent")

from delvec.errors import UnsupportedFeatureError
from delvec.spark import file_paths
from delvec.spark.file_paths import file_path, spark_path
from delvec.storage import open_storage


@pytest.mark.parametrize(
    ("place", "taken", "shown"),
    [
        ("/t/a.parquet", "file:/t/a.parquet", "file:/t/a.parquet"),
        ("/t/a b%.parquet", "file:/t/a b%.parquet", "file:/t/a%20b%25.parquet"),
        ("/t/[x]{y}*?", r"file:/t/\[x\]\{y\}\*\?", "file:/t/%5Bx%5D%7By%7D*%3F"),
        ("/t/a\\b", r"file:/t/a\\b", "file:/t/a%5Cb"),
        ("/t/é", "file:/t/é", "file:/t/é"),
        ("s3://bucket/t/a b", "s3a://bucket/t/a b", "s3a://bucket/t/a%20b"),
        ("gs://bucket/t/a", "gs://bucket/t/a", "gs://bucket/t/a"),
        ("abfss://c@a.host/t", "abfss://c@a.host/t", "abfss://c@a.host/t"),
    ],
)
def test_locations_as_spark_takes_and_shows_them(place, taken, shown):
    assert spark_path(place) == taken
    assert file_path(place) == shown


@pytest.fixture
def storage(tmp_path):
    return open_storage(str(tmp_path))


def stored(storage, *paths):
    for path in paths:
        storage.put(path, b"x")
    return [f"{storage.root}/{path}" for path in paths]


def below(storage, folders):
    return [folder.removeprefix(storage.root) for folder in folders]


def folders_of(storage, locations):
    return below(storage, file_paths._folders(storage.root, locations))


def test_few_folders_are_given_each(storage):
    places = stored(storage, "p=1/a.parquet", "p=1/b.parquet", "p=2/c.parquet")
    assert folders_of(storage, places) == ["/p=1", "/p=2"]


def test_a_folder_in_another_one_comes_with_it(storage):
    assert folders_of(storage, stored(storage, "a.parquet", "x/b.parquet", "x/y/c.parquet")) == [""]
    assert folders_of(storage, stored(storage, "x/d.parquet", "x-y/e.parquet", "x/z/f.parquet")) == [
        "/x",
        "/x-y",
    ]


def test_many_folders_are_given_as_the_root(storage):
    places = stored(storage, *(f"p={n}/{n}.parquet" for n in range(40)))
    assert folders_of(storage, places) == [""]


def test_hidden_folders_are_not_reached_from_the_root(storage):
    places = stored(storage, *(f"_x/{n}/{n}.parquet" for n in range(40)))
    assert folders_of(storage, places) == []


def test_a_file_elsewhere_is_in_no_folder_of_the_table(storage):
    assert folders_of(storage, [*stored(storage, "a.parquet"), "/elsewhere/b.parquet"]) == []


@pytest.mark.parametrize("count", [3, 60])
def test_files_few_and_many_are_there_or_not(storage, count):
    places = stored(storage, *(f"p={n % 2}/{n}.parquet" for n in range(count)))
    missing = f"{storage.root}/p=0/missing.parquet"
    assert file_paths.StoredFiles(storage).has_all(places)
    assert not file_paths.StoredFiles(storage).has_all([*places, missing])


def test_a_folder_is_listed_once(storage, monkeypatch):
    places = stored(storage, *(f"{n}.parquet" for n in range(60)))
    asked = []
    listed = storage.list
    monkeypatch.setattr(type(storage), "list", lambda _, path="": asked.append(path) or listed(path))
    found = file_paths.StoredFiles(storage)
    assert found.has_all(places)
    assert found.has_all(places[:40])
    assert asked == [""]


@pytest.mark.parametrize("name", ["_a.parquet", ".a.parquet", "a.parquet._COPYING_"])
def test_files_that_spark_would_pass_over_are_refused(name):
    with pytest.raises(UnsupportedFeatureError, match=f"hidden.*{name}"):
        file_paths._verify_visible(["/t/b.parquet", f"/t/{name}"])


@pytest.mark.parametrize("name", ["_p=1", "a_b", "a.b", "_metadata.parquet"])
def test_names_that_spark_lists(name):
    file_paths._verify_visible([f"/t/_x/{name}"])
