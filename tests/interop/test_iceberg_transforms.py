"""Partition values that delvec writes, beside Iceberg-Spark's own functions for the same rows."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from delvec.table import Table
from iceberg_spark import CATALOG
from iceberg_tables.readers import newest_metadata

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int32()),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("n", pa.decimal128(20, 3)),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("u", pa.timestamp("us")),
    ]
)
ALPHABET = "aé日\U0001f600z/%"
EPOCH = dt.datetime(1970, 1, 1)
SPECS = {
    "buckets": ["bucket(5, id)", "bucket(7, i)", "bucket(3, s)", "bucket(4, b)"],
    "more_buckets": ["bucket(5, n)", "bucket(7, d)", "bucket(3, t)", "bucket(4, u)"],
    "truncated": ["truncate(7, id)", "truncate(3, s)", "truncate(2, b)", "truncate(50, n)"],
    "days": ["days(t)", "months(d)", "years(u)"],
    "hours": ["hours(t)", "years(d)", "months(u)"],
}


def rows(rng: random.Random) -> list[dict[str, Any]]:
    """Texts and bytes of 0 to 9 bytes, times on both sides of 1970, and a row of nulls."""
    found: list[dict[str, Any]] = [dict.fromkeys(SCHEMA.names)]
    for number in range(60):
        length = number % 10
        moment = EPOCH + dt.timedelta(hours=rng.randrange(-900_000, 400_000), microseconds=number - 1)
        found.append(
            {
                "id": rng.choice([0, -1, 34, rng.getrandbits(63), -rng.getrandbits(63)]),
                "i": rng.choice([0, -1, 34, rng.getrandbits(31), -rng.getrandbits(31)]),
                "s": "x" * length if number % 2 else "".join(rng.choices(ALPHABET, k=length)),
                "b": rng.randbytes(length),
                "n": Decimal(rng.randrange(-(10**14), 10**14)).scaleb(-3),
                "d": moment.date(),
                "t": moment.replace(tzinfo=dt.UTC),
                "u": moment,
            }
        )
    return found


@pytest.mark.parametrize("name", SPECS)
def test_values_are_those_of_iceberg_spark(iceberg_table: Any, name: str) -> None:
    theirs = iceberg_table(f"partitioned_by_{name}")
    spark = theirs.spark
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")  # values do not follow it
    try:
        columns = spark.createDataFrame(SCHEMA.empty_table()).schema
        table = Table.create(
            spark, theirs.location, columns, format="iceberg", partition_by=SPECS[name], format_version=3
        )
        table.append(pa.Table.from_pylist(rows(random.Random(19)), SCHEMA))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    (spec,) = json.loads(Path(newest_metadata(theirs.location)).read_bytes())["partition-specs"]
    assert len(spec["fields"]) == len(SPECS[name])
    for field, text in zip(spec["fields"], SPECS[name], strict=True):
        value = f"{CATALOG}.system.{text}"
        found = theirs.sql(
            f"SELECT count(*), count(DISTINCT {value}), count_if({value} <=> _partition.`{field['name']}`) "
            "FROM {t}"
        ).first()
        assert (found[0], found[2]) == (61, 61), text
        assert found[1] > 2, text
