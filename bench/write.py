"""Writes by delvec beside Delta-Spark and Iceberg-Spark, on the same rows.

Each engine has a Spark session of its own (`engines.py`), stock for delvec. Each run of delvec and of
Delta-Spark starts from a copy of the table (hard links; only the log is copied); Iceberg's table is rolled
back to its first snapshot. The time is that of the user's call alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.engines import DELTA, DELVEC, ICEBERG, Engine
from bench.harness import Figure, Section, alternate, as_seconds, at_most, seconds
from bench.scan import QUICK_ROWS, ROWS
from bench.scan_tables import (
    SCHEMA,
    Tables,
    add_iceberg,
    copy_table,
    open_session,
    session,
    tables,
    undeleted_tables,
)

ROUNDS, QUICK_ROUNDS = 3, 1
WARM_UPS = 2
MORE_WARM_UPS = 4  # of what takes a few seconds or less, by the engines: their code gets faster for ten runs
OFTENER, OFTENEST = 3, 6  # as many rounds more for what takes a few seconds or less, or one at most
SMALL, SMALL_ROWS = "small", 10_000
TINY, TINY_ROWS = "tiny", 1_000
REWRITING = "delvec without vectors"
_WRITTEN = "ice.bench.written"
_UPSERTS, _APPENDS, _FEW = "upserts", "appends", "few"
_PREPARED = "prepared"
APPEND_SHARE = 10  # of the rows, one in so many

# One row in so many, spread over all files; a hash, so that nothing prunes.
_ONE_IN = {"0.1 %": 1000, "5 %": 20}
_MERGE = (
    "MERGE INTO {table} t USING {source} s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


def bench(*, quick: bool) -> list[Section]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    with Engine(Preparation, rows) as preparation:
        made = preparation.ask("tables")
    with ExitStack() as stack:
        engines = {
            name: stack.enter_context(Engine(Writes, name, rows, made)) for name in (DELVEC, DELTA, ICEBERG)
        }
        run = Run(engines, verbs(rows), rounds)
        for _ in range(WARM_UPS):  # of all verbs: what is measured first would else find the coldest JVM
            run.warm_up()
        for _ in range(MORE_WARM_UPS):
            run.warm_up_more()
        figures = run.figures()
    how = (
        f"{rows:,} rows of {SCHEMA} in four files; vectors (merge-on-read) for all; medians of "
        f"{rounds * OFTENER} interleaved rounds ({rounds * OFTENEST} of the DELETEs, {rounds} of the MERGE "
        f"and where files are rewritten) after {WARM_UPS} of all verbs and {MORE_WARM_UPS} of the short ones "
        "that are not counted; PySpark 4.1 on two cores, each engine in a session of its own."
    )
    return [Section(f"Writing to {rows:,} rows", how, figures, "the other")]


@dataclass(frozen=True)
class Verb:
    """What is done, by each engine; ``small``: the name of the small table on which it is done."""

    what: str
    delvec: Callable[[Any, Any], object]  # of the session, and of the opened table
    sql: str  # with {table} in it
    bar: float = 1.0
    small: str = ""
    rewrites: bool = True  # where there are no vectors, files are written again
    times: int = OFTENER


def verbs(rows: int) -> list[Verb]:
    def where(share: str) -> str:
        return f"pmod(xxhash64(id), {_ONE_IN[share]}) = 0"

    return [
        *(
            Verb(
                f"DELETE {share}",
                lambda _, table, share=share: table.delete(where(share)),
                f"DELETE FROM {{table}} WHERE {where(share)}",
                times=OFTENEST,
            )
            for share in _ONE_IN
        ),
        Verb(
            "UPDATE 0.1 %",
            lambda _, table: table.update({"v": "v + 1", "s": "upper(s)"}, where("0.1 %")),
            f"UPDATE {{table}} SET v = v + 1, s = upper(s) WHERE {where('0.1 %')}",
        ),
        Verb(
            "MERGE, 1 % upserted",
            partial(_merge, _UPSERTS),
            _MERGE.format(source=_UPSERTS, table="{table}"),
            times=1,
        ),
        Verb(
            f"append of {rows // APPEND_SHARE:,} rows",
            lambda spark, table: table.append(spark.table(_APPENDS)),
            f"INSERT INTO {{table}} SELECT * FROM {_APPENDS}",
            bar=1.1,
            rewrites=False,
        ),
        Verb(
            f"DELETE of one row of {SMALL_ROWS:,}",
            lambda _, table: table.delete("id = 77"),
            "DELETE FROM {table} WHERE id = 77",
            small=SMALL,
            times=OFTENEST,
        ),
        small_merge(),
    ]


def small_merge() -> Verb:
    return Verb(
        f"small merge: 5 rows into {TINY_ROWS:,}",
        partial(_merge, _FEW),
        _MERGE.format(source=_FEW, table="{table}"),
        small=TINY,
        times=OFTENEST,
    )


def _merge(source: str, spark: Any, table: Any) -> object:
    merging = table.merge(spark.table(source), "target.id = source.id").when_matched_update_all()
    return merging.when_not_matched_insert_all().execute()


class Preparation:
    """Makes the tables, the sources as files, and the small tables: in a process of its own."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def tables(self) -> Tables:
        with session(self.rows) as spark:
            made = tables(spark, self.rows)
            self._write(spark, made)
        return made

    def undeleted_tables(self) -> Tables:
        """The same without the tables of scans, and kept for the next time."""
        with session(self.rows) as spark:
            made = undeleted_tables(spark, self.rows)
            if not (made.folder / "write" / _PREPARED).exists():
                self._write(spark, made)
        return made

    def _write(self, spark: Any, made: Tables) -> None:
        work = made.folder / "write"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        self._write_sources(spark, work)
        for name, rows in ((SMALL, SMALL_ROWS), (TINY, TINY_ROWS)):
            self._write_small(spark, made, work, name, rows)
        self._write_iceberg(spark, made)
        (work / _PREPARED).touch()

    def _write_sources(self, spark: Any, work: Path) -> None:
        columns = ("id", "CAST(7 AS INT) AS k", "CAST(id AS DOUBLE) AS v", "concat('new ', id) AS s")
        upserts = self.rows // 100
        spark.range(upserts).selectExpr(
            # Half of the keys are there, spread over all files; half are new.
            f"CASE WHEN id % 2 = 0 THEN id * 97 % {self.rows} ELSE {self.rows} + id END AS id"
        ).selectExpr(*columns).write.parquet(str(work / _UPSERTS))
        few = spark.range(TINY_ROWS - 2, TINY_ROWS + 3, 1, 1)
        few.selectExpr(*columns).write.parquet(str(work / _FEW))
        appended = self.rows // APPEND_SHARE
        rows = spark.range(self.rows, self.rows + appended, 1, 4).selectExpr(*columns)
        rows.write.parquet(str(work / _APPENDS))

    def _write_small(self, spark: Any, made: Tables, work: Path, name: str, rows: int) -> None:
        small = spark.read.parquet(made.plain("0")).where(f"id < {rows}").coalesce(1)
        small.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(work / name))
        spark.sql(f"DROP TABLE IF EXISTS {_iceberg(name)}")
        spark.sql(
            f"CREATE TABLE {_iceberg(name)} ({SCHEMA}) USING iceberg TBLPROPERTIES ('format-version' = '3', "
            "'write.delete.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')"
        )
        spark.read.format("delta").load(str(work / name)).writeTo(_iceberg(name)).append()

    def _write_iceberg(self, spark: Any, made: Tables) -> None:
        spark.sql(f"DROP TABLE IF EXISTS {_WRITTEN}")
        add_iceberg(spark, _WRITTEN, Path(made.plain("0")), [])
        spark.sql(
            f"ALTER TABLE {_WRITTEN} SET TBLPROPERTIES ('write.update.mode' = 'merge-on-read', "
            "'write.merge.mode' = 'merge-on-read')"
        )


