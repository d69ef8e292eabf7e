"""Statistics of new files: which columns have them, how bounds are cut, and what the entries say."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal as Number

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delvec.footers.statistics import measure
from delvec.iceberg import metrics_modes
from delvec.iceberg.bound_truncation import cut_lower, cut_upper
from delvec.iceberg.metrics_modes import COUNTS, DEFAULT, FULL, MetricsMode, measured_fields
from delvec.iceberg.schema import parse_schema
from delvec.iceberg.stats_writer import entry_statistics, measured_columns
from delvec.row_delta import with_statistics
from delvec.schema import Array, Field, Map, Primitive, Struct
from delvec.storage import open_storage
from iceberg_tables.columns import columns_of, schema_json
from iceberg_tables.files import column_stats, parquet_bytes

LONG, TEXT = Primitive("long"), Primitive("string")
SCHEMA = Struct(
    (
        Field("a", LONG, field_id=1),
        Field(
            "s",
            Struct(
                (
                    Field("n", Struct((Field("z", TEXT, field_id=4),)), field_id=3),
                    Field("x y", TEXT, field_id=5, physical_name="x_x20y"),
                )
            ),
            field_id=2,
        ),
        Field("l", Array(LONG, element_id=7), field_id=6),
        Field("m", Map(TEXT, LONG, key_id=9, value_id=10), field_id=8),
        Field("b", TEXT, field_id=11),
        Field("u", Primitive("void"), field_id=12),
    )
)
ALL = {"a": DEFAULT, "s.n.z": DEFAULT, "s.x y": DEFAULT, "b": DEFAULT}
GENERAL, LIMIT = metrics_modes.DEFAULT_PROPERTY, metrics_modes.LIMIT_PROPERTY


def of_column(name):
    return f"write.metadata.metrics.column.{name}"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, ALL),
        ({GENERAL: "full"}, dict.fromkeys(ALL, FULL)),
        ({GENERAL: "Counts"}, dict.fromkeys(ALL, COUNTS)),
        ({GENERAL: "truncate(3)"}, dict.fromkeys(ALL, MetricsMode(length=3))),
        ({GENERAL: "none"}, {}),
        ({GENERAL: "none", of_column("s.x y"): "full"}, {"s.x y": FULL}),
        ({of_column("a"): "none"}, {name: mode for name, mode in ALL.items() if name != "a"}),
        ({of_column("b"): "counts", of_column("s"): "none", of_column("l"): "full"}, ALL | {"b": COUNTS}),
        ({GENERAL: "most"}, ALL),
        ({GENERAL: "truncate(0)"}, ALL),
        ({GENERAL: "counts", of_column("a"): "most"}, dict.fromkeys(ALL, COUNTS)),
        # The columns of a struct come before those of structs in it, and what lists hold counts.
        ({LIMIT: "2"}, {"a": DEFAULT, "b": DEFAULT}),
        ({LIMIT: "3"}, {"a": DEFAULT, "b": DEFAULT, "u": DEFAULT}),
        ({LIMIT: "4"}, {"a": DEFAULT, "b": DEFAULT, "s.x y": DEFAULT}),
        ({LIMIT: "5"}, ALL),
        ({LIMIT: "0"}, {}),
        ({LIMIT: "0", of_column("a"): "truncate(1)"}, {"a": MetricsMode(length=1)}),
        ({LIMIT: "2", of_column("a"): "most"}, {"b": DEFAULT}),
        ({LIMIT: "-3"}, ALL),
        ({LIMIT: "0", GENERAL: "counts"}, dict.fromkeys(ALL, COUNTS)),
    ],
)
def test_properties_say_which_columns_are_measured(properties, expected):
    expected = {name: mode for name, mode in expected.items() if name != "u"}
    fields = measured_fields(SCHEMA, properties)
    assert {".".join(each.path): each.mode for each in fields} == expected
    columns = measured_columns(SCHEMA, properties)
    stored = {"s.x y": ("s", "x_x20y")}
    assert [each.path for each in columns] == [stored.get(".".join(f.path), f.path) for f in fields]


def test_what_lists_and_maps_hold_counts_towards_the_limit():
    """In front of what comes after them, as for Iceberg's own library."""
    nested = Struct((Field("y", LONG, field_id=11),))
    fields = (
        Field("l", Array(TEXT, element_id=2), field_id=1),
        Field("m", Map(TEXT, TEXT, key_id=4, value_id=5), field_id=3),
        Field("s", nested, field_id=10),
    )
    assert not measured_fields(Struct(fields), {LIMIT: "3"})
    assert [each.path for each in measured_fields(Struct(fields), {LIMIT: "4"})] == [("s", "y")]


