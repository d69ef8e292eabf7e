"""``spark.read.format("delvec")`` on Spark: rows, filters, versions and errors."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import os
import random
import sys
from contextlib import contextmanager
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import udf

from delta_log import LogWriter, add, column
from delvec.connector import row_groups, source
from delvec.detect import open_table, write_sample_table
from golden_data import golden
from lake import BY_ID, BY_NAME, Lake
from rows import multiset, read_rows
from s3server import BUCKET, s3_server_or_skip

pytestmark = pytest.mark.spark
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers need delvec as well

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
ZONE = "spark.sql.session.timeZone"


@contextmanager
def setting(spark, name, value):
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before) if before is not None else spark.conf.unset(name)


def load(spark, path, **options):
    return spark.read.format("delvec").options(**options).load(str(path))


def rows(frame):
    return frame.toArrow().to_pylist()


def expected(path, version=None):
    table = open_table(str(path))
    return read_rows(table.snapshot(version).plan(), table.storage)


def error_of(action):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark wraps ours in classes of its own
        action()
    return str(caught.value)


GOLDEN = [
    ("table-with-dv-large", None),
    ("table-with-dv-large", 3),
    ("basic-dv-with-checkpoint", None),
    ("dv-partitioned-with-checkpoint", None),
    ("log-replay-dv-key-cases", None),
    ("cdf-table-with-dv", 4),
]


@pytest.mark.parametrize(("name", "version"), GOLDEN, ids=str)
def test_tables_of_other_engines(spark, name, version):
    path = golden(f"delta/{name}")
    options = {} if version is None else {"version": version}
    assert multiset(rows(load(spark, path, **options))) == multiset(expected(path, version))


# Every type, with the values that comparisons stumble over

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("b", pa.bool_()),
        ("h", pa.int16()),
        ("f", pa.float32()),
        ("x", pa.float64()),
        ("m", pa.decimal128(9, 2)),
        ("s", pa.string()),
        ("z", pa.binary()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("n", pa.timestamp("us")),
        ("g", pa.struct([("k", pa.int32()), ("w", pa.struct([("s", pa.string())]))])),
        ("l", pa.list_(pa.int32())),
        ("a", pa.map_(pa.string(), pa.int64())),
        ("p", pa.int32()),
    ]
)
NAN, INF = math.nan, math.inf
DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2020, 2, 29), dt.date(9999, 12, 31)]
MOMENTS = [
    dt.datetime(1900, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(2021, 3, 28, 2, 30),
    dt.datetime(2021, 10, 31, 2, 30, 0, 1),
]
VALUES = {
    "b": [True, False],
    "h": [-32768, -1, 0, 5, 32767],
    "f": [-INF, -1.5, -0.0, 0.0, 0.25, 2.0**127, INF, NAN],
    "x": [-INF, -1.5, -0.0, 0.0, 0.1, 1e300, INF, NAN],
    "m": [decimal.Decimal(v) for v in ("-9999999.99", "-0.01", "0.00", "1.25", "9999999.99")],
    "s": ["", "a", "ab", "abc", "b", "é", "\U0001f600", "it's", 'q"', "back\\slash", "a%_b", "${x}", "--"],
    "z": [b"", b"a", b"\x7f", b"\x80", b"\xff\xff"],
    "d": DAYS,
    "t": [moment.replace(tzinfo=dt.UTC) for moment in MOMENTS],
    "n": MOMENTS,
}
FILES, ROWS, ROW_GROUP = 6, 120, 17


def random_rows(rng, file, part):
    """Rows whose values differ from row group to row group, so that statistics tell them apart."""
    made = []
    for number in range(ROWS):
        if number % ROW_GROUP == 0:
            few = {name: rng.sample(values, 2) for name, values in VALUES.items()}
        made.append(random_row(rng, few, file * ROWS + number, part))
    return made


def random_row(rng, few, number, part):
    def maybe(value):
        return None if rng.random() < 0.15 else value

    row = {name: maybe(rng.choice(values)) for name, values in few.items()}
    nested = {"k": maybe(rng.randrange(5)), "w": maybe({"s": maybe(rng.choice(few["s"]))})}
    pairs = [(f"k{i}", maybe(i)) for i in range(rng.randrange(3))]
    lists = {"l": maybe([maybe(i) for i in range(rng.randrange(3))]), "a": maybe(pairs)}
    return {**row, **lists, "id": number, "g": maybe(nested), "p": part}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A partitioned table of every type with several row groups, some files with vectors and some without."""
    rng = random.Random(4)
    table = Lake(tmp_path_factory.mktemp("mixed"), SCHEMA, partition_by=["p"], row_group_size=ROW_GROUP)
    for file in range(FILES):
        made = random_rows(rng, file, [1, 2, None][file % 3])
        table.write(made, deleted=rng.sample(range(ROWS), 30 if file % 2 else 0))
    table.commit()
    return table


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_type_in_any_time_zone(spark, mixed, zone):
    with setting(spark, ZONE, zone):
        frame = load(spark, mixed.root)
        found = rows(frame)
        texts = frame.selectExpr("id", "string(t)", "string(n)", "string(d)").where("id < 30").collect()
    wanted = expected(mixed.root)
    for row in found:
        row["t"] = None if row["t"] is None else row["t"].astimezone(dt.UTC)
    for row in wanted:
        row["t"] = None if row["t"] is None else row["t"].astimezone(dt.UTC)
    assert multiset(found) == multiset(wanted)
    assert frame.columns == SCHEMA.names, "no internal column"
    by_id = {row["id"]: row for row in wanted}
    assert {row["id"] for row in texts} == {i for i in by_id if i < 30}
    assert all(
        row[2] is None or row[2].startswith(by_id[row["id"]]["n"].isoformat(" ")[:16]) for row in texts
    )


