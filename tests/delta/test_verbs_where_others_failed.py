"""Mistakes that engines have made with vectors, each tried through the verbs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from delta_writer import bodies
from delvec import detect
from delvec.errors import CommitConflictError, FormatError, StorageError
from delvec.storage import Storage
from delvec.verify import verify_table
from lake import Lake
from rows import multiset
from scanning import collected, opened, same

pytestmark = pytest.mark.spark

VECTORS = {"delta.enableDeletionVectors": "true"}


def numbers(spark: Any, first: int, last: int) -> Any:
    return spark.range(first, last, 1, 1).selectExpr("id", "CAST(id % 10 AS int) AS v")


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Any:
    """Two files: ids 0 to 9, and 10 to 19."""
    from delvec.table import Table

    made = Table.create(spark, str(tmp_path / "t"), numbers(spark, 0, 10))
    made.append(numbers(spark, 10, 20))
    return made


def held(table: Any) -> list[tuple[int, int]]:
    return sorted((row["id"], row["v"]) for row in collected(table.to_df()))


def vector_files(table: Any) -> set[str]:
    return {path.name for path in Path(table.location).rglob("*.bin")}


def test_positions_where_row_groups_are_left_out(spark: Any, tmp_path: Path) -> None:
    """The scan that finds rows skips row groups; a row's number still counts from the file's first row."""
    lake = Lake(tmp_path, pa.schema([("id", pa.int64()), ("v", pa.int64())]), row_group_size=10)
    lake.write([{"id": number, "v": number % 7} for number in range(1000)])
    lake.commit()
    table = opened(spark, lake)
    table.set_properties(VECTORS)
    rows = {number: number % 7 for number in range(1000)}

    assert table.delete("id IN (3, 995)").metrics["numDeletionVectorsAdded"] == 1
    rows = {key: v for key, v in rows.items() if key not in (3, 995)}
    same(table.to_df(), [{"id": key, "v": v} for key, v in rows.items()])
    assert table.update({"v": "-1"}, "id BETWEEN 775 AND 777").metrics["numUpdatedRows"] == 3
    rows |= dict.fromkeys((775, 776, 777), -1)
    same(table.to_df(), [{"id": key, "v": v} for key, v in rows.items()])
    source = spark.createDataFrame([(501, -2), (2000, -2)], "id long, v long")
    table.merge(
        source, "target.id = source.id"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    rows |= {501: -2, 2000: -2}
    same(table.to_df(), [{"id": key, "v": v} for key, v in rows.items()])


def test_each_new_vector_takes_the_place_of_the_old_one(table: Any) -> None:
    """A remove without the old vector would leave the file live twice."""
    storage = detect.open_table(table.location).storage
    for number, key in enumerate((1, 2, 3), 2):
        table.delete(f"id = {key}")
        added, removed = bodies(storage, number, "add"), bodies(storage, number, "remove")
        assert [body["path"] for body in added] == [body["path"] for body in removed]
        if number > 2:
            (before,) = bodies(storage, number - 1, "add")
            assert removed[0]["deletionVector"] == before["deletionVector"]
        else:
            assert "deletionVector" not in removed[0]
    assert [key for key, _ in held(table)] == [0, *range(4, 20)]
    table.delete("id < 10")
    (last,) = bodies(storage, 5, "remove")
    assert last["deletionVector"]["cardinality"] == 3
    assert not bodies(storage, 5, "add")
    assert [key for key, _ in held(table)] == list(range(10, 20))


def test_a_file_emptied_row_by_row_leaves_no_vector(table: Any) -> None:
    for key in range(10):
        table.delete(f"id = {key}")
    assert table.files().count() == 1
    report = verify_table(detect.open_table(table.location))
    assert (report.vectors, report.findings) == (0, ())


@pytest.mark.parametrize("ending", [".bin", ".json"])
def test_a_file_that_could_not_be_stored(table: Any, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """The error comes up, and the table is as it was."""
    before, put, put_if_absent = held(table), Storage.put, Storage.put_if_absent

    def failing(original: Any) -> Any:
        def write(self: Storage, path: str, data: bytes) -> Any:
            if path.endswith(ending):
                raise StorageError("the disk is full", path=path)
            return original(self, path, data)

        return write

    monkeypatch.setattr(Storage, "put", failing(put))
    monkeypatch.setattr(Storage, "put_if_absent", failing(put_if_absent))
    for change in (lambda: table.delete("id = 3"), lambda: table.update({"v": "0"}, "id = 3")):
        with pytest.raises(StorageError, match="the disk is full"):
            change()
    monkeypatch.undo()
    assert table.version == 1
    assert held(table) == before


def test_a_data_file_that_was_cut_off(spark: Any, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that lost the end of a file without a word does not get it into the table."""
    before, move = held(table), Storage.move

    def cutting(self: Storage, source: str, target: str, **more: Any) -> bool:
        done = move(self, source, target, **more)
        file = Path(self.root) / target
        file.write_bytes(file.read_bytes()[:-20])
        return done

    monkeypatch.setattr(Storage, "move", cutting)
    for change in (
        lambda: table.append(numbers(spark, 20, 30)),
        lambda: table.update({"v": "0"}, "id = 3"),
    ):
        with pytest.raises(FormatError):
            change()
    monkeypatch.undo()
    assert table.version == 1
    assert held(table) == before


