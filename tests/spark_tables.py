"""Small Delta tables that Delta-Spark writes, each to show one thing of the format.

A table is a function of a ``Writer``, named after what it shows. ``TABLES`` lists them with the
conditions to plan scans by, and for each whether metadata decides it: whether every file without a
matching row can be skipped. It does not where a NaN, which no statistics speak of, would match.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

VECTORS = {"delta.enableDeletionVectors": "true"}


@dataclass(frozen=True)
class Writer:
    """Writes one table at ``path`` through Delta-Spark."""

    spark: Any
    path: Path

    @property
    def name(self) -> str:
        return f"delta.`{self.path}`"

    def sql(self, statement: str) -> None:
        """Run a statement; ``{t}`` stands for the table."""
        self.spark.sql(statement.replace("{t}", self.name)).collect()

    def create(self, columns: str, *, by: str = "", **properties: str) -> None:
        listed = VECTORS | {f"delta.{name.replace('_', '.')}": value for name, value in properties.items()}
        self.sql(
            f"CREATE TABLE {{t}} ({columns}) USING delta {by} TBLPROPERTIES ("
            + ", ".join(f"'{key}' = '{value}'" for key, value in listed.items())
            + ")"
        )

    def alter(self, **properties: str) -> None:
        listed = ", ".join(f"'delta.{key}' = '{value}'" for key, value in properties.items())
        self.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({listed})")

    def numbers(self, start: int, end: int, columns: str = "id", files: int = 2) -> None:
        """Append rows made of ``id`` in [start, end), in so many files of adjacent ids."""
        rows = self.spark.range(start, end, 1, files).selectExpr(*columns.split(";"))
        rows.write.format("delta").mode("append").save(str(self.path))

    def with_settings(self, settings: Mapping[str, str], action: Callable[[], None]) -> None:
        """Do something while Delta's settings (named after ``spark.databricks.delta.``) hold."""
        for key, value in settings.items():
            self.spark.conf.set(f"spark.databricks.delta.{key}", value)
        try:
            action()
        finally:
            for key in settings:
                self.spark.conf.unset(f"spark.databricks.delta.{key}")

    def log(self) -> Any:
        return self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
            self.spark._jsparkSession, str(self.path)
        )

    def checkpoint(self, **settings: str) -> None:
        self.with_settings({k.replace("_", "."): v for k, v in settings.items()}, self.log().checkpoint)

    def forget_commits_before(self, version: int) -> None:
        """Remove old commits, as the log's own clean-up does once a checkpoint covers them."""
        for commit in self.log_files("*.json"):
            if len(commit.name) == len("0" * 20 + ".json") and int(commit.stem) < version:
                commit.unlink()
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def compact_log(self, first: int, last: int) -> None:
        """Write a log compaction file, by Delta Kernel: Delta-Spark reads such files only."""
        jvm, kernel = self.spark._jvm, self.spark._jvm.io.delta.kernel
        table, log = (kernel.internal.fs.Path(f"file:{p}") for p in (self.path, self.path / "_delta_log"))
        engine = kernel.defaults.engine.DefaultEngine.create(jvm.org.apache.hadoop.conf.Configuration())
        compaction = kernel.internal.compaction.LogCompactionWriter(table, log, first, last, 0)
        compaction.writeLogCompactionFile(engine)
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def log_files(self, pattern: str) -> list[Path]:
        return sorted((self.path / "_delta_log").glob(pattern))

    def actions(self, kind: str) -> list[dict[str, Any]]:
        """All actions of a kind in the JSON commits, in order."""
        lines = [line for commit in self.log_files("0*.json") for line in commit.read_text().splitlines()]
        return [action[kind] for action in map(json.loads, lines) if kind in action]

    def vectors(self) -> list[dict[str, Any]]:
        return [add["deletionVector"] for add in self.actions("add") if "deletionVector" in add]


@dataclass(frozen=True)
class SparkTable:
    write: Callable[[Writer], None]
    conditions: Mapping[str, bool] = field(default_factory=dict)