def sql_literal(value):
    match value:
        case bool() | int():
            return str(value).upper()
        case float():
            return f"double('{value}')"
        case decimal.Decimal():
            return f"CAST('{value}' AS DECIMAL(9,2))"
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            text = value.replace("\\", "\\\\").replace("'", "\\'")
            return "('" + text.replace("${", "$' || '{") + "')"  # or Spark puts a variable in
        case dt.datetime(tzinfo=None):
            return f"TIMESTAMP_NTZ '{value}'"
        case dt.datetime():
            return f"TIMESTAMP '{value}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
    return "NULL"


OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}


def random_filter(rng, filters):
    """A filter as Spark gives it to a reader, and the same in SQL."""
    others = {"k": [0, 2, 4], "id": [100, 400, 650], "p": [1, 2]}
    path = rng.choice([*((name,) for name in VALUES), ("g", "k"), ("g", "w", "s"), ("id",), ("p",)])
    values = VALUES.get(path[-1]) or others[path[-1]]
    name, value = ".".join(path), rng.choice(values)
    cast = (lambda text: f"float({text})") if path == ("f",) else str
    kind = rng.choice([*OPERATORS, "In", "IsNull", "IsNotNull", "String"])
    if kind in OPERATORS:
        pushed, text = (
            getattr(filters, kind)(path, value),
            f"{name} {OPERATORS[kind]} {cast(sql_literal(value))}",
        )
    elif kind == "In":
        chosen = [*rng.sample(values, 2), *([None] if rng.random() < 0.3 else [])]
        items = ", ".join(cast(sql_literal(item)) for item in chosen)
        pushed, text = filters.In(path, tuple(chosen)), f"{name} IN ({items})"
    elif kind == "String":
        part, which = rng.choice(VALUES["s"]), rng.choice(["StartsWith", "EndsWith", "Contains"])
        pushed = getattr(filters, f"String{which}")(("s",), part)
        text = f"{which.lower()}(s, {sql_literal(part)})"
    else:
        pushed, text = getattr(filters, kind)(path), f"{name} IS {'NOT ' * (kind == 'IsNotNull')}NULL"
    return (filters.Not(pushed), f"NOT ({text})") if rng.random() < 0.3 else (pushed, text)


@pytest.fixture(scope="module")
def filters():
    found = pytest.importorskip("pyspark.sql.datasource")
    if not hasattr(found, "EqualTo"):
        pytest.skip("this PySpark has no filter push-down")
    return found