TEXTS = st.text("aÿ\ud7ff\ue000\U0010ffff😀", max_size=6)
BYTES = st.lists(st.sampled_from([0, 7, 254, 255]), max_size=6).map(bytes)


@settings(deadline=None)
@given(st.lists(st.none() | TEXTS, max_size=4), st.integers(1, 5))
def test_texts_are_cut(values, length):
    check_cut(pa.array(values, pa.string()), length, lambda text: text.encode())


@settings(deadline=None)
@given(st.lists(st.none() | BYTES, max_size=4), st.integers(1, 5))
def test_bytes_are_cut(values, length):
    check_cut(pa.array(values, pa.binary()), length, bytes)


def check_cut(bounds, length, order):
    lower, upper = cut_lower(bounds, length), cut_upper(bounds, length)
    assert lower.type == upper.type == bounds.type
    for value, low, high in zip(bounds.to_pylist(), lower.to_pylist(), upper.to_pylist(), strict=True):
        if value is None:
            assert low is high is None
            continue
        assert low == value[:length]
        if len(value) <= length:
            assert high == value
        elif high is None:
            assert value[:length] in ("\U0010ffff" * length, b"\xff" * length)
        else:
            assert order(high) > order(value)
            assert len(high) <= length
            cut = value[:length]
            assert order(high) > order(cut)
    assert cut_lower(bounds, None) is bounds
    assert cut_upper(bounds, None) is bounds


@settings(deadline=None)
@given(st.text("aÿ\U0010ffff😀", max_size=6), BYTES, st.integers(1, 5))
def test_bounds_are_cut_as_pyiceberg_cuts_them(text, data, length):
    """It keeps characters and bytes after the one that it replaces; they have no next one."""
    truncate = pytest.importorskip("pyiceberg.utils.truncate")
    for value, largest, upper in (
        (text, "\U0010ffff", truncate.truncate_upper_bound_text_string(text, length)),
        (data, b"\xff", truncate.truncate_upper_bound_binary_string(data, length)),
    ):
        (found,) = cut_upper(pa.array([value]), length).to_pylist()
        if len(value) <= length or upper is None:
            assert found == upper
        else:
            assert found + largest * (len(upper) - len(found)) == upper


def test_surrogates_are_no_characters():
    assert cut_upper(pa.array(["a\ud7ffb"]), 2).to_pylist() == ["a\ue000"]


@pytest.mark.parametrize("bounds", [pa.array([10**6]), pa.array([b"abcd"], pa.binary(4)), pa.array([True])])
def test_other_types_are_not_cut(bounds):
    assert cut_lower(bounds, 1).equals(bounds)
    assert cut_upper(bounds, 1).equals(bounds)


COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("f", pa.float64()),
        ("t", pa.string()),
        ("y", pa.binary()),
        ("d", pa.decimal128(20, 3)),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("nested", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.int64()))])),
        ("m", pa.map_(pa.string(), pa.float64())),
    ]
)
DAY = dt.date(1969, 12, 31)
ROWS = [
    {"id": -1, "f": 0.0, "t": "short", "y": b"\xff" * 20, "d": Number("-1.280"), "day": DAY},
    {"id": 2**40, "f": 1.5, "t": "x" * 40, "y": b"a" * 20, "d": Number("9.999"), "nested": {"x": 3, "l": []}},
    {"id": None, "f": None, "ts": dt.datetime(1969, 12, 31, 23, tzinfo=dt.UTC), "m": [("k", 1.0)]},
    {"id": 7, "nested": {"x": None, "l": [1]}},
]


