"""The unit tests of the design of equality delete vectors: bitmaps, values, choices, the blob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa
import pytest

from delvec import blob
from delvec.bitmap import MAX_POSITION, Bitmap
from delvec.deletes import DeleteEncoding, DeleteFile, DeleteWriterFactory
from delvec.deletes.equality_writer import EqualityDeleteWriter
from delvec.deletes.key_vector import KeyVector, read_vector_file, vector_file
from delvec.deletes.write_result import Fallback
from delvec.errors import CorruptVectorError, FormatError, InvalidOperationError
from delvec.iceberg.delete_properties import delete_options
from delvec.puffin import PuffinReader
from delvec.schema import Field, Primitive, Struct, arrow_type
from delvec.storage import open_storage

GATE, HINT = "write.delete.equality-vector.enabled", "write.delete.encoding-hint"
ORDERS = Struct(
    (
        Field("order_id", Primitive("long"), field_id=1),
        Field("customer_id", Primitive("integer"), field_id=2),
        Field("name", Primitive("string"), field_id=3),
    )
)
VECTOR, FULL_ROW = DeleteEncoding.DELETION_VECTOR, DeleteEncoding.FULL_ROW


def factory(properties: Mapping[str, str] = MappingProxyType({}), version: int = 3) -> DeleteWriterFactory:
    named = {GATE: "true", **properties}
    return DeleteWriterFactory(open_storage("memory://edv/t"), ORDERS, delete_options(named, version))


def written(made: DeleteWriterFactory, columns: Mapping[str, list[object]]) -> tuple[DeleteFile, ...]:
    writer = writer_of(made, *columns)
    kinds = {field.name: arrow_type(field.type) for field in ORDERS}
    writer.write_batch(pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()}))
    return writer.close().files


def writer_of(made: DeleteWriterFactory, *names: str) -> EqualityDeleteWriter:
    ids = {field.name: field.field_id or 0 for field in ORDERS}
    return made.create_equality_writer([ids[name] for name in names])


# 1. Bitmap serialization


@pytest.mark.parametrize(
    "values", [[0], [100, 500, 1000], [2**32 - 1, 2**32], [MAX_POSITION], list(range(0, 9000, 3))]
)
def test_values_survive_the_blob(values):
    assert list(blob.decode(blob.encode(Bitmap.of(*values)), expected_cardinality=len(values))) == values


# 2. Values of rows


def test_values_of_long_columns():
    writer = writer_of(factory(), "order_id")
    for row in ({"order_id": 100, "name": "x"}, {"order_id": 500}, {"order_id": 100}):
        writer.write(row)
    (file,) = writer.close().files
    assert (file.encoding, file.record_count, file.lower, file.upper) == (VECTOR, 2, 100, 500)


def test_values_of_int_columns_need_the_hint():
    assert written(factory(), {"customer_id": [5]})[0].encoding is FULL_ROW
    (file,) = written(factory({HINT: "deletion-vector"}), {"customer_id": [5, 6]})
    assert (file.encoding, file.lower, file.upper) == (VECTOR, 5, 6)


def test_a_value_of_another_type_is_refused():
    with pytest.raises(InvalidOperationError, match="keys of column 'order_id' are string, expected long"):
        writer_of(factory(), "order_id").write_batch(pa.table({"order_id": ["100"]}))


# 3. Which keys become a vector


CHOICES = {
    "long": ({"order_id": [100, 200, 300]}, {}, [VECTOR]),
    "one long": ({"order_id": [12345]}, {}, [VECTOR]),
    "int": ({"customer_id": [5]}, {}, [FULL_ROW]),
    "composite": ({"order_id": [5], "customer_id": [10]}, {}, [FULL_ROW]),
    "string": ({"name": ["A", "B"]}, {}, [FULL_ROW]),
    "negative": ({"order_id": [-100]}, {}, [FULL_ROW]),
    "null": ({"order_id": [None]}, {}, [FULL_ROW]),
    "mixed": ({"order_id": [None, -1, 1]}, {}, [VECTOR, FULL_ROW]),
    "too large": ({"order_id": [MAX_POSITION + 1]}, {}, [FULL_ROW]),
    "sparse": ({"order_id": [1, 10**9, 2 * 10**9]}, {}, [FULL_ROW]),
    "sparse, hint": (
        {"order_id": [1, 10**9, 2 * 10**9]},
        {HINT: "deletion-vector"},
        [VECTOR],
    ),
    "hint": ({"order_id": [1]}, {HINT: "full-row"}, [FULL_ROW]),
    "off": ({"order_id": [1]}, {GATE: "false"}, [FULL_ROW]),
}


@pytest.mark.parametrize("case", CHOICES)
def test_detection(case):
    columns, properties, expected = CHOICES[case]
    assert [file.encoding for file in written(factory(properties), columns)] == expected


def test_version_2_has_no_vectors():
    assert [file.encoding for file in written(factory(version=2), {"order_id": [1]})] == [FULL_ROW]


def test_every_reason_has_a_text():
    from delvec.deletes.write_result import REASONS

    assert set(REASONS) == set(Fallback)


# 4. The Puffin blob


def test_the_blob():
    data, placed = vector_file(KeyVector(1, Bitmap.of(100, 500, 1000), spec_id=4))
    (found,) = PuffinReader.from_bytes(data).blobs
    assert found == placed
    assert (found.type, found.fields, found.compression_codec) == ("equality-delete-vector-v1", (1,), None)
    assert (found.snapshot_id, found.sequence_number) == (-1, -1)
    assert found.properties == {
        "equality-field-id": "1",
        "cardinality": "3",
        "value-min": "100",
        "value-max": "1000",
        "partition-spec-id": "4",
        "codec": "long",
    }
    read = read_vector_file(data, field_id=1, offset=found.offset, length=found.length, cardinality=3)
    assert (list(read.numbers), read.spec_id, read.codec) == ([100, 500, 1000], 4, "long")


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"field_id": 9}, CorruptVectorError, "equality-field-id of a vector of keys is 1, expected 9"),
        ({"cardinality": 4}, CorruptVectorError, "3"),
        ({"length": 7}, FormatError, "expected one of 7 bytes"),
    ],
)
def test_metadata_that_disagrees_with_the_blob(asked, error, message):
    data, placed = vector_file(KeyVector(1, Bitmap.of(100, 500, 1000)))
    place = {"field_id": 1, "offset": placed.offset, "length": placed.length, "cardinality": 3}
    with pytest.raises(error, match=message):
        read_vector_file(data, **(place | asked))


def test_a_table_that_lost_the_gate_keeps_what_it_has():
    """The options decide what is written, never what is read."""
    (file,) = written(factory(), {"order_id": [7]})
    assert replace(file, recorded_encoding=None).encoding is VECTOR
