"""Writers of deletes by key: what becomes a vector, what full rows, and why."""

from __future__ import annotations

import itertools
import logging
import pickle
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cents_codec import CentsCodec
from delvec.bitmap import MAX_POSITION, Bitmap
from delvec.deletes.codecs import codec_for, codec_named, register, registry
from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.key_rows import key_file
from delvec.deletes.key_vector import read_vector_file
from delvec.deletes.model import DeleteScope
from delvec.deletes.position_file import read_positions
from delvec.deletes.validate import validate
from delvec.deletes.write_options import DeleteWriteOptions, EncodingHint
from delvec.deletes.write_result import DeleteWriteResult, Fallback
from delvec.deletes.writers import DeleteGranularity, DeleteWriterFactory
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg.delete_properties import delete_options
from delvec.puffin import PuffinReader
from delvec.schema import Decimal, Field, Primitive, Struct, arrow_type
from delvec.storage import Storage, open_storage

VECTOR, ROWS = DeleteEncoding.DELETION_VECTOR, DeleteEncoding.FULL_ROW
TYPES = {
    "id": "long",
    "n": "integer",
    "s": "string",
    "f": "double",
    "d": "date",
    "ts": "timestamp_ntz",
    "tz": "timestamp",
    "b": "boolean",
}
SCHEMA = Struct(
    (
        *(Field(name, Primitive(kind), field_id=at + 1) for at, (name, kind) in enumerate(TYPES.items())),
        Field("dec", Decimal(10, 2), field_id=9),
        Field("nested", Struct((Field("x", Primitive("long"), field_id=11),)), field_id=10),
    )
)
ON = {"write.delete.equality-vector.enabled": "true"}
_NUMBERS = itertools.count()


@dataclass
class Version:
    delete_options: DeleteWriteOptions
    schema: Struct = SCHEMA


@dataclass
class Target:
    storage: Storage
    version: Version

    def snapshot(self):
        return self.version


@pytest.fixture
def storage():
    return open_storage(f"memory://keys-{next(_NUMBERS)}/t")


def factory(storage, version=3, **properties):
    named = {name.replace("_", "-"): value for name, value in properties.items()}
    full = {f"write.delete.{name}": value for name, value in named.items() if name != "compression"}
    if "compression" in named:
        full["write.deletion-vector.compression"] = named["compression"]
    return DeleteWriterFactory.for_table(Target(storage, Version(delete_options(ON | full, version))))


def written(storage, *columns, names=("id",), scope=None, types=None, **options):
    """The result of writing these keys."""
    ids = [next(f.field_id for f in SCHEMA if f.name == name) for name in names]
    writer = factory(storage, **options).create_equality_writer(ids, scope=scope or DeleteScope())
    fields = [next(f for f in SCHEMA if f.name == name) for name in names]
    kinds = types or [arrow_type(f.type) for f in fields]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    writer.write_batch(pa.table(arrays, names=list(names)))
    result = writer.close()
    for file in result.files:
        validate(file)
        assert storage.head(file.location).size == file.size
        assert file.field_ids == tuple(ids)
    return result


def keys_in(storage, file):
    """The values in a file of one key column."""
    if file.encoding is ROWS:
        return pq.read_table(storage.open_input(file.location)).column(0).to_pylist()
    vector = read_vector_file(
        storage.read(file.location),
        field_id=file.field_ids[0],
        offset=file.offset,
        length=file.length,
        cardinality=file.record_count,
    )
    return codec_named(vector.codec).decode(pa.array(vector.numbers.to_numpy())).to_pylist()


def by_encoding(result):
    return {file.encoding: file for file in result.files}


