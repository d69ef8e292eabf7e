"""The command `delete` on tables that store keys instead of finding rows."""

from __future__ import annotations

import pytest

from delvec.table import Table
from verbs import rows_of

pytestmark = pytest.mark.spark

GATE = {"write.delete.equality-vector.enabled": "true"}


def test_keys_are_stored_and_not_counted(delvec, in_spark, spark, tmp_path):
    place = tmp_path / "t"
    Table.create(spark, str(place), spark.range(5).coalesce(1), format="iceberg", properties=GATE)
    delete = ("delete", place, "--where", "id IN (1, 3)")
    planned = delvec(*delete, "--dry-run", "--json").json
    assert (planned["keys"], planned["rows"], planned["total"]) == (2, None, 1)
    assert planned["outcomes"]["keys"] == 1
    text = " ".join(delvec(*delete, "--dry-run").out.split())
    assert "DELETE would store 2 keys; rows that have one are not counted; 1 file of version" in text
    metrics = delvec(*delete, "--yes", "--json").json["metrics"]
    assert (metrics["numDeletedRows"], metrics["numKeysInVectors"]) == (None, 2)
    assert rows_of(Table.open(spark, str(place))) == [(0,), (2,), (4,)]
    assert "numDeletedRows unknown" in " ".join(
        delvec("delete", place, "--where", "id = 2", "--yes").out.split()
    )
