"""Partition values that Spark computes for random rows, compared with those of pyiceberg's transforms."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal as Number
from decimal import localcontext

import pytest
from pyiceberg.transforms import parse_transform as their_transform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyspark.sql import functions as F

from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.row_delta import DeleteForm, WriteRules
from delvec.schema import Decimal, Field, Primitive, Struct
from delvec.spark.partition_values import partition_texts, typed_values, with_hashes
from delvec.spark.types import type_text
from delvec.transforms import parse_transform

ROWS = 200
EPOCH, DAY = dt.datetime(1970, 1, 1), dt.date(1970, 1, 1)
CHARACTERS = "abc0 /%=\0é߀漢😀\U0010ffff"


def integers(bits):
    def value(rng):
        number = rng.getrandbits(rng.randrange(1, bits)) * rng.choice((-1, 1))
        return rng.choice((number, number, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)) + 20_000, 0, -1))

    return value


def text(rng):
    """Strings of 0 to 9 bytes and more."""
    return "".join(rng.choices(CHARACTERS, k=rng.randrange(10)))


def date(rng):
    return DAY + dt.timedelta(rng.choice((rng.randrange(-700_000, 2_900_000), rng.randrange(-400, 400))))


def instant(rng):
    span = rng.choice((60 * 10**15, 10**13, 10**7))
    return EPOCH + dt.timedelta(microseconds=rng.randrange(-span, span))


def decimals(precision, scale):
    def value(rng):
        with localcontext(prec=60):
            number = rng.randrange(10 ** rng.randint(1, precision))
            number = rng.choice((number, number, 10**precision - 1, 0, 128, 2**63 % 10**precision))
            sign = 1 if number > 10**precision - 50 else rng.choice((-1, 1))  # truncated, it must fit
            return Number(sign * number).scaleb(-scale)

    return value


TIMES = ("identity", "year", "month", "day", "hour", "bucket[16]")
COLUMNS = {
    "i": (Primitive("integer"), IntegerType(), integers(32), ("identity", "bucket[16]", "truncate[7]")),
    "l": (Primitive("long"), LongType(), integers(64), ("bucket[2147483647]", "truncate[1000]", "void")),
    "s": (Primitive("string"), StringType(), text, ("identity", "bucket[2147483647]", "truncate[2]")),
    "b": (
        Primitive("binary"),
        BinaryType(),
        lambda rng: rng.randbytes(rng.randrange(10)),
        ("identity", "bucket[2147483647]", "truncate[3]"),
    ),
    "d": (Primitive("date"), DateType(), date, ("identity", "year", "month", "day", "bucket[16]")),
    "n": (Primitive("timestamp_ntz"), TimestampType(), instant, TIMES),
    "t": (Primitive("timestamp"), TimestamptzType(), instant, TIMES),
    **{
        f"d{precision}_{scale}": (
            Decimal(precision, scale),
            DecimalType(precision, scale),
            decimals(precision, scale),
            ("identity", "bucket[2147483647]", "truncate[50]"),
        )
        for precision, scale in ((3, 2), (9, 0), (18, 18), (19, 0), (37, 20), (38, 10), (38, 38))
    },
}
FIELDS = [
    PartitionField(
        f"p{number}", (name,), parse_transform(transform), parse_transform(transform).result_type(kind)
    )
    for number, (name, kind, transform) in enumerate(
        (name, kind, transform) for name, (kind, _, _, texts) in COLUMNS.items() for transform in texts
    )
]


def computed(spark, rows):
    """The partition values of the rows, as a list of the values of each field."""
    schema = Struct(tuple(Field(name, kind) for name, (kind, *_) in COLUMNS.items()))
    spec = PartitionSpec(0, tuple(FIELDS))
    rules = WriteRules(schema, spec, folders=lambda values: [""] * len(values), deletes=DeleteForm.VECTOR)
    ddl = ", ".join(f"{name} {type_text(kind)}" for name, (kind, *_) in COLUMNS.items())
    frame = spark.createDataFrame(rows, ddl).coalesce(1)
    texts = with_hashes(frame, rules).select(F.array(*partition_texts(rules)).alias("texts"))
    found = typed_values(spec, [row.texts for row in texts.collect()])
    return [found.field(at).to_pylist() for at in range(len(FIELDS))]


def internal(value):
    match value:
        case dt.datetime():
            return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
        case dt.date():
            return (value - DAY).days
    return value


def expected(name, transform, value):
    _, their_type, *_ = COLUMNS[name]
    if value is None or transform.name == "void":
        return None
    if transform.name == "truncate" and isinstance(value, Number):
        # pyiceberg's own is 0 for values beyond 28 digits
        with localcontext(prec=60):
            unscaled = int(value.scaleb(their_type.scale))
            return Number(unscaled - unscaled % transform.width).scaleb(-their_type.scale)
    return their_transform(str(transform)).transform(their_type)(internal(value))


@pytest.mark.parametrize(("zone", "ansi"), [("America/Los_Angeles", "true"), ("Asia/Kathmandu", "false")])
def test_random_rows(spark, conf, zone, ansi):
    conf("spark.sql.session.timeZone", zone)
    conf("spark.sql.ansi.enabled", ansi)
    rng = random.Random(zone)
    rows = [
        tuple(None if rng.random() < 0.05 else make(rng) for _, _, make, _ in COLUMNS.values())
        for _ in range(ROWS)
    ]
    aware = [
        tuple(
            value.replace(tzinfo=dt.UTC) if name == "t" and value is not None else value
            for name, value in zip(COLUMNS, row, strict=True)
        )
        for row in rows
    ]
    names = list(COLUMNS)
    for field, values in zip(FIELDS, computed(spark, aware), strict=True):
        (name,) = field.source
        column = [row[names.index(name)] for row in rows]
        wanted = [expected(name, field.transform, value) for value in column]
        found = list(map(internal, values))
        wrong = [case for case in zip(column, found, wanted, strict=True) if case[1] != case[2]]
        assert not wrong, f"{field} of {COLUMNS[name][0]}: {wrong[:3]}"