def test_keys_become_a_vector(storage):
    result = written(storage, [500, 100, 1000, 100])
    (file,) = result.files
    assert (file.encoding, file.file_format, file.record_count) == (VECTOR, "puffin", 3)
    assert (file.lower, file.upper) == (100, 1000)
    assert keys_in(storage, file) == [100, 500, 1000]
    assert result.metrics == {"numKeysInVectors": 3, "numKeysInRows": 0}
    (placed,) = PuffinReader.from_bytes(storage.read(file.location)).blobs
    assert placed.type == "equality-delete-vector-v1"
    assert placed.fields == (1,)
    assert (placed.snapshot_id, placed.sequence_number) == (-1, -1)
    assert placed.compression_codec is None
    assert (placed.offset, placed.length) == (file.offset, file.length)
    assert placed.properties == {
        "equality-field-id": "1",
        "cardinality": "3",
        "value-min": "100",
        "value-max": "1000",
        "partition-spec-id": "-1",
        "codec": "long",
    }


def test_the_scope_stands_in_the_blob(storage):
    (file,) = written(storage, [1], scope=DeleteScope(4, {"p": 1})).files
    (placed,) = PuffinReader.from_bytes(storage.read(file.location)).blobs
    assert placed.properties["partition-spec-id"] == "4"
    assert file.scope == DeleteScope(4, {"p": 1})


def test_rows_and_batches_are_one_delete(storage):
    writer = factory(storage).create_equality_writer([1])
    writer.write({"id": 3, "other": "x"})
    writer.write_batch(pa.record_batch({"x": ["a"], "id": pa.array([4], pa.int32())}))
    writer.write({"id": None})
    writer.write_batch(pa.table({"id": pa.chunked_array([[5], [6]])}))
    files = by_encoding(writer.close())
    assert keys_in(storage, files[VECTOR]) == [3, 4, 5, 6]
    assert keys_in(storage, files[ROWS]) == [None]
    with pytest.raises(InvalidOperationError, match="is closed"):
        writer.close()


def test_no_key_writes_nothing(storage):
    assert written(storage, []).files == ()
    assert factory(storage).create_equality_writer([1]).close() == DeleteWriteResult()
    assert not list(storage.list(""))


@pytest.mark.parametrize(
    ("keys", "in_vector", "in_rows", "reasons"),
    [
        ([1, None], [1], [None], {Fallback.NULL: 1}),
        ([None], [], [None], {Fallback.NULL: 1}),
        ([-5, 1, 2], [1, 2], [-5], {Fallback.NEGATIVE: 1}),
        ([-5], [], [-5], {Fallback.NEGATIVE: 1}),
        ([MAX_POSITION], [MAX_POSITION], [], {}),
        ([MAX_POSITION + 1], [], [MAX_POSITION + 1], {Fallback.TOO_LARGE: 1}),
        ([2**63 - 1, 7, None], [7], [2**63 - 1, None], {Fallback.NULL: 1, Fallback.TOO_LARGE: 1}),
        ([1, 10**9, 2 * 10**9], [], [1, 10**9, 2 * 10**9], {Fallback.SPARSE: 3}),
        ([0, 2000], [0, 2000], [], {}),
        ([0, 2001], [], [0, 2001], {Fallback.SPARSE: 2}),
        ([10**15], [10**15], [], {}),
    ],
)
def test_keys_that_no_vector_has_are_rows(storage, caplog, keys, in_vector, in_rows, reasons):
    with caplog.at_level(logging.INFO, "delvec"):
        result = written(storage, keys)
    files = by_encoding(result)
    assert (keys_in(storage, files[VECTOR]) if VECTOR in files else []) == in_vector
    assert (keys_in(storage, files[ROWS]) if ROWS in files else []) == in_rows
    assert result.fallbacks == reasons
    assert sum(result.metrics.values()) == len(keys) + sum(reasons.values())
    told = [record.getMessage() for record in caplog.records if "are written as full rows" in record.message]
    assert len(told) == len(reasons)


