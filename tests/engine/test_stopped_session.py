"""A stopped session and a cancelled job: a clear error at once, and the table as it was."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from delvec import Table
from delvec.errors import DelvecError
from verbs import table_of

pytestmark = pytest.mark.spark

STOPPED = """
import sys
from pyspark.sql import SparkSession
from delvec import Table, sql
from delvec.errors import InvalidOperationError

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
table = Table.create(spark, sys.argv[1], "id long")
spark.stop()
calls = [
    lambda: Table.open(spark, sys.argv[1]), lambda: Table.create(spark, sys.argv[1] + "2", "id long"),
    table.to_df, table.files, table.history, table.delete, lambda: table.append([{"id": 1}]),
    lambda: table.update({"id": "1"}), lambda: sql(spark, f"SELECT * FROM delvec.`{sys.argv[1]}`"),
    lambda: table.merge([{"id": 1}], "target.id = source.id").when_matched_delete().execute(),
]
for call in calls:
    try:
        call()
    except InvalidOperationError as error:
        print(error)
"""


def test_every_call_tells_of_a_stopped_session(tmp_path):
    command = [sys.executable, "-c", STOPPED, str(tmp_path / "t")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    told = "the Spark session is stopped: open the table with a new session"
    assert found.stdout.splitlines() == [told] * 10


def test_a_cancelled_job_leaves_the_table_as_it_was(spark, tmp_path):
    table = table_of(spark, tmp_path / "t", "id bigint", [(1,), (2,)])
    endless = spark.range(10**13).where("id < 0")
    version, before = table.version, files_below(tmp_path)

    def cancel():
        while not spark.sparkContext.statusTracker().getActiveJobsIds():
            time.sleep(0.05)
        spark.sparkContext.cancelAllJobs()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(DelvecError, match="the Spark job was cancelled: the table is as it was"):
        table.append(endless)
    canceller.join()
    assert (table.version, table.to_df().count()) == (version, 2)
    assert files_below(tmp_path) == before
    assert Table.open(spark, str(tmp_path / "t")).delete("id = 1").metrics["numDeletedRows"] == 1


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}
