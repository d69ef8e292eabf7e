"""Vectors of keys that cannot be trusted are refused; keys of a promoted column are right."""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import replace

import pyarrow as pa
import pytest

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.deletes.compression import COMPRESSIONS
from delvec.deletes.equality import KeyColumn
from delvec.deletes.key_vector import EQUALITY_DELETE_VECTOR, KeyVector, vector_file
from delvec.deletes.stored_keys import stored_keys
from delvec.errors import CorruptVectorError, FormatError, UnsupportedFeatureError
from delvec.puffin import PuffinWriter
from delvec.schema import Primitive
from delvec.storage import Storage, open_storage

_NUMBERS = itertools.count()
COLUMN = KeyColumn(7, ("id",), Primitive("long"), (("id",),))
VECTOR = KeyVector(7, Bitmap.of(3, 5, 70_000))


@pytest.fixture
def storage() -> Storage:
    return open_storage(f"memory://vectors-of-keys-{next(_NUMBERS)}/t")


def stored(storage, vector=VECTOR, *, compression="roaring", data=None, **values):
    made, placed = vector_file(vector, COMPRESSIONS[compression])
    storage.put("k.puffin", made if data is None else data)
    delete = {
        "encoding": "deletion-vector",
        "location": f"{storage.root}/k.puffin",
        "offset": placed.offset,
        "length": placed.length,
        "cardinality": len(vector.numbers),
    }
    return delete | values


def read(storage, delete, *columns):
    return [keys.to_pylist() for keys in stored_keys(storage, delete, columns or (COLUMN,))]


@pytest.mark.parametrize("compression", sorted(COMPRESSIONS))
def test_a_vector_is_read_with_one_request(storage, compression):
    delete = stored(storage, compression=compression)
    storage.requests.clear()
    assert read(storage, delete) == [[3, 5, 70_000]]
    assert sum(storage.requests.values()) == 1


def test_a_field_of_a_struct(storage):
    """No struct around a key of a vector is null."""
    inner = replace(COLUMN, path=("s", "id"), names=(("s",), ("id",)))
    around = KeyColumn(6, ("s",), Primitive("boolean"), (("s",),), is_null=True)
    assert read(storage, stored(storage), around, inner) == [[False] * 3, [3, 5, 70_000]]


@pytest.mark.parametrize(
    ("codec", "kind", "expected"),
    [
        ("int", "long", [3, 5, 70_000]),
        ("int", "integer", [3, 5, 70_000]),
        ("date", "date", [dt.date(1970, 1, 4), dt.date(1970, 1, 6), dt.date(2161, 8, 27)]),
        (
            "date",
            "timestamp_ntz",
            [dt.datetime(1970, 1, 4), dt.datetime(1970, 1, 6), dt.datetime(2161, 8, 27)],
        ),
    ],
)
def test_a_column_that_was_promoted_since(storage, codec, kind, expected):
    delete = stored(storage, replace(VECTOR, codec=codec))
    assert read(storage, delete, replace(COLUMN, type=Primitive(kind))) == [expected]


def test_a_codec_that_does_not_fit_the_column(storage):
    delete = stored(storage, replace(VECTOR, codec="date"))
    with pytest.raises(FormatError, match=r"has date32\[day\] for column id, expected boolean.*k\.puffin"):
        read(storage, delete, replace(COLUMN, type=Primitive("boolean")))


def test_an_unknown_codec_stops_the_read_by_name(storage):
    delete = stored(storage, replace(VECTOR, codec="murmur"))
    with pytest.raises(UnsupportedFeatureError, match=r"'murmur', expected one of .*k\.puffin") as refused:
        read(storage, delete)
    assert refused.value.feature == "codec murmur"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cardinality": 4}, "vector has 3 positions, expected 4"),
        ({"offset": 5}, r"the Puffin file has the blobs: \d+ bytes at 4; expected one of"),
        ({"length": 20}, "expected one of 20 bytes"),
    ],
)
def test_metadata_that_disagrees(storage, values, message):
    with pytest.raises(FormatError, match=message) as refused:
        read(storage, stored(storage) | values)
    assert refused.value.path.endswith("k.puffin")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("equality-field-id", "8", "equality-field-id of a vector of keys is 8, expected 7"),
        ("equality-field-id", None, "equality-field-id of a vector of keys is '', expected a number"),
        ("equality-field-id", "id", "is 'id', expected a number"),
        ("cardinality", "2", "cardinality of a vector of keys is 2, expected 3"),
        ("value-min", "0", "value-min of a vector of keys is 0, expected 3"),
        ("value-max", "9", "value-max of a vector of keys is 9, expected 70000"),
        ("partition-spec-id", "x", "partition-spec-id of a vector of keys is 'x'"),
    ],
)
def test_properties_that_disagree(storage, name, value, message):
    properties = {**VECTOR.properties, name: value}
    data = file_with(blob.encode(VECTOR.numbers), {k: v for k, v in properties.items() if v is not None})
    with pytest.raises(CorruptVectorError, match=message):
        read(storage, stored(storage, data=data))


def test_properties_that_a_writer_may_leave_out(storage):
    """A blob as the design of equality vectors has it: without codec, spec and bounds."""
    data = file_with(blob.encode(VECTOR.numbers), {"equality-field-id": "7", "cardinality": "3"})
    assert read(storage, stored(storage, data=data)) == [[3, 5, 70_000]]


def test_the_type_of_the_blob_has_the_last_word(storage):
    data = file_with(blob.encode(VECTOR.numbers), VECTOR.properties, blob_type="theta-sketch")
    with pytest.raises(FormatError, match="has the type 'theta-sketch', expected 'equality-delete-v"):
        read(storage, stored(storage, data=data))


def test_damaged_files_are_named(storage):
    delete = stored(storage)
    data = bytearray(storage.read("k.puffin"))
    data[20] ^= 1
    storage.put("k.puffin", bytes(data))
    with pytest.raises(CorruptVectorError, match=r"CRC is 0x.*k\.puffin"):
        read(storage, delete)
    storage.put("k.puffin", bytes(data[:-3]))
    with pytest.raises(FormatError, match=r"not a Puffin file.*k\.puffin"):
        read(storage, delete)
    storage.delete(["k.puffin"])
    with pytest.raises(FormatError, match=r"vector of keys is missing.*k\.puffin"):
        read(storage, delete)


def test_a_vector_compares_one_column(storage):
    with pytest.raises(FormatError, match="compares 2 columns, expected exactly one"):
        read(storage, stored(storage), COLUMN, COLUMN)


def file_with(data, properties, blob_type=EQUALITY_DELETE_VECTOR):
    writer = PuffinWriter()
    writer.add_blob(data, blob_type=blob_type, fields=(7,), properties=properties)
    return writer.finish()


def test_full_rows_are_read_from_the_same_description(storage):
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [4, None]}), sink)
    storage.put("k.parquet", sink.getvalue().to_pybytes())
    place = f"{storage.root}/k.parquet"
    delete = {"encoding": "full-row", "location": place, "offset": None, "length": 9, "cardinality": 2}
    assert read(storage, delete) == [[4, None]]
