"""``Table.drop_deletion_vectors`` and ALTER TABLE … DROP FEATURE: the rows stay, the vectors go."""

from __future__ import annotations

import pytest

from contract.kinds import ANY_COLUMN_NAMES, CHANGE_FILES, ROW_IDS
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.formats import VectorsDroppable
from scanning import collected
from verbs import holds, rows_of

pytestmark = pytest.mark.spark

DDL = "id bigint, name string, p int"
ROWS = [(n, f"n{n}", n % 2) for n in range(12)]


def has_vectors(table, version=None):
    plan = table._table.snapshot(version).plan()
    return plan.files.column("vector").null_count != len(plan.files)


@pytest.mark.core
def test_vectors_are_dropped_and_come_back(kind, spark, tmp_path):
    table = kind.table(spark, tmp_path / "a t", DDL, ROWS, partition_by=["p"])
    if not isinstance(table._table, VectorsDroppable):
        with pytest.raises(UnsupportedFeatureError, match="dropping deletion vectors is not implemented for"):
            table.drop_deletion_vectors()
        return
    table.delete("id IN (1, 2)")
    table.update({"name": "'moved'"}, "id = 3")
    rows, before = rows_of(table), table.version
    result = table.drop_deletion_vectors()
    assert result.version == table.version
    assert not has_vectors(table)
    assert rows_of(table) == rows
    assert sorted(map(tuple, table.to_df(before - 1).collect())) == sorted(ROWS[:1] + ROWS[3:])
    table.delete("id = 5")
    assert not has_vectors(table), "deletes rewrite files now"
    kind.is_read_by_others(table)
    table.set_properties(kind.switch_vectors(on=True))
    table.delete("id = 7")
    assert has_vectors(table)
    assert rows_of(table) == [row for row in rows if row[0] not in {5, 7}]
    kind.is_read_by_others(table)


@pytest.mark.numbered
def test_through_sql(kind, spark, tmp_path):
    from delvec import sql

    table = kind.table(spark, tmp_path / "t", DDL, ROWS, having=[ROW_IDS, CHANGE_FILES, ANY_COLUMN_NAMES])
    table.delete("id < 3")
    name = f"delvec.`{table.location}`"
    for text in ("DROP FEATURE", "DROP FEATURE deletionVectors TRUNCATE", "DROP FEATURE deletionVectors now"):
        with pytest.raises(InvalidOperationError):
            sql(spark, f"ALTER TABLE {name} {text}")
    with pytest.raises(
        UnsupportedFeatureError, match="feature columnMapping cannot be dropped, expected del"
    ):
        sql(spark, f"ALTER TABLE {name} DROP FEATURE columnMapping")
    assert table.version == 2
    with pytest.raises(InvalidOperationError, match="run this again after"):
        sql(spark, f"ALTER TABLE {name} DROP FEATURE deletionVectors TRUNCATE HISTORY")
    assert not has_vectors(table)
    assert collected(sql(spark, f"ALTER TABLE {name} DROP FEATURE deletionVectors")) == []
    holds(table, ROWS[3:])
    last = table.version
    sql(spark, f"ALTER TABLE {name} DROP FEATURE deletionVectors")
    assert table.version == last, "there is nothing left to drop"
    table.restore(2)
    holds(table, ROWS[3:])
    assert has_vectors(table)
