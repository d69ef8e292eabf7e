"""Which metadata file of a table at a path is the newest one, and how it is read."""

from __future__ import annotations

import gzip
import json
import shutil
import warnings

import pyarrow as pa
import pytest

from delvec import detect
from delvec.errors import FormatError, InvalidOperationError, TableNotFoundError, UnsupportedFeatureError
from delvec.iceberg.table import IcebergTable
from delvec.storage import open_storage
from iceberg_tables.writer import IcebergWriter

COLUMNS = pa.schema([("id", pa.int64())])


def written(root, commits=2, **options):
    table = IcebergWriter(root, COLUMNS, **options)
    for number in range(commits):
        table.append([{"id": number}])
    return table


def hint_of(table):
    return table.root / "metadata/version-hint.text"


def newest(place, **options):
    return detect.open_table(str(place), **options).snapshot().version


def ids(table):
    return list(table.snapshots)


@pytest.mark.parametrize("compressed", [False, True])
def test_hint(tmp_path, compressed):
    table = written(tmp_path / "t", compressed=compressed)
    assert newest(table.root) == table.head.id


def test_the_old_spelling_of_gzip(tmp_path):
    table = written(tmp_path / "t")
    for file in sorted((table.root / "metadata").glob("v*.metadata.json")):
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert newest(table.root) == table.head.id
    hint_of(table).unlink()
    assert detect.find_format(open_storage(str(table.root))) == "iceberg"
    assert newest(table.root) == table.head.id


@pytest.mark.parametrize("hint", ["1", "2", "v2", "v2.metadata.json", None, "", "none", "../v2", "9" * 30])
def test_stale_missing_and_unreadable_hints(tmp_path, hint):
    """A writer by path writes the metadata first and the hint after it, and may fail between the two."""
    table = written(tmp_path / "t", commits=11)
    if hint is None:
        hint_of(table).unlink()
    else:
        hint_of(table).write_text(hint)
    assert newest(table.root) == table.head.id


def test_a_stale_hint_whose_file_was_cleaned_up(tmp_path):
    table = written(tmp_path / "t", commits=3)
    (table.root / "metadata/v1.metadata.json").unlink()
    hint_of(table).write_text("1")
    assert newest(table.root) == table.head.id


def test_a_hint_to_a_file_that_is_gone_is_an_error(tmp_path):
    """The newest version was lost: an older one must not be read instead."""
    table = written(tmp_path / "t")
    (table.root / f"metadata/v{table.metadata_version}.metadata.json").unlink()
    with pytest.raises(
        FormatError, match=r"version-hint.text is '3', but the newest metadata file is"
    ) as raised:
        newest(table.root)
    assert str(table.root) in str(raised.value)
    shutil.rmtree(table.root / "metadata")
    (table.root / "metadata").mkdir()
    hint_of(table).write_text("3")
    with pytest.raises(FormatError, match="there is no metadata file"):
        newest(table.root)


def test_files_of_writers_that_failed_are_ignored(tmp_path):
    """Iceberg's writer by path writes <uuid>.metadata.json, then renames it."""
    table = written(tmp_path / "t")
    hint_of(table).unlink()
    left = table.root / "metadata/12345678-0123-4123-8123-0123456789ab.metadata.json"
    left.write_text("{")
    assert newest(table.root) == table.head.id


def test_a_table_is_read_again_after_a_commit(tmp_path):
    table = written(tmp_path / "t", commits=1)
    opened = detect.open_table(str(table.root))
    assert opened.snapshot().version == ids(table)[0]
    assert opened.snapshot() is opened.snapshot()  # with the files that its plans have read
    assert opened.on_ref("main").snapshot() is not opened.snapshot()
    assert opened.relocated().snapshot() is not opened.snapshot()
    table.append([{"id": 5}])
    hint_of(table).write_text("1")
    assert opened.snapshot().version == ids(table)[1]
    table.append([{"id": 6}])
    table.append([{"id": 7}])
    assert opened.snapshot().version == ids(table)[3]


def test_a_table_that_another_one_replaced(tmp_path):
    table = written(tmp_path / "t", commits=1)
    opened = detect.open_table(str(table.root))
    assert opened.snapshot().version == table.head.id
    shutil.rmtree(table.root)
    other = written(tmp_path / "t", commits=1, seed=7, properties={"a": "b"})
    assert opened.snapshot().version == other.head.id


