"""Columns found by the field ids of a file, also inside structs, lists and maps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delvec.errors import FormatError
from delvec.field_names import schemas_by_id
from delvec.schema import Array, DataType, Field, Map, Primitive, Struct
from delvec.storage import open_storage

INT, STRING = Primitive("integer"), Primitive("string")


def stored(name: str, kind: pa.DataType, number: int | None) -> pa.Field:
    metadata = None if number is None else {"PARQUET:field_id": str(number)}
    return pa.field(name, kind, metadata=metadata)


def named(tmp_path: Path, fields: list[pa.Field], schema: Struct) -> Struct:
    pq.write_table(pa.schema(fields).empty_table(), tmp_path / "a.parquet")
    (found,) = schemas_by_id(open_storage(str(tmp_path)), [f"{tmp_path}/a.parquet"], schema)
    return found


def nested(element: int | None, key: int | None, value: int | None) -> list[pa.Field]:
    inner = pa.struct([stored("old", pa.int32(), 4)])
    mapping = pa.map_(stored("key", pa.string(), key).with_nullable(False), stored("value", inner, value))
    return [
        stored("was l", pa.list_(stored("element", inner, element)), 1),
        stored("was m", mapping, 2),
    ]


def schema(**ids: Any) -> Struct:
    inner = Struct((Field("new", INT, field_id=4),))
    array: DataType = Array(inner, element_id=ids.get("element"))
    mapping: DataType = Map(STRING, inner, key_id=ids.get("key"), value_id=ids.get("value"))
    return Struct(
        (Field("l", array, field_id=1), Field("m", mapping, field_id=2), Field("z", INT, field_id=9))
    )


@pytest.mark.parametrize("ids", [{}, {"element": 5, "key": 6, "value": 7}])
@pytest.mark.parametrize("in_file", [(5, 6, 7), (None, None, None)])
def test_ids_of_elements_keys_and_values(tmp_path: Path, ids: dict[str, int], in_file: Any) -> None:
    found = named(tmp_path, nested(*in_file), schema(**ids))
    assert [field.physical_name for field in found] == ["was l", "was m", "__delvec_absent_9"]
    array, mapping = found.fields[0].type, found.fields[1].type
    assert isinstance(array, Array)
    assert isinstance(mapping, Map)
    assert (array.element_id, mapping.key_id, mapping.value_id) == (
        ids.get("element"),
        ids.get("key"),
        ids.get("value"),
    )
    for inner in (array.element, mapping.value):
        assert isinstance(inner, Struct)
        assert inner.fields[0].physical_name == "old"


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"element": 55}, r"field id of l\.element is 5, expected 55: .*a\.parquet"),
        ({"key": 66}, r"field id of m\.key is 6, expected 66"),
        ({"value": 77}, r"field id of m\.value is 7, expected 77"),
    ],
)
def test_other_ids_of_elements_keys_and_values_are_refused(
    tmp_path: Path, ids: dict[str, int], message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        named(tmp_path, nested(5, 6, 7), schema(**ids))


def test_types_are_equal_whatever_their_ids_are() -> None:
    array, mapping = Array(INT), Map(STRING, INT)
    assert array == replace(array, element_id=5)
    assert hash(mapping) == hash(replace(mapping, key_id=6, value_id=7))
    assert mapping == replace(mapping, key_id=6, value_id=7)
