"""Avro files that delvec writes from columns, read by fastavro."""

from __future__ import annotations

import io

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delvec.errors import FormatError
from delvec.iceberg import avro_writer
from delvec.iceberg.avro_types import list_of, map_of, optional, record, required
from delvec.iceberg.avro_writer import write_table

FIELDS = {
    "i": (required(1, "i", "int"), pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "l": (required(2, "l", "long"), pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "b": (required(3, "b", "boolean"), pa.bool_(), st.booleans()),
    "f": (required(4, "f", "float"), pa.float32(), st.floats(width=32, allow_nan=False)),
    "d": (required(5, "d", "double"), pa.float64(), st.floats(allow_nan=False)),
    "s": (required(6, "s", "string"), pa.string(), st.text("az\0é\uffff😀", max_size=80)),
    "y": (required(7, "y", "bytes"), pa.large_binary(), st.binary(max_size=80)),
    "x": (
        required(8, "x", {"type": "fixed", "name": "x3", "size": 3}),
        pa.binary(3),
        st.binary(min_size=3, max_size=3),
    ),
    "ol": (optional(9, "ol", "long"), pa.int64(), st.none() | st.integers(-(2**63), 2**63 - 1)),
    "os": (optional(10, "os", "string"), pa.string(), st.none() | st.text("az\0é\uffff😀", max_size=3)),
    "a": (
        optional(11, "a", list_of(12, "long")),
        pa.large_list(pa.int64()),
        st.none() | st.lists(st.integers(0, 300), max_size=4),
    ),
    "m": (
        optional(13, "m", map_of(14, 15, "bytes")),
        pa.large_list(pa.struct([("key", pa.int32()), ("value", pa.large_binary())])),
        st.none()
        | st.lists(
            st.fixed_dictionaries({"key": st.integers(0, 2**31 - 1), "value": st.binary(max_size=3)}),
            max_size=3,
        ),
    ),
}
ROWS = st.lists(st.fixed_dictionaries({name: values for name, (_, _, values) in FIELDS.items()}), max_size=20)
SCHEMA = record("all", [field for field, _, _ in FIELDS.values()])
TYPES = pa.schema([(name, kind) for name, (_, kind, _) in FIELDS.items()])


def written(table):
    return write_table(SCHEMA, table.columns, {"key": "välue"})


@settings(deadline=None)
@given(ROWS)
def test_fastavro_reads_the_rows(rows):
    reader = fastavro.reader(io.BytesIO(written(pa.Table.from_pylist(rows, schema=TYPES))))
    assert list(reader) == rows
    assert reader.metadata["key"] == "välue"


@settings(deadline=None)
@given(ROWS, st.data())
def test_columns_of_several_chunks_and_slices(rows, data):
    """What is before and after a slice is not written."""
    table = pa.Table.from_pylist(rows, schema=TYPES)
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    arrays = [column.combine_chunks().slice(start, end - start) for column in table.columns]
    assert list(fastavro.reader(io.BytesIO(write_table(SCHEMA, arrays, {})))) == rows[start:end]
    both = pa.concat_tables([table.slice(start, end - start), table.slice(0, start)])
    assert list(fastavro.reader(io.BytesIO(written(both)))) == rows[start:end] + rows[:start]


def test_rows_are_written_in_blocks_of_some_size(monkeypatch):
    monkeypatch.setattr(avro_writer, "_BLOCK_SIZE", 100)
    table = pa.table({"s": pa.array([f"row {n}" + "x" * (n % 300) for n in range(500)])})
    data = write_table(record("r", [required(1, "s", "string")]), table.columns, {})
    blocks = list(fastavro.block_reader(io.BytesIO(data)))
    assert [row["s"] for block in blocks for row in block] == table.column("s").to_pylist()
    assert 100 < len(blocks) < 500


def test_nested_records_have_no_column():
    schema = record(
        "o", [required(1, "a", "int"), required(2, "r", record("i", [])), required(3, "b", "int")]
    )
    found = list(fastavro.reader(io.BytesIO(write_table(schema, [pa.array([1]), pa.array([2])], {}))))
    assert found == [{"a": 1, "r": {}, "b": 2}]


def test_nulls_and_unknown_types_are_refused():
    with pytest.raises(FormatError, match="field a is null in 1 records, expected none"):
        write_table(record("r", [required(1, "a", "int")]), [pa.array([1, None])], {})
    with pytest.raises(FormatError, match="field a has the Avro type 'enum'"):
        write_table(record("r", [required(1, "a", {"type": "enum"})]), [pa.array([1])], {})