class TestTablesOfCatalogs:
    def test_the_largest_number_is_read_with_a_warning(self, tmp_path):
        table = written(tmp_path / "t", commits=11, numbered=True)
        with pytest.warns(UserWarning, match="belongs to a catalog .*00011-.* has the largest number"):
            assert newest(table.root) == table.head.id

    def test_two_files_of_the_largest_number_are_refused(self, tmp_path):
        table = written(tmp_path / "t", numbered=True)
        (last,) = (table.root / "metadata").glob("00002-*")
        last.with_name("00002-12345678-0123-4123-8123-0123456789ab.metadata.json").write_bytes(b"{}")
        with pytest.raises(InvalidOperationError, match="have the same number; open the table through its"):
            newest(table.root)
        assert newest(last) == table.head.id

    @pytest.mark.parametrize("suffix", ["", ".metadata.json"])
    def test_the_hint_names_the_file(self, tmp_path, suffix):
        table = written(tmp_path / "t", numbered=True)
        (second,) = (table.root / "metadata").glob("00001-*")
        hint_of(table).write_text(second.name.removesuffix(".metadata.json") + suffix)
        assert newest(table.root) == ids(table)[0]

    def test_the_hint_is_a_number(self, tmp_path):
        table = written(tmp_path / "t", numbered=True)
        hint_of(table).write_text("1\n")
        assert newest(table.root) == ids(table)[0]

    def test_the_file_of_the_hint_is_gone(self, tmp_path):
        table = written(tmp_path / "t", numbered=True)
        (first,) = (table.root / "metadata").glob("00000-*")
        hint_of(table).write_text(first.name)
        first.unlink()
        with pytest.warns(UserWarning, match="belongs to a catalog"):
            assert newest(table.root) == table.head.id

    def test_files_of_both_kinds_are_refused(self, tmp_path):
        table = written(tmp_path / "t")
        table.numbered = True
        table.write_metadata()
        hint_of(table).unlink()
        with pytest.raises(InvalidOperationError, match="files of a path and of a catalog"):
            newest(table.root)
        hint_of(table).write_text("3")
        assert newest(table.root) == table.head.id


class TestOneMetadataFile:
    def test_by_its_path(self, tmp_path):
        table = written(tmp_path / "t", commits=3)
        opened = detect.open_table(str(table.root / "metadata/v2.metadata.json"))
        assert opened.snapshot().version == ids(table)[0]
        assert opened.location == str(table.root)
        assert opened.snapshot().source == str(table.root / "metadata/v2.metadata.json")
        assert list(opened.history().column("version").to_pylist()) == ids(table)[:1]

    def test_outside_of_a_metadata_folder(self, tmp_path):
        table = written(tmp_path / "t")
        copy = tmp_path / "backup.metadata.json"
        shutil.copy(table.root / "metadata/v3.metadata.json", copy)
        assert newest(copy) == table.head.id

    def test_of_a_catalog_without_a_warning(self, tmp_path):
        table = written(tmp_path / "t", numbered=True)
        (last,) = (table.root / "metadata").glob("00002-*")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert newest(last) == table.head.id

    def test_that_does_not_exist(self, tmp_path):
        table = written(tmp_path / "t")
        with pytest.raises(TableNotFoundError, match="the path does not exist"):
            newest(table.root / "metadata/v9.metadata.json")


class TestDamagedFiles:
    def refusal(self, table, data):
        place = table.root / f"metadata/v{table.metadata_version}.metadata.json"
        place.write_bytes(data)
        with pytest.raises(FormatError) as raised:
            newest(table.root)
        assert raised.value.path == str(place)
        return raised.value.message

    def test_truncated(self, tmp_path):
        table = written(tmp_path / "t")
        whole = (table.root / "metadata/v3.metadata.json").read_bytes()
        assert "is not JSON" in self.refusal(table, whole[: len(whole) // 2])
        assert "is not JSON" in self.refusal(table, b"")
        packed = gzip.compress(whole)
        assert "is truncated, expected a whole gzip file" in self.refusal(table, packed[:-20])
        assert "is not gzip" in self.refusal(table, packed[:20] + b"xxxxxxxxxxxxxxxxxx" + packed[38:])

    def test_gzip_without_its_name(self, tmp_path):
        table = written(tmp_path / "t")
        place = table.root / "metadata/v3.metadata.json"
        place.write_bytes(gzip.compress(place.read_bytes()))
        assert newest(table.root) == table.head.id

    @pytest.mark.parametrize("version", [4, 5])
    def test_later_format_versions(self, tmp_path, version):
        table = written(tmp_path / "t")
        place = table.root / "metadata/v3.metadata.json"
        place.write_text(json.dumps({**json.loads(place.read_text()), "format-version": version}))
        with pytest.raises(UnsupportedFeatureError, match=f"format version is {version}.*v3.metadata.json"):
            newest(table.root)


def test_few_requests(tmp_path):
    table = written(tmp_path / "t", commits=20)
    storage = open_storage(str(table.root))
    opened = IcebergTable(storage)
    opened.snapshot()
    assert storage.requests["list"] == 0
    assert storage.requests["read"] == 2  # the hint and the metadata
    opened.snapshot()
    assert storage.requests["read"] == 2
