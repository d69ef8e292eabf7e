"""Columns through the native scan: of partitions, mapped, nested, widened, missing, and of odd names."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lake import BY_ID, BY_NAME, FLAT, FOLDERS, PREFIX, Lake
from scanning import collected, opened, same

pytestmark = pytest.mark.spark

UTC = dt.UTC
MICROS = dt.datetime(2024, 2, 29, 23, 59, 59, 123456)
INSTANTS = [dt.datetime(1969, 12, 31, 1, tzinfo=UTC), MICROS.replace(tzinfo=UTC), None]
TEXTS = [
    "plain",
    "a b",
    "a/b",
    "50%",
    "%41",
    "a=b",
    "it's",
    'say "x"',
    "[*]?{}",
    "é漢😀",
    "01",
    "true",
    "a:b",
    "#",
    "\\",
    None,
]
VALUES = {
    "boolean": (pa.bool_(), [True, False, None]),
    "byte": (pa.int8(), [-128, 127, None]),
    "short": (pa.int16(), [-32768, 32767, None]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1, 0, None]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "float": (pa.float32(), [0.5, -1.5, float("inf"), None]),
    "double": (pa.float64(), [0.1, -0.0, 1e300, float("inf"), float("-inf"), float("nan"), None]),
    "string": (pa.string(), TEXTS),
    "binary": (pa.binary(), [b"abc", b"x y", None]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31), None]),
    "timestamp": (pa.timestamp("us", tz="UTC"), INSTANTS),
    "timestamp_ntz": (pa.timestamp("us"), [dt.datetime(1900, 1, 1), MICROS, None]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-12345678.90"), Decimal("0.00"), None]),
    "decimal38": (pa.decimal128(38, 18), [Decimal("12345678901234567890.123456789012345678"), None]),
}


def parted(root, kind, values, **options):
    """A table with a file for each value of the partition column ``p``, every other one with a vector."""
    schema = pa.schema([("p", kind), ("id", pa.int64())])
    lake = Lake(root, schema, partition_by=["p"], **options)
    for n, value in enumerate(values):
        lake.write([{"p": value, "id": n * 10 + i} for i in range(3)], deleted=[1] if n % 2 else ())
    lake.commit()
    return lake


# Partition columns


ELSEWHERE = [(name, "America/New_York") for name in ("timestamp", "timestamp_ntz", "date")]


@pytest.mark.parametrize(("name", "zone"), [*((name, "UTC") for name in VALUES), *ELSEWHERE])
def test_partition_values_of_every_type(spark, tmp_path, conf, name, zone):
    conf("spark.sql.session.timeZone", zone)
    kind, values = VALUES[name]
    native = parted(tmp_path / "t [1] é", kind, values, layout=FOLDERS)
    other = parted(tmp_path / "u", kind, values, layout=FLAT)
    table = opened(spark, native)
    found = table.to_df().unionAll(opened(spark, other).to_df())
    assert found.schema["p"].dataType == table.schema["p"].dataType
    same(found, native.live + other.live)


def test_the_empty_text_is_null_as_delta_has_it(spark, tmp_path):
    lake = Lake(tmp_path / "t", pa.schema([("p", pa.string()), ("id", pa.int64())]), partition_by=["p"])
    lake.write([{"p": "", "id": 1}])
    lake.write([{"p": "x", "id": 2}])
    lake.commit()
    same(opened(spark, lake).to_df(), [{"p": None, "id": 1}, {"p": "x", "id": 2}])


DISAGREEING = [
    (pa.int32(), "p=1", "2", 2),
    (pa.int32(), "p=x", "2", 2),
    (pa.int32(), "p=1_0", "10", 10),
    (pa.int32(), "q=2", "2", 2),
    (pa.int32(), "p=2/more", "2", 2),
    (pa.int32(), "P=2", "2", 2),
    (pa.int32(), "p=+2", "2", 2),
    (pa.int32(), "p= 2", "2", 2),
    (pa.int32(), "p=__HIVE_DEFAULT_PARTITION__", "2", 2),
    (pa.string(), "p=%C3%A9", "é", "é"),
    (pa.string(), "p=%41", "%41", "%41"),
    (pa.string(), "p=a%", "a%", "a%"),
    (pa.string(), "p=%zz", "%zz", "%zz"),
    (
        pa.string(),
        "p=__HIVE_DEFAULT_PARTITION__",
        "__HIVE_DEFAULT_PARTITION__",
        "__HIVE_DEFAULT_PARTITION__",
    ),
    (pa.date32(), "p=20240229", "2024-02-29", dt.date(2024, 2, 29)),
    (pa.date32(), "p=2024-W09-4", "2024-02-29", dt.date(2024, 2, 29)),
    (
        pa.timestamp("us", tz="UTC"),
        "p=2024-02-29T10%3A00%3A00%2B02%3A00",
        "2024-02-29 10:00:00Z",
        dt.datetime(2024, 2, 29, 10, tzinfo=UTC),
    ),
    (
        pa.timestamp("us", tz="UTC"),
        "p=2024-02-29 10%3A00%3A00",
        "2024-02-29T08:00:00.000000Z",
        dt.datetime(2024, 2, 29, 8, tzinfo=UTC),
    ),
    (
        pa.timestamp("us"),
        "p=2024-02-29T10%3A00%3A00Z",
        "2024-02-29 10:00:00",
        dt.datetime(2024, 2, 29, 10),
    ),
    (pa.float64(), "p=1_0", "10", 10.0),
    (pa.float64(), "p=0x1p3", "8", 8.0),
    (pa.decimal128(10, 2), "p=1.5", "1.5", Decimal("1.50")),
    (pa.decimal128(10, 2), "p=15e-1", "1.5", Decimal("1.50")),
    (pa.bool_(), "p=TRUE", "true", True),
]


def test_the_log_decides_whatever_folders_say(spark, tmp_path):
    for number, (kind, folder, text, value) in enumerate(DISAGREEING):
        schema = pa.schema([("p", kind), ("id", pa.int64())])
        lake = Lake(tmp_path / str(number), schema, partition_by=["p"])
        rows = [{"p": value, "id": i} for i in range(2)]
        lake.write(rows, name=f"{folder}/a.parquet", texts={"p": text}, deleted=[0])
        lake.commit()
        same(opened(spark, lake).to_df(), lake.live)


def test_local_timestamps_in_the_log_are_of_the_session(spark, tmp_path, conf):
    conf("spark.sql.session.timeZone", "Asia/Tokyo")
    schema = pa.schema([("p", pa.timestamp("us", tz="UTC")), ("id", pa.int64())])
    lake = Lake(tmp_path / "t", schema, partition_by=["p"])
    noon = dt.datetime(2024, 5, 1, 12, tzinfo=UTC)
    lake.write([{"p": noon, "id": 1}], texts={"p": "2024-05-01 21:00:00"})
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.parametrize("layout", [FOLDERS, FLAT, PREFIX])
@pytest.mark.parametrize("mapping", [None, BY_NAME, BY_ID])
def test_several_partition_columns_of_odd_names(spark, tmp_path, layout, mapping):
    names = ["a b", "x.y"] if mapping is None else ["a b", "x.y", "t`k", "e=q", "s/l"]
    schema = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in names)])
    lake = Lake(tmp_path / "t", schema, partition_by=names, layout=layout, mapping=mapping)
    for n in range(6):
        values = {name: f"{name}/{n % 2}" if n % 3 else None for name in names}
        lake.write([{"id": n * 10 + i, **values} for i in range(2)], deleted=[n % 2] if n % 2 else ())
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


# Column mapping, nested columns

NESTED = pa.schema(
    [
        ("id", pa.int64()),
        (
            "s",
            pa.struct([("a", pa.int32()), ("deep", pa.struct([("b c", pa.string()), ("d", pa.float64())]))]),
        ),
        ("l", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))),
        ("m", pa.map_(pa.string(), pa.struct([("k", pa.int64()), ("t", pa.timestamp("us", tz="UTC"))]))),
        ("ll", pa.list_(pa.list_(pa.int32()))),
        ("p", pa.string()),
    ]
)


def nested_rows(first, p):
    noon = dt.datetime(2024, 5, 1, 12, tzinfo=UTC)
    return [
        {
            "id": first + n,
            "s": None if n == 0 else {"a": n, "deep": None if n == 1 else {"b c": f"t{n}", "d": n / 2}},
            "l": None if n == 1 else [{"x": n, "y": None}, None, {"x": None, "y": "é"}][:n],
            "m": None if n == 2 else [("k1", {"k": n, "t": noon}), ("k2", None)][: n % 3],
            "ll": [[n], None, []],
            "p": p,
        }
        for n in range(5)
    ]


@pytest.mark.parametrize("vectorized", ["true", "false"])
@pytest.mark.parametrize("mapping", [None, BY_NAME, BY_ID])
def test_nested_columns(spark, tmp_path, conf, mapping, vectorized):
    conf("spark.sql.parquet.enableVectorizedReader", vectorized)
    lake = Lake(tmp_path / "t", NESTED, partition_by=["p"], mapping=mapping)
    lake.write(nested_rows(0, "x"))
    lake.write(nested_rows(10, "y"), deleted=[0, 3])
    lake.write(nested_rows(20, "y"), deleted=[4], size=9000)
    lake.write(nested_rows(30, "z"), deleted=[1], size=9000)
    lake.commit()
    table = opened(spark, lake)
    same(table.to_df(), lake.live)
    assert table.to_df().schema == table.schema
    picked = table.to_df().where("s.deep.d >= 1.5").selectExpr("id", "s.deep.`b c` as b", "l.x as x")
    rows = [
        {"id": r["id"], "b": r["s"]["deep"]["b c"], "x": [i and i["x"] for i in r["l"]]}
        for r in lake.live
        if r["s"] and r["s"]["deep"] and r["s"]["deep"]["d"] >= 1.5
    ]
    same(picked, rows)


def test_columns_by_id_whatever_their_names(spark, tmp_path):
    lake = Lake(tmp_path / "t", NESTED, partition_by=["p"], mapping=BY_ID)
    lake.write(nested_rows(0, "x"), named="old-")
    lake.write(nested_rows(10, "y"), deleted=[0, 3], named="new-")
    lake.write(nested_rows(20, "y"), deleted=[2])
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


def test_a_file_without_ids_is_refused_by_name(spark, tmp_path):
    from delvec.errors import FormatError

    lake = Lake(tmp_path / "t", pa.schema([("id", pa.int64())]), mapping=BY_ID)
    lake.names.mapping = None
    lake.write([{"id": 1}], name="plain.parquet")
    lake.names.mapping = BY_ID
    lake.commit()
    with pytest.raises(FormatError, match=r"no field ids.*plain\.parquet"):
        opened(spark, lake).to_df()


# Older files

WIDENINGS = {
    "byte to short": (pa.int8(), pa.int16(), 7),
    "int to long": (pa.int32(), pa.int64(), -(2**31)),
    "float to double": (pa.float32(), pa.float64(), 0.5),
    "int to double": (pa.int32(), pa.float64(), 3.0),
    "date to timestamp_ntz": (pa.date32(), pa.timestamp("us"), dt.datetime(2024, 2, 29)),
    "decimal": (pa.decimal128(5, 2), pa.decimal128(12, 4), Decimal("123.4500")),
    "large decimal": (pa.decimal128(12, 2), pa.decimal128(30, 4), Decimal("1234567.4500")),
    "int to decimal": (pa.int32(), pa.decimal128(14, 2), Decimal("42.00")),
    "long to decimal": (pa.int64(), pa.decimal128(22, 1), Decimal("42.0")),
}


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_widened_columns(spark, tmp_path, conf, vectorized):
    conf("spark.sql.parquet.enableVectorizedReader", vectorized)
    old = pa.schema([("id", pa.int64()), *((name, kinds[0]) for name, kinds in WIDENINGS.items())])
    new = pa.schema([("id", pa.int64()), *((name, kinds[1]) for name, kinds in WIDENINGS.items())])
    values = {name: value for name, (_, _, value) in WIDENINGS.items()}
    lake = Lake(tmp_path / "t", new)
    nulls = dict.fromkeys(values)
    lake.write([{"id": 0, **values}, {"id": 1, **nulls}, {"id": 2, **values}], stored=old, deleted=[2])
    lake.write([{"id": 3, **values}, {"id": 4, **nulls}])
    lake.commit()
    table = opened(spark, lake)
    same(table.to_df(), lake.live)
    same(table.to_df(where="`int to long` = -2147483648").select("id"), [{"id": 0}, {"id": 3}])


def test_widened_inside_a_struct(spark, tmp_path):
    def shape(kind):
        return pa.schema([("s", pa.struct([("a", kind)])), ("l", pa.list_(kind))])

    lake = Lake(tmp_path / "t", shape(pa.int64()))
    rows = [{"s": {"a": n}, "l": [n, None]} for n in range(4)]
    lake.write(rows, stored=shape(pa.int32()), deleted=[2])
    lake.write([{"s": {"a": 2**40}, "l": [2**40]}])
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.parametrize("mapping", [None, BY_NAME, BY_ID])
def test_columns_that_came_later_are_null(spark, tmp_path, mapping):
    new = pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
            ("l", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))),
            ("late", pa.string()),
        ]
    )
    old = pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.struct([("a", pa.int32())])),
            ("l", pa.list_(pa.struct([("x", pa.int32())]))),
        ]
    )
    lake = Lake(tmp_path / "t", new, mapping=mapping)
    rows = [{"id": n, "s": {"a": n, "b": None}, "l": [{"x": n, "y": None}]} for n in range(4)]
    lake.write(rows, stored=old, deleted=[1])
    lake.write([{"id": 9, "s": {"a": 9, "b": "b"}, "l": [{"x": 9, "y": "y"}], "late": "now"}])
    lake.commit()
    table = opened(spark, lake)
    same(table.to_df(), lake.live)
    same(table.to_df().where("late is null").select("id"), [{"id": n} for n in (0, 2, 3)])


def test_a_struct_none_of_whose_fields_the_file_has(spark, tmp_path):
    new = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int32()), ("b", pa.string())]))])
    lake = Lake(tmp_path / "t", new)
    lake.write(
        [{"id": 1, "s": {"a": 1, "b": None}}, {"id": 2, "s": None}],
        stored=pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int32())]))]),
    )
    lake.commit()
    frame = opened(spark, lake).to_df()
    same(frame.selectExpr("id", "s.b"), [{"id": 1, "b": None}, {"id": 2, "b": None}])


# Odd columns


def test_void_columns(spark, tmp_path):
    schema = pa.schema([("id", pa.int64()), ("nothing", pa.null())])
    lake = Lake(tmp_path / "t", schema)
    lake.write([{"id": n} for n in range(4)], deleted=[1])
    lake.write([{"id": 9}])
    lake.commit()
    table = opened(spark, lake)
    same(table.to_df(), lake.live)
    assert table.to_df().schema == table.schema


ODD = [
    "_metadata",
    "__delvec_key",
    "__delvec_words",
    "__delvec_path",
    "__delvec_number",
    "__delvec_values",
    "a.b",
    "t`k",
    "s p a c e",
    "é",
    "select",
    "file_path",
    "row_index",
]


@pytest.mark.parametrize("layout", [FOLDERS, FLAT])
@pytest.mark.parametrize("size", [None, 9000])
def test_columns_of_odd_names(spark, tmp_path, layout, size):
    schema = pa.schema([*((name, pa.int64()) for name in ODD), ("p", pa.int32())])
    lake = Lake(tmp_path / "t", schema, partition_by=["p"], layout=layout)
    for p in range(3):
        rows = [{"p": p, **{name: p * 100 + n * 10 + i for i, name in enumerate(ODD)}} for n in range(3)]
        lake.write(rows, deleted=[p] if p else (), size=size)
    lake.commit()
    table = opened(spark, lake)
    same(table.to_df(), lake.live)
    for name in ("_metadata", "a.b", "t`k"):
        quoted = "`" + name.replace("`", "``") + "`"
        value = lake.live[-1][name]
        found = table.to_df(where=f"{quoted} = {value}", columns=[name])
        assert collected(found) == [{name: value}]


@pytest.mark.parametrize("name", ["_metadata", "__delvec_number", "__delvec_values", "p q"])
def test_partition_columns_of_odd_names(spark, tmp_path, name):
    for layout in (FOLDERS, FLAT):
        schema = pa.schema([("id", pa.int64()), (name, pa.int32())])
        lake = Lake(tmp_path / layout, schema, partition_by=[name], layout=layout)
        for p in range(40):
            lake.write([{"id": p * 10 + n, name: p} for n in range(2)], deleted=[p % 2] if p % 3 == 0 else ())
        lake.commit()
        same(opened(spark, lake).to_df(), lake.live)


def test_columns_that_differ_from_a_partition_column_in_nothing_but_case_stay_apart(spark, tmp_path, conf):
    conf("spark.sql.caseSensitive", "true")
    schema = pa.schema([("P", pa.int64()), ("p", pa.int32())])
    lake = Lake(tmp_path / "t", schema, partition_by=["p"])
    lake.write([{"P": n, "p": 7} for n in range(3)], deleted=[1])
    lake.commit()
    same(opened(spark, lake).to_df(), lake.live)
