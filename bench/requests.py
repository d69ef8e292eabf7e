"""What verbs ask of an object store: requests, files and bytes, beside the same verbs by rewriting files.

An S3 server on loopback tells each request; Spark reaches it by Hadoop's ``s3a``, delvec by its own storage.
Both tables are delvec's and have the same rows; the second has no deletion vectors, so that files in which
rows change are written again.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.harness import Figure, Section, probe

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

ROWS, QUICK_ROWS, FILES = 1_000_000, 20_000, 4
_KINDS = {
    "GET": ("GetObject",),
    "PUT": ("PutObject", "UploadPart", "CreateMultipartUpload", "CompleteMultipartUpload"),
    "COPY": ("CopyObject", "UploadPartCopy"),
    "LIST and HEAD": ("ListObjectsV2", "ListObjects", "HeadObject", "HeadBucket"),
    "DELETE": ("DeleteObject", "DeleteObjects"),
}


def bench(*, quick: bool) -> list[Section]:
    rows = QUICK_ROWS if quick else ROWS
    found = probe("bench.requests", str(rows))
    figures = [figure for verb, pair in found.items() for figure in _figures(verb, *pair)]
    how = (
        f"{rows:,} rows in {FILES} files on an S3 server (versitygw); all requests of Spark and delvec from "
        "opening the table to the commit. Files and bytes: what is in the table's folder afterwards and was "
        "not before, but for the commit."
    )
    return [Section("Requests, files and bytes of a write", how, figures, "rewriting files")]


def _figures(verb: str, vectors: dict[str, Any], rewriting: dict[str, Any]) -> list[Figure]:
    asked = [
        ", ".join(f"{one['requests'].get(kind, 0)} {kind}" for kind in _KINDS) for one in (vectors, rewriting)
    ]
    total = [sum(one["requests"].values()) for one in (vectors, rewriting)]
    files, size = ([one[name] for one in (vectors, rewriting)] for name in ("files", "bytes"))
    return [
        Figure(f"{verb}: requests", *asked, total[0] / total[1]),
        Figure(f"{verb}: files", *map(str, files), files[0] / files[1], "≤ 1 more", files[0] <= files[1] + 1),
        Figure(f"{verb}: kB", *(f"{part / 1000:,.0f}" for part in size), size[0] / size[1]),
    ]


def _verbs(spark: Any, rows: int) -> dict[str, Callable[[Any], object]]:
    where = "pmod(xxhash64(id), 1000) = 0"
    new = spark.range(rows // 200, rows // 200 * 3, 1, 1).selectExpr("id * 97 AS id", "'new' AS s")

    def merge(table: Any) -> object:
        merging = table.merge(new, "target.id = source.id").when_matched_update_all()
        return merging.when_not_matched_insert_all().execute()

    return {
        "DELETE 0.1 %": lambda table: table.delete(where),
        "DELETE of one row": lambda table: table.delete("id = 77"),
        "UPDATE 0.1 %": lambda table: table.update({"s": "upper(s)"}, where),
        "MERGE of 1 %": merge,
        "append of 1 %": lambda table: table.append(new),
    }


def _measured(rows: int) -> dict[str, Any]:
    from delvec.table import Table
    from s3server import BUCKET, running_s3_server

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch, running_s3_server(Path(scratch) / "store") as server:
        spark = _session(server)
        source = spark.range(0, rows, 1, FILES).selectExpr("id", "concat('customer ', id) AS s")
        for verb, act in _verbs(spark, rows).items():
            for vectors in (True, False):
                name = f"{verb} {vectors}".replace(" ", "-").replace("%", "percent")
                place = f"s3://{BUCKET}/{name}"
                properties = {"delta.enableDeletionVectors": str(vectors).lower()}
                Table.create(spark, place, source, properties=properties)
                before, said = _files(server.folder / name), len(_lines(server))
                act(Table.open(spark, place))
                now = _files(server.folder / name)
                new = [size for path, size in now.items() if path not in before]
                asked = _requests(_lines(server)[said:])
                found.setdefault(verb, []).append({"requests": asked, "files": len(new), "bytes": sum(new)})
        spark.stop()
    return found


def _files(folder: Path) -> dict[str, int]:
    """The table's files but for commits: those are one for each."""
    return {
        str(path): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and "_delta_log" not in path.parts
    }


def _lines(server: Any) -> list[str]:
    return [line for line in server.log.read_text().splitlines() if " s3_" in line]


def _requests(lines: list[str]) -> dict[str, int]:
    names = {name: kind for kind, names in _KINDS.items() for name in names}
    found = (re.search(r" s3_(\w+) ", line) for line in lines)
    return dict(Counter(names.get(one[1], one[1]) for one in found if one is not None))


def _session(server: Any) -> Any:
    from pyspark.sql import SparkSession

    from jars import s3a_jars

    settings = {
        "spark.driver.extraClassPath": ":".join(map(str, s3a_jars())),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.fs.s3a.access.key": server.access_key,
        "spark.hadoop.fs.s3a.secret.key": server.secret_key,
        "spark.hadoop.fs.s3a.endpoint": server.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    builder = SparkSession.builder.master("local[2]").appName("delvec bench")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    print(json.dumps(_measured(int(sys.argv[2]))))
