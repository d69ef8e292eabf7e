"""Tables of entries: columns, and statistics of different types brought together."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from delvec.iceberg.tree import content_stats as cs
from delvec.iceberg.tree import entries as e

INTS = cs.stats_type({1: pa.int32()})


def stats(kind, **values):
    full = dict.fromkeys(cs.STATISTICS) | values
    return pa.array([{"1": full}], cs.stats_type({1: kind}))


def table(statistics):
    columns = {"status": pa.array([e.ADDED]), "content_type": pa.array([e.DATA]), e.CONTENT_STATS: statistics}
    return e.entries_table(columns, 1, statistics.type)


def bounds(entries, field_id=1):
    found = entries.column(e.CONTENT_STATS).to_pylist()[0][str(field_id)]
    return None if found is None else (found[cs.LOWER], found[cs.UPPER])


def test_columns_that_are_not_given_are_null():
    entries = e.entries_table({"status": pa.array([0, 2])}, 2, INTS)
    assert entries.schema == e.entries_schema(INTS)
    assert entries.column("status").to_pylist() == [0, 2]
    assert entries.column("location").null_count == entries.column(e.CONTENT_STATS).null_count == 2
    assert e.is_live(entries).tolist() == [True, False]


def test_without_statistics():
    entries = e.entries_table({"status": pa.array([0])}, 1)
    assert entries.column(e.CONTENT_STATS).to_pylist() == [None]
    assert e.no_entries().num_rows == 0
    assert e.united([entries, e.no_entries(INTS)], INTS).column(e.CONTENT_STATS).to_pylist() == [None]
    assert e.united([table(stats(pa.int32()))], cs.NO_STATS).column(e.CONTENT_STATS).to_pylist() == [None]


@pytest.mark.parametrize(
    ("old", "new", "low", "expected"),
    [
        (pa.int32(), pa.int64(), 3, 3),
        (pa.float32(), pa.float64(), 0.5, 0.5),
        (pa.decimal128(4, 2), pa.decimal128(9, 2), Decimal("1.25"), Decimal("1.25")),
        (pa.date32(), pa.timestamp("us"), dt.date(2020, 1, 2), dt.datetime(2020, 1, 2)),
        (pa.null(), pa.int64(), None, None),
        (pa.int64(), pa.int32(), 3, None),
        (pa.int64(), pa.string(), 3, None),
        (pa.string(), pa.binary(), "a", None),
        (pa.decimal128(4, 2), pa.decimal128(9, 3), Decimal("1.25"), None),
        (pa.date32(), pa.timestamp("us", "UTC"), dt.date(2020, 1, 2), None),
    ],
)
def test_promoted_bounds_are_kept_and_others_are_dropped(old, new, low, expected):
    entries = table(stats(old, lower_bound=low, value_count=7))
    after = e.conformed(entries, cs.stats_type({1: new}))
    assert bounds(after) == (expected, None)
    assert after.column(e.CONTENT_STATS).to_pylist()[0]["1"][cs.VALUES] == 7


def test_a_date_beyond_timestamps_becomes_unknown():
    far = pa.array([2**31 - 1, 0], pa.int32()).view(pa.date32())
    assert cs.promoted(far, pa.timestamp("ns")).to_pylist() == [None, dt.datetime(1970, 1, 1)]


def test_columns_that_are_missing_or_dropped():
    one = table(stats(pa.int32(), lower_bound=1, upper_bound=2))
    after = e.conformed(one, cs.stats_type({2: pa.string()}))
    assert after.column(e.CONTENT_STATS).to_pylist() == [{"2": None}]
    both = e.united([one, after], cs.stats_type({1: pa.int64(), 2: pa.string()}))
    assert [row["1"] is None for row in both.column(e.CONTENT_STATS).to_pylist()] == [False, True]
    assert bounds(both) == (1, 2)
    assert cs.bound_types(both.schema.field(e.CONTENT_STATS).type) == {1: pa.int64(), 2: pa.string()}


def test_replaced_columns_keep_their_types():
    entries = e.with_value(table(stats(pa.int32())), "snapshot_id", 9)
    entries = e.with_columns(entries, {"record_count": pa.array([4], pa.int32())})
    assert entries.schema == e.entries_schema(INTS)
    assert e.numbers(entries, "snapshot_id").tolist() == [9]
    assert e.numbers(entries, "file_size_in_bytes").tolist() == [-1]
    assert e.with_positions(entries).column(e.POSITION).to_pylist() == [0]
