"""Which format a location has, and what is said of one that is no table."""

from __future__ import annotations

import pytest

from delvec import blob, detect
from delvec.bitmap import Bitmap
from delvec.delta import vector_file
from delvec.errors import (
    CorruptVectorError,
    FormatError,
    InvalidOperationError,
    ObjectNotFoundError,
    TableNotFoundError,
)
from delvec.puffin import PuffinWriter
from delvec.storage import open_storage
from golden_data import golden


def refusal(location: object) -> str:
    with pytest.raises(TableNotFoundError) as raised:
        detect.open_table(str(location))
    return str(raised.value)


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_delta_by_its_first_commit(tmp_path):
    touch(tmp_path, f"_delta_log/{0:020d}.json")
    table = detect.open_table(str(tmp_path))
    assert (table.format, table.location) == ("delta", str(tmp_path))


def test_delta_by_its_last_checkpoint(tmp_path):
    touch(tmp_path, "_delta_log/_last_checkpoint")
    assert detect.find_format(open_storage(str(tmp_path))) == "delta"


def test_delta_whose_first_commits_are_gone(tmp_path):
    touch(tmp_path, f"_delta_log/{10:020d}.checkpoint.parquet", f"_delta_log/{11:020d}.json")
    assert detect.find_format(open_storage(str(tmp_path))) == "delta"


def test_delta_takes_few_requests(tmp_path):
    touch(tmp_path, *(f"_delta_log/{version:020d}.json" for version in range(50)))
    storage = open_storage(str(tmp_path))
    assert detect.find_format(storage) == "delta"
    assert storage.requests["list"] == 0


@pytest.mark.parametrize("name", ["metadata/version-hint.text", "metadata/v1.metadata.json"])
def test_iceberg_by_its_metadata(tmp_path, name):
    touch(tmp_path, name)
    table = detect.open_table(str(tmp_path))
    assert (table.format, table.location) == ("iceberg", str(tmp_path))
    with pytest.raises(FormatError):
        table.snapshot()


def test_iceberg_by_the_path_of_one_metadata_file(tmp_path):
    touch(tmp_path, "metadata/v1.metadata.json", "metadata/v2.metadata.json")
    table = detect.open_table(str(tmp_path / "metadata/v1.metadata.json"))
    assert (table.format, table.location) == ("iceberg", str(tmp_path))
    assert "does not exist" in refusal(tmp_path / "metadata/v3.metadata.json")


@pytest.mark.parametrize("name", ["equality-deletes", "legacy_bare_deletion_vector"])
def test_iceberg_tables_of_other_engines(name):
    assert detect.find_format(open_storage(str(golden(f"iceberg/{name}")))) == "iceberg"


def test_delta_wins_where_both_are(tmp_path):
    touch(tmp_path, f"_delta_log/{0:020d}.json", "metadata/v1.metadata.json")
    assert detect.open_table(str(tmp_path)).format == "delta"


def test_metadata_folder_of_something_else(tmp_path):
    touch(tmp_path, "metadata/notes.json")
    assert "files but no table metadata" in refusal(tmp_path)


def test_in_memory():
    storage = open_storage("memory://detect/orders")
    storage.put(f"_delta_log/{0:020d}.json", b"")
    assert detect.open_table("memory://detect/orders").format == "delta"
    assert "memory://detect/orders is a table" in refusal("memory://detect/orders/region=eu")
    assert refusal("memory://detect/absent") == "no table at memory://detect/absent: the path does not exist"


def test_nothing_there(tmp_path):
    assert refusal(tmp_path / "x") == f"no table at {tmp_path}/x: the path does not exist"


def test_empty_folder(tmp_path):
    assert refusal(tmp_path) == f"no table at {tmp_path}: the folder is empty"


def test_empty_log(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    assert "the folder is empty" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["a.parquet", "day=1/a.parquet"])
def test_parquet_files_without_a_table(tmp_path, name):
    touch(tmp_path, name)
    assert "has Parquet files but no table metadata" in refusal(tmp_path)


def test_folder_of_other_files(tmp_path):
    touch(tmp_path, "a.csv")
    assert "has files but no table metadata" in refusal(tmp_path)


def test_file_instead_of_a_folder(tmp_path):
    touch(tmp_path, "a.parquet")
    assert refusal(tmp_path / "a.parquet").endswith("it is a file, expected the folder of a table")