def vectors_shared(w: Writer) -> None:
    """Vectors on vectors, several in one file, a file wholly deleted, rows updated."""
    w.create("id BIGINT, s STRING")
    w.numbers(0, 90, "id;concat('value ', id) AS s", files=3)
    w.sql("DELETE FROM {t} WHERE id % 10 = 3")
    paths = [vector["pathOrInlineDv"] for vector in w.vectors()]
    assert len(paths) == 3
    assert len(set(paths)) == 1, "the vectors do not share a file"
    w.sql("DELETE FROM {t} WHERE id % 10 = 4")
    w.sql("UPDATE {t} SET s = 'changed' WHERE id = 65")
    w.sql("DELETE FROM {t} WHERE id >= 30 AND id < 60")
    w.sql("DELETE FROM {t}")


def schema_grown(w: Writer) -> None:
    """Columns added later, rows overwritten, a vector on a file that lacks a column."""
    w.create("id BIGINT")
    w.numbers(0, 10)
    w.sql("ALTER TABLE {t} ADD COLUMNS (extra STRUCT<a: INT, b: STRING>)")
    w.sql("INSERT INTO {t} VALUES (100, named_struct('a', 1, 'b', 'x')), (101, NULL)")
    w.sql("ALTER TABLE {t} ADD COLUMNS (extra.c DOUBLE)")
    w.sql("DELETE FROM {t} WHERE id IN (3, 100)")
    w.sql("INSERT OVERWRITE {t} VALUES (7, NULL), (8, named_struct('a', 2, 'b', 'y', 'c', 0.5D))")


ODD_TEXT = (
    "plain", "two words", "a/b", "100%", "%20", "a=b", "ünïcødé ☃ 🎉", "a:b", "a+b", 'quo"te', "it''s",
    "#hash?", "back\\\\slash", "line\\nbreak", "__HIVE_DEFAULT_PARTITION__ ", "..", "{curly}", "a&b;c,d",
)  # fmt: skip


def partitioned_by_text(w: Writer) -> None:
    """Partition values that need escaping, twice over, and null; a column with a space in its name."""
    w.create("id INT, `part col` STRING", by="PARTITIONED BY (`part col`)", columnMapping_mode="name")
    rows = [f"({i}, '{text}')" for i, text in enumerate(ODD_TEXT)]
    w.sql("INSERT INTO {t} VALUES (900, NULL), (901, NULL), (902, ''), " + ", ".join(rows))
    w.sql("INSERT INTO {t} SELECT id + 50, `part col` FROM {t}")
    w.sql("DELETE FROM {t} WHERE id % 2 = 1")
    w.sql("DELETE FROM {t} WHERE `part col` = '100%'")


def partitioned_by_odd_names(w: Writer) -> None:
    """Escaped folder names without column mapping, several levels deep."""
    w.create("id INT, s STRING, `größe-x` STRING", by="PARTITIONED BY (s, `größe-x`)")
    rows = [f"({i}, '{text}', '{text}')" for i, text in enumerate(ODD_TEXT)]
    w.sql("INSERT INTO {t} VALUES (900, NULL, 'x'), (901, 'x', NULL), " + ", ".join(rows))
    w.sql("INSERT INTO {t} SELECT id + 50, s, `größe-x` FROM {t}")
    w.sql("DELETE FROM {t} WHERE id < 50")


def partitioned_by_int_and_date(w: Writer) -> None:
    w.create("id INT, p INT, d DATE", by="PARTITIONED BY (p, d)")
    w.sql(
        "INSERT INTO {t} SELECT id, id % 4 - 1, date'1999-12-31' + cast(id % 2 AS INT)"
        " FROM (SELECT cast(id AS INT) AS id FROM range(0, 40, 1, 2))"
    )
    w.sql("INSERT INTO {t} VALUES (100, NULL, NULL), (101, NULL, DATE'0001-01-01')")
    w.sql("INSERT INTO {t} VALUES (102, -5, DATE'9999-12-31')")
    w.sql("DELETE FROM {t} WHERE id % 7 = 0")
    w.sql("DELETE FROM {t} WHERE p = 2")


PARTITION_TYPES = {
    "byte": "TINYINT", "short": "SMALLINT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "flag": "BOOLEAN", "money": "DECIMAL(12,3)", "raw": "BINARY", "at": "TIMESTAMP", "local": "TIMESTAMP_NTZ",
}  # fmt: skip


