"""MERGE: what Spark runs for it. The target is read once, whatever the source and the clauses."""

from __future__ import annotations

import pytest

from executed_plans import executed, times_read
from verbs import frame_of, holds, table_of

pytestmark = pytest.mark.spark

DDL = "id bigint, name string"
ON = "target.id = source.id"
NAMED = ("id", "concat('s', id) AS name")

SOURCES = {
    "range": lambda spark, _: spark.range(6, 10).selectExpr(*NAMED),
    "cached range": lambda spark, _: spark.range(6, 10).selectExpr(*NAMED).cache(),
    "repartition": lambda spark, _: spark.range(6, 10).selectExpr(*NAMED).repartition(3),
    "repartition by key": lambda spark, _: spark.range(6, 10).selectExpr(*NAMED).repartition(3, "id"),
    "dropDuplicates": lambda spark, _: spark.range(6, 10).selectExpr(*NAMED).dropDuplicates(["id"]),
    "orderBy": lambda spark, _: spark.range(6, 10).selectExpr(*NAMED).orderBy("name"),
    "sorted partitions": lambda spark, _: spark.range(6, 10).selectExpr(*NAMED).sortWithinPartitions("id"),
    "one partition": lambda spark, _: spark.range(6, 10, 1, 1).selectExpr(*NAMED),
    "no row": lambda spark, _: spark.range(0).selectExpr(*NAMED),
    "parquet": lambda spark, folder: written(spark, folder / "source"),
    "createDataFrame": lambda spark, _: frame_of(spark, DDL, [(i, f"s{i}") for i in range(6, 10)]),
}


def written(spark, place):
    spark.range(6, 10).selectExpr(*NAMED).write.parquet(str(place))
    return spark.read.parquet(str(place))


def rows(ids, prefix="n"):
    return [(i, f"{prefix}{i}") for i in ids]


@pytest.fixture
def table(spark, tmp_path):
    """Even ids up to 6 and odd ones up to 7 in a file each, the second with a vector, of row 3."""
    table = table_of(spark, tmp_path / "t", DDL, rows(range(0, 8, 2)))
    table.append(frame_of(spark, DDL, rows(range(1, 8, 2))))
    table.delete("id = 3")
    return table


KEPT = (0, 1, 2, 4, 5)  # live, and in no source


def upsert(merge):
    return merge.when_matched_update_all().when_not_matched_insert_all()


def by_source(merge):
    return upsert(merge).when_not_matched_by_source_delete("target.id = 0")


def matched_only(merge):
    return merge.when_matched_update_all()


def ran(spark, table, merge):
    """How often the table is read for the merge, and the jobs that it takes."""
    with executed(spark) as found:
        merge.execute()
    return times_read(found, table.location), found.jobs


@pytest.mark.parametrize("kind", SOURCES)
def test_upserts_read_the_target_once(spark, tmp_path, table, kind):
    source = SOURCES[kind](spark, tmp_path)
    times, jobs = ran(spark, table, upsert(table.merge(source, ON)))
    if kind == "no row":
        assert times == 0
        holds(table, rows((*KEPT, 6, 7)))
    else:
        assert times == 1
        assert jobs <= 8
        holds(table, rows(KEPT) + rows(range(6, 10), "s"))


@pytest.mark.parametrize(
    "kind",
    [
        "cached range",
        "createDataFrame",
        pytest.param("range", marks=pytest.mark.slow),
        pytest.param("orderBy", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("clauses", [by_source, matched_only])
def test_other_clauses_too(spark, tmp_path, table, kind, clauses):
    times, _ = ran(spark, table, clauses(table.merge(SOURCES[kind](spark, tmp_path), ON)))
    assert times == 1
    gone = {0} if clauses is by_source else set()
    new = range(6, 10) if clauses is by_source else (6, 7)
    holds(table, rows(i for i in KEPT if i not in gone) + rows(new, "s"))


def test_without_adaptive_execution(spark, tmp_path, table, conf):
    """Then Spark remembers how most sources are ordered and partitioned."""
    conf("spark.sql.adaptive.enabled", "false")
    source = SOURCES["orderBy"](spark, tmp_path)
    assert ran(spark, table, upsert(table.merge(source, ON)))[0] == 1
    holds(table, rows(KEPT) + rows(range(6, 10), "s"))


def test_a_small_merge_takes_few_jobs(spark, tmp_path, table):
    """The source, its broadcast, the rows found, the broadcast of those that matched, the files written."""
    source = SOURCES["createDataFrame"](spark, tmp_path)
    assert ran(spark, table, upsert(table.merge(source, ON))) == (1, 5)


def test_each_part_of_the_target_is_joined_by_itself(spark, tmp_path, table):
    """A union below the join would write all rows out."""
    source = SOURCES["createDataFrame"](spark, tmp_path)
    with executed(spark) as found:
        upsert(table.merge(source, ON)).execute()
    tree = found.plans[1].partition("\n\n")[0]
    assert tree.index("Union") < tree.index("BroadcastHashJoin")
    assert tree.count("BroadcastHashJoin Inner") == 2


def test_an_update_takes_two_jobs(spark, table):
    with executed(spark) as found:
        table.update({"name": "'new'"}, "id = 5")
    assert (times_read(found, table.location), found.jobs) == (1, 2)
