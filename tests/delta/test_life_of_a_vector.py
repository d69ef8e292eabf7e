"""The life and death of a vector, step by step, as Delta's design tells it: what the log has at each step."""

from __future__ import annotations

import pytest

from verbs import action_counts, actions, rows_of

pytestmark = pytest.mark.spark


def entries(table, version=None):
    """The file actions of a commit: the kind, the path, and the number of rows that its vector deletes."""
    return {
        (kind, body["path"], (body.get("deletionVector") or {}).get("cardinality"))
        for action in actions(table, version)
        for kind, body in action.items()
        if kind in ("add", "remove")
    }


def vector_of(table, kind, path):
    (body,) = (action[kind] for action in actions(table) if kind in action and action[kind]["path"] == path)
    vector = body.get("deletionVector")
    return None if vector is None else (vector["storageType"], vector["pathOrInlineDv"], vector.get("offset"))


def live(table):
    paths = table._table.snapshot().adds.column("path").to_pylist()
    vectors = table._table.snapshot().adds.column("dv_cardinality").to_pylist()
    return dict(zip(paths, vectors, strict=True))


def test_the_life_of_a_vector(spark, tmp_path):
    from delvec.table import Table

    table = Table.create(spark, str(tmp_path / "t"), "id bigint, v bigint")
    for first in (0, 1000):
        table.append(spark.range(first, first + 1000, 1, 1).selectExpr("id", "0L AS v"))
    file_a, file_b = (
        next(action["add"]["path"] for action in actions(table, version) if "add" in action)
        for version in (1, 2)
    )

    # Step 1: an UPDATE of the rows 24 and 42 of file a makes its first vector, and a file for the new rows.
    table.update({"v": "1"}, "id IN (24, 42)")
    (file_c,) = live(table).keys() - {file_a, file_b}
    assert entries(table) == {("remove", file_a, None), ("add", file_a, 2), ("add", file_c, None)}
    assert live(table) == {file_a: 2, file_b: None, file_c: None}
    first_vector = vector_of(table, "add", file_a)
    (added,) = (a["add"] for a in actions(table) if "add" in a and a["add"]["path"] == file_a)
    assert '"numRecords":1000' in added["stats"]
    assert '"tightBounds":false' in added["stats"]

    # Step 2: a read leaves the two rows of file a out, and reads the others as they are.
    rows = dict(rows_of(table))
    assert len(rows) == 2000
    assert {key for key, value in rows.items() if value} == {24, 42}

    # Step 3: a DELETE of the rows 300 to 800 of file a unites them with those of the first vector.
    table.delete("id BETWEEN 300 AND 800")
    assert entries(table) == {("remove", file_a, 2), ("add", file_a, 503)}
    assert vector_of(table, "remove", file_a) == first_vector
    second_vector = vector_of(table, "add", file_a)
    assert second_vector != first_vector
    assert live(table) == {file_a: 503, file_b: None, file_c: None}
    assert len(rows_of(table)) == 1499

    # Step 4: half of file a is deleted, so a compaction rewrites it, whatever its size.
    before = rows_of(table)
    result = table.optimize(target_file_size=1)
    (file_d,) = live(table).keys() - {file_a, file_b, file_c}
    assert entries(table) == {("remove", file_a, 503), ("add", file_d, None)}
    assert vector_of(table, "remove", file_a) == second_vector
    assert live(table) == {file_b: None, file_c: None, file_d: None}
    assert rows_of(table) == before
    bodies = [body for action in actions(table) for kind, body in action.items() if kind in ("add", "remove")]
    assert {body["dataChange"] for body in bodies} == {False}
    assert action_counts(table) == {"added": 1, "removed": 1, "vectors": 0, "changes": 0}
    (info,) = (action["commitInfo"] for action in actions(table) if "commitInfo" in action)
    assert (info["operation"], info["isolationLevel"]) == ("OPTIMIZE", "SnapshotIsolation")
    assert info["operationParameters"] == {
        "predicate": "[]",
        "zOrderBy": "[]",
        "clusterBy": "[]",
        "auto": False,
    }
    size = str(result.added.total)
    expected = dict.fromkeys(
        ("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize", "numAddedBytes"), size
    )
    expected |= {"numAddedFiles": "1", "numRemovedFiles": "1", "numDeletionVectorsRemoved": "1"}
    expected["numRemovedBytes"] = str(result.removed.total)
    assert info["operationMetrics"] == expected

    # The tombstones keep each of the three states of file a apart.
    tombstones = table._table.snapshot().tombstones().select(["path", "dv_cardinality"]).to_pylist()
    found = [tombstone["dv_cardinality"] for tombstone in tombstones if tombstone["path"] == file_a]
    assert sorted(found, key=lambda count: count or 0) == [None, 2, 503]
    assert rows_at(table, 3) == 2000
    assert rows_at(table, 4) == 1499


