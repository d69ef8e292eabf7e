"""Files of which most rows go: written again above the table's share, else given a vector."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from pyspark.sql import functions

from delvec.errors import FormatError, InvalidOperationError
from delvec.row_delta import Verb
from delvec.spark import find_rows
from delvec.spark.target import Target
from lake import Lake
from rows import multiset
from scanning import collected, opened
from verbs import (
    CHANGES_ON,
    MAPPED,
    VECTORS_OFF,
    action_counts,
    actions,
    changes,
    frame_of,
    holds,
    read_alike_by_others,
    refused,
    table_of,
)

pytestmark = pytest.mark.spark

SHARE = "delvec.rewriteDeletedShare"
HALF = {SHARE: "0.5"}
DDL = "id bigint, v bigint, p int"
ROWS = [(i, i * 10, i // 10) for i in range(20)]
MOST_AND_FEW = "id % 10 < 6 AND p = 0 OR id = 15"  # 60 % of one file, 10 % of the other
GONE = {*range(6), 15}
BOTH_WAYS = {"added": 1, "removed": 1, "vectors": 1, "changes": 0}


def made(spark, tmp_path, properties=None, rows=ROWS):
    """Ids 0–9 in a file, 10–19 in another."""
    return table_of(spark, tmp_path / "t", DDL, rows, partition_by=["p"], properties=properties)


def rows_without(gone):
    return [row for row in ROWS if row[0] not in gone]


def lineage(spark, table):
    """The id and the version of each row, by its key."""
    target = Target.of(spark, table._table, Verb.UPDATE)
    frame = target.scan_located(target.plan(None)).select("id", *(f"`{name}`" for name in target.lineage))
    return {key: (row_id, version) for key, row_id, version in frame.collect()}


def test_off_by_default(spark, tmp_path):
    table = made(spark, tmp_path)
    result = table.delete("id < 9")
    assert action_counts(table) == {"added": 0, "removed": 0, "vectors": 1, "changes": 0}
    assert result.metrics["numCopiedRows"] == 0


@pytest.mark.parametrize("more", [{}, MAPPED], ids=["plain", "mapped"])
def test_one_file_is_written_again_and_another_gets_a_vector(spark, tmp_path, more):
    table = made(spark, tmp_path, HALF | more)
    result = table.delete(MOST_AND_FEW)
    assert action_counts(table) == BOTH_WAYS
    assert (result.metrics["numDeletedRows"], result.metrics["numCopiedRows"]) == (7, 4)
    assert result.metrics["numDeletionVectorsAdded"] == 1
    [add] = [a["add"] for a in actions(table) if "add" in a and not a["add"].get("deletionVector")]
    assert add["partitionValues"].popitem()[1] == "0"
    holds(table, rows_without(GONE))
    if not more:
        read_alike_by_others(table)


def test_the_share_must_be_exceeded(spark, tmp_path):
    table = made(spark, tmp_path, {SHARE: "0.6"})
    table.delete("id < 6")
    assert action_counts(table)["vectors"] == 1
    table.delete("id = 6")  # with the six of before, seven of ten
    assert action_counts(table) == {"added": 1, "removed": 1, "vectors": 0, "changes": 0}
    holds(table, rows_without(range(7)))
    table.delete("id = 7")  # one of the three that the new file has
    assert action_counts(table)["vectors"] == 1
    holds(table, rows_without(range(8)))
    read_alike_by_others(table)


def test_a_file_left_empty_is_removed_beside_one_written_again(spark, tmp_path):
    table = made(spark, tmp_path, HALF)
    result = table.delete("v < 60 OR id % 20 >= 10 AND v > 0")
    assert action_counts(table) == {"added": 1, "removed": 2, "vectors": 0, "changes": 0}
    assert (result.metrics["numDeletedRows"], result.metrics["numCopiedRows"]) == (16, 4)
    holds(table, rows_without([*range(6), *range(10, 20)]))


def test_the_share_means_nothing_where_there_are_no_vectors(spark, tmp_path):
    table = made(spark, tmp_path, HALF | VECTORS_OFF)
    assert table.delete(MOST_AND_FEW).metrics["numCopiedRows"] == 4 + 9
    assert action_counts(table) == {"added": 2, "removed": 2, "vectors": 0, "changes": 0}
    holds(table, rows_without(GONE))


def test_a_file_whose_number_of_rows_is_not_recorded_gets_a_vector(spark, tmp_path):
    lake = Lake(tmp_path / "t", pa.schema([("id", pa.int64())]), stats=False)
    lake.write([{"id": i} for i in range(10)])
    lake.commit()
    table = opened(spark, lake)
    table.set_properties(HALF)
    table.delete("id < 9")
    assert action_counts(table) == {"added": 0, "removed": 0, "vectors": 1, "changes": 0}
    holds(table, [(9,)])


def test_update(spark, tmp_path):
    table = made(spark, tmp_path, HALF)
    result = table.update({"v": "-v"}, MOST_AND_FEW)
    assert (result.metrics["numUpdatedRows"], result.metrics["numCopiedRows"]) == (7, 4)
    assert action_counts(table)["removed"] == 1
    assert action_counts(table)["vectors"] == 1
    holds(table, [(i, -v if i in GONE else v, p) for i, v, p in ROWS])
    read_alike_by_others(table)


def merged(spark, table):
    """Rows 0–2 go, 3–5 and 15 change, 100 is new."""
    news = frame_of(spark, DDL, [(i, None if i < 3 else -i, i // 10) for i in [*sorted(GONE), 100]])
    return (
        table.merge(news, "target.id = source.id")
        .when_matched_delete("source.v IS NULL")
        .when_matched_update({"v": "source.v"})
        .when_not_matched_insert_all()
        .execute()
    )


MERGED = [(i, -i if i in GONE else v, p) for i, v, p in ROWS if i > 2] + [(100, -100, 10)]


def test_merge(spark, tmp_path):
    table = made(spark, tmp_path, HALF)
    metrics = merged(spark, table).metrics
    names = ("Updated", "Deleted", "Inserted", "Copied")
    assert [metrics[f"numTargetRows{name}"] for name in names] == [4, 3, 1, 4]
    assert action_counts(table)["removed"] == 1
    assert action_counts(table)["vectors"] == 1
    holds(table, MERGED)
    read_alike_by_others(table)


def test_overwrite_of_a_condition(spark, tmp_path):
    table = made(spark, tmp_path, HALF)
    metrics = table.overwrite(frame_of(spark, DDL, [(5, 5, 0)]), where=MOST_AND_FEW).metrics
    assert (metrics["numOutputRows"], metrics["numDeletedRows"], metrics["numCopiedRows"]) == (1, 7, 4)
    holds(table, [*rows_without(GONE), (5, 5, 0)])
    read_alike_by_others(table)


def test_change_files_tell_what_changed_and_no_copied_row(spark, tmp_path):
    """Files with a vector and whole files too: readers look at nothing else where there are change files."""
    table = made(spark, tmp_path, HALF | CHANGES_ON, [*ROWS, (20, 200, 2)])
    table.delete(f"{MOST_AND_FEW} OR p = 2")
    assert action_counts(table) | {"changes": 0} == BOTH_WAYS | {"removed": 2}
    told = {("delete", i, v, str(p)): 1 for i, v, p in ROWS if i in GONE}
    assert changes(table) == told | {("delete", 20, 200, "2"): 1}
    table.delete("id = 16")
    assert action_counts(table) == {"added": 0, "removed": 0, "vectors": 1, "changes": 0}


def test_change_files_of_the_other_verbs(spark, tmp_path):
    table = made(spark, tmp_path, HALF | CHANGES_ON)
    table.update({"v": "v + 1"}, MOST_AND_FEW)
    kinds = (("update_preimage", 0), ("update_postimage", 1))
    expected = {(kind, i, v + more, str(p)): 1 for i, v, p in ROWS if i in GONE for kind, more in kinds}
    assert changes(table) == expected
    assert action_counts(table)["removed"] == 1

    table.overwrite(frame_of(spark, DDL, [(6, 1, 0)]), where="id BETWEEN 6 AND 8 OR id = 11")
    assert action_counts(table)["removed"] == 1  # three of the four that were copied
    told = {("delete", i, v, str(p)): 1 for i, v, p in ROWS if i in (6, 7, 8, 11)}
    assert changes(table) == told | {("insert", 6, 1, "0"): 1}


def test_change_files_of_a_merge(spark, tmp_path):
    table = made(spark, tmp_path, HALF | CHANGES_ON)
    merged(spark, table)
    assert action_counts(table)["removed"] == 1
    told = {("delete", i, i * 10, "0"): 1 for i in range(3)} | {("insert", 100, -100, "10"): 1}
    for i in (3, 4, 5, 15):
        told["update_preimage", i, i * 10, str(i // 10)] = 1
        told["update_postimage", i, -i, str(i // 10)] = 1
    assert changes(table) == told


def test_rows_keep_their_ids(spark, tmp_path):
    table = made(spark, tmp_path, HALF | {"delta.enableRowTracking": "true"})
    before = lineage(spark, table)
    assert sorted(row_id for row_id, _ in before.values()) == list(range(20))
    table.delete(MOST_AND_FEW)
    assert action_counts(table) == BOTH_WAYS
    expected = {key: of for key, of in before.items() if key not in GONE}
    assert lineage(spark, table) == expected
    version = table.update({"v": "0"}, "id IN (6, 7, 8, 16)").version
    assert action_counts(table)["removed"] == 1  # the file written before, once more
    expected |= {key: (expected[key][0], version) for key in (6, 7, 8, 16)}
    assert lineage(spark, table) == expected
    assert [a["commitInfo"]["tags"] for a in actions(table) if "commitInfo" in a] == [
        {"delta.rowTracking.preserved": "true"}
    ]


def test_vectors_stored_by_executors(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(find_rows, "FEW_ROWS", 0)
    monkeypatch.setattr(find_rows, "DRIVER_BYTES", 0)
    table = made(spark, tmp_path, HALF)
    table.delete("id IN (0, 1)")
    result = table.delete(MOST_AND_FEW)
    assert action_counts(table) == BOTH_WAYS
    assert (result.metrics["numDeletedRows"], result.metrics["numCopiedRows"]) == (5, 4)
    holds(table, rows_without(GONE))
    read_alike_by_others(table)


def test_any_share_leaves_the_same_rows(spark, tmp_path):
    """What a verb does to rows does not depend on how files lose them."""
    found = []
    for number, share in enumerate((None, "0.01", "0.3")):
        properties = {} if share is None else {SHARE: share}
        table = table_of(spark, tmp_path / str(number), DDL, ROWS, partition_by=["p"], properties=properties)
        table.delete("id % 7 = 3")
        table.update({"v": "v + 1", "p": "1 - p"}, "id % 3 = 1")
        merged(spark, table)
        table.delete("v % 4 = 1")
        found.append(multiset(collected(table.to_df())))
    assert found == [found[0]] * 3


def test_values_that_are_refused(spark, tmp_path):
    table = made(spark, tmp_path)
    for value in ("0", "1", "80%", "-0.5", "nan", ""):
        with refused(
            table, InvalidOperationError, f"property {SHARE} is '{value}', expected a number above 0"
        ):
            table.set_properties({SHARE: value})
    with pytest.raises(InvalidOperationError, match=f"property {SHARE} is 'most'"):
        table_of(spark, tmp_path / "other", DDL, properties={SHARE: "most"})
    assert not (tmp_path / "other").exists()


def test_a_wrong_value_that_another_writer_set_is_refused(spark, tmp_path):
    from delvec.table import Table

    table = made(spark, tmp_path, {"delvec.note": "0.5"})
    for log in (tmp_path / "t/_delta_log").glob("*.json"):
        log.write_text(log.read_text().replace("delvec.note", SHARE).replace('"0.5"', '"half"'))
    table = Table.open(spark, table.location)
    with refused(table, FormatError, f"property {SHARE} is 'half', expected a number above 0 and below 1"):
        table.delete(MOST_AND_FEW)


@pytest.mark.parametrize("properties", [HALF, VECTORS_OFF], ids=["share", "no vectors"])
def test_new_rows_are_computed_once_for_files_and_change_files(spark, tmp_path, properties):
    table = table_of(
        spark,
        tmp_path / "t",
        "id bigint, u string",
        [(i, str(i)) for i in range(10)],
        properties=properties | CHANGES_ON,
    )
    unique = functions.udf(lambda _: uuid.uuid4().hex, "string").asNondeterministic()
    table.overwrite(spark.range(3).select("id", unique("id").alias("u")), where="id < 6")
    told = {change[1:] for change in changes(table) if change[0] == "insert"}
    assert told == {tuple(row) for row in table.to_df().where("id < 6").collect()}