def partitioned_by_every_type(w: Writer) -> None:
    """Every type as a partition column, timestamps written both ways that Delta knows."""
    listed = ", ".join(f"c_{name} {kind}" for name, kind in PARTITION_TYPES.items())
    w.create(f"id INT, {listed}", by=f"PARTITIONED BY ({', '.join('c_' + name for name in PARTITION_TYPES)})")
    low = (
        "-128Y, -32768S, -9223372036854775808L, cast(-1.5 AS FLOAT), cast(1e-300 AS DOUBLE), false,"
        " -123456789.001BD, X'2F25', TIMESTAMP'1950-01-02 03:04:05.678901',"
        " TIMESTAMP_NTZ'1950-01-02 03:04:05'"
    )
    high = (
        "127Y, 32767S, 9223372036854775807L, cast('NaN' AS FLOAT), cast('Infinity' AS DOUBLE), true,"
        " 0BD, X'41', TIMESTAMP'2038-01-19 03:14:08', TIMESTAMP_NTZ'2038-01-19 03:14:08.000001'"
    )
    nulls = ", ".join(["NULL"] * len(PARTITION_TYPES))
    for i, utc in enumerate(["true", "false"]):
        values = ", ".join(f"({i * 10 + j}, {row})" for j, row in enumerate([low, low, high, nulls]))
        w.with_settings(
            {"write.utcTimestampPartitionValues": utc}, partial(w.sql, f"INSERT INTO {{t}} VALUES {values}")
        )
    w.sql("DELETE FROM {t} WHERE id IN (0, 11)")


NESTED = "STRUCT<city: STRING, geo: STRUCT<lat: DOUBLE, lon: DOUBLE>, tags: ARRAY<STRUCT<k: STRING, v: INT>>>"


def _nested_row(i: int) -> str:
    geo = "NULL" if i % 3 == 0 else f"named_struct('lat', {i}.5D, 'lon', -{i}.25D)"
    tags = "NULL" if i % 4 == 0 else f"array(named_struct('k', 'k{i}', 'v', {i}), NULL)"
    address = "NULL" if i % 5 == 0 else f"named_struct('city', 'c{i}', 'geo', {geo}, 'tags', {tags})"
    return f"({i}, {address}, map('m{i}', array({i}, NULL)), {i}L)"


def _mapped(w: Writer, mode: str) -> None:
    columns = f"id INT, address {NESTED}, m MAP<STRING, ARRAY<INT>>, gone BIGINT, p STRING"
    w.create(columns, by="PARTITIONED BY (p)", columnMapping_mode=mode)
    rows = ", ".join(_nested_row(i)[:-1] + f", 'p{i % 2}')" for i in range(12))
    w.sql(f"INSERT INTO {{t}} VALUES {rows}")
    w.sql("DELETE FROM {t} WHERE id IN (1, 4)")
    for change in (
        "RENAME COLUMN id TO `new id, (really)`",
        "RENAME COLUMN address.geo.lat TO latitude",
        "RENAME COLUMN p TO `part`",
        "DROP COLUMN gone",
        "DROP COLUMN address.tags.element.v",
        "ADD COLUMNS (gone STRING)",
    ):
        w.sql(f"ALTER TABLE {{t}} {change}")
    w.sql("INSERT INTO {t} VALUES (50, NULL, map('z', NULL), 'p1', 'back'), (51, NULL, NULL, NULL, 'again')")
    w.sql("DELETE FROM {t} WHERE `new id, (really)` IN (2, 51)")


def mapped_by_name(w: Writer) -> None:
    _mapped(w, "name")


def mapped_by_id(w: Writer) -> None:
    _mapped(w, "id")


def mapped_later(w: Writer) -> None:
    """Column mapping turned on when files without field ids are there."""
    w.create("id INT, s STRUCT<a: INT>")
    w.sql("INSERT INTO {t} SELECT cast(id AS INT), named_struct('a', cast(id AS INT)) FROM range(10)")
    w.alter(**{"columnMapping.mode": "name"})
    w.sql("ALTER TABLE {t} RENAME COLUMN s TO t")
    w.sql("ALTER TABLE {t} RENAME COLUMN t.a TO b")
    w.sql("DELETE FROM {t} WHERE t.b = 4")
    w.sql("INSERT INTO {t} VALUES (100, named_struct('b', 100))")