def entries(tmp_path, files, properties, columns=COLUMNS):
    """The statistics of data files with these rows, and the columns as the test writer has them."""
    ids = iter(range(1, 100))
    columns = columns_of(columns, lambda: next(ids))
    schema = parse_schema(schema_json(columns, 0))
    places = []
    for at, rows in enumerate(files):
        (tmp_path / f"{at}.parquet").write_bytes(
            parquet_bytes([dict.fromkeys(COLUMNS.names) | row for row in rows], columns)
        )
        places.append(str(tmp_path / f"{at}.parquet"))
    measured = measured_columns(schema, properties)
    statistics = measure(open_storage(str(tmp_path)), places, measured)
    added = with_statistics(pa.table({"location": places}), statistics)
    found = entry_statistics(added, schema=schema, properties=properties)
    assert all(len(column) == len(files) for column in found.values())
    return {name: [as_dict(row) for row in column.to_pylist()] for name, column in found.items()}, columns


def as_dict(pairs):
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}


def test_entries_have_counts_and_bounds(tmp_path):
    """Against plain Python; DuckDB and pyiceberg skip files by them."""
    files = [ROWS[:2], ROWS[2:], ROWS]
    found, columns = entries(tmp_path, files, {})
    for at, rows in enumerate(files):
        rows = [dict.fromkeys(COLUMNS.names) | row for row in rows]  # noqa: PLW2901
        expected = column_stats(rows, columns)
        if 0.0 in [row["f"] for row in rows]:
            expected["lower_bounds"][2] = (
                b"\x00" * 7 + b"\x80"
            )  # -0.0: a footer does not tell the zeros apart
        for name, values in found.items():
            assert values[at] == expected[name], (name, at)


def test_modes_of_columns(tmp_path):
    properties = {
        GENERAL: "counts",
        of_column("t"): "truncate(2)",
        of_column("y"): "full",
        of_column("id"): "none",
    }
    found, _ = entries(tmp_path, [ROWS], properties)
    (counts,), (lower,), (upper,) = (found[name] for name in ("value_counts", "lower_bounds", "upper_bounds"))
    assert counts == dict.fromkeys((2, 3, 4, 5, 6, 7, 10), 4)
    assert lower == {3: b"sh", 4: b"a" * 20}
    assert upper == {3: b"xy", 4: b"\xff" * 20}


def test_a_table_without_statistics(tmp_path):
    found, _ = entries(tmp_path, [ROWS, ROWS], {GENERAL: "none"})
    assert found == dict.fromkeys(
        ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"), [None] * 2
    )
    found, _ = entries(tmp_path, [], {})
    assert all(values == [] for values in found.values())


def test_bounds_are_never_nan(tmp_path):
    columns = pa.schema([("f", pa.float64())])
    files = [[{"f": math.nan}, {"f": 1.0}], [{"f": math.nan}], [{"f": -0.0}]]
    ids = iter(range(1, 100))
    found, _ = entries(tmp_path, files, {}, columns)
    del ids
    for name in ("lower_bounds", "upper_bounds"):
        for bounds in found[name]:
            for value in (bounds or {}).values():
                assert not math.isnan(pa.array([value]).cast(pa.binary(8)).view(pa.float64())[0].as_py())
    assert found["lower_bounds"][2] == {1: b"\x00" * 7 + b"\x80"}
    assert found["upper_bounds"][2] == {1: b"\x00" * 8}
    assert found["value_counts"] == [{1: 2}, {1: 1}, {1: 1}]


def test_a_column_that_a_file_lacks_has_no_statistics(tmp_path):
    """Its values are the column's default, which is not always null."""
    files = [[{"id": 1}]]
    small = pa.schema([("id", pa.int64())])
    entries(tmp_path, files, {}, small)
    schema = Struct((Field("id", LONG, field_id=1), Field("late", LONG, field_id=2, initial_default=5)))
    place = str(tmp_path / "0.parquet")
    statistics = measure(open_storage(str(tmp_path)), [place], measured_columns(schema, {}))
    added = with_statistics(pa.table({"location": [place]}), statistics)
    found = entry_statistics(added, schema=schema, properties={})
    assert [as_dict(row) for row in found["null_value_counts"].to_pylist()] == [{1: 0}]
    assert [as_dict(row) for row in found["value_counts"].to_pylist()] == [{1: 1}]
