"""The tables of the scan bench, and the Spark sessions that read them: with the jars of one engine, or stock.

    plain/           the rows as Parquet, written by Spark
    equal/           one of those files under four names
    spread/          the same rows in 32 files
    many/            5,000 small files in fifty partitions
    delta/<name>/    the same files (hard links), converted to Delta, deleted from by Delta-Spark
    iceberg/         the same files, added to Iceberg v3 tables, deleted from by Iceberg-Spark

Every engine reads the same bytes. Deletes leave the files as they are: it is checked that each made vectors.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.engines import DELTA, ICEBERG
from bench.harness import cache

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

GENERATION = 3  # part of the folder's name: raised when what is generated changes
FILES = 4
MANY_FILES, PARTITIONS, MANY_ROWS = 5_000, 50, 1_000_000
SCHEMA = "id bigint, k int, v double, s string"
# How many of 100,000 rows are deleted, chosen by a hash; a larger share includes the smaller ones.
SHARES = {"0": 0, "0.001 %": 1, "5 %": 5_000, "50 %": 50_000}
EQUAL, SPREAD = "equal", "spread"
LAYOUTS = {EQUAL: FILES, SPREAD: 32}
"""Other layouts than the plain one, and their numbers of files; 5 % of the rows are deleted."""
COLUMNS = (
    "id",
    "CAST(pmod(id * 7919, 1000) AS INT) AS k",
    "pmod(xxhash64(id, 1), 1000000007) / 7D AS v",
    "concat('customer ', pmod(xxhash64(id, 2), 100000)) AS s",
)
FULL_ROWS, FULL_ROW_GROUP = 20_000_000, 16 << 20
COMPLETE, _UNDELETED = "complete", "undeleted"
CATALOG, _ROWS_TABLE = "ice", "ice.bench.rows"


@contextmanager
def session(rows: int) -> Iterator[Any]:
    """A session with both jars, for the tables of so many rows."""
    spark = open_session(rows, DELTA, ICEBERG)
    try:
        yield spark
    finally:
        spark.stop()


def open_session(rows: int, *engines: str, folder: Path | None = None) -> Any:
    """A session with the jars of these engines; a stock one where they need none. ``folder``: where tables of
    its catalogs are, by default those of this bench.
    """
    from pyspark.sql import SparkSession

    folder = folder or _folder(rows)
    settings = {
        "spark.driver.memory": "5g",
        "spark.network.timeout": "3600s",  # a machine that is held up for a while does not end the run
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.hadoop.parquet.block.size": str(FULL_ROW_GROUP * rows // FULL_ROWS),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    builder = SparkSession.builder.master("local[2]").appName("delvec bench")
    for key, value in (settings | _of_jars(folder, engines)).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _of_jars(folder: Path, engines: Sequence[str]) -> dict[str, str]:
    from jars import delta_jars, iceberg_jars

    jars, extensions, settings = [], [], {}
    if DELTA in engines:
        jars += delta_jars()
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        settings["spark.databricks.delta.snapshotPartitions"] = "2"
    if ICEBERG in engines:
        jars += iceberg_jars()
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        catalog = f"spark.sql.catalog.{CATALOG}"
        settings[catalog] = "org.apache.iceberg.spark.SparkCatalog"
        settings[f"{catalog}.type"] = "hadoop"
        settings[f"{catalog}.warehouse"] = str(folder / "iceberg")
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
        settings["spark.sql.extensions"] = ",".join(extensions)
    return settings


def _folder(rows: int) -> Path:
    return cache() / "bench" / f"scan-{rows}-v{GENERATION}"


@dataclass(frozen=True)
class Tables:
    """Where the tables are. A share is a key of ``SHARES``, or of ``LAYOUTS``."""

    folder: Path

    def plain(self, share: str) -> str:
        return str(self.folder / (share if share in LAYOUTS else "plain"))

    def delta(self, share: str) -> str:
        return str(self.folder / "delta" / _slug(share))

    def iceberg(self, spark: Any, share: str) -> Callable[[], Any]:
        """Reads the table anew each time; its snapshot is looked up once."""
        name, number = (_table(share), -1) if share in LAYOUTS else (_ROWS_TABLE, list(SHARES).index(share))
        snapshot = snapshots(spark, name)[number]
        return lambda: spark.read.option("versionAsOf", snapshot).table(name)

    @property
    def many(self) -> str:
        return str(self.folder / "many")

    def many_delta(self, *, vectors: bool) -> str:
        return str(self.folder / "delta" / ("many-vectors" if vectors else "many"))

    def one_row_group(self) -> str:
        """A condition that one row group of all the plain files can satisfy."""
        file = sorted(Path(self.plain("0")).glob("*.parquet"))[1]
        groups = [pq.ParquetFile(file).metadata.row_group(i).column(0).statistics for i in range(3)]
        low, high = groups[1].min, groups[1].max
        return f"id BETWEEN {low + (high - low) // 4} AND {high - (high - low) // 4}"


def _table(layout: str) -> str:
    return f"{CATALOG}.bench.{layout}"


def _slug(share: str) -> str:
    return share.replace(" %", "")


def tables(spark: Any, rows: int) -> Tables:
    """The tables of so many rows, generated when they are not there: by a session with both jars."""
    folder = _folder(rows)
    if not (folder / COMPLETE).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _write_plain(spark, folder, rows)
        _write_delta(spark, folder)
        _write_iceberg(spark, folder)
        (folder / COMPLETE).touch()
    return Tables(folder)


def undeleted_tables(spark: Any, rows: int) -> Tables:
    """Of the tables only the plain files and the Delta table without vectors: what writes start from."""
    folder = _folder(rows)
    if not (folder / COMPLETE).exists() and not (folder / _UNDELETED).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _write_rows(spark, folder / "plain", rows, FILES)
        _converted(spark, folder / "plain", folder / "delta" / _slug("0"))
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.bench")
        (folder / _UNDELETED).touch()
    return Tables(folder)


class Generator:
    """Makes the tables, in a process of its own."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def tables(self) -> Tables:
        with session(self.rows) as spark:
            return tables(spark, self.rows)