def nested_types(w: Writer) -> None:
    w.create(f"id INT, address {NESTED}, m MAP<STRING, ARRAY<INT>>, n BIGINT")
    w.sql("INSERT INTO {t} VALUES " + ", ".join(_nested_row(i) for i in range(20)))
    w.sql("DELETE FROM {t} WHERE address.city = 'c7' OR m['m8'][0] = 8")
    w.sql("UPDATE {t} SET address.geo = NULL WHERE id = 11")
    w.sql("INSERT INTO {t} VALUES (99, NULL, NULL, NULL)")


EVERY_TYPE = (
    "b TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, flag BOOLEAN, t STRING, raw BINARY,"
    " day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, small DECIMAL(9,2), mid DECIMAL(18,6), big DECIMAL(38,18)"
)


def every_type(w: Writer) -> None:
    """All primitive types at their ends, with the stats Delta makes of them."""
    w.create(EVERY_TYPE)
    w.sql(
        "INSERT INTO {t} VALUES (-128Y, -32768S, -2147483648, -9223372036854775808L, float('-Infinity'),"
        " -0.0D, false, '', X'', DATE'0001-01-01', TIMESTAMP'1883-11-18 12:00:00.123456',"
        " TIMESTAMP_NTZ'0001-01-01 00:00:00', -9999999.99BD, -999999999999.999999BD,"
        " -99999999999999999999.999999999999999999BD)"
    )
    w.sql(
        "INSERT INTO {t} VALUES (127Y, 32767S, 2147483647, 9223372036854775807L, float('NaN'), 4.9e-324D,"
        " true, repeat('🎉é', 40), X'00FF', DATE'9999-12-31', TIMESTAMP'2026-11-15 21:00:00.999999',"
        " TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', 9999999.99BD, 999999999999.999999BD,"
        " 99999999999999999999.999999999999999999BD), (1Y, 1S, 1, 1L, float(1.1), double('NaN'), NULL,"
        " '~', NULL, DATE'2026-11-15', TIMESTAMP'2026-11-15 21:00:00', NULL, 1BD, 1BD, 1BD)"
    )
    w.sql("INSERT INTO {t} VALUES (" + ", ".join(["NULL"] * 15) + ")")
    w.sql("DELETE FROM {t} WHERE b = 1")


def void_and_defaults(w: Writer) -> None:
    w.create("id INT, nothing VOID, s STRING DEFAULT 'dflt'", **{"feature_allowColumnDefaults": "supported"})
    w.sql("INSERT INTO {t} (id) VALUES (1), (2)")
    w.sql("INSERT INTO {t} (id, s) VALUES (3, NULL)")
    w.sql("DELETE FROM {t} WHERE id = 2")


def _deleted_from(w: Writer, **properties: str) -> None:
    w.create("id BIGINT, p INT, s STRING", by="PARTITIONED BY (p)", **properties)
    for start in (0, 40):
        w.numbers(start, start + 40, "id;cast(id % 2 AS INT) AS p;concat('s', id) AS s")
    w.sql("DELETE FROM {t} WHERE id IN (1, 2, 50)")
    w.sql("DELETE FROM {t} WHERE id = 3")


def _after_checkpoint(w: Writer) -> None:
    w.sql("DELETE FROM {t} WHERE id = 4")
    w.numbers(80, 90, "id;cast(id % 2 AS INT) AS p;concat('s', id) AS s", files=1)


def checkpoint_classic(w: Writer) -> None:
    """A checkpoint with live vectors and tombstones in it, and nothing before it."""
    _deleted_from(w)
    w.checkpoint()
    assert w.log_files("*4.checkpoint.parquet")
    _after_checkpoint(w)
    w.forget_commits_before(4)


