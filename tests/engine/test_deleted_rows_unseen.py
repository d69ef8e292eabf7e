"""A condition that can raise an error never sees a deleted row; any other is asked before vectors are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from executed_plans import executed
from lake import Lake
from scanning import opened, same
from verbs import frame_of, holds

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("applied")]

SCHEMA = pa.schema([("id", pa.int64()), ("d", pa.int32()), ("s", pa.string())])
LIVE = [(1, 1, "1"), (2, 2, "2"), (4, 4, "4"), (5, 5, "5")]
DIVIDES, CASTS = "10 / d > 4", "CAST(s AS INT) < 3"


@pytest.fixture
def table(spark, tmp_path):
    """Two files. Rows 0 and 3 of the first are deleted: by their values a condition would fail."""
    lake = Lake(tmp_path / "t", SCHEMA)
    bad = [(0, 0, "none"), (3, 0, "none")]
    lake.write([dict(zip(SCHEMA.names, row, strict=True)) for row in sorted(bad + LIVE[:3])], deleted=[0, 3])
    lake.write([dict(zip(SCHEMA.names, row, strict=True)) for row in LIVE[3:]])
    lake.commit()
    return opened(spark, lake)


@pytest.mark.parametrize("condition", [DIVIDES, CASTS])
def test_a_condition_that_fails_for_deleted_rows_only(table, condition):
    assert table.delete(condition).metrics["numDeletedRows"] == 2
    holds(table, LIVE[2:])


@pytest.mark.parametrize("condition", [DIVIDES, CASTS])
def test_an_update_by_it(table, condition):
    table.update({"s": "'new'"}, condition)
    holds(table, [(1, 1, "new"), (2, 2, "new"), *LIVE[2:]])


@pytest.mark.parametrize("on", [f"target.id = source.id AND {DIVIDES}", "CAST(target.s AS INT) = source.id"])
def test_a_merge_by_it(spark, table, on):
    source = frame_of(spark, "id bigint", [(1,), (3,)])
    table.merge(source, on).when_matched_delete().execute()
    holds(table, LIVE[1:])


def test_clauses_do_not_see_deleted_rows_either(spark, table):
    source = frame_of(spark, "id bigint", [(1,), (2,), (3,)])
    merge = table.merge(source, "target.id = source.id")
    merge.when_matched_update({"s": "CAST(10 DIV target.d AS STRING)"}, DIVIDES).execute()
    holds(table, [(1, 1, "10"), (2, 2, "5"), *LIVE[2:]])


def test_one_that_sees_a_failing_live_row_fails(table):
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        table.delete("10 / (d - 4) > 0")
    holds(table, LIVE)


def test_plain_conditions_never_find_deleted_rows(spark, table):
    assert table.delete("d = 0 OR s IS NULL").metrics["numDeletedRows"] == 0
    assert table.update({"s": "'new'"}, "NOT d > 0").metrics["numUpdatedRows"] == 0
    source = frame_of(spark, "id bigint, d int, s string", [(3, 30, "new"), (4, 40, "new")])
    merge = table.merge(source, "target.id = source.id").when_matched_update_all()
    result = merge.when_not_matched_insert_all().execute()
    assert result.metrics["numTargetRowsUpdated"] == result.metrics["numTargetRowsInserted"] == 1
    holds(table, [*LIVE[:2], (3, 30, "new"), (4, 40, "new"), LIVE[3]])


def test_a_plain_condition_is_asked_first(spark, table, applied):
    with executed(spark) as found:
        table.delete("id = 2 AND d IN (2, 3)")
    (plan,) = found.plans
    if applied == "words":
        order = plan.index("(id#"), plan.index("Subquery subquery#")
        assert order == tuple(sorted(order)), "vectors are looked up before the condition"
    else:
        tree = plan.partition("== Initial Plan ==")[0]
        assert tree.index("LeftAnti") < tree.index("Filter"), "the condition is not below the join to vectors"


def test_a_plain_join_comes_first(spark, table, applied):
    source = frame_of(spark, "id bigint", [(1,), (3,)])
    with executed(spark) as found:
        table.merge(source, "target.id = source.id").when_matched_delete().execute()
    plan = found.plans[1].partition("== Initial Plan ==")[0]
    joins = [plan.index(f"BroadcastHashJoin {kind}") for kind in ("LeftAnti", "Inner") if kind in plan]
    if applied == "join":
        assert joins == sorted(joins), "vectors are joined before the source"
    else:
        conditions = [line for line in found.plans[1].splitlines() if line.startswith("Join condition: ")]
        assert any("ubquery" in line for line in conditions), conditions
    holds(table, LIVE[1:])


def test_reading_by_a_condition(table):
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in LIVE[:2]]
    same(table.to_df(where="id < 4"), rows)
