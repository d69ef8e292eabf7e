"""What the verbs leave in the log, beside what the fixed history shows."""

from __future__ import annotations

import pytest

from verbs import actions, frame_of, table_of

pytestmark = pytest.mark.spark


def test_vectors_are_on_by_default(spark, tmp_path):
    table = table_of(spark, tmp_path / "t", "id int", properties={"mine": "1"})
    assert table.properties == {"delta.enableDeletionVectors": "true", "mine": "1"}


def test_an_idempotent_writer_is_recorded(spark, tmp_path):
    table = table_of(spark, tmp_path / "t", "id int", [(1,)])
    table.append(frame_of(spark, "id int", [(2,)]), app_id="job", app_version=4)
    (txn,) = [action["txn"] for action in actions(table) if "txn" in action]
    assert (txn["appId"], txn["version"]) == ("job", 4)


def test_statistics_of_times_are_in_utc_whatever_the_sessions_zone(spark, tmp_path, conf):
    conf("spark.sql.session.timeZone", "America/New_York")
    conf("spark.sql.parquet.outputTimestampType", "INT96")
    table = table_of(spark, tmp_path / "t", "id int, at timestamp")
    table.append(spark.sql("SELECT 1 AS id, TIMESTAMP'2024-07-01 12:00:00' AS at"))
    assert "2024-07-01T16:00:00" in actions(table)[-1]["add"]["stats"]


def test_detail_has_the_protocol(spark, tmp_path):
    from delvec import sql

    table_of(spark, tmp_path / "t", "id int")
    (detail,) = sql(spark, f"DESCRIBE DETAIL delta.`{tmp_path / 't'}`").collect()
    assert (detail["minReaderVersion"], detail["minWriterVersion"]) == (3, 7)
    assert "deletionVectors" in detail["tableFeatures"]
