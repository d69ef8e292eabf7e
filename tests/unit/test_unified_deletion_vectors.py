"""The tests of the design of unified deletion vectors: encodings, their rules, estimates, and mixed reads."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from delvec import deletes
from delvec.bitmap import Bitmap
from delvec.deletes import (
    DeleteContent,
    DeleteEncoding,
    DeleteFile,
    DeleteLoader,
    DeleteWriterFactory,
    EncodingCostEstimator,
    EqualityDeleteSet,
    PositionDeleteIndex,
    codec_named,
    validate,
)
from delvec.deletes.equality_set import ALWAYS
from delvec.deletes.writers import DeleteGranularity
from delvec.errors import CorruptVectorError, FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.schema import Field, Primitive, Struct
from iceberg_tables.key_deletes import KeyLake

FULL_ROW, VECTOR, HASH_MAP = DeleteEncoding
EQUALITY, POSITIONS = DeleteContent.EQUALITY_DELETES, DeleteContent.POSITION_DELETES
SCHEMA = Struct(
    (
        Field("id", Primitive("long"), field_id=1),
        Field("n", Primitive("integer"), field_id=2),
        Field("s", Primitive("string"), field_id=3),
    )
)


@pytest.fixture
def lake(tmp_path):
    return KeyLake(tmp_path / "t", partition_by=())


def test_the_public_names() -> None:
    assert all(hasattr(deletes, name) for name in deletes.__all__)
    assert {
        *("DeleteEncoding", "DeleteFile", "DeleteLoader", "DeleteWriterFactory", "EncodingCostEstimator"),
        *("EqualityDeleteSet", "PositionDeleteIndex", "register", "validate"),
    } <= set(deletes.__all__)


# DeleteEncodingTest


def test_encoding_serialization(lake):
    """A delete file keeps its encoding on its way through a manifest."""
    lake.commit(lake.vector(1, 2), lake.rows(3))
    entries = {entry["file_format"]: entry["encoding"] for entry in lake.entries()}
    assert entries == {"puffin": VECTOR.id, "parquet": FULL_ROW.id}
    live = lake.snapshot.live_deletes().to_pylist()
    assert {DeleteEncoding.from_text(delete["encoding"]) for delete in live} == {VECTOR, FULL_ROW}


def test_backward_compatibility():
    """Old files record no encoding: it is inferred from the format."""
    old = DeleteFile(EQUALITY, "/t/d.parquet", "parquet", 3, 500, field_ids=(1,))
    assert old.encoding is FULL_ROW
    assert replace(old, file_format="puffin").encoding is VECTOR


def test_a_vector_must_be_in_a_puffin_file():
    file = DeleteFile(EQUALITY, "/t/d.parquet", "parquet", 3, 500, VECTOR, (1,), offset=4, length=40)
    with pytest.raises(FormatError, match="deletion vector is in a file of format 'parquet'"):
        validate(file)


@pytest.mark.parametrize(("number", "name"), [(2, "hash-map"), (7, "unknown encoding 7")])
def test_forward_compatibility(lake, monkeypatch, number, name):
    """Encodings that delvec cannot apply stop the read by name."""
    from delvec.iceberg import stored_deletes

    original = stored_deletes._columns

    def recorded(files, base):
        return original(files, base) | {"encoding": pa.array([number] * len(files), pa.int32())}

    monkeypatch.setattr(stored_deletes, "_columns", recorded)
    lake.commit(lake.rows(1))
    with pytest.raises(UnsupportedFeatureError, match=name):
        DeleteLoader(lake.table.storage).by_file(lake.snapshot.plan())


# EncodingCostEstimatorTest


def test_sparse_deletes_prefer_a_vector():
    assert EncodingCostEstimator().choose_encoding(EQUALITY, 1000, 1_000_000, SCHEMA, [1]) is VECTOR


def test_dense_deletes_prefer_full_rows():
    assert EncodingCostEstimator().choose_encoding(EQUALITY, 600_000, 1_000_000, SCHEMA, [1]) is FULL_ROW


@pytest.mark.parametrize(
    ("content", "field_ids", "expected"),
    [
        (POSITIONS, (), VECTOR),
        (EQUALITY, (1,), VECTOR),
        (EQUALITY, (1, 2), FULL_ROW),
        (EQUALITY, (2,), FULL_ROW),
        (EQUALITY, (3,), FULL_ROW),
    ],
)
def test_the_decision_matrix(content, field_ids, expected):
    assert EncodingCostEstimator().choose_encoding(content, 1000, 1_000_000, SCHEMA, field_ids) is expected


def test_estimated_bytes():
    estimator = EncodingCostEstimator()
    assert estimator.full_row_cost(EQUALITY, 3000, SCHEMA, [1, 2, 3]) == 1000 * (8 + 4 + 64)
    assert estimator.full_row_cost(POSITIONS, 300, SCHEMA) == 100 * 264
    assert estimator.vector_cost(EQUALITY, 3000, SCHEMA, [1]) == 3000 + 1024
    assert estimator.vector_cost(EQUALITY, 3000, SCHEMA, [2]) is None
    with pytest.raises(InvalidOperationError, match="field id 9, expected the id of a top-level column"):
        estimator.choose_encoding(EQUALITY, 1, 10, SCHEMA, [9])


# TestUnifiedDeletionVectorFramework


def test_automatic_encoding_selection(lake):
    writer = DeleteWriterFactory.for_table(lake.table).create_equality_writer([1])
    for number in range(100):
        writer.write({"id": number})
    (file,) = writer.close().files
    assert (file.encoding, file.file_format) == (VECTOR, "puffin")
    lake.commit(file)
    (delete,) = lake.snapshot.plan().deletes.to_pylist()
    assert (delete["encoding"], delete["cardinality"]) == (VECTOR.text, 100)


def test_mixed_encoding_read(lake):
    vector, rows = lake.vector(1, 2, 3), lake.rows(4, 5, 6)
    lake.commit(vector, rows)
    schema = lake.snapshot.schema
    loaded = DeleteLoader(lake.table.storage).equality_deletes([vector, rows], schema)
    assert len(loaded) == 6
    asked = pa.array([0, 1, 2, 3, 4, 5, 6, 7, None])
    assert loaded.contains([asked]).tolist() == [False, *[True] * 6, False, False]


def test_deletes_apply_to_older_data_only(lake):
    """Strictly: a delete does not apply to the rows of its own commit."""
    vector, rows = lake.vector(1, sequence=5), lake.rows(1, 2, sequence=7)
    loaded = DeleteLoader(lake.table.storage).equality_deletes([vector, rows], lake.snapshot.schema)
    keys = pa.array([1, 2])
    for sequence, expected in ((4, [True, True]), (6, [True, True]), (7, [False, False])):
        assert loaded.deleted([keys], scope=0, sequence=sequence).tolist() == expected
    alone = DeleteLoader(lake.table.storage).equality_deletes([vector], lake.snapshot.schema)
    assert alone.deleted([keys], scope=0, sequence=5).tolist() == [False, False]


def test_mixed_position_deletes(tmp_path):
    old, new = (KeyLake(tmp_path / str(version), version) for version in (2, 3))
    names = ["/t/a.parquet", "/t/b.parquet"]
    writer = DeleteWriterFactory.for_table(old.table).create_position_writer(
        granularity=DeleteGranularity.PARTITION, scope=deletes.DeleteScope(0, {"p": 1})
    )
    for name, positions in zip(names, ([1, 5], [2]), strict=True):
        writer.write_positions(positions, name)
    (rows,) = writer.close().files
    writer = DeleteWriterFactory.for_table(new.table).create_position_writer(names[0])
    writer.write_positions([5, 9])
    (vector,) = writer.close().files
    assert (rows.encoding, vector.encoding) == (FULL_ROW, VECTOR)
    loader = DeleteLoader(new.table.storage)
    index = loader.position_deletes([rows, vector], names[0])
    assert (list(index.rows), index.cardinality) == ([1, 5, 9], 3)
    assert (index.is_deleted(5), index.is_deleted(2)) == (True, False)
    assert list(loader.position_deletes([rows], names[1]).rows) == [2]
    assert loader.position_deletes([], names[1]).cardinality == 0
    with pytest.raises(InvalidOperationError, match=r"is of /t/a.parquet, expected positions of /t/b"):
        loader.position_deletes([vector], names[1])
    with pytest.raises(InvalidOperationError, match="expected equality deletes by"):
        loader.equality_deletes([new.vector(1), vector], new.snapshot.schema)


# The sets


def test_indexes_of_vectors_and_of_rows():
    from delvec import blob

    vector = PositionDeleteIndex.from_deletion_vector(blob.encode(Bitmap.of(3, 2**40)))
    rows = PositionDeleteIndex.from_rows([3, 7])
    assert PositionDeleteIndex.from_rows(pa.array([7, 3])) == rows
    both = PositionDeleteIndex.merged([vector, rows])
    assert (both.cardinality, both.is_deleted(2**40), both.is_deleted(4)) == (3, True, False)
    with pytest.raises(CorruptVectorError):
        PositionDeleteIndex.from_deletion_vector(b"\x00" * 40)


def test_key_sets_of_vectors_and_of_rows():
    column, other = SCHEMA.fields[:2]
    vector = EqualityDeleteSet.from_deletion_vector(Bitmap.of(1, 2**40), column)
    rows = EqualityDeleteSet.from_rows(pa.table({"x": ["a", "b"], "id": pa.array([2, None])}), [column])
    both = EqualityDeleteSet.merged([vector, rows, vector])
    assert len(both) == 4
    assert both.contains([pa.array([1, 2, 3, 2**40, None])]).tolist() == [True, True, False, True, True]
    assert both.deleted([pa.array([1])], scope=0, sequence=ALWAYS - 1).tolist() == [True]
    numbers = EqualityDeleteSet.from_deletion_vector(Bitmap.of(4), other, codec=codec_named("int"))
    assert numbers.keys.column(0).type == pa.int32()
    with pytest.raises(InvalidOperationError, match="a delete set compares n, expected id"):
        EqualityDeleteSet.merged([vector, numbers])
    with pytest.raises(UnsupportedFeatureError, match="of type string, which has no codec"):
        EqualityDeleteSet.from_deletion_vector(Bitmap.of(4), SCHEMA.fields[2])
