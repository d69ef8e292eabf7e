"""A statement asks the format for its rules once, whatever it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from delvec.delta.snapshot import Snapshot
from delvec.row_delta import Verb
from verbs import table_of

pytestmark = pytest.mark.spark

DDL = "id bigint, v int"
ROWS = [(i, i) for i in range(4)]
STATEMENTS: dict[Verb, Callable[[Any, Any], Any]] = {
    Verb.APPEND: lambda table, rows: table.append(rows.selectExpr("*", "1 AS late"), merge_schema=True),
    Verb.DELETE: lambda table, _: table.delete("id = 1"),
    Verb.UPDATE: lambda table, _: table.update({"v": "0"}, "id = 1"),
    Verb.MERGE: lambda table, rows: (
        table.merge(rows, "target.id = source.id").when_matched_delete().execute()
    ),
    Verb.REPLACE: lambda table, rows: table.overwrite(rows),
    Verb.ALTER: lambda table, _: table.add_columns("late int"),
}


@pytest.mark.parametrize("verb", STATEMENTS)
def test_rules_are_asked_for_once(spark: Any, tmp_path: Any, monkeypatch: Any, verb: Verb) -> None:
    table = table_of(spark, tmp_path / "t", DDL, ROWS)
    rows, asked = spark.createDataFrame(ROWS[:1], DDL), []
    rules = Snapshot.rules

    def counted(self: Snapshot, kind: Verb, *change: Any) -> Any:
        asked.append(kind)
        return rules(self, kind, *change)

    monkeypatch.setattr(Snapshot, "rules", counted)
    STATEMENTS[verb](table, rows)
    assert asked == [verb]
