"""CONVERT: a folder of Parquet files as others write it becomes a table; what cannot become one is refused,
and no file is touched.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import delvec, in_spark, started
from delta_writer import read_by_delta_rs, read_by_duckdb
from delvec.errors import (
    CommitConflictError,
    DelvecError,
    FormatError,
    InvalidOperationError,
    UnsupportedFeatureError,
)
from rows import multiset
from scanning import collected, same
from writers.crashing import AFTER, BEFORE, FAIL, GONE, Calls, Point, watched

__all__ = ["delvec", "in_spark", "started"]

pytestmark = pytest.mark.spark

NULL = "__HIVE_DEFAULT_PARTITION__"


def put(root: Path, path: str, rows: dict | pa.Table, **options) -> Path:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.table(rows), place, **options)
    return place


def convert(spark, root, *given, **options):
    from delvec.table import Table

    return Table.convert(spark, str(root), *given, **options)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def adds(root: Path) -> list[dict]:
    lines = (root / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    return [json.loads(line)["add"] for line in lines if '"add"' in line[:8]]


def commit_info(root: Path) -> dict:
    return json.loads((root / "_delta_log" / f"{0:020d}.json").read_text().splitlines()[0])["commitInfo"]


def test_files_stay_and_become_a_table(spark, tmp_path):
    root = tmp_path / "a b%41 é"
    put(root, "one.parquet", {"id": [1, 2, None], "s": ["a", None, "c"]})
    put(root, "sub/two %20#.parquet", {"id": [4], "more": [decimal.Decimal("1.50")]})
    put(root, "none.parquet", {"id": pa.array([], pa.int64())})
    put(root, "_delvec_staging/x/left.parquet", {"id": [99]})
    put(root, ".hidden/x.parquet", {"id": [99]})
    put(root, "_x.parquet", {"other": ["x"]})
    (root / "_SUCCESS").touch()
    before = contents(root)
    table = convert(spark, root)
    assert before.items() <= contents(root).items()
    expected = [
        {"id": 1, "s": "a", "more": None},
        {"id": 2, "s": None, "more": None},
        {"id": None, "s": "c", "more": None},
        {"id": 4, "s": None, "more": decimal.Decimal("1.50")},
    ]
    same(table.to_df(), expected)
    assert table.schema.simpleString() == "struct<id:bigint,s:string,more:decimal(3,2)>"
    assert all(field.nullable for field in table.schema)
    stats = {add["path"]: json.loads(add["stats"]) for add in adds(root)}
    assert stats == {
        "one.parquet": {
            "numRecords": 3,
            "minValues": {"id": 1, "s": "a"},
            "maxValues": {"id": 2, "s": "c"},
            "nullCount": {"id": 1, "s": 1, "more": 3},
            "tightBounds": True,
        },
        "sub/two%20%2520%23.parquet": {
            "numRecords": 1,
            "minValues": {"id": 4, "more": 1.5},
            "maxValues": {"id": 4, "more": 1.5},
            "nullCount": {"id": 0, "s": 1, "more": 0},
            "tightBounds": True,
        },
    }
    info = commit_info(root)
    assert info["operation"] == "CONVERT"
    assert info["operationParameters"] == {
        "numFiles": 2, "partitionedBy": "[]", "collectStats": True, "sourceFormat": "parquet",
    }  # fmt: skip
    assert info["operationMetrics"]["numConvertedFiles"] == "2"
    assert not info["isBlindAppend"]
    assert table.delete("id = 2").metrics["numDeletionVectorsAdded"] == 1
    rows = multiset(row for row in expected if row["id"] != 2)
    # DuckDB cannot read a table in a folder of such a name.
    plain = str(shutil.copytree(root, tmp_path / "plain"))
    assert multiset(read_by_duckdb(plain)) == multiset(read_by_delta_rs(plain)) == rows
    assert (table.count(), table.count("id > 3")) == (3, 1)


def test_partition_values_come_from_folders(spark, tmp_path):
    paths = {
        f"s=x%2Fy %25/i=01/d=2020-01-31/t=2020-01-01 01%3A02%3A03.5/b=true/n={NULL}": 1,
        f"s={NULL}/i=-7/d={NULL}/t={NULL}/b={NULL}/n=1.50": 2,
        f"s=/I=8/d={NULL}/t={NULL}/b=false/n=2": 3,
    }
    for path, number in paths.items():
        put(tmp_path, f"{path}/f.parquet", {"id": [number], "i": [100]})
    columns = "s STRING, i INT, d DATE, t TIMESTAMP, b BOOLEAN, n DECIMAL(5,2)"
    table = convert(spark, tmp_path, columns)
    at = dt.datetime(2020, 1, 1, 1, 2, 3, 500_000, tzinfo=dt.UTC)
    first = {"id": 1, "i": 1, "s": "x/y %", "d": dt.date(2020, 1, 31), "t": at, "b": True, "n": None}
    rows = [
        first,
        {"id": 2, "i": -7, "s": None, "d": None, "t": None, "b": None, "n": decimal.Decimal("1.50")},
        {"id": 3, "i": 8, "s": None, "d": None, "t": None, "b": False, "n": decimal.Decimal("2.00")},
    ]
    same(table.to_df(), rows)
    assert table.schema.fieldNames() == ["id", "i", "s", "d", "t", "b", "n"]
    values = {add["path"][:4]: add["partitionValues"] for add in adds(tmp_path)}
    assert values["s=x%"] == {
        "s": "x/y %", "i": "1", "d": "2020-01-31", "t": "2020-01-01T01:02:03.500000Z", "b": "true", "n": None,
    }  # fmt: skip
    assert "i" not in json.loads(adds(tmp_path)[0]["stats"])["maxValues"]
    assert json.loads(commit_info(tmp_path)["operationParameters"]["partitionedBy"]) == list("sidtbn")
    assert collected(table.to_df(where="i = 1 AND d IS NOT NULL")) == [first]
    table.append(spark.createDataFrame(collected(table.to_df(where="id = 1")), table.schema))
    assert table.count("s = 'x/y %'") == 2


def test_types_of_other_writers(spark, tmp_path):
    at = dt.datetime(2020, 1, 2, 3, 4, 5, 6)
    rows = pa.table(
        {
            "u8": pa.array([200], pa.uint8()),
            "u32": pa.array([4_000_000_000], pa.uint32()),
            "u64": pa.array([2**63], pa.uint64()),
            "fixed": pa.array([b"ab"], pa.binary(2)),
            "large": pa.array(["x"], pa.large_string()),
            "coded": pa.array(["x"]).dictionary_encode(),
            "local": pa.array([at], pa.timestamp("us")),
            "utc": pa.array([at], pa.timestamp("ms", tz="UTC")),
            "nested": pa.array([{"a": [{"b": 1}], "m": [("k", [1.5])]}],
                pa.struct([("a", pa.list_(pa.struct([("b", pa.int8())]))),
                           ("m", pa.map_(pa.string(), pa.list_(pa.float64())))])),
        },
        schema=None,
    )  # fmt: skip
    ids = [f.with_metadata({b"PARQUET:field_id": str(n + 5).encode()}) for n, f in enumerate(rows.schema)]
    put(tmp_path / "ids", "a.parquet", rows.cast(pa.schema(ids)))
    times = {"at": pa.array([at], pa.timestamp("us"))}
    put(tmp_path / "96", "int96.parquet", times, use_deprecated_int96_timestamps=True)
    table = convert(spark, tmp_path / "96")
    assert table.schema.simpleString() == "struct<at:timestamp>"
    assert collected(table.to_df()) == [{"at": at.replace(tzinfo=dt.UTC)}]
    table = convert(spark, tmp_path / "ids")
    assert {field.name: field.dataType.simpleString() for field in table.schema} == {
        "u8": "smallint", "u32": "bigint", "u64": "decimal(20,0)", "fixed": "binary", "large": "string",
        "coded": "string", "local": "timestamp_ntz", "utc": "timestamp",
        "nested": "struct<a:array<struct<b:tinyint>>,m:map<string,array<double>>>",
    }  # fmt: skip
    (row,) = collected(table.to_df())
    assert (row["u8"], row["u32"], row["u64"], row["local"]) == (
        200,
        4_000_000_000,
        decimal.Decimal(2**63),
        at,
    )
    assert (row["nested"]["a"], dict(row["nested"]["m"])) == ([{"b": 1}], {"k": [1.5]})
    assert table.count("u8 > 100 AND u32 > 100") == 1
    table.delete("u8 = 200")
    assert table.count() == 0


def test_columns_of_all_files_together(spark, tmp_path):
    put(tmp_path, "a.parquet", {"n": pa.array([1], pa.int8()), "s": [{"x": 1}]})
    put(
        tmp_path, "b.parquet", {"n": pa.array([70_000], pa.int32()), "s": [{"x": 2, "y": "z"}], "new": [True]}
    )
    table = convert(spark, tmp_path, statistics=False, properties={"mine": "1"})
    assert table.schema.simpleString() == "struct<n:int,s:struct<x:bigint,y:string>,new:boolean>"
    same(
        table.to_df(),
        [
            {"n": 1, "s": {"x": 1, "y": None}, "new": None},
            {"n": 70_000, "s": {"x": 2, "y": "z"}, "new": True},
        ],
    )
    assert [json.loads(add["stats"])["numRecords"] for add in adds(tmp_path)] == [1, 1]
    assert [json.loads(add["stats"])["maxValues"] for add in adds(tmp_path)] == [{}, {}]
    assert commit_info(tmp_path)["operationParameters"]["collectStats"] is False
    assert table.properties == {"delta.enableDeletionVectors": "true", "mine": "1"}


FILE = {"id": [1]}
REFUSED = {
    "no files": ({}, {}, InvalidOperationError, "there are no Parquet files"),
    "hidden files only": ({"_a.parquet": FILE}, {}, InvalidOperationError, "there are no Parquet files"),
    "another type": (
        {"a.parquet": FILE, "b.parquet": {"id": ["x"]}}, {},
        InvalidOperationError, r"column id is of type string, expected long as in the other.*/b\.parquet",
    ),
    "another nested type": (
        {"a.parquet": {"s": [[{"x": 1}]]}, "b.parquet": {"s": [[{"x": 1.5}]]}}, {},
        InvalidOperationError, r"column s\.element\.x is of type double, expected long",
    ),
    "another case": (
        {"a.parquet": FILE, "b.parquet": {"ID": [1]}}, {},
        InvalidOperationError, r"column ID is named ID, expected id as in the other files: .*/b\.parquet",
    ),
    "a type that Spark lacks": (
        {"a.parquet": {"t": pa.array([1], pa.timestamp("ns"))}}, {}, UnsupportedFeatureError, r"a\.parquet",
    ),
    "folders that were not declared": (
        {"p=1/a.parquet": FILE}, {},
        InvalidOperationError, r"file p=1/a\.parquet is in the folder p=1, expected no partition",
    ),
    "no folder": (
        {"p=1/a.parquet": FILE, "b.parquet": FILE}, {"partition_by": "p INT"},
        InvalidOperationError, r"file b\.parquet is in no folder, expected p=…",
    ),
    "too many folders": (
        {"p=1/q=2/a.parquet": FILE}, {"partition_by": "p INT"},
        InvalidOperationError, r"file p=1/q=2/a\.parquet is in p=1/q=2, expected p=…",
    ),
    "another folder": (
        {"p=1/a.parquet": FILE, "q=1/a.parquet": FILE}, {"partition_by": ["p"]},
        InvalidOperationError, r"file q=1/a\.parquet is in the folder q=1, expected p=…",
    ),
    "another value": (
        {"p=1/a.parquet": FILE, "p=x/a.parquet": FILE}, {"partition_by": "p INT"},
        InvalidOperationError, "partition value 'x' of column p is not a value of the type integer",
    ),
    "a value with more digits": (
        {"p=1.20/a.parquet": FILE, "p=1.239/a.parquet": FILE}, {"partition_by": "p DECIMAL(5, 2)"},
        InvalidOperationError, "partition value '1.239' of column p is not a value of the type decimal",
    ),
    "a date with a time": (
        {"p=2020-01-01 10%3A00/a.parquet": FILE}, {"partition_by": "p DATE"},
        InvalidOperationError, "value '2020-01-01 10:00' of column p is not a value of the type date",
    ),
    "a longer text": (
        {"p=abcdef/a.parquet": FILE}, {"partition_by": "p VARCHAR(3)"},
        InvalidOperationError, "partition value 'abcdef' of column p is not a value of the type varchar",
    ),
    "a column declared twice": (
        {"p=1/P=1/a.parquet": FILE}, {"partition_by": "p INT, P INT"},
        InvalidOperationError, "p, P, expected each once",
    ),
    "no type": ({"a.parquet": FILE}, {"partition_by": "p"}, InvalidOperationError, "schema 'p' is invalid"),
    "a reserved name": ({"a.parquet": {"_metadata": [1]}}, {}, InvalidOperationError, "Spark reserves"),
    "column mapping": (
        {"a.parquet": FILE}, {"properties": {"delta.columnMapping.mode": "name"}},
        UnsupportedFeatureError, "the files have its own name",
    ),
    "a constraint": (
        {"a.parquet": FILE}, {"properties": {"delta.constraints.c": "id > 5"}},
        UnsupportedFeatureError, "cannot have the constraint c",
    ),
    "only partition columns": (
        {"p=1/a.parquet": {"p": [1]}}, {"partition_by": "p INT"}, InvalidOperationError, "all columns",
    ),
    "no format": ({"a.parquet": FILE}, {"format": "orc"}, InvalidOperationError, "format is 'orc'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_folders_that_are_refused(spark, tmp_path, case):
    files, options, error, message = REFUSED[case]
    for path, rows in files.items():
        put(tmp_path, path, rows)
    before = contents(tmp_path)
    with pytest.raises(error, match=message):
        convert(spark, tmp_path, **options)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("damage", ["text", "cut", "encrypted"])
def test_files_that_are_not_parquet_are_named(spark, tmp_path, damage):
    put(tmp_path, "a.parquet", FILE)
    whole = (tmp_path / "a.parquet").read_bytes()
    bad = {"text": b"hello", "cut": whole[:-9], "encrypted": b"PARE" + whole[4:-4] + b"PARE"}[damage]
    (tmp_path / "notes.txt").write_bytes(bad)
    with pytest.raises(FormatError, match=r"not readable as Parquet: .*notes\.txt"):
        convert(spark, tmp_path)
    assert not (tmp_path / "_delta_log").exists()


def test_a_table_is_not_converted(spark, tmp_path, delvec):
    from delvec import sql

    put(tmp_path, "a.parquet", FILE)
    convert(spark, tmp_path)
    for again in (
        lambda: convert(spark, tmp_path),
        lambda: sql(spark, f"CONVERT TO DELTA parquet.`{tmp_path}`"),
    ):
        with pytest.raises(InvalidOperationError, match=r"a table \(delta\) already exists"):
            again()
    assert delvec("convert", tmp_path).code == 2


def test_statement_and_command(spark, tmp_path, delvec, in_spark):
    from delvec import sql

    for root in ("sql", "cli"):
        put(tmp_path / root, "p=1/q=x y/a.parquet", FILE)
    assert (
        sql(
            spark, f"convert to delta parquet.`{tmp_path}/sql` NO STATISTICS PARTITIONED BY (p INT, q STRING)"
        ).columns
        == []
    )
    assert sql(spark, f"SELECT p, q, id FROM delvec.`{tmp_path}/sql`").collect() == [(1, "x y", 1)]
    arguments = ("convert", tmp_path / "cli", "--partition-by", "p INT, q STRING")
    planned = delvec(*arguments, "--dry-run", "--json").json
    assert (planned["version"], planned["dry_run"], planned["rows"], planned["files"]) == (None, True, 1, 1)
    assert planned["columns"] == {"id": "bigint", "p": "int", "q": "string"}
    assert not (tmp_path / "cli" / "_delta_log").exists()
    shown = delvec(*arguments)
    assert shown.code == 0
    assert "partitioned by  p, q" in shown.out
    assert delvec("count", tmp_path / "cli", "--where", "q = 'x y'", "--json").json["rows"] == 1
    assert delvec("verify", tmp_path / "cli").code == 0


def test_two_conversions_at_once(spark, tmp_path):
    put(tmp_path, "a.parquet", FILE)
    meet = threading.Barrier(2)
    results = []

    def run():
        from delvec.delta.table import DeltaTable
        from delvec.spark.convert import convert as commit
        from delvec.spark.convert import plan_conversion

        conversion = plan_conversion(spark, DeltaTable.open(str(tmp_path)), (), None)
        meet.wait()
        try:
            results.append(commit(conversion))
        except CommitConflictError as error:
            results.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {type(result) for result in results} == {int, str}
    assert "another table was created there" in next(result for result in results if isinstance(result, str))
    assert (tmp_path / "a.parquet").exists()


def test_a_store_that_fails_at_each_call(spark, tmp_path):
    put(tmp_path, "a.parquet", FILE)
    files = contents(tmp_path)
    with watched(Calls()) as calls:
        convert(spark, tmp_path)
    for call, name in enumerate(calls.names):
        changes = name.startswith(("put", "_"))
        for mode, when in ((GONE, BEFORE), *([(FAIL, BEFORE), (FAIL, AFTER)] if changes else ())):
            shutil.rmtree(tmp_path / "_delta_log", ignore_errors=True)
            with watched(Calls(Point(mode, when, call))):
                try:
                    told = convert(spark, tmp_path).version
                except DelvecError:
                    told = None
            assert files.items() <= contents(tmp_path).items()
            is_there = (tmp_path / "_delta_log" / f"{0:020d}.json").exists()
            assert is_there or told is None
            if not is_there:
                convert(spark, tmp_path)
            assert len(adds(tmp_path)) == 1
