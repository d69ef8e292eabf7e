"""MERGE reads only the files that may hold a key of the source, and gives the rows that reading all gives."""

from __future__ import annotations

import random
import shutil
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import pytest

from delvec.spark import merge_probe as merging
from delvec.spark.target import Target
from racing import losing
from verbs import CHANGES_ON, frame_of, holds, rows_of, table_of

pytestmark = pytest.mark.spark

DDL = "id bigint, name string, p int"
ROWS = [(i, f"n{i}", i // 4) for i in range(12)]
ON = "target.id = source.id"
TAILS = ["", "'", '"', "\\", "''", "\\'", "${x}", " -- ", "\n", "`", "é", "\U0001f600", "\ufffd", "%"]


@pytest.fixture
def table(spark, tmp_path):
    """Files of ids 0 to 3, 4 to 7 and 8 to 11."""
    return table_of(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"])


@pytest.fixture
def planned(monkeypatch):
    """The conditions by which targets were planned."""
    found, plan = [], Target.plan

    def recorded(target, where):
        found.append(where)
        return plan(target, where)

    monkeypatch.setattr(Target, "plan", recorded)
    return found


@contextmanager
def unreadable(table, *folders):
    """What is inside fails where it opens a data file of these folders."""
    files = [file for name in folders for file in (Path(table.location) / name).glob("*.parquet")]
    assert len(files) >= len(folders)
    held = [file.read_bytes() for file in files]
    for file, data in zip(files, held, strict=True):
        file.write_bytes(b"\0" * len(data))
    yield
    for file, data in zip(files, held, strict=True):
        file.write_bytes(data)


def numbers(drawn):
    return sorted(drawn.sample(range(-(2**61), 2**61), 24))


def texts(drawn):
    keys = [chr(ord("a") + i) + "".join(drawn.choices(TAILS, k=2)) for i in range(24)]
    keys[6], keys[17] = "g'\\\"", "r"  # the ends of the source's range
    return keys


def days(drawn):
    return [date(1, 1, 1) + timedelta(days) for days in sorted(drawn.sample(range(3_600_000), 24))]


KEYS = {"bigint": numbers, "string": texts, "date": days}


@pytest.mark.parametrize("kind", KEYS)
def test_the_rows_are_those_of_a_merge_that_reads_all_files(spark, tmp_path, kind):
    """Files 0 and 3 of the table are outside of the range."""
    from pyspark.sql import functions as f

    from delvec.table import Table

    drawn = random.Random(kind)
    keys, ddl = KEYS[kind](drawn), f"key {kind}, name string, p int"
    rows = [(key, "old", n // 6) for n, key in enumerate(keys) if n in (6, 17) or drawn.random() < 0.7]
    rows += [(None, "null", 0), (None, "null", 1)]
    one = table_of(spark, tmp_path / "one", ddl, rows, partition_by=["p"])
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    other = Table.open(spark, str(tmp_path / "other"))
    source = frame_of(spark, ddl, [(key, "new", 8) for key in (*keys[6:18], None)])

    def merged(table, on):
        merge = table.merge(source, on).when_matched_delete(f.col("target.p") == 2)
        return merge.when_matched_update_all().when_not_matched_insert_all().execute().metrics

    expected = merged(other, f.col("target.key") == f.col("source.key"))
    outside = ("p=0", "p=3")
    with unreadable(one, *outside):
        metrics = merged(one, "target.key = source.key")
    assert rows_of(one) == rows_of(other) != sorted(rows, key=str)
    counted = ("numTargetRowsUpdated", "numTargetRowsDeleted", "numTargetRowsInserted", "numOutputRows")
    assert [metrics[name] for name in counted] == [expected[name] for name in counted]


def test_a_merge_on_a_column_reads_all_files(spark, table):
    from pyspark.sql import functions as f

    source = frame_of(spark, DDL, [(5, "s", 1)])
    with unreadable(table, "p=0"), pytest.raises(Exception, match=r"(?i)parquet"):
        table.merge(source, f.col("target.id") == f.col("source.id")).when_matched_delete().execute()


def test_partition_columns_as_keys_names_in_any_case_and_other_aliases(spark, table, planned):
    source = frame_of(spark, "Part smallint, Key int, low int", [(1, 5, 0), (1, 7, 0), (1, None, 0)])
    on = "`Old Rows`.P = part AND S.key = `old rows`.ID AND `old rows`.name >= 'n' AND id > low"
    with unreadable(table, "p=0", "p=2"):
        merge = table.merge(source, on, source_alias="s", target_alias="old rows")
        merge.when_matched_update({"name": "'x'"}).execute()
    assert planned == ["`name` >= 'n' AND `p` BETWEEN 1 AND 1 AND `id` BETWEEN 5 AND 7"]
    holds(table, [(i, "x" if i in (5, 7) else name, p) for i, name, p in ROWS])


def test_rows_without_a_match_in_the_source_are_found_in_all_files(spark, table, planned):
    source = frame_of(spark, DDL, [(5, "s", 1)])
    merge = table.merge(source, ON).when_matched_update_all().when_not_matched_by_source_delete("id <> 11")
    merge.execute()
    assert planned == [None]
    holds(table, [(5, "s", 1), ROWS[11]])


def test_types_that_differ_prune_nothing(spark, table, planned):
    source = frame_of(spark, "id string, ratio double", [("05", 6.0)])
    table.merge(source, ON).when_matched_delete().execute()
    table.merge(source, "target.id = source.ratio").when_matched_delete().execute()
    assert planned == [None, None]
    holds(table, [row for row in ROWS if row[0] not in (5, 6)])


@pytest.mark.parametrize("properties", [{}, CHANGES_ON | {"delta.enableRowTracking": "true"}])
def test_no_file_is_read_where_no_key_can_match(spark, tmp_path, properties):
    table = table_of(spark, tmp_path / "t", DDL, ROWS, partition_by=["p"], properties=properties)
    for rows in ([], [(None, "a", 0)]):
        with unreadable(table, "p=0", "p=1", "p=2"):
            source = frame_of(spark, DDL, rows)
            merge = table.merge(source, ON).when_matched_update_all().when_not_matched_insert_all()
            result = merge.execute()
        assert (result.version, result.metrics["numTargetRowsInserted"]) == (1 + len(rows), len(rows))
    holds(table, [*ROWS, (None, "a", 0)])


@pytest.mark.parametrize(("key", "expected"), [(6, (1, 1)), (5, (1, 2)), (4, (0, 1)), (8, (0, 1))])
def test_rows_that_others_append_are_looked_at_where_they_are_in_the_range(
    spark, table, monkeypatch, key, expected
):
    """Keys 5 and 7 are merged; the appended row is in a file of its own."""
    looked: list[int] = []
    file_with_rows = merging.file_with_rows

    def counted(*given):
        looked.append(1)
        return file_with_rows(*given)

    monkeypatch.setattr(merging, "file_with_rows", counted)
    late = (key, "late", 9)
    losing_table = losing(spark, table.location, lambda other: other.append(frame_of(spark, DDL, [late])))
    merge = losing_table.merge(frame_of(spark, DDL, [(5, "s", 1), (7, "s", 1)]), ON).when_matched_delete()
    result = merge.execute()
    assert (len(looked), result.metrics.get("numRuns", 1)) == expected
    holds(table, [row for row in [*ROWS, late] if row[0] not in (5, 7)])
