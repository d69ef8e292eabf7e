"""Types with char and varchar, as the text that Spark records."""

from __future__ import annotations

import pytest

from delvec.declared_types import declared, with_lengths
from delvec.schema import Array, DataType, Decimal, Field, Map, Primitive, Struct, char, varchar

STRING, INT = Primitive("string"), Primitive("integer")


def row(**fields: DataType) -> Struct:
    return Struct(tuple(Field(name.replace("_", " "), kind) for name, kind in fields.items()))


CASES = [
    (STRING, char(5), "char(5)"),
    (STRING, varchar(12), "varchar(12)"),
    (Array(STRING), Array(char(3)), "array<char(3)>"),
    (Map(STRING, INT), Map(varchar(2), INT), "map<varchar(2),int>"),
    (
        row(a=STRING, b_c=STRING, d=Decimal(10, 2), e=Array(row(f=STRING))),
        row(a=STRING, b_c=char(1), d=Decimal(10, 2), e=Array(row(f=varchar(2)))),
        "struct<a:string,`b c`:char(1),d:decimal(10,2),e:array<struct<f:varchar(2)>>>",
    ),
]


@pytest.mark.parametrize(("plain", "typed", "text"), CASES)
def test_round_trip(plain: DataType, typed: DataType, text: str) -> None:
    assert declared(typed) == text
    assert with_lengths(plain, text) == typed
    assert with_lengths(plain, text.upper().replace(":", " : ").replace("`B C`", "b c")) == typed


def test_physical_names() -> None:
    field = Field("a", char(4), physical_name="col-1")
    assert declared(Struct((field,)), physical=True) == "struct<`col-1`:char(4)>"


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        (STRING, "array<char(3)>"),
        (STRING, "char(3) x"),
        (Array(STRING), "char(3)"),
        (row(a=STRING), "struct<b:char(3)>"),
        (row(a=STRING), "struct<a:char(3),b:int>"),
        (row(a=STRING, b=INT), "struct<a:char(3)>"),
        (Map(STRING, STRING), "map<char(3)>"),
    ],
)
def test_texts_of_other_types(plain: DataType, text: str) -> None:
    with pytest.raises(ValueError, match=r"is expected|after the type"):
        with_lengths(plain, text)
