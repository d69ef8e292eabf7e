"""A plan with a delete that delvec does not apply: no row is read and nothing is written."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from delvec.delta.snapshot import Snapshot
from delvec.errors import UnsupportedFeatureError
from lake import Lake
from scanning import opened

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64())])


@pytest.fixture
def table(spark, tmp_path, monkeypatch):
    """Two files, the first with a vector; a group of deletes of an unknown kind applies to the second."""
    lake = Lake(tmp_path / "t", SCHEMA)
    lake.write([{"id": i, "v": 0.0} for i in range(10)], deleted=[3])
    lake.write([{"id": i, "v": 0.0} for i in range(10, 20)])
    lake.commit()
    planned = Snapshot.plan

    def plan(self, *given, **named):
        found = planned(self, *given, **named)
        last = found.files.column("location").to_pylist()[-1]
        deletes = found.deletes.to_pylist()
        deletes.append({"kind": "bloom-file", "encoding": "full-row", "length": 1, "location": "/e"})
        groups = pa.array(
            [0 if place == last else None for place in found.files.column("location").to_pylist()]
        )
        at = found.files.schema.get_field_index("delete_group")
        return replace(
            found,
            files=found.files.set_column(at, "delete_group", groups.cast(pa.int32())),
            deletes=pa.Table.from_pylist(deletes, schema=found.deletes.schema),
            delete_groups=((len(deletes) - 1,),),
        )

    monkeypatch.setattr(Snapshot, "plan", plan)
    return opened(spark, lake)


VERBS = {
    "read": lambda _, table: table.to_df(),
    "delete": lambda _, table: table.delete("id % 2 = 0"),
    "delete by metadata alone": lambda _, table: table.delete("id >= 10"),
    "delete of all": lambda _, table: table.delete(),
    "update": lambda _, table: table.update({"v": "1.0"}, "id = 11"),
    "merge": lambda spark, table: (
        table.merge(spark.range(30), "target.id = source.id").when_matched_delete().execute()
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_is_refused_by_name(spark, table, verb):
    place = r"a group of deletes of the kind 'bloom-file' applies to .*\.parquet, expected 'position-file' or"
    with pytest.raises(UnsupportedFeatureError, match=place) as refused:
        VERBS[verb](spark, table)
    assert refused.value.feature == "bloom-file"
    assert table.version == 0
