"""Previews: what they say of each file is what the verb then does to it; and they write nothing."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyspark.sql import functions

from delvec.errors import FormatError, InvalidOperationError
from delvec.spark import dry_run, find_rows
from delvec.spark.dry_run import GROWN_VECTOR, NEW_VECTOR, OUTCOMES, REMOVED, REWRITTEN
from delvec.spark.progress import reported_to
from delvec.table import Table
from lake import Lake
from scanning import opened
from verbs import CHANGES_ON, KINDS, VECTORS_OFF, actions, frame_of, refused, table_of, unchanged

pytestmark = pytest.mark.spark

DDL = "id bigint, v bigint, p int"
ROWS = [(i, i % 7, i // 10) for i in range(40)]
SHARE = {"delvec.rewriteDeletedShare": "0.5"}
GONE = {20, 21, 29}
CONDITIONS = {
    "none": (None, lambda _i, _v, _p: True),
    "a partition": ("p = 1", lambda _i, _v, p: p == 1),
    "statistics": ("id >= 25", lambda i, _v, _p: i >= 25),
    "rows here and there": ("v = 3", lambda _i, v, _p: v == 3),
    "most rows": ("v < 6 AND p < 2", lambda _i, v, p: v < 6 and p < 2),
    "all rows, found by reading": ("v >= 0 AND v % 7 < 7", lambda _i, _v, _p: True),
    "no row": ("v = 3 AND id % 7 = 4", lambda _i, _v, _p: False),
    "no file": ("p = 9", lambda _i, _v, _p: False),
    "null": ("p = 1 AND NULL", lambda _i, _v, _p: False),
    "text that only Spark reads": ("size(filter(array(v, 9), x -> x > 4)) = 2", lambda _i, v, _p: v > 4),
}


def made(spark, place, properties=None):
    """Four files of ten rows in four partitions; of the third, three rows are deleted already."""
    table = table_of(spark, place, DDL, ROWS, partition_by=["p"], properties=properties)
    table.delete("id IN (20, 21, 29)")
    return table


@pytest.fixture(scope="module")
def kept(spark, tmp_path_factory):
    """A table of each kind, to be copied."""
    root = tmp_path_factory.mktemp("kept")
    for kind in ("vectors", "copy-on-write"):
        made(spark, root / kind, KINDS[kind])
    made(spark, root / "share", SHARE)
    return root


@pytest.fixture
def copied(spark, kept, tmp_path):
    def copy(kind="vectors"):
        shutil.copytree(kept / kind, tmp_path / kind)
        return Table.open(spark, str(tmp_path / kind))

    return copy


def stored(table):
    return sorted(str(path) for path in Path(table.location).rglob("*"))


def previewed(table, verb, where):
    """The preview; nothing is there afterwards that was not there before."""
    before = stored(table)
    with unchanged(table):
        found = run(table, verb, where, dry_run=True)
    assert stored(table) == before
    return found


def run(table, verb, where, **options):
    if verb == "delete":
        return table.delete(where, **options)
    return table.update({"v": "v + 100"}, where, **options)


def outcomes(found):
    """What the preview says: for each file the outcome, and the rows deleted afterwards."""
    return {
        Path(file["location"]).name: (
            file["outcome"],
            file["deleted"] + file["matching"] if "vector" in file["outcome"] else None,
        )
        for file in found.files.to_pylist()
    }


def done(table, left):
    """The same, as the commit tells it. A file that was removed left whole where no row of its partition is
    to be left.
    """
    adds = {unquote(a["add"]["path"]): a["add"] for a in actions(table) if "add" in a}
    told = {}
    for action in actions(table):
        if "remove" not in action:
            continue
        path = unquote(action["remove"]["path"])
        name = Path(path).name
        if path in adds:
            outcome = GROWN_VECTOR if "deletionVector" in action["remove"] else NEW_VECTOR
            told[name] = (outcome, adds[path]["deletionVector"]["cardinality"])
        else:
            partition = int(action["remove"]["partitionValues"]["p"])
            told[name] = (REWRITTEN if left.get(partition) else REMOVED, None)
    return told


CASES = [("vectors", condition) for condition in CONDITIONS] + [
    (kind, condition)
    for kind in ("copy-on-write", "share")
    for condition in ("a partition", "rows here and there", "most rows", "all rows, found by reading")
]


@pytest.mark.parametrize(
    ("kind", "condition"), CASES, ids=[f"{kind}, {condition}" for kind, condition in CASES]
)
@pytest.mark.parametrize("verb", ["delete", pytest.param("update", marks=pytest.mark.slow)])
def test_what_is_said_is_done(copied, verb, kind, condition):
    compare_with_the_verb(copied, verb, kind, condition)


@pytest.mark.parametrize("condition", ["a partition", "rows here and there", "no row"])
def test_what_is_said_of_an_update_is_done(copied, condition):
    compare_with_the_verb(copied, "update", "vectors", condition)


def compare_with_the_verb(copied, verb, kind, condition):
    where, holds = CONDITIONS[condition]
    table = copied(kind)
    found = previewed(table, verb, where)
    version = table.version
    live = [row for row in ROWS if row[0] not in GONE]
    left = Counter(p for i, v, p in live if not holds(i, v, p))
    assert found.version == version
    assert found.matching == len(live) - left.total()
    result = run(table, verb, where)
    assert found.matching == result.metrics["numDeletedRows" if verb == "delete" else "numUpdatedRows"]
    assert found.copied == result.metrics.get("numCopiedRows", 0)
    assert sum(map(found.count, OUTCOMES)) == len(found.files)
    if len(found.files):
        assert outcomes(found) == done(table, left)
    else:
        assert result.version == version


def test_files_that_metadata_decides_are_not_read(copied):
    table = copied()
    for path in Path(table.location).rglob("*.parquet"):
        path.unlink()
    for verb in ("delete", "update"):
        found = run(table, verb, "p >= 1", dry_run=True)
        assert (found.read, found.skipped, found.matching) == (0, 1, 27)
        assert found.count(REMOVED) == 3
        assert run(table, verb, None, dry_run=True).matching == 37


def test_only_files_that_may_match_are_read(copied):
    found = previewed(copied(), "delete", "id >= 15 AND v = 3")
    assert (found.read, found.skipped) == (3, 1)


@pytest.mark.parametrize("verb", ["delete", "update"])
def test_nothing_is_stored_however_many_rows_are_found(copied, monkeypatch, verb):
    monkeypatch.setattr(find_rows, "DRIVER_BYTES", 0)
    monkeypatch.setattr(find_rows, "FEW_ROWS", 0)
    found = previewed(copied(), verb, "v = 3")
    assert found.matching == sum(v == 3 for _, v, _ in ROWS)


@pytest.mark.parametrize("verb", ["delete", "update"])
@pytest.mark.parametrize("where", ["p = 1", "id < 5", "id >= 0", None])
def test_files_whose_rows_are_not_recorded(spark, tmp_path, verb, where):
    lake = Lake(tmp_path / "t", pa.schema([("id", pa.int64()), ("v", pa.int64()), ("p", pa.int32())]), ["p"])
    lake.stats = False
    for p in (0, 1):
        lake.write([{"id": i + 10 * p, "v": i, "p": p} for i in range(10)], deleted=[3])
    lake.commit()
    table = opened(spark, lake)
    found = previewed(table, verb, where)
    result = run(table, verb, where)
    by_metadata = verb == "delete" and where in ("p = 1", None)
    assert (found.matching is None) == by_metadata
    if not by_metadata:
        assert found.matching == result.metrics[f"num{verb.title()}dRows"]
    told = {Path(file["location"]).name: file["outcome"] for file in found.files.to_pylist()}
    assert told == {name: outcome for name, (outcome, _) in done(table, {}).items()}


@pytest.mark.parametrize(
    ("verb", "more", "told"),
    [
        ("delete", {}, False),
        ("delete", VECTORS_OFF, True),
        ("update", {}, True),
        ("update", VECTORS_OFF, True),
    ],
)
def test_whether_changes_become_files(spark, tmp_path, verb, more, told):
    table = made(spark, tmp_path / "t", CHANGES_ON | more)
    assert previewed(table, verb, "v = 3").change_files is told
    assert previewed(table, verb, "p = 9").change_files is False
    run(table, verb, "v = 3")
    assert any("cdc" in action for action in actions(table)) is told


def test_a_condition_may_be_a_column(copied):
    found = previewed(copied(), "delete", functions.col("id") == 5)
    assert (found.matching, found.count(NEW_VECTOR)) == (1, 1)
    assert "id" in found.where


def test_rows_found_are_told(copied):
    table, reports = copied(), []
    with reported_to(lambda *report: reports.append(report)):
        previewed(table, "delete", "v = 3 AND p = 0")
    assert reports == [("rows found", 1)]


@pytest.mark.parametrize(
    ("assignments", "where", "message"),
    [
        ({"nothing": "1"}, None, "unknown column 'nothing' in set"),
        ({"v": "nothing + 1"}, None, "set of v:"),
        ({"v": "'text'"}, None, "value for column v is of type string, expected bigint"),
        ({}, None, "set is empty"),
        ({"v": "1"}, "nothing = 1", "condition 'nothing = 1' is invalid"),
        ({"v": "1"}, "rand() > 0", "is invalid"),
    ],
)
def test_what_the_verb_refuses_is_refused(spark, copied, assignments, where, message):
    table = copied()
    with refused(table, InvalidOperationError, message):
        table.update(assignments, where, dry_run=True)


def test_append_only_tables_are_refused(spark, tmp_path):
    table = table_of(spark, tmp_path / "t", DDL, ROWS, properties={"delta.appendOnly": "true"})
    with refused(table, InvalidOperationError, "table is append-only"):
        table.delete(dry_run=True)
    with refused(table, InvalidOperationError, "table is append-only"):
        table.update({"v": "1"}, dry_run=True)


def test_rows_of_a_file_that_is_not_in_the_plan_are_refused(spark, copied, monkeypatch):
    table = copied()
    monkeypatch.setattr(dry_run, "location_of", lambda path: path + "x")
    with refused(table, FormatError, "not in its plan"):
        table.delete("v = 3", dry_run=True)


# Overwrite and merge: the new rows are computed, and counted.

NEW = [(100, 1, 1), (101, 2, 1), (102, 3, 7)]


def live_rows():
    return [row for row in ROWS if row[0] not in GONE]


def looked_at(table, dry):
    """What ``dry`` answers; nothing is stored meanwhile."""
    before = stored(table)
    with unchanged(table):
        found = dry()
    assert stored(table) == before
    return found


def agrees(found, result):
    """The row counts of a dry run are those of the verb."""
    assert found.metrics
    assert found.metrics == {name: result.metrics.get(name, 0) for name in found.metrics}


@pytest.mark.parametrize("kind", ["vectors", "copy-on-write"])
@pytest.mark.parametrize(
    ("options", "touched", "gone"),
    [
        ({}, 4, 37),
        ({"partitions": "dynamic"}, 1, 10),
        ({"where": "p = 1 OR p = 7"}, 1, 10),
        ({"where": "p = 1 AND id % 2 = 0 OR id >= 100"}, 1, 5),
    ],
    ids=["static", "dynamic", "whole partition", "some rows"],
)
def test_overwrites(spark, copied, kind, options, touched, gone):
    table = copied(kind)
    rows = frame_of(spark, DDL, NEW)
    found = looked_at(table, lambda: table.overwrite(rows, **options, dry_run=True))
    assert (found.operation, found.version, len(found.files)) == ("WRITE", table.version, touched)
    assert (found.metrics["numOutputRows"], found.metrics["numDeletedRows"], found.matching) == (
        3,
        gone,
        gone,
    )
    agrees(found, table.overwrite(rows, **options))
    assert outcomes(found) == done(table, {1: 5} if gone == 5 else {})


@pytest.mark.parametrize("rows", [[], NEW[2:]])
@pytest.mark.parametrize("options", [{}, {"partitions": "dynamic"}, {"where": "id >= 90"}])
def test_overwrites_that_remove_little_or_nothing(spark, copied, rows, options):
    table = copied()
    frame = spark.createDataFrame(rows, DDL)
    found = looked_at(table, lambda: table.overwrite(frame, **options, dry_run=True))
    assert found.metrics["numOutputRows"] == len(rows)
    assert len(found.files) == (0 if options else 4)
    agrees(found, table.overwrite(frame, **options))


def test_dynamic_overwrites_name_partitions_of_every_kind(spark, tmp_path):
    ddl = "id bigint, s string, t timestamp, d double, n decimal(5,2)"
    columns = (
        "id",
        "nullif(concat('a b=', id % 3), 'a b=2') AS s",
        "timestamp'2020-01-01 00:00:00.5' + make_interval(0, 0, 0, int(id % 2)) AS t",
        "if(id % 2 = 0, double('nan'), 0.5D) AS d",
        "cast(1.50 AS decimal(5,2)) AS n",
    )
    table = table_of(spark, tmp_path / "t", ddl, partition_by=["s", "t", "d", "n"])
    table.append(spark.range(12).selectExpr(*columns))
    new = spark.range(2, 4).selectExpr(*columns)
    found = looked_at(table, lambda: table.overwrite(new, partitions="dynamic", dry_run=True))
    assert (len(found.files), found.metrics["numDeletedRows"]) == (2, 4)
    agrees(found, table.overwrite(new, partitions="dynamic"))


def merging(table, source):
    return (
        table.merge(source, "target.id = source.id")
        .when_matched_delete("source.v = 0")
        .when_matched_update({"v": "source.v"}, "source.v < 5")
        .when_not_matched_insert_all("source.v < 5")
    )


@pytest.mark.parametrize("kind", ["vectors", "copy-on-write", "share"])
def test_merges(spark, copied, kind):
    table = copied(kind)
    source = frame_of(spark, DDL, [(i, i % 6, i // 10) for i in range(5, 18)] + [(21, 1, 2), (90, 9, 9)])
    found = looked_at(table, lambda: merging(table, source).execute(dry_run=True))
    assert found.metrics["numTargetRowsInserted"] == 1
    assert (found.matching, found.operation) == (10, "MERGE")
    agrees(found, merging(table, source).execute())
    changed = {i for i in range(5, 18) if i % 6 < 5}
    left = Counter(p for i, _, p in live_rows() if i not in changed)
    assert outcomes(found) == done(table, left)


def test_merges_that_do_nothing(spark, copied):
    table = copied()
    source = frame_of(spark, DDL, [(5, 9, 0)])
    found = looked_at(table, lambda: merging(table, source).execute(dry_run=True))
    assert (len(found.files), found.change_files, set(found.metrics.values())) == (0, False, {0, 1})
    assert merging(table, source).execute().version == table.version


def test_merges_by_source(spark, copied):
    def merge(table):
        source = frame_of(spark, DDL, [(5, 1, 0)])
        return table.merge(source, "target.id = source.id").when_not_matched_by_source_delete("target.p = 0")

    table = copied()
    found = looked_at(table, lambda: merge(table).execute(dry_run=True))
    assert (found.matching, found.count(NEW_VECTOR)) == (9, 1)
    agrees(found, merge(table).execute())


@pytest.mark.parametrize(
    ("dry", "message"),
    [
        (lambda t, rows: t.overwrite(rows([(1, 1, 1)]), where="p = 2", dry_run=True), "outside of the cond"),
        (lambda t, rows: t.overwrite(rows([(None, 1, 1)]), dry_run=True), "NULL.* id"),
        (
            lambda t, rows: t.overwrite(rows([(1, 1, 1)]), where="p", partitions="dynamic", dry_run=True),
            "where and partitions='dynamic' exclude each other",
        ),
        (
            lambda t, rows: t.overwrite(rows([(1, 1, 1)]).selectExpr("id", "1 AS x"), dry_run=True),
            "column 'x'",
        ),
        (
            lambda t, rows: merging(t, rows([(1, 1, 1), (1, 2, 1)])).execute(dry_run=True),
            "more than one source",
        ),
        (lambda t, rows: merging(t, rows([(None, 1, 1)])).execute(dry_run=True), "NULL.* id"),
        (lambda t, rows: t.merge(rows([]), "target.id = source.id").execute(dry_run=True), "no clause"),
        (lambda t, _: t.delete("id = 1", isolation="none", dry_run=True), "isolation is 'none'"),
    ],
)
def test_dry_runs_refuse_what_the_verb_refuses(spark, tmp_path, dry, message):
    table = table_of(spark, tmp_path / "t", "id bigint NOT NULL, v bigint, p int", ROWS)
    with refused(table, InvalidOperationError, message):
        dry(table, lambda rows: spark.createDataFrame(rows, DDL))


def test_what_a_dry_run_shows_of_itself(copied):
    found = copied().delete("v = 3 OR p = 1", dry_run=True)
    assert repr(found) == (
        "<dry run: DELETE of version 2 would change 4 files (1 removed, 2 new vectors, 1 vectors grown, "
        "0 rewritten); numDeletedRows=14, numCopiedRows=0; nothing was changed>"
    )


def test_a_merge_that_is_not_executed_says_so(spark, copied):
    table = copied()
    merge = merging(table, frame_of(spark, DDL, NEW))
    assert repr(merge) == (
        "<merge, not executed: call .execute() (when matched delete, when matched update, "
        "when not matched insert)>"
    )


def test_what_a_notebook_shows(spark, tmp_path):
    table = made(spark, tmp_path / "a <b>")
    shown = table.delete("v = 3", dry_run=True)._repr_html_()
    assert "dry run: DELETE of version 2; nothing was changed" in shown
    assert "a &lt;b&gt;" in shown
    assert "<td>new-vector</td>" in shown
    assert "<th>numDeletedRows</th><td>6</td>" in table.delete("v = 3")._repr_html_()
