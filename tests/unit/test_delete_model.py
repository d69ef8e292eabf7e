"""Encodings of deletes, delete files, and the rules that each of them keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.model import GLOBAL, DeleteContent, DeleteFile, DeleteScope, added_deletes, delete_files
from delvec.deletes.validate import validate
from delvec.errors import FormatError, InvalidOperationError, UnsupportedFeatureError
from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.row_delta import ADDED_DELETES_SCHEMA
from delvec.schema import Primitive
from delvec.transforms import IDENTITY

FULL_ROW, VECTOR, HASH_MAP = DeleteEncoding
ROWS = DeleteFile(DeleteContent.EQUALITY_DELETES, "/t/d.parquet", "parquet", 3, 500, FULL_ROW, (1,))
KEYS = DeleteFile(
    DeleteContent.EQUALITY_DELETES, "/t/k.puffin", "puffin", 3, 500, VECTOR, (1,), offset=4, length=50
)
POSITIONS = replace(
    KEYS, content=DeleteContent.POSITION_DELETES, field_ids=(), referenced_file="/t/data.parquet"
)
POSITION_ROWS = replace(ROWS, content=DeleteContent.POSITION_DELETES, field_ids=())


def test_ids_of_encodings_never_change() -> None:
    assert {encoding.text: encoding.id for encoding in DeleteEncoding} == {
        "full-row": 0,
        "deletion-vector": 1,
        "hash-map": 2,
    }
    assert [DeleteEncoding.from_id(number) for number in range(3)] == [FULL_ROW, VECTOR, HASH_MAP]
    assert DeleteEncoding.from_text("hash-map") is HASH_MAP


def test_an_unknown_encoding_is_named() -> None:
    with pytest.raises(UnsupportedFeatureError, match="'unknown encoding 7', expected one of full-row"):
        DeleteEncoding.from_id(7)
    with pytest.raises(InvalidOperationError, match="'bitmap', expected one of full-row, deletion-vector"):
        DeleteEncoding.from_text("bitmap")


@pytest.mark.parametrize(
    ("file_format", "expected"),
    [("parquet", FULL_ROW), ("avro", FULL_ROW), ("orc", FULL_ROW), ("puffin", VECTOR), ("PUFFIN", VECTOR)],
)
def test_an_encoding_that_is_not_recorded_is_inferred(file_format, expected) -> None:
    assert replace(KEYS, recorded_encoding=None, file_format=file_format).encoding is expected
    # The recorded one wins.
    assert replace(KEYS, recorded_encoding=HASH_MAP, file_format=file_format).encoding is HASH_MAP


@pytest.mark.parametrize("file", [ROWS, KEYS, POSITIONS, POSITION_ROWS])
def test_good_files_are_valid(file: DeleteFile) -> None:
    validate(file)
    validate(replace(file, recorded_encoding=None))


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (replace(KEYS, file_format="parquet"), "vector is in a file of format 'parquet', expected 'puffin'"),
        (replace(KEYS, field_ids=()), "compares 0 columns, expected exactly one"),
        (replace(KEYS, field_ids=(1, 2)), "compares 2 columns, expected exactly one"),
        (replace(POSITIONS, referenced_file=None), "names no data file, expected one"),
        (replace(ROWS, file_format="puffin"), "full-row deletes are in a file of format 'puffin'"),
        (replace(ROWS, file_format="csv", recorded_encoding=None), "of format 'csv', expected parquet, avro"),
        (replace(ROWS, field_ids=()), "compare no column, expected at least one"),
        (replace(KEYS, offset=None), "the offset None and the length 50, expected both"),
        (replace(KEYS, length=None), "the offset 4 and the length None, expected both"),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused(file: DeleteFile, message: str) -> None:
    with pytest.raises(FormatError, match=message) as refused:
        validate(file)
    assert refused.value.path == file.location


def test_a_hash_map_is_refused_as_reserved() -> None:
    with pytest.raises(UnsupportedFeatureError, match="'hash-map', which is reserved") as refused:
        validate(replace(ROWS, recorded_encoding=HASH_MAP))
    assert refused.value.feature == "hash-map"


SPEC = PartitionSpec(3, (PartitionField("p", ("p",), IDENTITY, Primitive("integer")),))


@pytest.mark.parametrize(
    "scope", [GLOBAL, DeleteScope(3, {"p": 7}), DeleteScope(3, {"p": None}), DeleteScope(beside=("/d", 4))]
)
@pytest.mark.parametrize("file", [ROWS, replace(KEYS, lower=1, upper=9, sequence=5), POSITION_ROWS])
def test_delete_files_as_rows_of_a_delta(file: DeleteFile, scope: DeleteScope) -> None:
    expected = replace(file, scope=scope)
    table = added_deletes([expected, ROWS], SPEC)
    assert table.schema.names == [*ADDED_DELETES_SCHEMA.names, "partition"]
    assert delete_files(table) == [expected, ROWS]
