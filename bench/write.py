"""Writes by delvec beside Delta-Spark and Iceberg-Spark, on the same rows in one Spark session.

Each run of delvec and of Delta-Spark starts from a copy of the table (hard links; only the log is copied);
Iceberg's table is rolled back to its first snapshot. The time is that of the user's call alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import Figure, Section, alternate, as_seconds, at_most, seconds
from bench.scan import DELTA, DELVEC, ICEBERG, QUICK_ROWS, ROWS
from bench.scan_tables import SCHEMA, Tables, add_iceberg, link, session, tables

ROUNDS, QUICK_ROUNDS = 3, 1
WARM_UPS = 2
MORE_WARM_UPS = 4  # of what takes a few seconds or less, by the engines: their code gets faster for ten runs
OFTENER = 3  # as many rounds more for what takes a few seconds or less
SMALL_ROWS = 10_000
REWRITING = "delvec without vectors"
_WRITTEN = "ice.bench.written"
APPEND_SHARE = 10  # of the rows, one in so many

# One row in so many, spread over all files; a hash, so that nothing prunes.
_ONE_IN = {"0.1 %": 1000, "5 %": 20}


def bench(*, quick: bool) -> list[Section]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    with session(rows) as spark:
        run = _Run(spark, tables(spark, rows), rows, rounds)
        run.prepare()
        verbs = run.verbs()
        for _ in range(WARM_UPS):  # of all verbs: what is measured first would else find the coldest JVM
            for verb in verbs:
                run.warm_up(verb)
        for _ in range(MORE_WARM_UPS):
            for verb in verbs:
                run.warm_up_more(verb)
        figures = [figure for verb in verbs for figure in run.compared(verb)]
    how = (
        f"{rows:,} rows of {SCHEMA} in four files; vectors (merge-on-read) for all; medians of "
        f"{rounds * OFTENER} interleaved rounds ({rounds} of the MERGE and where files are rewritten) after "
        f"{WARM_UPS} of all verbs and {MORE_WARM_UPS} of the short ones that are not counted; PySpark 4.1 on "
        "two cores."
    )
    return [Section(f"Writing to {rows:,} rows", how, figures, "the other")]


@dataclass(frozen=True)
class Verb:
    """What is done, by each engine; ``small``: on the table of ten thousand rows."""

    what: str
    delvec: Callable[[Any], object]  # of the opened table
    sql: str  # with {table} in it
    bar: float = 1.0
    small: bool = False
    rewrites: bool = True  # where there are no vectors, files are written again
    times: int = OFTENER


class _Run:
    def __init__(self, spark: Any, made: Tables, rows: int, rounds: int) -> None:
        self.spark = spark
        self.tables = made
        self.rows = rows
        self.rounds = rounds
        self.work = made.folder / "write"

    def prepare(self) -> None:
        """The sources, as files, and the small tables."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        spark = self.spark
        columns = ("id", "CAST(7 AS INT) AS k", "CAST(id AS DOUBLE) AS v", "concat('new ', id) AS s")
        upserts = self.rows // 100
        spark.range(upserts).selectExpr(
            # Half of the keys are there, spread over all files; half are new.
            f"CASE WHEN id % 2 = 0 THEN id * 97 % {self.rows} ELSE {self.rows} + id END AS id"
        ).selectExpr(*columns).write.parquet(str(self.work / "upserts"))
        appended = self.rows // APPEND_SHARE
        spark.range(self.rows, self.rows + appended, 1, 4).selectExpr(*columns).write.parquet(
            str(self.work / "appends")
        )
        for name in ("upserts", "appends"):
            spark.read.parquet(str(self.work / name)).createOrReplaceTempView(name)
        small = spark.read.parquet(self.tables.plain("0")).limit(SMALL_ROWS).coalesce(1)
        small.write.format("delta").option("delta.enableDeletionVectors", "true").save(
            str(self.work / "small")
        )
        spark.sql("DROP TABLE IF EXISTS ice.bench.small")
        spark.sql(
            f"CREATE TABLE ice.bench.small ({SCHEMA}) USING iceberg TBLPROPERTIES ('format-version' = '3', "
            "'write.delete.mode' = 'merge-on-read')"
        )
        spark.read.format("delta").load(str(self.work / "small")).writeTo("ice.bench.small").append()
        spark.sql(f"DROP TABLE IF EXISTS {_WRITTEN}")
        add_iceberg(spark, _WRITTEN, Path(self.tables.plain("0")), [])
        spark.sql(
            f"ALTER TABLE {_WRITTEN} SET TBLPROPERTIES ('write.update.mode' = 'merge-on-read', "
            "'write.merge.mode' = 'merge-on-read')"
        )

    def verbs(self) -> list[Verb]:
        def where(share: str) -> str:
            return f"pmod(xxhash64(id), {_ONE_IN[share]}) = 0"

        upserts = self.spark.table("upserts")
        appends = self.spark.table("appends")

        def merge(table: Any) -> object:
            merging = table.merge(upserts, "target.id = source.id").when_matched_update_all()
            return merging.when_not_matched_insert_all().execute()

        return [
            *(
                Verb(
                    f"DELETE {share}",
                    lambda t, share=share: t.delete(where(share)),
                    f"DELETE FROM {{table}} WHERE {where(share)}",
                )
                for share in _ONE_IN
            ),
            Verb(
                "UPDATE 0.1 %",
                lambda t: t.update({"v": "v + 1", "s": "upper(s)"}, where("0.1 %")),
                f"UPDATE {{table}} SET v = v + 1, s = upper(s) WHERE {where('0.1 %')}",
            ),
            Verb(
                "MERGE, 1 % upserted",
                merge,
                "MERGE INTO {table} t USING upserts s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
                times=1,
            ),
            Verb(
                f"append of {self.rows // APPEND_SHARE:,} rows",
                lambda t: t.append(appends),
                "INSERT INTO {table} SELECT * FROM appends",
                bar=1.1,
                rewrites=False,
            ),
            Verb(
                f"DELETE of one row of {SMALL_ROWS:,}",
                lambda t: t.delete("id = 77"),
                "DELETE FROM {table} WHERE id = 77",
                small=True,
            ),
        ]

    def warm_up(self, verb: Verb) -> None:
        """Run it once by each engine; their tables must have as many rows afterwards."""
        counted = {name: probe()["rows"] for name, probe in self._probes(verb).items()}
        if len(set(counted.values())) != 1:
            raise RuntimeError(f"rows differ after {verb.what}: {counted}")

    def warm_up_more(self, verb: Verb) -> None:
        if verb.times > 1:
            for name, probe in self._probes(verb).items():
                if name != REWRITING:
                    probe()

    def compared(self, verb: Verb) -> list[Figure]:
        probes = self._probes(verb)
        rewriting = {name: probes.pop(name) for name in (REWRITING,) if name in probes}
        measured = alternate(self.rounds * verb.times, probes) | alternate(self.rounds, rewriting)
        took = {name: result["seconds"] for name, result in measured.items()}
        return [
            at_most(f"{verb.what}; {other}", took[DELVEC], took[other], verb.bar, as_seconds)
            for other in took
            if other != DELVEC
        ]

    def _probes(self, verb: Verb) -> dict[str, Callable[[], dict[str, Any]]]:
        probes: dict[str, Callable[[], dict[str, Any]]] = {
            DELVEC: lambda: self._delvec(verb),
            DELTA: lambda: self._delta(verb),
            ICEBERG: lambda: self._iceberg(verb),
        }
        if verb.rewrites:
            probes[REWRITING] = lambda: self._delvec(verb, vectors=False)
        return probes

    def _copy(self, verb: Verb, name: str) -> Path:
        source = self.work / "small" if verb.small else Path(self.tables.delta("0"))
        target = self.work / name
        shutil.rmtree(target, ignore_errors=True)
        for file in sorted(source.rglob("*")):
            place = target / file.relative_to(source)
            if file.is_dir():
                place.mkdir(parents=True, exist_ok=True)
            elif "_delta_log" in file.parts:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, place)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                link(file, place)
        return target

    def _delvec(self, verb: Verb, *, vectors: bool = True) -> dict[str, Any]:
        from delvec.table import Table

        path = self._copy(verb, "delvec")
        if not vectors:
            Table.open(self.spark, str(path)).set_properties({"delta.enableDeletionVectors": "false"})
        took = seconds(lambda: verb.delvec(Table.open(self.spark, str(path))))
        return {"seconds": took, "rows": Table.open(self.spark, str(path)).to_df().count()}

    def _delta(self, verb: Verb) -> dict[str, Any]:
        table = f"delta.`{self._copy(verb, 'delta')}`"
        took = seconds(lambda: self.spark.sql(verb.sql.format(table=table)).collect())
        return {"seconds": took, "rows": self.spark.table(table).count()}

    def _iceberg(self, verb: Verb) -> dict[str, Any]:
        name = "ice.bench.small" if verb.small else _WRITTEN
        snapshots = f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at LIMIT 1"
        first = self.spark.sql(snapshots).first()[0]
        self.spark.sql(f"CALL ice.system.set_current_snapshot('{name.partition('.')[2]}', {first})")
        took = seconds(lambda: self.spark.sql(verb.sql.format(table=name)).collect())
        return {"seconds": took, "rows": self.spark.table(name).count()}