@pytest.mark.parametrize(
    ("names", "columns", "reason"),
    [
        (("id", "s"), ([5], ["x"]), Fallback.COMPOSITE),
        (("n",), ([5],), Fallback.TYPE),
        (("s",), (["A", "B"],), Fallback.TYPE),
        (("d",), ([5],), Fallback.TYPE),
        (("b",), ([True],), Fallback.TYPE),
        (("dec",), ([5],), Fallback.TYPE),
    ],
)
def test_other_keys_are_rows(storage, names, columns, reason):
    result = written(storage, *columns, names=names)
    (file,) = result.files
    assert (file.encoding, file.file_format) == (ROWS, "parquet")
    assert result.fallbacks == {reason: len(columns[0])}
    table = pq.read_table(storage.open_input(file.location))
    assert table.column_names == list(names)
    ids = [int(f.metadata[b"PARQUET:field_id"]) for f in table.schema]
    assert tuple(ids) == file.field_ids


def test_what_the_table_allows(storage):
    assert by_encoding(written(storage, [1], version=2)).keys() == {ROWS}
    assert written(storage, [1], version=2).fallbacks == {Fallback.FORMAT_VERSION: 1}
    for options in (
        {"encoding_hint": "full-row"},
        {"equality_vector.enabled": "false"},
        {"equality_vector.enabled": "false", "encoding_hint": "deletion-vector"},
    ):
        result = written(storage, [1, -2], **options)
        assert by_encoding(result).keys() == {ROWS}
        assert not result.fallbacks
    # Only delvec reads version 4, so vectors are the default there.
    assert delete_options({}, 4).vectors_of_keys
    assert not delete_options({}, 3).vectors_of_keys


def test_the_hint_skips_the_check_for_sparse_keys(storage):
    hint = {"encoding_hint": "deletion-vector"}
    assert by_encoding(written(storage, [1, 10**9], **hint)).keys() == {VECTOR}
    # It never makes keys eligible that are not.
    assert by_encoding(written(storage, [1, -1], **hint)).keys() == {VECTOR, ROWS}
    assert by_encoding(written(storage, ["a"], names=("s",), **hint)).keys() == {ROWS}


@pytest.mark.parametrize(
    ("name", "codec", "values"),
    [
        ("n", "int", [3, 2**31 - 1]),
        ("d", "date", [0, 20_000]),
        ("ts", "timestamp", [0, 1_700_000_000_123_456]),
        ("tz", "timestamptz", [1, 1_700_000_000_123_456]),
    ],
)
def test_codecs_by_the_hint(storage, name, codec, values):
    column = next(f for f in SCHEMA if f.name == name)
    typed = pa.array(values, pa.int64())
    typed = typed.cast(pa.int32()) if name in ("n", "d") else typed
    expected = typed.cast(arrow_type(column.type)).to_pylist()
    hint = {"encoding_hint": "deletion-vector"}
    (file,) = written(storage, expected, names=(name,), **hint).files
    assert file.encoding is VECTOR
    assert keys_in(storage, file) == expected
    assert (file.lower, file.upper) == (values[0], values[1])
    (placed,) = PuffinReader.from_bytes(storage.read(file.location)).blobs
    assert placed.properties["codec"] == codec


def test_times_before_1970_are_rows(storage):
    import datetime as dt

    days = [dt.date(1969, 12, 31), dt.date(1970, 1, 2)]
    files = by_encoding(written(storage, days, names=("d",), encoding_hint="deletion-vector"))
    assert keys_in(storage, files[ROWS]) == days[:1]
    assert keys_in(storage, files[VECTOR]) == days[1:]


def test_a_codec_from_outside(storage, monkeypatch):
    from decimal import Decimal as Number

    monkeypatch.setattr(registry, "_CODECS", dict(registry._CODECS))
    register(CentsCodec())
    register(CentsCodec())  # again, as another process does
    (file,) = written(storage, [Number("1.50"), Number("0.25")], names=("dec",)).files
    assert file.encoding is VECTOR
    assert keys_in(storage, file) == [Number("0.25"), Number("1.50")]
    assert (file.lower, file.upper) == (None, None)  # their order is the codec's matter