def _write_rows(spark: Any, place: Path, rows: int, files: int) -> None:
    spark.range(0, rows, 1, files).selectExpr(*COLUMNS).write.parquet(str(place))


def _write_plain(spark: Any, folder: Path, rows: int) -> None:
    for name, files in (("plain", FILES), (SPREAD, LAYOUTS[SPREAD])):
        _write_rows(spark, folder / name, rows, files)
    first = min((folder / "plain").glob("*.parquet"))
    (folder / EQUAL).mkdir()
    for number in range(FILES):
        link(first, folder / EQUAL / f"part-{number:05d}.parquet")
    many = spark.range(0, MANY_ROWS, 1, MANY_FILES // PARTITIONS).selectExpr(
        *COLUMNS, f"CAST(pmod(id, {PARTITIONS}) AS INT) AS p"
    )
    many.write.partitionBy("p").parquet(str(folder / "many"))
    _give_unique_names(folder / "many")
    _check_files(folder)


def _give_unique_names(folder: Path) -> None:
    """As Delta's writers do; Spark's own repeats a task's name in every partition."""
    for number, file in enumerate(sorted(folder.rglob("*.parquet"))):
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # it goes by the old name
        file.rename(file.with_name(f"part-{number:05d}.snappy.parquet"))


def _check_files(folder: Path) -> None:
    equal = {file.stat().st_size for file in (folder / EQUAL).glob("*.parquet")}
    expected = {"plain": FILES, **LAYOUTS, "many": MANY_FILES}
    counts = {name: len(list((folder / name).rglob("*.parquet"))) for name in expected}
    if len(equal) != 1 or counts != expected:
        raise RuntimeError(f"files are {counts} with {len(equal)} sizes in {EQUAL}: {folder}")


