"""Races beyond the grid: isolation levels, sources that are stale, bounds, and what is left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contract.kinds import CHANGE_FILES, REQUESTS, VECTORS_OFF, Kind
from delvec.errors import CommitConflictError, InvalidOperationError
from delvec.spark import commit_and_rerun, find_rows
from racing import losing
from verbs import rows_of

pytestmark = pytest.mark.spark

DDL = "id bigint, v bigint"


def rows(spark: Any, *pairs: tuple[int, int]) -> Any:
    return spark.createDataFrame(list(pairs), DDL).coalesce(1)


@pytest.fixture
def made(kind: Kind, spark: Any, tmp_path: Path) -> Callable[..., str]:
    """A table of one file with the ids 1 to 4, each ten times as large in v."""

    def make(*having: str, **properties: str) -> str:
        place = str(tmp_path / f"t{len(list(tmp_path.iterdir()))}")
        first = rows(spark, *((i, 10 * i) for i in range(1, 5)))
        kind.create(spark, place, first, having=having, properties=properties)
        return place

    return make


def data_files(place: str) -> set[str]:
    """Files below the table's folder that hold rows or say which are deleted."""
    kept = (path for path in Path(place).rglob("*") if path.suffix in (".parquet", ".bin", ".puffin"))
    return {str(path.relative_to(place)) for path in kept}


def test_a_snapshot_may_miss_rows_that_came(kind: Kind, spark: Any, made: Callable[..., str]) -> None:
    place = made(**{"write.delete.isolation-level": "snapshot"})
    table = losing(spark, place, lambda other: other.append(rows(spark, (9, 20))))
    result = table.delete("v = 20")
    assert result.metrics["numDeletedRows"] == 1
    assert "numRuns" not in result.metrics
    assert (9, 20) in rows_of(table)
    if REQUESTS in kind.abilities:
        assert table.history(1).first()["isolation_level"] == "SnapshotIsolation"


def test_a_snapshot_loses_no_row_that_two_writers_changed(spark: Any, made: Callable[..., str]) -> None:
    levels = {f"write.{verb}.isolation-level": "snapshot" for verb in ("delete", "update", "merge")}
    for run, expected in (
        (lambda t: t.update({"v": "v + 1"}, "id = 2"), [(2, 22)]),
        (lambda t: t.delete("id = 2"), []),
    ):
        table = losing(spark, made(**levels), lambda other: other.update({"v": "v + 1"}, "id = 2"))
        assert run(table).metrics["numRuns"] == 2
        assert [row for row in rows_of(table) if row[0] == 2] == expected


def test_a_merge_never_inserts_a_key_that_came(spark: Any, made: Callable[..., str]) -> None:
    place = made(**{"write.merge.isolation-level": "snapshot"})
    table = losing(spark, place, lambda other: other.append(rows(spark, (9, 90))))
    merge = table.merge(rows(spark, (9, 91)), "target.id = source.id", isolation="write-serializable")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert [row for row in rows_of(table) if row[0] == 9] == [(9, 91)]


@pytest.mark.needs(REQUESTS)  # else no commit says that it read nothing
def test_write_serializable_skips_what_nobody_has_read(spark: Any, made: Callable[..., str]) -> None:
    place = made()
    appended = losing(spark, place, lambda other: other.append(rows(spark, (9, 20))))
    result = appended.delete("v = 20", isolation="WriteSerializable")
    assert "numRuns" not in result.metrics
    assert (9, 20) in rows_of(appended)

    place = made()
    read = losing(spark, place, lambda other: other.update({"v": "20"}, "id = 3"))
    result = read.delete("v = 20", isolation="write-serializable")
    assert (result.metrics["numRuns"], result.metrics["numDeletedRows"]) == (2, 2)


def test_an_unknown_level_is_refused(spark: Any, made: Callable[..., str]) -> None:
    table = losing(spark, made())
    with pytest.raises(InvalidOperationError, match="isolation is 'dirty', expected one of serializable, "):
        table.delete("id = 1", isolation="dirty")


@pytest.mark.numbered
def test_rows_read_from_the_table_itself_are_not_written_when_stale(
    spark: Any, made: Callable[..., str]
) -> None:
    place = made()
    table = losing(spark, place, lambda other: other.delete("id = 1"))
    doubled = table.to_df().selectExpr("id + 100 AS id", "v")
    with pytest.raises(
        CommitConflictError, match=r"version \d+ \((DELETE|delete)\): it changed rows, and this operation"
    ):
        table.append(doubled)
    assert len(rows_of(table)) == 3
    for verb in (
        lambda t: t.overwrite(t.to_df().where("id > 1")),
        lambda t: (
            t.merge(t.to_df().selectExpr("id + 1 AS id", "v"), "target.id = source.id")
            .when_not_matched_insert_all()
            .execute()
        ),
    ):
        table = losing(spark, place, lambda other: other.append(rows(spark, (50, 1))))
        with pytest.raises(CommitConflictError, match="computed its rows from the table"):
            verb(table)


def test_a_function_makes_its_rows_anew(spark: Any, made: Callable[..., str]) -> None:
    table = losing(spark, made(), lambda other: other.delete("id = 1"))
    result = table.append(lambda: table.to_df().selectExpr("id + 100 AS id", "v"))
    assert (result.metrics["numRuns"], result.metrics["numOutputRows"]) == (2, 3)
    assert [row[0] for row in rows_of(table)] == [102, 103, 104, 2, 3, 4]