def _iceberg(name: str) -> str:
    return f"ice.bench.{name}"


class Writes:
    """The verbs, by one engine. Each run answers with its seconds, and the rows that the table has then."""

    def __init__(self, engine: str, rows: int, made: Tables) -> None:
        self.engine = engine
        self.spark = open_session(rows, engine)
        self.tables = made
        self.work = made.folder / "write"
        self.verbs = {verb.what: verb for verb in verbs(rows)}
        for name in (_UPSERTS, _APPENDS, _FEW):
            self.spark.read.parquet(str(self.work / name)).createOrReplaceTempView(name)

    def run(self, what: str, *, vectors: bool = True) -> dict[str, float]:
        verb = self.verbs[what]
        if self.engine == DELVEC:
            return self._delvec(verb, vectors=vectors)
        return self._delta(verb) if self.engine == DELTA else self._iceberg(verb)

    def _copy(self, verb: Verb, name: str) -> Path:
        source = self.work / verb.small if verb.small else Path(self.tables.delta("0"))
        target = self.work / name
        copy_table(source, target)
        return target

    def _delvec(self, verb: Verb, *, vectors: bool = True) -> dict[str, float]:
        from delvec.table import Table

        path = self._copy(verb, "delvec")
        if not vectors:
            Table.open(self.spark, str(path)).set_properties({"delta.enableDeletionVectors": "false"})
        took = seconds(lambda: verb.delvec(self.spark, Table.open(self.spark, str(path))))
        return {"seconds": took, "rows": Table.open(self.spark, str(path)).to_df().count()}

    def _delta(self, verb: Verb) -> dict[str, float]:
        table = f"delta.`{self._copy(verb, 'delta')}`"
        took = seconds(lambda: self.spark.sql(verb.sql.format(table=table)).collect())
        return {"seconds": took, "rows": self.spark.table(table).count()}

    def _iceberg(self, verb: Verb) -> dict[str, float]:
        """The table goes back to its first snapshot afterwards: the statement may be the session's first."""
        name = _iceberg(verb.small) if verb.small else _WRITTEN
        took = seconds(lambda: self.spark.sql(verb.sql.format(table=name)).collect())
        rows = self.spark.table(name).count()
        snapshots = f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at LIMIT 1"
        first = self.spark.sql(snapshots).first()[0]
        self.spark.sql(f"CALL ice.system.set_current_snapshot('{name.partition('.')[2]}', {first})")
        return {"seconds": took, "rows": rows}