def racing(monkeypatch: pytest.MonkeyPatch, winner: Any, verb: str = "delete") -> None:
    """``winner`` commits while the next DELETE or UPDATE is between finding rows and committing."""
    module = import_module(f"delvec.spark.{verb}")
    remove = module.remove_rows

    def late(*given: Any) -> Any:
        module.remove_rows = remove
        winner()
        return remove(*given)

    monkeypatch.setattr(module, "remove_rows", late)


def test_a_winner_whose_new_images_the_loser_would_have_deleted(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The UPDATE moves a row of a file that the DELETE did not read to where its condition holds."""
    racing(monkeypatch, lambda: table.update({"id": "3"}, "id = 17"))
    before = vector_files(table)
    result = table.delete("id = 3")
    assert (result.metrics["numRuns"], result.metrics["numDeletedRows"]) == (2, 2)
    assert [row for row in held(table) if row[0] == 3] == []
    assert len(vector_files(table) - before) == 2, "the first run's vector is an orphan"


def test_a_winner_whose_new_images_are_not_meant(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    racing(monkeypatch, lambda: table.update({"v": "3"}, "id = 17"))
    assert table.delete("id = 4").version == 3
    assert dict(held(table)) == {key: key % 10 for key in range(20) if key != 4} | {17: 3}


def test_a_loser_leaves_no_file(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table.set_properties({"delta.enableChangeDataFeed": "true"})
    monkeypatch.setattr("delvec.spark.commit_and_rerun.MAX_RUNS", 1)
    racing(monkeypatch, lambda: table.delete("id = 4"), "update")
    with pytest.raises(CommitConflictError):
        table.update({"v": "-1"}, "id = 4")
    files = [path for path in Path(table.location).rglob("*") if path.is_file()]
    live = {row["location"] for row in table.files().collect()}
    assert {
        str(path) for path in files if path.suffix == ".parquet" and "_delta_log" not in path.parts
    } == live
    assert len([path for path in files if path.suffix == ".bin"]) == 1, "the winner's"


def test_two_writers_on_one_file(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two live vectors on one file would give its rows twice."""
    racing(monkeypatch, lambda: table.delete("id = 5"))
    table.delete("id = 4")
    expected = [{"id": key, "v": key % 10} for key in range(20) if key not in (4, 5)]
    assert multiset(collected(table.to_df())) == multiset(expected)
    assert not verify_table(detect.open_table(table.location)).findings