def test_the_source_of_a_merge_is_computed_once(
    spark: Any, made: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from delvec.spark import merge_source

    computed: list[Any] = []
    materialised = merge_source._materialised

    def counted(*parts: Any) -> Any:
        computed.append(materialised(*parts))
        return computed[-1]

    monkeypatch.setattr(merge_source, "_materialised", counted)
    table = losing(spark, made(), lambda other: other.update({"v": "0"}, "id = 2"))
    source = spark.range(1, 4, 1, 1).selectExpr("id", "CAST(1000000 * rand() AS bigint) AS v")
    merged = table.merge(source, "target.id = source.id").when_matched_update_all().execute()
    assert merged.metrics["numRuns"] == 2
    assert len(computed) == 1
    kept = sorted((row["id"], row["v"]) for row in computed[0].frame.collect())
    assert [row for row in rows_of(table) if row[0] < 4] == kept


def test_a_condition_of_the_moment_is_not_asked_of_new_rows_alone(
    spark: Any, made: Callable[..., str]
) -> None:
    table = losing(spark, made(), lambda other: other.append(rows(spark, (9, 5))))
    result = table.delete("v < 15 AND current_timestamp() > timestamp '2000-01-01'")
    assert (result.metrics["numRuns"], result.metrics["numDeletedRows"]) == (2, 2)


def test_a_column_is_checked_by_reading(spark: Any, made: Callable[..., str]) -> None:
    from pyspark.sql import functions as F

    place = made()
    table = losing(spark, place, lambda other: other.append(rows(spark, (9, 90))))
    assert "numRuns" not in table.delete(F.col("v") == 20).metrics
    table = losing(spark, place, lambda other: other.append(rows(spark, (10, 30))))
    assert table.delete(F.col("v") == 30).metrics["numRuns"] == 2


@pytest.mark.numbered
def test_losing_without_end_is_an_error_and_leaves_nothing(
    spark: Any, made: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(commit_and_rerun, "MAX_RUNS", 3)
    place = made()
    winner = [lambda other: other.update({"v": "v + 1"}, "id = 2")] * 3
    table = losing(spark, place, *winner)
    before = data_files(place)
    message = r"UPDATE at version \d+ conflicts with version \d+ .*; gave up after 3 runs"
    with pytest.raises(CommitConflictError, match=message):
        table.update({"v": "-1"}, "id = 2")
    assert [row for row in rows_of(table) if row[0] == 2] == [(2, 23)]
    left = data_files(place) - before
    assert len([name for name in left if name.endswith(".parquet")]) == 3, "one for each winner"
    assert not any(Path(place).glob("_delvec_staging/*"))


def test_columns_that_came_are_written_by_the_next_run(spark: Any, made: Callable[..., str]) -> None:
    wider = spark.createDataFrame([(8, 80, "x")], f"{DDL}, note string")
    table = losing(spark, made(), lambda other: other.append(wider, merge_schema=True))
    result = table.append(rows(spark, (9, 90)))
    assert result.metrics["numRuns"] == 2
    assert (9, 90, None) in rows_of(table)


def test_an_idempotent_writer_that_lost_to_itself_writes_once(spark: Any, made: Callable[..., str]) -> None:
    def write(table: Any) -> Any:
        return table.append(rows(spark, (9, 90)), app_id="stream", app_version=7)

    table = losing(spark, made(), write)
    assert write(table).metrics["numOutputRows"] == 0
    assert [row for row in rows_of(table) if row[0] == 9] == [(9, 90)]


@pytest.mark.parametrize(
    ("having", "properties"), [([VECTORS_OFF], {}), ([], {"delvec.rewriteDeletedShare": "0.1"})], ids=str
)
def test_a_file_written_again_is_not_put_on_top_of_a_vector(
    spark: Any, made: Callable[..., str], having: list[str], properties: dict[str, str]
) -> None:
    """Else the rows that the winner deleted would be back."""
    table = losing(spark, made(*having, **properties), lambda other: other.delete("id = 3"))
    assert table.delete("id = 2").metrics["numRuns"] == 2
    assert [row[0] for row in rows_of(table)] == [1, 4]


def test_change_files_tell_only_what_was_changed(kind: Kind, spark: Any, made: Callable[..., str]) -> None:
    """The winner takes a row, so that the loser's change file would tell of one too many."""
    place = made(CHANGE_FILES, **{"delvec.rewriteDeletedShare": "0.6"})
    table = losing(spark, place, lambda other: other.delete("id = 2"))
    result = table.delete("id > 1 AND id < 5")
    assert result.metrics["numDeletedRows"] == 2
    assert [row[0] for row in rows_of(table)] == [1]
    assert kind.changes(table, result.version) == {("delete", 3, 30): 1, ("delete", 4, 40): 1}


def test_vectors_that_executors_stored_are_united(
    spark: Any, made: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(find_rows, "DRIVER_BYTES", 0)
    monkeypatch.setattr(find_rows, "FEW_ROWS", 0)
    place = made()
    table = losing(spark, place, lambda other: other.delete("id = 3"))
    result = table.delete("id IN (2, 3)")
    assert (result.metrics["numDeletedRows"], result.metrics["numFilesUnited"]) == (1, 1)
    assert [row[0] for row in rows_of(table)] == [1, 4]


@pytest.mark.numbered
def test_several_winners_one_after_the_other(kind: Kind, spark: Any, made: Callable[..., str]) -> None:
    winners = [lambda other, key=key: other.delete(f"id = {key}") for key in (1, 2, 3)]
    table = losing(spark, made(), *winners)
    result = table.delete("id = 4")
    assert (result.metrics["numCommitTries"], result.version) == (4, kind.version(table, 4))
    assert rows_of(table) == []


def test_a_reader_finishes_on_its_version(spark: Any, made: Callable[..., str]) -> None:
    from delvec.table import Table

    table = Table.open(spark, made())
    before = table.to_df()
    table.delete("id = 1")
    table.overwrite(rows(spark, (7, 7)))
    assert sorted(row["id"] for row in before.collect()) == [1, 2, 3, 4]
