"""Scans in a process of their own: classic and Connect cannot share one, nor can sessions of other settings.

    python scan_process.py <request> <answer>

The request is JSON: ``remote``, whether the session is a Connect one; ``settings`` of the session; ``scans``,
a list of ``{"table", "version", "where", "columns", "later", "conf", "distributed", "joined", "connector",
"options"}``, all but the first of which may be absent. Where a scan has ``verbs``, a list of
``[name, {…}]``, these change the table before; ``rows`` there is a query. The answer has for each the rows'
count by their text, the schema and the files that Spark opens, or the error. ``answers`` runs it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

Scan = dict[str, Any]
_SECONDS = 280


@contextmanager
def alone() -> Iterator[None]:
    """No other test's process is inside: those that start a local Connect server all want the one port."""
    with (Path(tempfile.gettempdir()) / "delvec-tests-connect.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def answers(
    folder: Path, scans: Mapping[str, Scan], *, remote: bool, settings: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """What each scan gives, by its name; skips the test where there can be no such session."""
    import pytest

    if shutil.which("java") is None:
        pytest.skip("Java is absent: Spark needs it")
    if remote:
        pytest.importorskip("grpc", reason="grpcio is absent: Spark Connect needs it")
    folder.mkdir(parents=True, exist_ok=True)
    request, answer = folder / "request.json", folder / "answer.json"
    asked = {"remote": remote, "settings": dict(settings or {}), "scans": list(scans.values())}
    request.write_text(json.dumps(asked))
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
    for name in [name for name in environment if name == "SPARK_REMOTE" or name.startswith("AWS_")]:
        del environment[name]
    environment["AWS_METADATA_ENDPOINT"] = "http://127.0.0.1:9"  # credentials are given, or there are none
    with alone() if remote else nullcontext():
        done = subprocess.run(
            [sys.executable, __file__, str(request), str(answer)],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode and "Unable to bind" in done.stderr:
        pytest.skip("a Spark Connect server cannot be started here")
    assert done.returncode == 0, done.stderr[-5000:]
    return dict(zip(scans, json.loads(answer.read_text()), strict=True))


def answer_to(spark: Any, asked: Scan) -> dict[str, Any]:
    from delvec.spark import equality_join, scan, vector_words
    from rows import multiset
    from scanning import collected

    for name, value in asked.get("conf", {}).items():
        spark.conf.set(name, value)
    before = settings_of(spark)
    usual = scan.DRIVER_CHUNK_BYTES, vector_words.MOST_BYTES, equality_join.DRIVER_ROWS
    if asked.get("distributed"):
        scan.DRIVER_CHUNK_BYTES, equality_join.DRIVER_ROWS = 0, -1
    if asked.get("joined"):
        vector_words.MOST_BYTES = -1
    try:
        for verb, given in asked.get("verbs", []):
            changed(spark, asked["table"], verb, dict(given))
        frame = connected(spark, asked) if asked.get("connector") else scanned(spark, asked)
        if later := asked.get("later"):
            frame = frame.where(later)
        return {
            "rows": multiset(collected(frame)),
            "schema": frame.schema.simpleString(),
            "files": list(frame.inputFiles()),
        }
    except Exception as error:  # Spark's or ours: the test says which it expects
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        scan.DRIVER_CHUNK_BYTES, vector_words.MOST_BYTES, equality_join.DRIVER_ROWS = usual
        assert settings_of(spark) == before, "the session is not as it was"
        for name in asked.get("conf", {}):
            spark.conf.unset(name)


def changed(spark: Any, place: str, verb: str, given: dict[str, Any]) -> None:
    from delvec.table import Table

    rows = spark.sql(given.pop("rows")) if "rows" in given else None
    if verb == "create":
        Table.create(spark, place, rows, **given)
    else:
        table = Table.open(spark, place)
        found = None if verb == "append" else _run(table, verb, rows, given, {"dry_run": True})
        result = _run(table, verb, rows, given, {})
        if found is not None:  # a dry run counts what the verb then counts
            counts = {name: result.metrics.get(name, 0) for name in found.metrics}
            assert dict(found.metrics) == counts, f"{found} {counts}"


def _run(table: Any, verb: str, rows: Any, given: dict[str, Any], options: dict[str, Any]) -> Any:
    if verb == "merge":
        merging = table.merge(rows, **given).when_matched_update_all().when_not_matched_insert_all()
        return merging.when_not_matched_by_source_delete("target.id = 7").execute(**options)
    return getattr(table, verb)(*([] if rows is None else [rows]), **given, **options)


def scanned(spark: Any, asked: Scan) -> Any:
    """By the native scan."""
    from delvec.table import Table

    table = Table.open(spark, asked["table"], storage_options=asked.get("options"))
    chosen = {name: asked[name] for name in ("version", "where", "columns") if name in asked}
    return table.to_df(**chosen)


def connected(spark: Any, asked: Scan) -> Any:
    """By the connector, which has no ``where`` of its own."""
    reader = spark.read.format("delvec").options(**asked.get("options", {}))
    if "version" in asked:
        reader = reader.option("version", asked["version"])
    if "columns" in asked:
        reader = reader.option("columns", ", ".join(f"`{name}`" for name in asked["columns"]))
    frame = reader.load(asked["table"])
    return frame.where(asked["where"]) if "where" in asked else frame


def settings_of(spark: Any) -> dict[str, str]:
    found = spark.conf.getAll
    return dict(found() if callable(found) else found)


def session(asked: Mapping[str, Any]) -> Any:
    from pyspark.sql import SparkSession

    start = SparkSession.builder
    builder = start.remote("local[2]") if asked["remote"] else start.master("local[2]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in (settings | asked["settings"]).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    request, target = map(Path, sys.argv[1:])
    asked = json.loads(request.read_text())
    spark = session(asked)
    target.write_text(json.dumps([answer_to(spark, each) for each in asked["scans"]]))
    spark.stop()


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