def test_codecs_must_be_new(monkeypatch):
    monkeypatch.setattr(registry, "_CODECS", dict(registry._CODECS))

    class Other(CentsCodec):
        supported_type = Primitive("long")

    with pytest.raises(InvalidOperationError, match=r"codec 'cents' for long is registered.*codec 'long'"):
        register(Other())
    with pytest.raises(UnsupportedFeatureError, match="'hex', expected one of date, int, long") as refused:
        codec_named("hex")
    assert refused.value.feature == "codec hex"
    assert codec_for(Primitive("string")) is None


def test_the_smaller_one_of_large_deletes_is_kept(storage):
    rng = np.random.default_rng(5)
    dense = np.arange(300_000)
    (file,) = written(storage, dense).files
    assert (file.encoding, file.record_count) == (VECTOR, 300_000)
    assert file.size < 2000
    half = np.flatnonzero(rng.random(2_000_000) < 0.5)
    sparse = rng.choice(10**8, 150_000, replace=False)
    for keys, encoding in ((half, VECTOR), (sparse, ROWS)):
        result = written(storage, keys)
        (file,) = result.files
        assert file.encoding is encoding
        rows = key_file([pa.array(keys)], [SCHEMA.fields[0]])
        assert file.size <= len(rows)
        assert sorted(keys_in(storage, file)) == sorted(keys.tolist())
        assert result.fallbacks == ({} if encoding is VECTOR else {Fallback.SIZE: len(keys)})


def test_blobs_can_be_compressed(storage):
    keys = np.arange(0, 40_000, 3)
    (plain,) = written(storage, keys).files
    (small,) = written(storage, keys, compression="zstd").files
    assert small.length < plain.length
    assert keys_in(storage, small) == keys_in(storage, plain) == keys.tolist()
    (placed,) = PuffinReader.from_bytes(storage.read(small.location)).blobs
    assert placed.compression_codec == "zstd"


@pytest.mark.parametrize(
    ("names", "columns", "types", "message"),
    [
        (("f",), ([1.0],), None, "key column 'f' is of type double, expected an integer"),
        (("nested",), ([{"x": 1}],), None, "key column 'nested' is of type struct"),
        (("id",), (["5"],), [pa.string()], "keys of column 'id' are string, expected long"),
        (("id",), ([5.0],), [pa.float64()], "keys of column 'id' are double, expected long"),
        (("n",), ([2**40],), [pa.int64()], "a key of column 'n' does not fit into integer"),
        (("s",), ([5],), [pa.int64()], "keys of column 's' are int64, expected string"),
        (("tz",), ([5],), [pa.timestamp("us")], "keys of column 'tz' are timestamp"),
        (("ts",), ([5],), [pa.timestamp("us", "UTC")], "keys of column 'ts' are timestamp"),
        (("dec",), ([5],), [pa.int64()], "keys of column 'dec' are int64"),
    ],
)
def test_bad_keys_are_refused(storage, names, columns, types, message):
    with pytest.raises((InvalidOperationError, UnsupportedFeatureError), match=message):
        written(storage, *columns, names=names, types=types)


def test_a_format_without_delete_files_is_refused(storage):
    with pytest.raises(UnsupportedFeatureError, match="the table's format has no delete files"):
        DeleteWriterFactory.for_version(storage, object())