def copy_table(source: Path, target: Path) -> None:
    """A new copy of a Delta table: its log is copied, all other files are hard links."""
    shutil.rmtree(target, ignore_errors=True)
    for file in sorted(source.rglob("*")):
        place = target / file.relative_to(source)
        if file.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if "_delta_log" in file.parts:
            shutil.copy2(file, place)
        else:
            link(file, place)


def link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


# --- Delta -----------------------------------------------------------------------------------------


def _write_delta(spark: Any, folder: Path) -> None:
    for share, deleted in SHARES.items():
        path = _converted(spark, folder / "plain", folder / "delta" / _slug(share))
        if deleted:
            _delete_delta(spark, path, condition(deleted), FILES)
    for layout, files in LAYOUTS.items():
        path = _converted(spark, folder / layout, folder / "delta" / layout)
        _delete_delta(spark, path, condition(SHARES["5 %"]), files)
    _converted(spark, folder / "many", folder / "delta" / "many", partitioned=True)
    path = _converted(spark, folder / "many", folder / "delta" / "many-vectors", partitioned=True)
    # A file holds every fiftieth row of its task's ten thousand: a row of each file of every tenth task.
    per_task = MANY_ROWS // (MANY_FILES // PARTITIONS)
    one_in_ten = f"pmod(id DIV {per_task}, 10) = 0 AND pmod(id, {per_task}) < {PARTITIONS}"
    _delete_delta(spark, path, one_in_ten, MANY_FILES // 10)


def _converted(spark: Any, source: Path, target: Path, *, partitioned: bool = False) -> Path:
    for file in sorted(source.rglob("*.parquet")):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        link(file, place)
    by = " PARTITIONED BY (p INT)" if partitioned else ""
    spark.sql(f"CONVERT TO DELTA parquet.`{target}`{by}")
    spark.sql(f"ALTER TABLE delta.`{target}` SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
    return target


def _delete_delta(spark: Any, path: Path, condition: str, vectors: int) -> None:
    spark.sql(f"DELETE FROM delta.`{path}` WHERE {condition}")
    metrics = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").first()["operationMetrics"]
    made, rewritten = metrics["numDeletionVectorsAdded"], metrics["numAddedFiles"]
    if (int(made), int(rewritten)) != (vectors, 0):
        raise RuntimeError(f"DELETE made {made} vectors, {rewritten} files, expected {vectors}, 0: {path}")


def condition(deleted: int) -> str:
    return f"pmod(xxhash64(id), 100000) < {deleted}"


# --- Iceberg ---------------------------------------------------------------------------------------


def _write_iceberg(spark: Any, folder: Path) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.bench")
    deletes = [share for share in SHARES.values() if share]
    add_iceberg(spark, _ROWS_TABLE, folder / "plain", deletes)
    for layout, files in LAYOUTS.items():
        add_iceberg(spark, _table(layout), folder / layout, [SHARES["5 %"]], files)


def add_iceberg(spark: Any, name: str, source: Path, deletes: list[int], files: int = FILES) -> None:
    properties = "'format-version' = '3', 'write.delete.mode' = 'merge-on-read'"
    spark.sql(f"CREATE TABLE {name} ({SCHEMA}) USING iceberg TBLPROPERTIES ({properties})")
    spark.sql(
        f"CALL {CATALOG}.system.add_files(table => '{name.partition('.')[2]}', "
        f"source_table => '`parquet`.`{source}`')"
    )
    for deleted in deletes:
        spark.sql(f"DELETE FROM {name} WHERE {condition(deleted)}")
        summary = spark.sql(f"SELECT summary FROM {name}.snapshots ORDER BY committed_at DESC").first()[0]
        if int(summary.get("added-dvs", 0)) != files or int(summary["total-data-files"]) != files:
            raise RuntimeError(f"DELETE did not give each of {files} files a vector: {name}: {summary}")
        if {"deleted-data-files", "added-data-files"} & set(summary):
            raise RuntimeError(f"DELETE rewrote files, expected vectors only: {name}: {summary}")


def snapshots(spark: Any, name: str) -> list[int]:
    rows = spark.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at").collect()
    return [row[0] for row in rows]