@pytest.mark.parametrize("inside", ["_delta_log", "region=eu", "region=eu/a.parquet", "absent/deeper"])
def test_place_inside_a_table(tmp_path, inside):
    touch(tmp_path, f"t/_delta_log/{0:020d}.json", "t/region=eu/a.parquet")
    assert refusal(tmp_path / "t" / inside).endswith(f"; {tmp_path}/t is a table")


def test_sample_is_not_written_over_a_table(tmp_path):
    table = detect.write_sample_table(str(tmp_path))
    assert table.snapshot().version == 2
    with pytest.raises(InvalidOperationError, match="a table already exists"):
        detect.write_sample_table(str(tmp_path))


def test_vector_file(tmp_path):
    first, second = Bitmap.of(1, 2), Bitmap.from_range(5, 9)
    data, places = vector_file.pack([first, second])
    (tmp_path / "v.bin").write_bytes(data)
    found = detect.open_vector_file(str(tmp_path / "v.bin"))
    assert [vector.offset for vector in found] == [offset for offset, _ in places]
    assert [blob.decode(vector.data) for vector in found] == [first, second]


def test_puffin_file(tmp_path):
    writer = PuffinWriter()
    writer.add_vector(Bitmap.of(3), "a.parquet")
    (tmp_path / "v.puffin").write_bytes(writer.finish())
    (found,) = detect.open_vector_file(str(tmp_path / "v.puffin"))
    assert (found.offset, found.is_vector) == (4, True)
    assert found.attributes["referenced-data-file"] == "a.parquet"
    assert blob.decode(found.data) == Bitmap.of(3)


@pytest.mark.parametrize("name", ["v.bin", "v.puffin"])
def test_blob_alone(tmp_path, name):
    (tmp_path / name).write_bytes(blob.encode(Bitmap.of(7)))
    (found,) = detect.open_vector_file(str(tmp_path / name))
    assert (found.offset, blob.decode(found.data)) == (0, Bitmap.of(7))


def test_vector_file_that_is_none(tmp_path):
    (tmp_path / "v.bin").write_bytes(b"\x02nothing")
    with pytest.raises(CorruptVectorError, match=f"not a deletion vector file, .*: {tmp_path}/v.bin at 0"):
        detect.open_vector_file(str(tmp_path / "v.bin"))
    (tmp_path / "v.puffin").write_bytes(b"nothing at all, but long enough")
    with pytest.raises(FormatError, match="not a Puffin file"):
        detect.open_vector_file(str(tmp_path / "v.puffin"))


def test_vector_file_absent(tmp_path):
    with pytest.raises(ObjectNotFoundError):
        detect.open_vector_file(str(tmp_path / "v.bin"))


@pytest.mark.parametrize("name", ["a.parquet", "p=1/_p=2/a.parquet"])
def test_a_new_table_is_refused_where_parquet_files_are(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"PAR1")
    with pytest.raises(InvalidOperationError, match=rf"holds Parquet files but no table \({name}\).*convert"):
        detect.new_table(str(tmp_path), "delta")


def test_a_new_table_may_be_where_other_files_are(tmp_path):
    for name in ("_delvec_staging/x/a.parquet", ".hidden/a.parquet", "_SUCCESS", "readme.txt", "_a.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert detect.new_table(str(tmp_path), "delta").format == "delta"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (f"a/b/_delta_log/{0:020d}.json", r"the folder a/b is a table \(Delta\), expected only files"),
        ("p=1/_delta_log/_last_checkpoint", r"the folder p=1 is a table \(Delta\)"),
        ("a/metadata/v1.metadata.json", r"the folder a is a table \(Iceberg\)"),
        ("a/metadata/version-hint.text", r"the folder a is a table \(Iceberg\)"),
    ],
)
def test_a_table_below_a_folder_of_files_is_refused(tmp_path, metadata, message):
    touch(tmp_path, "x.parquet", metadata)
    with pytest.raises(InvalidOperationError, match=message):
        detect.table_of_files(str(tmp_path), "delta")


def test_other_folders_below_a_folder_of_files(tmp_path):
    touch(tmp_path, "x.parquet", "metadata/x.parquet", "_old/_delta_log/0.json", "a/metadata/x.json")
    assert detect.table_of_files(str(tmp_path), "delta").location == str(tmp_path)
