"""Footers: statistics of data files as typed columns, and never more than the footer states."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest

from delvec.errors import FormatError
from delvec.footers.bounds import read_bounds, typed_array
from delvec.footers.footer import footer_rows, read_footer
from delvec.footers.statistics import ColumnStatistics, MeasuredColumn, column_statistics, measure
from delvec.row_delta import ADDED_SCHEMA, all_files, with_statistics
from delvec.schema import Array, DataType, Decimal, Field, Fixed, Primitive, Struct, arrow_type, char
from delvec.storage import Storage, open_storage
from parquet_files import put_parquet

LONG, DOUBLE, STRING = Primitive("long"), Primitive("double"), Primitive("string")
US, UTC_US = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
NAN, INFINITE = float("nan"), float("inf")


@pytest.fixture
def storage(request: pytest.FixtureRequest) -> Storage:
    return open_storage(f"memory://footers/{request.node.name}")


def statistics_of(
    storage: Storage, values: pa.Array, data_type: DataType, **options: Any
) -> ColumnStatistics:
    """The statistics of a file with the one column ``c``."""
    name = put_parquet(storage, pa.table({"c": values}), **options)
    found = column_statistics(measure(storage, [name], [MeasuredColumn(("c",), data_type)]), ("c",))
    assert found is not None
    return found


def bounds(storage: Storage, values: pa.Array, data_type: DataType, **options: Any) -> tuple[Any, Any]:
    found = statistics_of(storage, values, data_type, **options)
    assert found.lower.type == found.upper.type == arrow_type(data_type)
    return found.lower[0].as_py(), found.upper[0].as_py()


ZONED = dt.datetime(2020, 1, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
LOCAL = ZONED.replace(tzinfo=None)
DAY = dt.date(2020, 1, 1)


@pytest.mark.parametrize(
    ("values", "data_type", "expected"),
    [
        (pa.array([3, -1, None], pa.int8()), Primitive("byte"), (-1, 3)),
        (pa.array([2**63 - 1, -(2**63)]), LONG, (-(2**63), 2**63 - 1)),
        (pa.array([3], pa.int32()), LONG, (3, 3)),
        (pa.array([3], pa.int32()), DOUBLE, (3.0, 3.0)),
        (pa.array([1.5], pa.float32()), DOUBLE, (1.5, 1.5)),
        (pa.array([3], pa.int32()), Decimal(12, 2), (decimal.Decimal("3.00"),) * 2),
        (pa.array([300]), Primitive("byte"), (None, None)),
        (pa.array([1, 2**32 - 1], pa.uint32()), LONG, (None, None)),
        (pa.array(["b", "a", None]), STRING, ("a", "b")),
        (pa.array(["b", "a", None]), char(5), ("a", "b")),
        (pa.array(["x" * 90]), STRING, ("x" * 90,) * 2),
        (pa.array([b"b", b"\xff"]), Primitive("binary"), (b"b", b"\xff")),
        (pa.array([b"a"]), STRING, (None, None)),
        (pa.array([False, True]), Primitive("boolean"), (False, True)),
        (pa.array([DAY]), Primitive("date"), (DAY, DAY)),
        (pa.array([DAY]), Primitive("timestamp_ntz"), (dt.datetime(2020, 1, 1),) * 2),
        (pa.array([ZONED], UTC_US), Primitive("timestamp"), (ZONED, ZONED)),
        (pa.array([LOCAL], US), Primitive("timestamp_ntz"), (LOCAL, LOCAL)),
        (pa.array([LOCAL], US), Primitive("timestamp"), (None, None)),
        (pa.array([LOCAL], pa.timestamp("ns")), Primitive("timestamp_ntz"), (LOCAL, LOCAL)),
        (pa.array([-INFINITE, INFINITE]), DOUBLE, (-INFINITE, INFINITE)),
        (pa.array([dt.time(1, 2, 3), dt.time(5)]), Primitive("time"), (dt.time(1, 2, 3), dt.time(5))),
        (pa.array([dt.time(5)], pa.time32("ms")), Primitive("time"), (dt.time(5), dt.time(5))),
        (pa.array([b"ab", b"aa"], pa.binary(2)), Fixed(2), (b"aa", b"ab")),
    ],
)
def test_bounds_have_the_type_of_the_column(
    storage: Storage, values: pa.Array, data_type: DataType, expected: Any
) -> None:
    assert bounds(storage, values, data_type) == expected


@pytest.mark.parametrize(("zone", "name"), [("UTC", "timestamp_ns"), (None, "timestamp_ntz_ns")])
def test_nanoseconds(storage: Storage, zone: str | None, name: str) -> None:
    values = pa.array([-1, 1_999], pa.int64()).cast(pa.timestamp("ns", tz=zone))
    found = statistics_of(storage, values, Primitive(name))
    assert (found.lower[0].value, found.upper[0].value) == (-1, 1_999)


@pytest.mark.parametrize("as_integer", [False, True])
@pytest.mark.parametrize("precision", [9, 18, 38])
def test_decimals(storage: Storage, precision: int, as_integer: bool) -> None:
    low, high = decimal.Decimal("-1.10"), decimal.Decimal("9" * (precision - 2) + ".99")
    values = pa.array([high, low], pa.decimal128(precision, 2))
    found = bounds(storage, values, Decimal(precision, 2), store_decimal_as_integer=as_integer)
    assert found == (low, high)


def test_a_value_that_does_not_fit_leaves_the_others(storage: Storage) -> None:
    names = [put_parquet(storage, pa.table({"c": [value]}), f"{value}") for value in (1, 300, -5)]
    found = column_statistics(measure(storage, names, [MeasuredColumn(("c",), Primitive("byte"))]), ("c",))
    assert found is not None
    assert found.lower.to_pylist() == [1, None, -5]
    assert typed_array([b"a", b"\xff", None], STRING).to_pylist() == ["a", None, None]


def test_a_writer_that_skips_nan_says_so(storage: Storage) -> None:
    found = statistics_of(storage, pa.array([1.5, NAN]), DOUBLE)
    assert (found.lower[0].as_py(), found.upper[0].as_py()) == (1.5, 1.5)
    assert found.upper_covers_nan.to_pylist() == [False]
    assert statistics_of(storage, pa.array([1]), DOUBLE).upper_covers_nan.to_pylist() == [True]


def test_nan_is_no_bound(storage: Storage) -> None:
    assert bounds(storage, pa.array([NAN, NAN]), DOUBLE) == (None, None)


def test_zero_may_stand_for_its_negative(storage: Storage) -> None:
    low, high = bounds(storage, pa.array([0.0, -0.0]), DOUBLE)
    assert (math.copysign(1, low), math.copysign(1, high)) == (-1, 1)


def test_row_groups_by_themselves_and_merged(storage: Storage) -> None:
    values = pa.array([5, 6, None, None, -3, None, 9, 1])
    found = statistics_of(storage, values, LONG, row_group_size=2)
    assert (found.lower[0].as_py(), found.upper[0].as_py()) == (-3, 9)
    assert (found.null_count[0].as_py(), found.value_count[0].as_py()) == (3, 8)
    groups = read_bounds(read_footer(storage, "f.parquet"), 0, LONG)
    assert (groups.lower, groups.upper) == ([5, None, -3, 1], [6, None, -3, 9])


def test_a_row_group_without_bounds_leaves_the_file_without_bounds(storage: Storage) -> None:
    values = pa.array(["a", "z" * 5000, "b"])  # footers leave out texts that long
    assert bounds(storage, values, STRING, row_group_size=1) == (None, None)


def test_without_statistics_only_rows_are_counted(storage: Storage) -> None:
    name = put_parquet(storage, pa.table({"c": [1, 2]}), write_statistics=False)
    measured = measure(storage, [name], [MeasuredColumn(("c",), LONG)])
    found = column_statistics(measured, ("c",))
    assert found is not None
    assert measured.column("record_count").to_pylist() == [2]
    assert [array.to_pylist() for array in (found.lower, found.upper, found.null_count)] == [[None]] * 3


@pytest.mark.parametrize("data_type", [Primitive("date"), Primitive("timestamp")])
def test_the_julian_calendar_is_not_read(storage: Storage, data_type: DataType) -> None:
    table = pa.table({"c": pa.array([None, 5], pa.int32()).cast(arrow_type(Primitive("date")))})
    table = table.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    name = put_parquet(storage, table.cast(pa.schema([("c", arrow_type(data_type))], table.schema.metadata)))
    found = column_statistics(measure(storage, [name], [MeasuredColumn(("c",), data_type)]), ("c",))
    assert found is not None
    assert found.lower.to_pylist() == [None]
    assert found.null_count.to_pylist() == [1]


def test_nested_columns_and_names_with_dots(storage: Storage) -> None:
    table = pa.table({"s": pa.array([{"x": 1, "y.z": "q"}, None]), "s.x": pa.array([7, 8])})
    columns = [
        MeasuredColumn(("s", "x"), LONG),
        MeasuredColumn(("s", "y.z"), STRING),
        MeasuredColumn(("s.x",), LONG),
        MeasuredColumn(("later",), LONG),
        MeasuredColumn(("s", "list"), Array(LONG)),
    ]
    measured = measure(storage, [put_parquet(storage, table)], columns)
    found = {column.path: column_statistics(measured, column.path) for column in columns}
    lowers = {path: each.lower[0].as_py() for path, each in found.items() if each is not None}
    assert lowers == {("s", "x"): 1, ("s", "y.z"): "q", ("s.x",): 7, ("later",): None, ("s", "list"): None}
    nulls = [each.null_count[0].as_py() for each in found.values() if each is not None]
    assert nulls == [1, 1, 0, 2, 2]
    assert column_statistics(measured, ("s",)) is None
    assert column_statistics(measured, ("unmeasured",)) is None


def test_files_keep_their_order_and_their_statistics(storage: Storage) -> None:
    names = [put_parquet(storage, pa.table({"c": range(n)}), f"{n}") for n in range(1, 30)]
    added = pa.Table.from_pylist(
        [{"location": name, "size": 1, "modified_ms": 1} for name in names], ADDED_SCHEMA
    )
    measured = with_statistics(added, measure(storage, names, [MeasuredColumn(("c",), LONG)]))
    assert measured.select(ADDED_SCHEMA.names).schema == ADDED_SCHEMA
    chosen = all_files(ADDED_SCHEMA.empty_table(), measured.slice(20), measured.slice(0, 2))
    found = column_statistics(chosen, ("c",))
    assert found is not None
    assert chosen.column("record_count").to_pylist() == [*range(21, 30), 1, 2]
    assert found.upper.to_pylist() == [*range(20, 29), 0, 1]


def test_without_columns_there_are_counts_alone(storage: Storage) -> None:
    name = put_parquet(storage, pa.table({"c": range(9)}), row_group_size=4)
    measured = measure(storage, [name], [])
    assert measured.column_names == ["record_count", "split_offsets"]
    (offsets,) = measured.column("split_offsets").to_pylist()
    assert offsets[0] == 4
    assert len(offsets) == 3
    assert offsets == sorted(offsets)
    assert column_statistics(measured, ("c",)) is None
    assert footer_rows(storage, name) == 9


def test_rejects_a_file_that_is_not_parquet(storage: Storage) -> None:
    storage.put("f", b"not Parquet at all")
    with pytest.raises(FormatError, match="not readable as Parquet"):
        measure(storage, ["f"], [])
    with pytest.raises(FormatError, match="not readable as Parquet"):
        footer_rows(storage, "f")


def test_rejects_ambiguous_names(storage: Storage) -> None:
    table = pa.table([[1], [2]], names=["c", "c"])
    with pytest.raises(FormatError, match="its 2 columns have ambiguous names"):
        measure(storage, [put_parquet(storage, table)], [MeasuredColumn(("c",), LONG)])


def test_a_struct_has_no_bounds(storage: Storage) -> None:
    found = statistics_of(storage, pa.array([{"x": 1}]), Struct((Field("x", LONG),)))
    assert found.lower.to_pylist() == [None]
