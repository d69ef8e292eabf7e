"""Partition transforms in Spark: the values of Iceberg's specification, in any session."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as Dec

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delvec.errors import UnsupportedFeatureError
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.row_delta import DeleteForm, WriteRules
from delvec.schema import Decimal, Field, Fixed, Primitive, Struct
from delvec.spark.partition_folders import same_partitions
from delvec.spark.partition_values import typed_values
from delvec.spark.transforms import partition_value
from delvec.spark.types import quoted, type_text
from delvec.spark.write_rows import write_rows
from delvec.storage import open_storage
from delvec.transforms import parse_transform

INT, LONG, STRING, BINARY = (Primitive(name) for name in ("integer", "long", "string", "binary"))
DATE, TIMESTAMP, NTZ = (Primitive(name) for name in ("date", "timestamp", "timestamp_ntz"))
N = 2**31 - 1


def field(text, source, name="x"):
    transform = parse_transform(text)
    return PartitionField(name, (name,), transform, transform.result_type(source))


def computed(spark, cases):
    """The partition values of literals, each given with a transform and its type, in one query."""
    columns = [f"CAST({literal} AS {type_text(kind)}) AS x{n}" for n, (_, kind, literal) in enumerate(cases)]
    values = [partition_value(field(text, kind, f"x{n}"), kind) for n, (text, kind, _) in enumerate(cases)]
    return list(spark.range(1).selectExpr(*columns).selectExpr(*values).collect()[0])


# Hashes in Appendix B of the specification.
HASHES = [
    (INT, "34", 2017239379),
    (LONG, "34", 2017239379),
    (DATE, "DATE'2017-11-16'", -653330422),
    (TIMESTAMP, "TIMESTAMP'2017-11-16 22:31:08Z'", -2047944441),
    (TIMESTAMP, "TIMESTAMP'2017-11-16 14:31:08.000001-08:00'", -1207196810),
    (NTZ, "TIMESTAMP_NTZ'2017-11-16 22:31:08'", -2047944441),
    (NTZ, "TIMESTAMP_NTZ'2017-11-16 22:31:08.000001'", -1207196810),
]


def test_buckets(spark, conf):
    conf("spark.sql.session.timeZone", "America/Los_Angeles")
    cases = [(f"bucket[{n}]", kind, text) for kind, text, _ in HASHES for n in (N, 16)]
    hashes = [found & N for _, _, found in HASHES]
    expected = [number % n for number in hashes for n in (N, 16)]
    assert computed(spark, cases) == expected


def murmur(number):
    """Murmur3, 32 bits, seed 0, of eight bytes."""
    found = 0
    for half in (number & 0xFFFFFFFF, number >> 32 & 0xFFFFFFFF):
        part = half * 0xCC9E2D51 & 0xFFFFFFFF
        found ^= (part << 15 | part >> 17) * 0x1B873593 & 0xFFFFFFFF
        found = ((found << 13 | found >> 19) & 0xFFFFFFFF) * 5 + 0xE6546B64 & 0xFFFFFFFF
    found ^= 8
    found = (found ^ found >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    found = (found ^ found >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return found ^ found >> 16


def test_buckets_of_many_numbers(spark):
    assert murmur(34) == 2017239379
    numbers = [0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63), *range(-1000, 1000, 37)]
    cases = [
        (f"bucket[{N}]", LONG, f"{number}L" if number > -(2**63) else "-9223372036854775807L - 1")
        for number in numbers
    ]
    assert computed(spark, cases) == [murmur(number & 2**64 - 1) & N for number in numbers]


TRUNCATED = [
    ("truncate[10]", INT, "1", 0),
    ("truncate[10]", INT, "-1", -10),
    ("truncate[10]", LONG, "-10", -10),
    ("truncate[7]", LONG, "9223372036854775807L", (2**63 - 1) // 7 * 7),
    ("truncate[50]", Decimal(9, 2), "10.65", Dec("10.50")),
    ("truncate[50]", Decimal(9, 2), "-0.01", Dec("-0.50")),
    (
        "truncate[3]",
        Decimal(38, 0),
        "99999999999999999999999999999999999998",
        Dec("99999999999999999999999999999999999996"),
    ),
    ("truncate[3]", STRING, "'iceberg'", "ice"),
    ("truncate[3]", STRING, "'ü😀xy'", "ü😀x"),
    ("truncate[3]", STRING, "'a'", "a"),
    ("truncate[3]", BINARY, "X'0102030405'", b"\x01\x02\x03"),
]
TIMES = [
    ("year", DATE, "DATE'1969-12-31'", -1),
    ("month", DATE, "DATE'1969-12-31'", -1),
    ("day", DATE, "DATE'1969-12-31'", dt.date(1969, 12, 31)),
    ("year", DATE, "DATE'2017-11-16'", 47),
    ("month", DATE, "DATE'2017-11-16'", 574),
    ("year", TIMESTAMP, "TIMESTAMP'2018-01-01 00:30:00Z'", 48),
    ("month", TIMESTAMP, "TIMESTAMP'2017-12-31 23:59:59.999999Z'", 575),
    ("day", TIMESTAMP, "TIMESTAMP'2017-12-31 23:59:59.999999Z'", dt.date(2017, 12, 31)),
    ("hour", TIMESTAMP, "TIMESTAMP'2017-12-01 10:12:55.038194Z'", 420034),
    ("hour", TIMESTAMP, "TIMESTAMP'1969-12-31 23:00:00Z'", -1),
    ("hour", TIMESTAMP, "TIMESTAMP'1969-12-31 22:59:59.999999Z'", -2),
    ("day", TIMESTAMP, "TIMESTAMP'1969-12-31 23:00:00Z'", dt.date(1969, 12, 31)),
    ("year", TIMESTAMP, "TIMESTAMP'1969-12-31 23:00:00Z'", -1),
    ("hour", NTZ, "TIMESTAMP_NTZ'1969-12-31 22:59:59.999999'", -2),
    ("hour", NTZ, "TIMESTAMP_NTZ'2017-12-01 10:12:55.038194'", 420034),
    ("day", NTZ, "TIMESTAMP_NTZ'1969-12-31 22:59:59'", dt.date(1969, 12, 31)),
    ("month", NTZ, "TIMESTAMP_NTZ'1969-12-31 22:59:59'", -1),
]


@pytest.mark.parametrize(("zone", "ansi"), [("America/Los_Angeles", "true"), ("Asia/Kolkata", "false")])
def test_truncate_and_times(spark, conf, zone, ansi):
    conf("spark.sql.session.timeZone", zone)
    conf("spark.sql.ansi.enabled", ansi)
    cases = TRUNCATED + TIMES
    assert computed(spark, [case[:3] for case in cases]) == [case[3] for case in cases]


def test_nulls(spark):
    texts = ["bucket[4]", "truncate[4]", "void"]
    cases = [(text, INT, "NULL") for text in texts] + [("hour", TIMESTAMP, "NULL"), ("void", STRING, "'a'")]
    assert computed(spark, cases) == [None] * 5


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_truncated_value_that_does_not_fit_is_an_error(spark, conf, ansi):
    conf("spark.sql.ansi.enabled", ansi)
    for kind, literal in ((INT, f"{-(2**31)}"), (Decimal(2, 0), "-99")):
        with pytest.raises(Exception, match="a truncated partition value is too small"):
            computed(spark, [("truncate[10]", kind, literal)])


@pytest.mark.parametrize("kind", [Primitive("uuid"), Fixed(4)])
def test_buckets_that_spark_cannot_compute(kind):
    with pytest.raises(UnsupportedFeatureError, match=r"by bucket\[4\] of column x, which is of type"):
        partition_value(field("bucket[4]", kind), kind)


ROWS = [
    (1, "", dt.date(1960, 2, 29), dt.datetime(1969, 12, 31, 23, 30, 0, 1), Dec("0.10"), b"", 0.1, True),
    (2, None, None, None, None, None, None, None),
    (
        3,
        "_a/b=%ü ",
        dt.date(9999, 12, 31),
        dt.datetime(2024, 7, 1, 2, 30),
        Dec("-9.99"),
        b"\0\xff",
        -0.0,
        False,
    ),
    (
        5,
        "_HIVE_DEFAULT_PARTITION__",
        dt.date(1970, 1, 1),
        dt.datetime(1970, 1, 1),
        Dec("0.01"),
        b"b",
        5e-324,
        False,
    ),
    (
        4,
        "__HIVE_DEFAULT_PARTITION__",
        dt.date(1, 1, 1),
        dt.datetime(2024, 3, 31, 2, 30),
        Dec("0.00"),
        b"a",
        float("inf"),
        True,
    ),
]
KINDS = {
    "id": INT,
    "s": STRING,
    "d": DATE,
    "t": NTZ,
    "n": Decimal(3, 2),
    "b": BINARY,
    "f": Primitive("double"),
    "q": Primitive("boolean"),
}


def written(spark, path, fields, rows, **more):
    schema = Struct(tuple(Field(name, kind) for name, kind in KINDS.items()))
    rules = WriteRules(
        schema=schema,
        spec=PartitionSpec(7, tuple(fields)),
        folders=lambda values: ["data"] * len(values),
        deletes=DeleteForm.VECTOR,
        store_partitions=True,
        **more,
    )
    ddl = ", ".join(f"{quoted(name)} {type_text(kind)}" for name, kind in KINDS.items())
    frame = spark.createDataFrame(rows, ddl).coalesce(1)
    files = write_rows(frame, open_storage(str(path)), rules).files
    found = {}
    for file in files.to_pylist():
        assert file["location"].startswith(f"{path}/data/part-")
        for number in pq.read_table(file["location"]).column("id").to_pylist():
            found[number] = file["partition"]
    return found, files


def test_written_files_have_typed_partition_values(spark, conf, tmp_path):
    conf("spark.sql.session.timeZone", "Europe/Berlin")
    conf("spark.sql.ansi.enabled", "false")
    fields = [field("identity", kind, name) for name, kind in KINDS.items() if name != "id"]
    found, _ = written(spark, tmp_path, fields, ROWS)
    assert found == {row[0]: dict(zip(list(KINDS)[1:], row[1:], strict=True)) for row in ROWS}


def test_written_files_by_transforms(spark, tmp_path):
    fields = [
        PartitionField("id_bucket", ("id",), parse_transform("bucket[2]"), INT),
        PartitionField("t_day", ("t",), parse_transform("day"), DATE),
        PartitionField("s_trunc", ("s",), parse_transform("truncate[2]"), STRING),
        PartitionField("f_null", ("f",), parse_transform("void"), Primitive("double")),
    ]
    found, files = written(spark, tmp_path, fields, ROWS)
    assert {n: (value["t_day"], value["s_trunc"]) for n, value in found.items()} == {
        1: (dt.date(1969, 12, 31), ""),
        2: (None, None),
        3: (dt.date(2024, 7, 1), "_a"),
        4: (dt.date(2024, 3, 31), "__"),
        5: (dt.date(1970, 1, 1), "_H"),
    }
    assert {n: value["id_bucket"] for n, value in found.items()} == {n: (murmur(n) & N) % 2 for n in found}
    assert {value["f_null"] for value in found.values()} == {None}
    spec = PartitionSpec(7, tuple(fields))
    assert files.schema.field("partition").type == spec.value_type


def test_formats_that_cannot_tell_the_empty_string_from_null(spark, tmp_path):
    fields = [field("identity", STRING, "s")]
    found, files = written(spark, tmp_path, fields, ROWS[:3], empty_partition_is_null=True)
    assert (found[1], found[2], len(files)) == ({"s": None}, {"s": None}, 2)
    with pytest.raises(Exception, match="partition column s has the value '__HIVE_DEFAULT_PARTITION__'"):
        written(spark, tmp_path, fields, ROWS, refused_partition_text="__HIVE_DEFAULT_PARTITION__")


def test_partitions_are_compared_by_value_and_spec():
    fields = (field("identity", Primitive("double"), "f"), field("identity", STRING, "s"))
    spec = PartitionSpec(1, fields)

    def partitions(*texts):
        return pa.chunked_array([typed_values(spec, texts)])

    old = [("NaN", "_a"), ("0.0", None), ("0.0", "_"), ("1.5", "_a"), ("NaN", "_a"), (None, None)]
    files = pa.table({"spec_id": pa.array([1, 1, 1, 1, 0, 1], pa.int32()), "partition": partitions(*old)})
    new = partitions(("NaN", "_a"), ("-0.0", None), ("2.5", "_a"), (None, None))
    plan = type("Plan", (), {"files": files})
    assert same_partitions(plan, spec, new).tolist() == [0, 1, 5]