def checkpoint_hint_lost(w: Writer) -> None:
    _deleted_from(w)
    w.checkpoint()
    _after_checkpoint(w)
    w.checkpoint()
    (w.path / "_delta_log" / "_last_checkpoint").unlink()
    w.forget_commits_before(4)


def checkpoint_in_parts(w: Writer) -> None:
    _deleted_from(w)
    w.checkpoint(checkpoint_partSize="3")
    assert len(w.log_files("*.checkpoint.*.*.parquet")) > 2
    _after_checkpoint(w)
    w.forget_commits_before(4)


def checkpoint_of_struct_stats(w: Writer) -> None:
    """Stats only as columns of the checkpoint, not as JSON."""
    w.create(EVERY_TYPE, checkpoint_writeStatsAsJson="false", checkpoint_writeStatsAsStruct="true")
    for values in (
        "1Y, 1S, 1, 1L, float(1.5), 1.5D, true, 'x', X'01', DATE'2020-01-01',"
        " TIMESTAMP'2020-01-01 00:00:00.123456', TIMESTAMP_NTZ'2020-01-01 00:00:00.123456',"
        " 1.25BD, 1.25BD, 1.25BD",
        ", ".join(["NULL"] * 15),
    ):
        w.sql(f"INSERT INTO {{t}} VALUES ({values}), (2Y{', NULL' * 14})")
    w.sql("DELETE FROM {t} WHERE b = 2")
    w.checkpoint()
    w.sql("DELETE FROM {t} WHERE b IS NULL")
    w.forget_commits_before(3)


def checkpoint_of_both_stats(w: Writer) -> None:
    _deleted_from(w, checkpoint_writeStatsAsStruct="true")
    w.checkpoint()
    _after_checkpoint(w)
    w.forget_commits_before(4)


def _checkpoint_v2(w: Writer, top_level: str) -> None:
    _deleted_from(w, checkpointPolicy="v2")
    w.checkpoint(checkpointV2_topLevelFileFormat=top_level, checkpoint_partSize="4")
    assert w.log_files(f"*.checkpoint.*-*.{top_level}")
    assert len(w.log_files("_sidecars/*.parquet")) > 1
    _after_checkpoint(w)
    w.forget_commits_before(4)


def checkpoint_v2_json(w: Writer) -> None:
    _checkpoint_v2(w, "json")


def checkpoint_v2_parquet(w: Writer) -> None:
    _checkpoint_v2(w, "parquet")


def log_compacted(w: Writer) -> None:
    _deleted_from(w)
    w.compact_log(1, 4)
    assert w.log_files("*.compacted.json")
    _after_checkpoint(w)


def merged(w: Writer) -> None:
    w.create("id BIGINT, n INT")
    w.numbers(0, 40, "id;cast(id AS INT) AS n")
    w.sql(
        "MERGE INTO {t} t USING (SELECT id FROM range(35, 45)) s ON t.id = s.id"
        " WHEN MATCHED AND t.id = 36 THEN DELETE WHEN MATCHED THEN UPDATE SET n = -1"
        " WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 0)"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE"
    )


def optimized_and_restored(w: Writer) -> None:
    w.create("id BIGINT")
    w.numbers(0, 40, files=4)
    w.sql("DELETE FROM {t} WHERE id % 5 = 0")
    w.sql("OPTIMIZE {t}")
    w.sql("DELETE FROM {t} WHERE id = 1")
    w.sql("RESTORE TABLE {t} TO VERSION AS OF 2")
    w.sql("DELETE FROM {t} WHERE id = 39")
    w.sql("REORG TABLE {t} APPLY (PURGE)")
    w.sql("RESTORE TABLE {t} TO VERSION AS OF 1")