class Run:
    def __init__(self, engines: Mapping[str, Engine], verbs: Sequence[Verb], rounds: int) -> None:
        self.engines = engines
        self.verbs = verbs
        self.rounds = rounds

    def warm_up(self) -> None:
        """Run all verbs once by each engine; their tables must have as many rows afterwards."""
        for verb in self.verbs:
            counted = {name: probe()["rows"] for name, probe in self._probes(verb).items()}
            if len(set(counted.values())) != 1:
                raise RuntimeError(f"rows differ after {verb.what}: {counted}")

    def warm_up_more(self) -> None:
        for verb in self.verbs:
            for name, probe in self._probes(verb).items():
                if name != REWRITING and verb.times > 1:
                    probe()

    def figures(self) -> list[Figure]:
        return [figure for verb in self.verbs for figure in self._compared(verb)]

    def _compared(self, verb: Verb) -> list[Figure]:
        probes = self._probes(verb)
        rewriting = {name: probes.pop(name) for name in (REWRITING,) if name in probes}
        measured = alternate(self.rounds * verb.times, probes) | alternate(self.rounds, rewriting)
        took = {name: result["seconds"] for name, result in measured.items()}
        return [
            at_most(f"{verb.what}; {other}", took[DELVEC], took[other], verb.bar, as_seconds)
            for other in took
            if other != DELVEC
        ]

    def _probes(self, verb: Verb) -> dict[str, Callable[[], dict[str, float]]]:
        probes = {name: lambda e=engine: e.ask("run", verb.what) for name, engine in self.engines.items()}
        if verb.rewrites:
            probes[REWRITING] = lambda: self.engines[DELVEC].ask("run", verb.what, vectors=False)
        return probes