def test_random_filters_answer_as_spark_does(spark, mixed, filters, monkeypatch):
    """Spark answers all of them in one job; every accepted filter must give exactly Spark's rows."""
    rng = random.Random(5)
    pairs = [random_filter(rng, filters) for _ in range(120)]
    texts = [f"({text}) AS c{number}" for number, (_, text) in enumerate(pairs)]
    answers = load(spark, mixed.root).selectExpr("id", *texts).toArrow().to_pydict()
    groups, real = [], row_groups.matching
    monkeypatch.setattr(row_groups, "matching", lambda *given: groups.append(real(*given)) or groups[-1])
    relation = source.load({"path": str(mixed.root)})
    for number in range(len(pairs) - 1):
        together = pairs[number : number + 1 + number % 2]
        reader = source.PushdownReader(relation)
        assert reader.pushFilters([pushed for pushed, _ in together]) == []
        found = [batch["id"].to_pylist() for task in reader.partitions() for batch in reader.read(task)]
        holds = zip(*(answers[f"c{number + i}"] for i in range(len(together))), strict=True)
        wanted = [i for i, each in zip(answers["id"], holds, strict=True) if all(each)]
        assert sorted(chain.from_iterable(found)) == sorted(wanted), [text for _, text in together]
    files, whole = FILES * (len(pairs) - 1), -(-ROWS // ROW_GROUP)
    assert len(groups) < files * 0.95, "few files are pruned"
    assert sum(map(len, groups)) < len(groups) * whole * 0.8, "few row groups are skipped"


QUERIES = [
    "p = 1 AND id >= 100 AND s >= 'it\\'s'",
    "x > 1 AND f <= 0.25F AND NOT d = DATE '2020-02-29'",
    "t >= TIMESTAMP '2021-03-28 02:30:00Z' AND g.k IN (1, 3) AND s LIKE 'a%'",
    "p IS NULL AND (id < 300 OR x = 0.1) AND id % 3 = 1",
]


@pytest.mark.parametrize("query", QUERIES)
def test_filters_are_pushed_and_change_nothing(spark, mixed, filters, query):
    with setting(spark, PUSHDOWN, "false"):
        wanted = multiset(rows(load(spark, mixed.root).where(query)))
    with setting(spark, PUSHDOWN, "true"):
        assert multiset(rows(load(spark, mixed.root).where(query))) == wanted
    assert wanted


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_accepted_filters_leave_the_plan(spark, mixed, filters):
    with setting(spark, PUSHDOWN, "true"):
        plan = plan_of(load(spark, mixed.root).where("id > 5 AND x < 3 AND g.k = 1 AND id % 2 = 0"))
        assert "Filter ((id#" in plan
        assert "% 2) = 0)" in plan
        assert " > 5" not in plan
        assert " < 3" not in plan


@pytest.mark.parametrize("mapping", [BY_NAME, BY_ID])
def test_column_mapping_and_chosen_columns(spark, tmp_path, mapping):
    schema = pa.schema(
        [("odd, `name`", pa.int64()), ("n", pa.struct([("a b", pa.string())])), ("p", pa.string())]
    )
    table = Lake(tmp_path, schema, mapping=mapping, partition_by=["p"])
    for part in ("x", None):
        made = [{"odd, `name`": i, "n": {"a b": str(i)} if i % 2 else None, "p": part} for i in range(20)]
        table.write(made, deleted=[0, 7], named="was " if mapping == BY_ID else "")
    table.commit()
    assert multiset(rows(load(spark, tmp_path))) == multiset(table.live)
    frame = load(spark, tmp_path, columns="p, `odd, ``name```")
    assert frame.columns == ["p", "odd, `name`"]
    wanted = [{"p": row["p"], "odd, `name`": row["odd, `name`"]} for row in table.live]
    assert multiset(rows(frame)) == multiset(wanted)


def test_a_relation_stays_at_its_version(spark, tmp_path):
    table = Lake(tmp_path, pa.schema([("id", pa.int64())]))
    table.write([{"id": i} for i in range(10)])
    table.commit()
    frame = load(spark, tmp_path)
    table.delete(table.files[0], [1, 2])
    table.commit()
    assert frame.count() == 10
    assert frame.where("id >= 0").count() == 10
    assert load(spark, tmp_path).count() == 8
    assert load(spark, tmp_path, version=0).count() == 10


def test_void_variant_and_not_null(spark, tmp_path):
    log = LogWriter(str(tmp_path))
    fields = [column("id", "long", nullable=False), column("v", "variant"), column("e", "void")]
    log.create(*fields, features=["deletionVectors", "variantType"])
    held = [{"id": 1, "v": {"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"}}, {"id": 2, "v": None}]
    pq.write_table(pa.Table.from_pylist(held), tmp_path / "f.parquet")
    log.commit(add("f.parquet"))
    frame = load(spark, tmp_path)
    assert not frame.schema["id"].nullable
    assert frame.selectExpr("id", "to_json(v)", "e").orderBy("id").collect() == [
        (1, "5", None),
        (2, None, None),
    ]


def test_an_empty_table(spark, tmp_path):
    Lake(tmp_path, pa.schema([("id", pa.int64())])).commit()
    assert load(spark, tmp_path).collect() == []


def test_sql_over_a_view(spark, tmp_path):
    write_sample_table(str(tmp_path / "t"))
    load(spark, tmp_path / "t").createOrReplaceTempView("connector_orders")
    assert spark.sql("SELECT count(*) FROM connector_orders").first()[0] == 23
    spark.catalog.dropTempView("connector_orders")


def test_an_object_store_with_the_options_of_hadoop(spark, tmp_path):
    with s3_server_or_skip(tmp_path / "s3") as server:
        place = f"s3://{BUCKET}/a table"
        write_sample_table(place, server.options)
        options = {
            "fs.s3a.access.key": server.access_key,
            "fs.s3a.secret.key": server.secret_key,
            "fs.s3a.endpoint": server.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
        }
        assert load(spark, place, **options).count() == 23


def test_what_is_asked_wrong_is_said_at_load(spark, tmp_path):
    write_sample_table(str(tmp_path / "t"))
    place = tmp_path / "t"
    assert "unknown column `nope` in option columns" in error_of(
        lambda: load(spark, place, columns="id,nope")
    )
    both = {"version": 1, "timestamp": "2025-01-01"}
    assert "both version 1 and timestamp 2025-01-01" in error_of(lambda: load(spark, place, **both))
    assert "option 'verzion' is not known" in error_of(lambda: load(spark, place, verzion=1))
    twice = {"version": 1, "versionAsOf": 1}
    assert "both version 1 and versionAsOf 1 are given" in error_of(lambda: load(spark, place, **twice))
    assert f"no table at {tmp_path}" in error_of(lambda: load(spark, tmp_path))
    given = spark.read.format("delvec").schema("id long")
    assert "the schema cannot be set" in error_of(lambda: given.load(str(place)).collect())


def test_the_options_of_delta_for_time_travel(spark, tmp_path):
    write_sample_table(str(tmp_path / "t"))
    for options in ({"versionAsOf": 0}, {"timestampAsOf": "2025-01-01T12:00:00Z"}):
        assert load(spark, tmp_path / "t", **options).count() == 40
    assert load(spark, tmp_path / "t", versionAsOf="1").count() == 27


def test_a_relative_path_is_refused_at_load(spark, tmp_path, monkeypatch):
    """It would be looked for where Spark was started, where another table may be."""
    write_sample_table(str(tmp_path / "t"))
    monkeypatch.chdir(tmp_path)
    for path in ("t", "./t", "../t"):
        message = error_of(lambda path=path: load(spark, path))
        assert f"path '{path}' is relative, expected an absolute path or a URL" in message
        assert "os.path.abspath" in message
    assert load(spark, (tmp_path / "t").as_uri()).count() == 23


def test_streams_are_refused_when_they_start(spark, tmp_path):
    write_sample_table(str(tmp_path / "t"))
    read = spark.readStream.format("delvec").load(str(tmp_path / "t")).writeStream.format("noop")
    written = spark.readStream.format("rate").load().writeStream.format("delvec")
    for stream, words in ((read, "has no streaming read"), (written, "has no streaming write")):
        started = stream.option("checkpointLocation", str(tmp_path / words)).option(
            "path", str(tmp_path / "t")
        )
        message = error_of(lambda started=started: started.start().awaitTermination(60))
        assert words in message
        assert "Traceback" not in message


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_writing_is_refused_by_the_verbs_that_write(spark, tmp_path, mode):
    write_sample_table(str(tmp_path / "t"))
    frame = spark.range(3)
    message = error_of(lambda: frame.write.format("delvec").mode(mode).save(str(tmp_path / "t")))
    assert "Table.append(df)" in message
    assert "Traceback" not in message
    assert open_table(str(tmp_path / "t")).snapshot().version == 2


def test_errors_come_without_a_traceback(spark, tmp_path):
    """Spark's Python processes make a text of an error; of ours it is the message alone."""
    write_sample_table(str(tmp_path / "t"))
    place = tmp_path / "t"
    frame = load(spark, place, columns="id")
    for vector in place.glob("*.bin"):
        vector.unlink()
    for action in (
        lambda: load(spark, place, columns="nope"),
        lambda: load(spark, tmp_path / "nothing"),
        lambda: spark.read.format("delvec").schema("id long").load(str(place)).collect(),
        frame.collect,
    ):
        message = error_of(action)
        assert "Traceback" not in message
        assert "delvec.errors." in message.split("\n\tat ")[0]
    failing = udf(lambda _: 1 / 0, "int")  # other errors of the session keep theirs
    assert "Traceback" in error_of(lambda: spark.range(1).select(failing("id")).collect())


def test_what_is_broken_is_named_when_read(spark, tmp_path):
    write_sample_table(str(tmp_path / "t"))
    frame = load(spark, tmp_path / "t", columns="id")
    (missing,) = (tmp_path / "t" / "region=us").glob("*3.parquet")
    kept = missing.read_bytes()
    missing.unlink()
    assert missing.name in error_of(frame.collect)
    missing.write_bytes(kept)
    for vector in (tmp_path / "t").glob("*.bin"):
        vector.write_bytes(vector.read_bytes()[:-1] + b"\x00")
    message = error_of(frame.collect)
    assert "CorruptVectorError" in message
    assert "deletion_vector_" in message
    for vector in (tmp_path / "t").glob("*.bin"):
        vector.unlink()
    message = error_of(frame.collect)
    assert "CorruptVectorError: vector file is missing" in message
    assert "deletion_vector_" in message


def test_an_unknown_column_in_a_filter_is_named(spark, tmp_path):
    write_sample_table(str(tmp_path / "t"))
    assert "`nope`" in error_of(lambda: load(spark, tmp_path / "t").where("nope = 1").collect())