def widened(w: Writer) -> None:
    """Old files hold narrower types, top-level, nested and as a partition column."""
    w.create(
        "b TINYINT, i INT, x INT, f FLOAT, n DECIMAL(10,2), m INT, day DATE, s STRUCT<a: SMALLINT>,"
        " l ARRAY<INT>, p INT",
        by="PARTITIONED BY (p)",
        enableTypeWidening="true",
        feature_timestampNtz="supported",
    )
    old = "1Y, 2, 3, float(1.5), 1.25BD, 6, DATE'2020-02-29', named_struct('a', 7S), array(8, NULL), 9"
    w.sql(f"INSERT INTO {{t}} VALUES ({old}), ({old.replace('1Y', '5Y')})")
    for column, kind in {
        "b": "SMALLINT", "i": "BIGINT", "x": "DOUBLE", "f": "DOUBLE", "n": "DECIMAL(14,4)",
        "m": "DECIMAL(12,2)", "day": "TIMESTAMP_NTZ", "s.a": "INT", "l.element": "BIGINT", "p": "BIGINT",
    }.items():  # fmt: skip
        w.sql(f"ALTER TABLE {{t}} ALTER COLUMN {column} TYPE {kind}")
    w.sql("ALTER TABLE {t} ALTER COLUMN b TYPE INT")
    w.sql(
        "INSERT INTO {t} VALUES (100000, 5000000000, 0.5D, 1e300D, 0.0001BD, 0.01BD,"
        " TIMESTAMP_NTZ'2020-02-29 12:00:00', named_struct('a', 70000), array(5000000000), 5000000000)"
    )
    w.sql("DELETE FROM {t} WHERE b = 5")


def timestamped_in_commits(w: Writer) -> None:
    w.create("id BIGINT", enableInCommitTimestamps="true")
    w.numbers(0, 10)
    w.sql("DELETE FROM {t} WHERE id = 3")


def timestamped_later(w: Writer) -> None:
    w.create("id BIGINT")
    w.numbers(0, 10)
    w.alter(enableInCommitTimestamps="true")
    w.sql("DELETE FROM {t} WHERE id = 3")
    w.numbers(10, 20)


def row_tracked(w: Writer) -> None:
    w.create("id BIGINT", enableRowTracking="true")
    w.numbers(0, 20)
    w.sql("DELETE FROM {t} WHERE id = 3")
    w.sql("UPDATE {t} SET id = 100 WHERE id = 7")
    w.sql("OPTIMIZE {t}")


def change_feed(w: Writer) -> None:
    w.create("id BIGINT, p INT", by="PARTITIONED BY (p)", enableChangeDataFeed="true")
    w.numbers(0, 20, "id;cast(id % 2 AS INT) AS p")
    w.sql("DELETE FROM {t} WHERE id = 3")
    w.sql("UPDATE {t} SET id = 100 WHERE id = 7")


def clustered(w: Writer) -> None:
    w.create("id BIGINT, s STRING", by="CLUSTER BY (id)")
    w.numbers(0, 40, "id;'x' AS s", files=4)
    w.sql("OPTIMIZE {t}")
    w.sql("DELETE FROM {t} WHERE id = 3")


def variants(w: Writer) -> None:
    w.create("id BIGINT, v VARIANT")
    document = """concat('{"a": ', id, ', "b": [null, true]}')"""
    w.sql(f"INSERT INTO {{t}} SELECT id, parse_json({document}) FROM range(10)")
    w.sql("DELETE FROM {t} WHERE id = 3")


def random_prefixes(w: Writer) -> None:
    prefixes = {"randomizeFilePrefixes": "true", "randomPrefixLength": "3"}
    w.create("id BIGINT, p INT", by="PARTITIONED BY (p)", **prefixes)
    w.numbers(0, 20, "id;cast(id % 2 AS INT) AS p")
    w.sql("DELETE FROM {t} WHERE id IN (3, 4)")
    assert {len(vector["pathOrInlineDv"]) for vector in w.vectors()} == {23}


def cloned(w: Writer) -> None:
    """A shallow clone: data files and vectors of another table, by absolute path."""
    source = Writer(w.spark, w.path.with_name("source of % the clone"))
    _deleted_from(source)
    w.sql(f"CREATE TABLE {{t}} SHALLOW CLONE {source.name}")
    assert {vector["storageType"] for vector in w.vectors()} == {"p"}
    w.sql("DELETE FROM {t} WHERE id = 4")
    w.numbers(80, 90, "id;cast(id % 2 AS INT) AS p;concat('s', id) AS s", files=1)


MAPPED_CONDITIONS = {
    "part = 'p1'": True,
    "`new id, (really)` > 40": True,
    "address.geo.latitude < 0": True,
    "address.geo.latitude > 100": False,
}

