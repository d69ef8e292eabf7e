"""A scan over Spark Connect, in a process of its own: classic and Connect cannot share one.

    python connect_scan.py <request> <answer>

The request is JSON, a list of ``{"table", "version", "where", "columns", "conf", "distributed"}``; the answer
has for each the rows' count by their text, or the error.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any


def answer(spark: Any, asked: dict[str, Any]) -> dict[str, Any]:
    from delvec.errors import DelvecError
    from delvec.spark import scan
    from delvec.table import Table
    from rows import multiset
    from scanning import collected

    for name, value in asked.get("conf", {}).items():
        spark.conf.set(name, value)
    before = settings(spark)
    usual, scan.DRIVER_CHUNK_BYTES = scan.DRIVER_CHUNK_BYTES, 0 if asked.get("distributed") else 64 << 20
    try:
        table = Table.open(spark, asked["table"])
        chosen = {name: asked[name] for name in ("version", "where", "columns") if name in asked}
        frame = table.to_df(**chosen)
        if later := asked.get("later"):
            frame = frame.where(later)
        return {"rows": multiset(collected(frame)), "schema": frame.schema.simpleString()}
    except DelvecError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        scan.DRIVER_CHUNK_BYTES = usual
        assert settings(spark) == before, "the session is not as it was"
        for name in asked.get("conf", {}):
            spark.conf.unset(name)


def settings(spark: Any) -> dict[str, str]:
    found = spark.conf.getAll
    return dict(found() if callable(found) else found)


def main() -> None:
    from pyspark.sql import SparkSession

    request, target = map(Path, sys.argv[1:])
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    asked = json.loads(request.read_text())
    target.write_text(json.dumps([answer(spark, each) for each in asked]))
    spark.stop()


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