def test_bad_requests_are_refused(storage):
    make = factory(storage).create_equality_writer
    with pytest.raises(InvalidOperationError, match="no key column, expected at least one"):
        make([])
    with pytest.raises(InvalidOperationError, match=r"key columns \[1, 1\] repeat one"):
        make([1, 1])
    with pytest.raises(InvalidOperationError, match="field id 99, expected the id of a top-level column"):
        make([99])
    with pytest.raises(InvalidOperationError, match=r"no column 'id', expected one; they have: x"):
        make([1]).write({"x": 1})
    with pytest.raises(InvalidOperationError, match=r"have 0 columns 'id', expected one; they have: x"):
        make([1]).write_batch(pa.table({"x": [1]}))
    writer = make([1])
    writer.write({"id": 1})
    writer.write({"id": "x"})
    with pytest.raises(InvalidOperationError, match="keys have values of several types"):
        writer.close()


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, EncodingHint.AUTO),
        ({"write.delete.encoding-hint": "Full-Row"}, EncodingHint.FULL_ROW),
        ({"write.delete.strategy": "deletion-vector"}, EncodingHint.DELETION_VECTOR),
        ({"write.delete.strategy": "equality"}, EncodingHint.DELETION_VECTOR),
        ({"write.delete.strategy": "equality", "write.delete.encoding-hint": "auto"}, EncodingHint.AUTO),
    ],
)
def test_hints(properties, expected, caplog):
    assert delete_options(properties, 3).hint is expected
    assert ("deprecated" in caplog.text) == (len(properties) == 1 and "write.delete.strategy" in properties)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("write.delete.encoding-hint", "bitmap", "is 'bitmap', expected auto, deletion-vector, full-row"),
        ("write.delete.encoding-hint", "hash-map", "is 'hash-map', which is reserved"),
        ("write.delete.strategy", "position", "is 'position', expected auto"),
        ("write.delete.equality-vector.enabled", "yes", "is 'yes', expected true or false"),
        ("write.deletion-vector.compression", "concise", "is 'concise', expected roaring or zstd"),
    ],
)
def test_unknown_options_are_refused_by_name(name, value, message):
    with pytest.raises((InvalidOperationError, UnsupportedFeatureError), match=f"{name} {message}"):
        delete_options({name: value}, 3)


def test_the_factory_goes_to_executors(tmp_path):
    storage = open_storage(str(tmp_path))
    made = pickle.loads(pickle.dumps(factory(storage)))
    writer = pickle.loads(pickle.dumps(made.create_equality_writer([1])))
    writer.write({"id": 8})
    (file,) = writer.close().files
    assert keys_in(storage, file) == [8]


def test_positions_of_one_file(storage):
    for version, encoding in ((3, VECTOR), (2, ROWS)):
        writer = factory(storage, version).create_position_writer("/t/data.parquet")
        writer.write(7)
        writer.write(3)
        writer.write_positions(Bitmap.of(3, 9))
        (file,) = writer.close().files
        validate(file)
        assert (file.encoding, file.record_count) == (encoding, 3)
        assert file.referenced_file == "/t/data.parquet"
        if encoding is ROWS:
            found = read_positions(storage, file.location, ["/t/data.parquet"])["/t/data.parquet"]
        else:
            reader = PuffinReader.from_bytes(storage.read(file.location))
            found = reader.read_vector(reader.blobs[0])
        assert found == Bitmap.of(3, 7, 9)


def test_positions_of_a_partition(storage):
    make = factory(storage, 2).create_position_writer
    writer = make(granularity=DeleteGranularity.PARTITION, scope=DeleteScope(0, {"p": 1}))
    writer.write(7, "/t/b.parquet")
    writer.write_positions([5, 1], "/t/a.parquet")
    (file,) = writer.close().files
    assert (file.encoding, file.record_count, file.referenced_file) == (ROWS, 3, None)
    found = read_positions(storage, file.location, ["/t/a.parquet", "/t/b.parquet"])
    assert found == {"/t/a.parquet": Bitmap.of(1, 5), "/t/b.parquet": Bitmap.of(7)}
    assert make("/t/a.parquet").close().files == ()


def test_bad_positions_are_refused(storage):
    with pytest.raises(InvalidOperationError, match="names none, expected one"):
        factory(storage).create_position_writer()
    for version, scope in ((3, DeleteScope(0, {})), (2, DeleteScope())):
        with pytest.raises(InvalidOperationError, match="expected a partition, and a version before 3"):
            factory(storage, version).create_position_writer(
                granularity=DeleteGranularity.PARTITION, scope=scope
            )
    with pytest.raises(InvalidOperationError, match="position is of data file '/b', expected '/a'"):
        factory(storage).create_position_writer("/a").write(1, "/b")
