"""Partition transforms as values: their texts, and the types of their results."""

from __future__ import annotations

import pyarrow as pa
import pytest

from delvec.errors import InvalidOperationError
from delvec.partition_spec import PartitionField, PartitionSpec, column_values, identity_fields
from delvec.schema import Array, DataType, Decimal, Field, Fixed, Primitive, Struct, char
from delvec.transforms import IDENTITY, VOID, Transform, parse_transform

INT32 = pa.int32()
INT, LONG, STRING, DATE = (Primitive(name) for name in ("integer", "long", "string", "date"))
TIMES = [Primitive(name) for name in ("timestamp", "timestamp_ntz", "timestamp_ns", "timestamp_ntz_ns")]


@pytest.mark.parametrize(
    ("text", "transform"),
    [
        ("identity", IDENTITY),
        ("void", VOID),
        ("bucket[16]", Transform("bucket", 16)),
        ("truncate[4]", Transform("truncate", 4)),
        ("hour", Transform("hour")),
    ],
)
def test_texts(text: str, transform: Transform) -> None:
    assert parse_transform(text) == transform
    assert str(transform) == text
    assert transform.is_known


@pytest.mark.parametrize(
    "text", ["bucket", "bucket[0]", "bucket[x]", "truncate[2147483648]", "years", "zorder", "identity[1]", ""]
)
def test_unknown_transforms_keep_their_text(text: str) -> None:
    transform = parse_transform(text)
    assert str(transform) == text
    assert not transform.is_known
    with pytest.raises(InvalidOperationError, match="is unknown, expected identity, bucket"):
        transform.result_type(INT)


def test_every_form_in_sql() -> None:
    texts = ["identity", "bucket[16]", "truncate[4]", "year", "day", "void"]
    found = [parse_transform(text).of("a.b") for text in texts]
    assert found == ["a.b", "bucket(16, a.b)", "truncate(4, a.b)", "years(a.b)", "days(a.b)", "void(a.b)"]


@pytest.mark.parametrize(
    ("text", "sources", "result"),
    [
        ("bucket[4]", [INT, LONG, STRING, DATE, Decimal(9, 2), Fixed(3), Primitive("uuid"), *TIMES], INT),
        ("year", [DATE, *TIMES], INT),
        ("month", [DATE, *TIMES], INT),
        ("day", [DATE, *TIMES], DATE),
        ("hour", TIMES, INT),
        ("truncate[2]", [STRING, char(4)], STRING),
    ],
)
def test_result_types(text: str, sources: list[DataType], result: DataType) -> None:
    assert {parse_transform(text).result_type(source) for source in sources} == {result}


@pytest.mark.parametrize("source", [INT, LONG, STRING, DATE, Decimal(9, 2), *TIMES])
def test_results_of_the_type_of_the_column(source: DataType) -> None:
    assert IDENTITY.result_type(source) == VOID.result_type(source) == source


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("identity", Array(INT)),
        ("identity", Primitive("variant")),
        ("bucket[4]", Primitive("double")),
        ("bucket[4]", Primitive("boolean")),
        ("truncate[4]", DATE),
        ("hour", DATE),
        ("year", LONG),
        ("day", Struct((Field("d", DATE),))),
        ("truncate[4]", Fixed(4)),
    ],
)
def test_types_that_a_transform_is_not_defined_for(text: str, source: DataType) -> None:
    with pytest.raises(InvalidOperationError, match="is not defined for type"):
        parse_transform(text).result_type(source)


def test_values_of_columns_under_several_specs() -> None:
    first = PartitionSpec(0, (PartitionField("p", ("p",), IDENTITY, STRING),))
    bucket = PartitionField("p_bucket", ("p",), Transform("bucket", 2), INT)
    second = PartitionSpec(1, (bucket, PartitionField("p again", ("p",), IDENTITY, STRING)))
    rows = [{"p": "a"}, {"p_bucket": 1, "p again": "b"}, {}]
    partitions = pa.array(
        rows, pa.struct([("p", pa.string()), ("p_bucket", INT32), ("p again", pa.string())])
    )
    found = column_values(partitions, [first, second], ["p"])
    assert found.to_pylist() == [{"p": "a"}, {"p": "b"}, {"p": None}]
    assert column_values(partitions, [first, second], []).to_pylist() == [{}] * 3


def test_specs() -> None:
    schema = Struct((Field("p", STRING), Field("at", TIMES[0]), Field("s", Struct((Field("x", INT),)))))
    day = PartitionField("at_day", ("at",), Transform("day"), DATE)
    nested = PartitionField("s.x", ("s", "x"), IDENTITY, INT)
    spec = PartitionSpec(3, (*identity_fields(schema, ["p"]), day, nested))
    assert spec.identity_columns == ("p",)
    assert spec.value_type == pa.struct([("p", pa.string()), ("at_day", pa.date32()), ("s.x", pa.int32())])
    assert list(map(str, spec.fields)) == ["p", "days(at)", "s.x"]