def rows_at(table, version):
    return table.to_df(version=version).count()


def test_purge_in_the_log(spark, tmp_path):
    from delvec.table import Table

    rows = spark.range(0, 10, 1, 2).selectExpr("id", "CAST(id % 2 AS INT) AS p")
    table = Table.create(spark, str(tmp_path / "t"), rows, partition_by=["p"])
    table.delete("id = 3")
    table.purge("p = 1")
    (info,) = (action["commitInfo"] for action in actions(table) if "commitInfo" in action)
    assert (info["operation"], info["operationParameters"]) == (
        "REORG",
        {"predicate": '["p = 1"]', "applyPurge": True},
    )
    assert action_counts(table) == {"added": 1, "removed": 1, "vectors": 0, "changes": 0}


def test_a_clustered_table_is_compacted_without_clustering(spark, tmp_path):
    import json
    from pathlib import Path

    from delvec.errors import InvalidOperationError
    from delvec.table import Table

    table = Table.create(spark, str(tmp_path / "t"), spark.range(0, 40, 1, 4).selectExpr("id", "id AS v"))
    log = Path(table.location) / "_delta_log"
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["clustering", "deletionVectors", "domainMetadata"],
    }
    domain = {
        "domain": "delta.clustering",
        "configuration": '{"clusteringColumns":[["v"]]}',
        "removed": False,
    }
    lines = [{"commitInfo": {"operation": "CLUSTER BY"}}, {"protocol": protocol}, {"domainMetadata": domain}]
    (log / f"{1:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InvalidOperationError, match="expected none: the table is clustered by v"):
        table.optimize(zorder_by="id")
    with pytest.warns(UserWarning, match="compacted without clustering: delvec does not cluster rows by v"):
        result = table.optimize()
    assert (result.clustered_by, result.removed.count, result.added.count) == (("v",), 4, 1)
    (added,) = (action["add"] for action in actions(table) if "add" in action)
    assert "clusteringProvider" not in added


def test_a_column_without_statistics_is_refused(spark, tmp_path):
    from delvec.errors import InvalidOperationError
    from delvec.table import Table

    rows, properties = (
        spark.range(0, 40, 1, 4).selectExpr("id", "id AS v"),
        {"delta.dataSkippingNumIndexedCols": "1"},
    )
    table = Table.create(spark, str(tmp_path / "t"), rows, properties=properties)
    with pytest.raises(
        InvalidOperationError, match="zorder_by names column 'v', expected one that has statistics"
    ):
        table.optimize(zorder_by=["id", "v"])


def test_a_table_with_an_identity_column_is_compacted(spark, tmp_path):
    """No value is made, so nothing is needed of the column."""
    import json
    from pathlib import Path

    from delvec.errors import UnsupportedFeatureError
    from delvec.table import Table

    table = Table.create(spark, str(tmp_path / "t"), spark.range(0, 40, 1, 4).selectExpr("id", "id AS v"))
    (metadata,) = (action["metaData"] for action in actions(table, 0) if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"] = {
        "delta.identity.start": 0,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": False,
        "delta.identity.highWaterMark": 39,
    }
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "identityColumns"],
    }
    lines = [{"protocol": protocol}, {"metaData": metadata | {"schemaString": json.dumps(schema)}}]
    log = Path(table.location) / "_delta_log"
    (log / f"{1:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(UnsupportedFeatureError, match="identity column"):
        table.append([(40, 40)])
    table.delete("id < 20")
    assert table.optimize().added.count == 1
    assert [row[0] for row in sorted(rows_of(table))] == [*range(20, 40)]
