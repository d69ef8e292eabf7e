"""The Iceberg v3 tables of the scan bench: rows written and deleted by Iceberg-Spark, read by all.

iceberg/bench/rows     four files, a snapshot for each share of deleted rows
iceberg/bench/equal    one of those files under four names
iceberg/bench/spread   the same rows in 32 files
iceberg/bench/many     5,000 small files in fifty partitions, without vectors and with
plain/<name>/          hard links of their data files, for the plain Parquet scan
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.engines import ICEBERG
from bench.harness import cache
from bench.scan_tables import (
    CATALOG,
    COLUMNS,
    COMPLETE,
    EQUAL,
    FILES,
    FULL_ROW_GROUP,
    FULL_ROWS,
    LAYOUTS,
    MANY_FILES,
    MANY_ROWS,
    PARTITIONS,
    SCHEMA,
    SHARES,
    SPREAD,
    Tables,
    condition,
    link,
    open_session,
    snapshots,
)

GENERATION = 1  # part of the folder's name: raised when what is generated changes
ROWS, MANY = "rows", "many"
_PROPERTIES = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.distribution-mode": "none",  # a task writes its own files
    "write.target-file-size-bytes": str(4 << 30),
    "write.spark.fanout.enabled": "true",
}


def folder_of(rows: int) -> Path:
    return cache() / "bench" / f"iceberg-scan-{rows}-v{GENERATION}"


@dataclass(frozen=True)
class IcebergTables(Tables):
    """Where the tables are. ``versions``: the snapshots of each table in order, by its name."""

    versions: dict[str, list[int]]

    def plain(self, share: str) -> str:
        return str(self.folder / "plain" / (share if share in LAYOUTS else ROWS))

    @property
    def many(self) -> str:
        return str(self.folder / "plain" / MANY)

    def of_share(self, share: str) -> tuple[str, int]:
        """Table and snapshot with this share of deleted rows."""
        if share in LAYOUTS:
            return share, self.versions[share][-1]
        return ROWS, self.versions[ROWS][list(SHARES).index(share)]

    def of_many(self, *, vectors: bool) -> tuple[str, int]:
        return MANY, self.versions[MANY][int(vectors)]

    def path(self, name: str) -> str:
        return str(self.folder / "iceberg" / "bench" / name)


class Generator:
    """Makes the tables, in a process of its own."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def tables(self) -> IcebergTables:
        folder = folder_of(self.rows)
        is_made = (folder / COMPLETE).exists()
        if not is_made:
            shutil.rmtree(folder, ignore_errors=True)
        spark = open_session(self.rows, ICEBERG, folder=folder)
        try:
            if not is_made:
                _write(spark, folder, self.rows)
                (folder / COMPLETE).touch()
            names = (ROWS, MANY, *LAYOUTS)
            return IcebergTables(folder, {name: snapshots(spark, _table(name)) for name in names})
        finally:
            spark.stop()


def _write(spark: Any, folder: Path, rows: int) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.bench")
    deletes = [condition(share) for share in SHARES.values() if share]
    _insert(spark, folder, ROWS, rows, FILES)
    _link_data(folder, ROWS)
    for where in deletes:
        _delete(spark, ROWS, where, FILES)
    _insert(spark, folder, SPREAD, rows, LAYOUTS[SPREAD])
    _link_data(folder, SPREAD)
    _delete(spark, SPREAD, condition(SHARES["5 %"]), LAYOUTS[SPREAD])
    _write_equal(spark, folder, rows)
    _write_many(spark, folder, rows)


def _write_equal(spark: Any, folder: Path, rows: int) -> None:
    first = min((folder / "plain" / ROWS).glob("*.parquet"))
    place = folder / "plain" / EQUAL
    place.mkdir(parents=True)
    for number in range(FILES):
        link(first, place / f"part-{number:05d}.parquet")
    _create(spark, EQUAL, rows)
    spark.sql(
        f"CALL {CATALOG}.system.add_files(table => 'bench.{EQUAL}', source_table => '`parquet`.`{place}`')"
    )
    _delete(spark, EQUAL, condition(SHARES["5 %"]), FILES)


def _write_many(spark: Any, folder: Path, rows: int) -> None:
    tasks = MANY_FILES // PARTITIONS
    _create(spark, MANY, rows, more=", p int", by=" PARTITIONED BY (p)")
    frame = spark.range(0, MANY_ROWS, 1, tasks).selectExpr(
        *COLUMNS, f"CAST(pmod(id, {PARTITIONS}) AS INT) AS p"
    )
    frame.writeTo(_table(MANY)).append()
    _verify_files(folder, MANY, MANY_FILES)
    _link_data(folder, MANY)
    # A file has every fiftieth row of its task's ten thousand: a row of each file of every tenth task.
    per_task = MANY_ROWS // tasks
    one_in_ten = f"pmod(id DIV {per_task}, 10) = 0 AND pmod(id, {per_task}) < {PARTITIONS}"
    _delete(spark, MANY, one_in_ten, MANY_FILES // 10)


def _insert(spark: Any, folder: Path, name: str, rows: int, files: int) -> None:
    _create(spark, name, rows)
    spark.range(0, rows, 1, files).selectExpr(*COLUMNS).writeTo(_table(name)).append()
    _verify_files(folder, name, files)


def _create(spark: Any, name: str, rows: int, more: str = "", by: str = "") -> None:
    row_group = {"write.parquet.row-group-size-bytes": str(FULL_ROW_GROUP * rows // FULL_ROWS)}
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in (_PROPERTIES | row_group).items())
    spark.sql(f"CREATE TABLE {_table(name)} ({SCHEMA}{more}) USING iceberg{by} TBLPROPERTIES ({properties})")


def _delete(spark: Any, name: str, where: str, vectors: int) -> None:
    spark.sql(f"DELETE FROM {_table(name)} WHERE {where}")
    summary = spark.sql(f"SELECT summary FROM {_table(name)}.snapshots ORDER BY committed_at DESC").first()[0]
    made, rewritten = int(summary.get("added-dvs", 0)), "added-data-files" in summary
    if made != vectors or rewritten:
        raise RuntimeError(f"DELETE made {made} vectors, expected {vectors} and no files: {name}: {summary}")


def _link_data(folder: Path, name: str) -> None:
    data = folder / "iceberg" / "bench" / name / "data"
    for file in sorted(data.rglob("*.parquet")):
        place = folder / "plain" / name / file.relative_to(data)
        place.parent.mkdir(parents=True, exist_ok=True)
        link(file, place)


def _verify_files(folder: Path, name: str, expected: int) -> None:
    data = folder / "iceberg" / "bench" / name / "data"
    count = len(list(data.rglob("*.parquet")))
    if count != expected:
        raise RuntimeError(f"Iceberg-Spark wrote {count} files, expected {expected}: {data}")


def _table(name: str) -> str:
    return f"{CATALOG}.bench.{name}"


def reader(spark: Any, name: str, version: int) -> Any:
    """Iceberg-Spark's DataFrame of the snapshot."""
    return spark.read.option("versionAsOf", version).table(_table(name))