TABLES: Mapping[str, SparkTable] = {
    table.write.__name__: table
    for table in (
        SparkTable(vectors_shared),
        SparkTable(schema_grown, {"id > 7": False, "extra.a = 2": False, "extra IS NULL": False}),
        SparkTable(partitioned_by_text, {"`part col` = 'two words'": True, "`part col` IS NULL": True}),
        SparkTable(
            partitioned_by_odd_names, {"s = '%20' AND `größe-x` <> 'a'": True, "s = 'x' AND id > 0": True}
        ),
        SparkTable(
            partitioned_by_int_and_date,
            {"p = 1": True, "d > DATE'2000-01-01'": True, "p IS NULL AND id > 3": True},
        ),
        SparkTable(
            partitioned_by_every_type,
            {
                "c_at < TIMESTAMP'2000-01-01 00:00:00'": True,
                "c_local >= TIMESTAMP_NTZ'2038-01-19 03:14:08'": True,
                "c_money = 0": True,
                "c_flag": True,
                "c_double > 1": True,
                "c_raw = X'41'": True,
                "c_long IS NOT NULL": True,
            },
        ),
        SparkTable(mapped_by_name, MAPPED_CONDITIONS),
        SparkTable(mapped_by_id, MAPPED_CONDITIONS),
        SparkTable(mapped_later, {"t.b >= 100": True, "id < 50": True}),
        SparkTable(
            nested_types,
            {
                "id > 50": True,
                "address.city = 'c3'": False,
                "address.geo.lat < 0": True,
                "address.geo.lat > 100": False,
            },
        ),
        SparkTable(
            every_type,
            {
                "i > 1": True,
                "l = -9223372036854775808": True,
                "d > 5": False,
                "f > 100": False,
                "t > '🎉'": False,
                "day < DATE'1500-01-01'": True,
                "at = TIMESTAMP'2026-11-15 21:00:00.999999'": True,
                "local > TIMESTAMP_NTZ'9999-12-31 23:59:59.999'": True,
                "big > 1": True,
                "small = -9999999.99": True,
                "b IS NULL": True,
                "flag": False,
            },
        ),
        SparkTable(void_and_defaults, {"s IS NULL": True, "nothing IS NULL": False}),
        SparkTable(checkpoint_classic, {"id >= 80": True, "p = 0": True, "s = 's5'": False}),
        SparkTable(checkpoint_hint_lost),
        SparkTable(checkpoint_in_parts, {"id >= 80": True}),
        SparkTable(
            checkpoint_of_struct_stats,
            {
                "i = 7": True,
                "l > 5": True,
                "d < 0": True,
                "t = 'y'": True,
                "day > DATE'2021-01-01'": True,
                "at > TIMESTAMP'2020-01-01 00:00:00.124'": True,
                "at > TIMESTAMP'2020-01-01 00:00:00.1234'": False,
                "local > TIMESTAMP_NTZ'2020-01-01 00:00:00.124'": True,
                "big > 1.25": True,
            },
        ),
        SparkTable(checkpoint_of_both_stats, {"id >= 80": True}),
        SparkTable(checkpoint_v2_json, {"id >= 80": True}),
        SparkTable(checkpoint_v2_parquet, {"id >= 80": True}),
        SparkTable(log_compacted, {"id >= 80": True}),
        SparkTable(merged, {"id > 39": True, "id > 38": False}),
        SparkTable(optimized_and_restored, {"id < 10": True}),
        SparkTable(
            widened,
            {
                "b > 1000": True,
                "x < 0": True,
                "x > 100": False,
                "day > TIMESTAMP_NTZ'2021-01-01 00:00:00'": True,
                "p < 100": True,
            },
        ),
        SparkTable(timestamped_in_commits),
        SparkTable(timestamped_later),
        SparkTable(row_tracked),
        SparkTable(change_feed),
        SparkTable(clustered),
        SparkTable(variants, {"v IS NULL": False}),
        SparkTable(random_prefixes, {"p = 1": True}),
        SparkTable(cloned, {"id >= 80": True}),
    )
}
