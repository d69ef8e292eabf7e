"""Statistics texts of new files, and of files whose action is written again."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from delvec import location
from delvec.delta.stats.bounds import upper_text
from delvec.delta.stats.columns import StatsRules, stats_rules
from delvec.delta.stats.parser import parse
from delvec.delta.stats.texts import stats_texts, wide_stats_texts
from delvec.delta.stats.writer import new_stats_texts
from delvec.delta.table import DeltaTable
from delvec.errors import FormatError
from delvec.footers.statistics import MeasuredColumn, measure
from delvec.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct
from delvec.storage import Storage, open_storage
from golden_data import golden
from parquet_files import put_parquet

LARGEST = "\U0010ffff"
LONG = Primitive("long")


@pytest.fixture
def storage(request: pytest.FixtureRequest) -> Storage:
    return open_storage(f"memory://stats/{request.node.name}")


def texts_of(storage: Storage, names: list[str], rules: StatsRules) -> list[str]:
    return new_stats_texts(measure(storage, names, rules.columns), rules)


def stats_of(storage: Storage, values: pa.Array, data_type: DataType, **options: Any) -> dict[str, Any]:
    """The statistics of a file with one column ``c``."""
    name = put_parquet(storage, pa.table({"c": values}), **options)
    (text,) = texts_of(storage, [name], StatsRules((MeasuredColumn(("c",), data_type),)))
    found: dict[str, Any] = json.loads(text, parse_float=decimal.Decimal)
    assert found["numRecords"] == len(values)
    return found


def bounds(storage: Storage, values: pa.Array, data_type: DataType, **options: Any) -> tuple[Any, Any]:
    found = stats_of(storage, values, data_type, **options)
    return found["minValues"].get("c"), found["maxValues"].get("c")


def moments(kind: pa.DataType, *values: int) -> pa.Array:
    return pa.array(values, pa.int64()).cast(kind)


US, UTC_US = pa.timestamp("us"), pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("values", "data_type", "expected"),
    [
        (pa.array([3, -1, None], pa.int8()), Primitive("byte"), (-1, 3)),
        (pa.array([3, -1], pa.int16()), Primitive("short"), (-1, 3)),
        (pa.array([2**63 - 1, -(2**63)]), LONG, (-(2**63), 2**63 - 1)),
        (pa.array([3], pa.int32()), LONG, (3, 3)),
        (pa.array([3], pa.int32()), Primitive("double"), (3, 3)),
        (pa.array([3], pa.int32()), Decimal(12, 2), (3, 3)),
        (pa.array([1, 2**32 - 1], pa.uint32()), LONG, (None, None)),
        (pa.array(["b", "a", None]), Primitive("string"), ("a", "b")),
        (pa.array([b"a"]), Primitive("binary"), (None, None)),
        (pa.array([True]), Primitive("boolean"), (None, None)),
        (
            pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
            Primitive("date"),
            ("0001-01-01", "9999-12-31"),
        ),
        (
            moments(UTC_US, -1, 1_999),
            Primitive("timestamp"),
            ("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.001Z"),
        ),
        (
            moments(pa.timestamp("ns", tz="UTC"), 1_999_999),
            Primitive("timestamp"),
            ("1970-01-01T00:00:00.001Z",) * 2,
        ),
        (moments(US, 1_999), Primitive("timestamp_ntz"), ("1970-01-01T00:00:00.001",) * 2),
        (moments(US, 1_999), Primitive("timestamp"), (None, None)),
        (moments(US, 2**60), Primitive("timestamp_ntz"), (None, None)),
        (pa.array([dt.date(2020, 1, 1)]), Primitive("timestamp_ntz"), ("2020-01-01T00:00:00.000",) * 2),
    ],
)
def test_bounds(storage: Storage, values: pa.Array, data_type: DataType, expected: Any) -> None:
    assert bounds(storage, values, data_type) == expected


@pytest.mark.parametrize("as_integer", [False, True])
@pytest.mark.parametrize("precision", [9, 18, 38])
def test_decimals_keep_all_digits(storage: Storage, precision: int, as_integer: bool) -> None:
    low, high = decimal.Decimal("-1.10"), decimal.Decimal("9" * (precision - 2) + ".99")
    values = pa.array([high, low], pa.decimal128(precision, 2))
    found = bounds(storage, values, Decimal(precision, 2), store_decimal_as_integer=as_integer)
    assert found == (low, high)
    assert str(found[0]) == "-1.10"


def test_int96_has_none(storage: Storage) -> None:
    found = stats_of(storage, moments(US, 5), Primitive("timestamp"), use_deprecated_int96_timestamps=True)
    assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({}, {}, {})


def test_without_footer_statistics_only_the_rows_are_counted(storage: Storage) -> None:
    found = stats_of(storage, pa.array([1]), LONG, write_statistics=False)
    assert found == {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {}, "tightBounds": True}


def test_a_writer_that_skips_nan_gives_no_upper_bound(storage: Storage) -> None:
    assert bounds(storage, pa.array([1.5, float("nan")]), Primitive("double")) == (
        decimal.Decimal("1.5"),
        None,
    )


def test_zero_may_stand_for_its_negative(storage: Storage) -> None:
    name = put_parquet(storage, pa.table({"c": [0.0, 1.0]}))
    (text,) = texts_of(storage, [name], StatsRules((MeasuredColumn(("c",), Primitive("double")),)))
    assert '"minValues":{"c":-0.0}' in text


def test_row_groups_are_merged(storage: Storage) -> None:
    values = pa.array([5, 6, None, None, -3, None, 9, 1])
    found = stats_of(storage, values, LONG, row_group_size=2)
    assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({"c": -3}, {"c": 9}, {"c": 3})


def test_a_row_group_that_says_nothing_leaves_the_file_without_bounds(storage: Storage) -> None:
    values = pa.array(["a", "z" * 5000, "b"])  # footers leave out texts that long
    assert bounds(storage, values, Primitive("string"), row_group_size=1) == (None, None)


def test_a_column_of_nulls_and_one_not_written(storage: Storage) -> None:
    name = put_parquet(storage, pa.table({"n": pa.nulls(3, pa.int64())}))
    columns = (
        MeasuredColumn(("n",), LONG),
        MeasuredColumn(("new",), LONG),
        MeasuredColumn(("s", "x"), LONG),
        MeasuredColumn(("a",), Array(LONG)),
        MeasuredColumn(("nothing",), Primitive("void")),
    )
    (text,) = texts_of(storage, [name], StatsRules(columns))
    found = json.loads(text)
    assert found["nullCount"] == {"n": 3, "new": 3, "s": {"x": 3}, "a": 3}
    assert found["minValues"] == found["maxValues"] == {}


def test_nested_columns_and_names_with_dots(storage: Storage) -> None:
    table = pa.table(
        {
            "s": pa.array([{"x": 1, "y": {"z": "q"}}, None]),
            "s.x": pa.array([7, 8]),
            "a": pa.array([[1], [2, 3]]),
            "b": pa.array([[1], []]),
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "v": pa.array([{"metadata": b"m", "value": b"v"}, None]),
        }
    )
    name = put_parquet(storage, table)
    columns = (
        MeasuredColumn(("s", "x"), LONG),
        MeasuredColumn(("s", "y", "z"), Primitive("string")),
        MeasuredColumn(("s.x",), LONG),
        MeasuredColumn(("a",), Array(LONG)),
        MeasuredColumn(("b",), Array(LONG)),
        MeasuredColumn(("m",), Map(Primitive("string"), LONG)),
        MeasuredColumn(("v",), Primitive("variant")),
    )
    (text,) = texts_of(storage, [name], StatsRules(columns))
    found = json.loads(text)
    assert found["minValues"] == {"s": {"x": 1, "y": {"z": "q"}}, "s.x": 7}
    assert found["maxValues"] == {"s": {"x": 1, "y": {"z": "q"}}, "s.x": 8}
    # The footer does not state whether an array is null or empty.
    assert found["nullCount"] == {"s": {"x": 1, "y": {"z": 1}}, "s.x": 0, "a": 0, "v": 1}


def test_the_old_calendar_is_not_read(storage: Storage) -> None:
    table = pa.table({"c": pa.array([dt.date(1500, 1, 1)])})
    table = table.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    name = put_parquet(storage, table)
    (text,) = texts_of(storage, [name], StatsRules((MeasuredColumn(("c",), Primitive("date")),)))
    assert json.loads(text)["minValues"] == {}


def test_a_column_that_was_not_measured_has_no_statistics(storage: Storage) -> None:
    name = put_parquet(storage, pa.table({"a": [1], "b": [2]}))
    measured = measure(storage, [name], [MeasuredColumn(("a",), LONG)])
    rules = StatsRules((MeasuredColumn(("a",), LONG), MeasuredColumn(("b",), LONG)))
    (text,) = new_stats_texts(measured, rules)
    assert json.loads(text)["nullCount"] == {"a": 0}
    (text,) = new_stats_texts(measured.drop_columns(["stats"]), rules)
    assert json.loads(text) == {
        "numRecords": 1,
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
        "tightBounds": True,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a" * 32, "a" * 32),
        ("a" * 33, "a" * 32 + "\x7f"),
        ("a" * 32 + "\x7f", "a" * 32 + LARGEST),
        ("a" * 32 + "é", "a" * 32 + LARGEST),
        ("a" * 31 + "𝄞b", "a" * 31 + "𝄞\x7f"),
        ("a" * 32 + LARGEST, "a" * 32 + LARGEST),
        ("a" * 32 + LARGEST + "b", "a" * 32 + LARGEST + "\x7f"),
        ("a" * 32 + LARGEST * 16 + "b", "a" * 32 + LARGEST * 16 + "\x7f"),
        ("a" * 32 + LARGEST * 17 + "b", None),
        (LARGEST * 60, None),
    ],
)
def test_upper_bounds_of_texts(text: str, expected: str | None) -> None:
    assert upper_text(text, 32) == expected
    assert expected is None or expected.encode() >= text.encode()


def schema(*fields: Field) -> Struct:
    return Struct(fields)


WIDE = schema(
    Field("P", LONG),
    Field("a", LONG, physical_name="col-a"),
    Field("s", Struct((Field("x", LONG, physical_name="col-x"), Field("y.Z", LONG))), physical_name="col-s"),
    Field("arr", Array(LONG)),
    *(Field(f"c{n}", LONG) for n in range(40)),
)


def paths(properties: dict[str, str]) -> list[tuple[str, ...]]:
    return [column.path for column in stats_rules(WIDE, ["P"], properties).columns]


def test_the_first_32_leaves() -> None:
    first = [("col-a",), ("col-s", "col-x"), ("col-s", "y.Z"), ("arr",)]
    assert paths({}) == first + [(f"c{n}",) for n in range(28)]
    assert paths({"delta.dataSkippingNumIndexedCols": "2"}) == first[:2]
    assert paths({"delta.dataSkippingNumIndexedCols": "0"}) == []
    assert len(paths({"delta.dataSkippingNumIndexedCols": "-1"})) == 44


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("s", [("col-s", "col-x"), ("col-s", "y.Z")]),
        ("c39, A", [("col-a",), ("c39",)]),
        ("S.`Y.z` ,c1", [("col-s", "y.Z"), ("c1",)]),
    ],
)
def test_listed_columns_go_before_the_number(listed: str, expected: list[tuple[str, ...]]) -> None:
    properties = {"delta.dataSkippingStatsColumns": listed, "delta.dataSkippingNumIndexedCols": "1"}
    assert paths(properties) == expected


@pytest.mark.parametrize("listed", ["", "a,", "a..b", "`a", "a b`c`"])
def test_rejects_a_bad_list_of_columns(listed: str) -> None:
    with pytest.raises(FormatError, match="dataSkippingStatsColumns"):
        paths({"delta.dataSkippingStatsColumns": listed})


def test_rejects_a_number_that_is_none() -> None:
    with pytest.raises(FormatError, match="dataSkippingNumIndexedCols is 'x', expected a number"):
        paths({"delta.dataSkippingNumIndexedCols": "x"})


def wide(text: str | None, count: int | None = None, deleted: int | None = None) -> str:
    gone = None if deleted is None else pa.array([deleted])
    return wide_stats_texts(pa.array([text], pa.string()), pa.array([count], pa.int64()), deleted=gone)[
        0
    ].as_py()


def test_wide_stats() -> None:
    assert wide(None, 5) == '{"numRecords":5,"tightBounds":false}'
    assert wide("broken", 5) == '{"numRecords":5,"tightBounds":false}'
    assert wide(None, None) == '{"tightBounds":false}'
    assert wide('{"nullCount":{"a":1}}', 5) == '{"numRecords":5,"nullCount":{"a":1},"tightBounds":false}'
    exact = '{"numRecords":5,"minValues":{"d":12345678901234567890.10,"e":-0.0},"tightBounds":%s}'
    assert wide(exact % "true", 7) == exact % "false"


def test_wide_stats_counts_deleted_nulls_where_all_were_null() -> None:
    counts = '{"numRecords":5,"nullCount":{"all":3,"some":2,"s":{"all":3,"none":0}},"tightBounds":%s}'
    assert json.loads(wide(counts % "true", deleted=2))["nullCount"] == {
        "all": 5,
        "some": 2,
        "s": {"all": 5, "none": 0},
    }
    assert json.loads(wide(counts % "false", deleted=2))["nullCount"]["all"] == 3


def test_texts_from_structs() -> None:
    moment = dt.datetime(2020, 1, 1, 0, 0, 0, 123999, tzinfo=dt.UTC)
    bounds = {"t": moment, "d": decimal.Decimal("1.10"), "s": 'a"\n', "x": {"f": 1.5, "nan": float("nan")}}
    kinds = pa.struct(
        [
            ("t", UTC_US),
            ("d", pa.decimal128(9, 2)),
            ("s", pa.string()),
            ("x", pa.struct([("f", pa.float32()), ("nan", pa.float64())])),
        ]
    )
    rows = [{"numRecords": 1, "minValues": bounds, "tightBounds": False}, None, {"numRecords": 2}]
    shape = pa.struct([("numRecords", pa.int64()), ("minValues", kinds), ("tightBounds", pa.bool_())])
    adds = pa.table(
        {"stats": pa.array([None, None, "{}"], pa.string()), "stats_parsed": pa.array(rows, shape)}
    )
    assert stats_texts(adds).to_pylist() == [
        '{"numRecords":1,"minValues":{"t":"2020-01-01T00:00:00.123Z","d":1.10,"s":"a\\"\\n","x":{"f":1.5}},'
        '"tightBounds":false}',
        None,
        "{}",
    ]


GOLDEN = [
    "basic-dv-no-checkpoint",
    "basic-dv-with-checkpoint",
    "cdf-table-with-dv",
    "dv-partitioned-with-checkpoint",
    "log-replay-dv-key-cases",
    "table-with-dv-large",
    "table-with-dv-small",
]


@pytest.mark.parametrize("name", GOLDEN)
def test_files_of_other_engines_have_the_statistics_that_their_log_states(name: str) -> None:
    table = DeltaTable.open(str(golden(f"delta/{name}")))
    snapshot = table.snapshot()
    rules = stats_rules(snapshot.schema, snapshot.partition_columns, snapshot.properties)
    places = [location.resolve(table.location, path) for path in snapshot.adds.column("path").to_pylist()]
    ours = texts_of(table.storage, places, rules)
    theirs = stats_texts(snapshot.adds).to_pylist()
    assert len(theirs) > 0
    for mine, stated in zip(ours, theirs, strict=True):
        assert json.loads(mine) | {"tightBounds": None} == json.loads(stated) | {"tightBounds": None}


def test_what_was_written_reads_back(storage: Storage) -> None:
    names = [
        put_parquet(storage, pa.table({"c": moments(UTC_US, n, n + 1500)}), f"{n}") for n in range(1000, 1003)
    ]
    rules = StatsRules((MeasuredColumn(("c",), Primitive("timestamp")),))
    texts = texts_of(storage, names, rules)
    parsed = parse(pa.table({"stats": pa.array(texts, pa.string())}), rules.columns)
    for n, low, high in zip(range(1000, 1003), parsed.columns[0].lower, parsed.columns[0].upper, strict=True):
        assert low.value <= n
        assert high.value >= n + 1500
    assert parsed.record_count.to_pylist() == [2, 2, 2]
