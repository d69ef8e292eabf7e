"""Random partition specs, and random data files whose rows all have one partition value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from condition_cases import KINDS, SCHEMA, DataFile, random_file, value_of
from delvec.iceberg.schema import parse_schema
from delvec.schema import Primitive, arrow_type
from iceberg_tables.columns import columns_of, schema_json
from iceberg_tables.files import Spec, SpecField
from iceberg_tables.values import transformed

TYPES = {
    "integer": "int",
    "short": "int",
    "long": "long",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "decimal(10,2)": "decimal(10, 2)",
    "decimal(38,10)": "decimal(38, 10)",
}
BITS = {"int": 32, "long": 64}
STRUCT = columns_of(
    [pa.field(f.name, pa.int32() if f.type == Primitive("short") else arrow_type(f.type)) for f in SCHEMA],
    count(1).__next__,
)
IDS = {name: STRUCT.find(name).id for name in KINDS}
COLUMNS = parse_schema(schema_json(STRUCT, 0))
_TIMES = ("year", "month", "day", "hour")
TRANSFORMS = {
    "int": ("identity", "bucket[3]", "bucket[16]", "truncate[1]", "truncate[4]", "void", "odd"),
    "long": ("identity", "bucket[5]", "truncate[10]", "truncate[1000000]"),
    "float": ("identity",),
    "double": ("identity", "void"),
    "string": ("identity", "bucket[4]", "truncate[1]", "truncate[3]", "truncate[32]"),
    "binary": ("identity", "bucket[4]", "truncate[1]", "truncate[2]"),
    "date": ("identity", "bucket[4]", "year", "month", "day"),
    "timestamptz": ("identity", "bucket[4]", *_TIMES),
    "timestamp": ("identity", "bucket[4]", *_TIMES),
    "decimal(10, 2)": ("identity", "bucket[4]", "truncate[50]"),
    "decimal(38, 10)": ("identity", "bucket[4]", "truncate[500000000]"),
    "boolean": ("identity",),
}


def type_of(name):
    return TYPES.get(str(KINDS[name]), str(KINDS[name]))


@dataclass(frozen=True)
class PlannedFile:
    path: str
    spec: Spec
    partition: tuple
    content: DataFile


def random_specs(rng):
    fields, specs = {}, []
    for number in range(rng.randint(1, 3)):
        chosen = []
        for name in rng.sample(list(KINDS), rng.choice((0, 1, 2, 6))):
            key = name, rng.choice(TRANSFORMS[type_of(name)])
            text = re.sub(r"\W", "_", f"{name}_{key[1]}")
            fields.setdefault(key, SpecField(IDS[name], 1000 + len(fields), text, key[1], type_of(name)))
            chosen.append(fields[key])
        specs.append(Spec(number, tuple(chosen)))
    return specs


def partition_of(spec, row):
    by_id = {IDS[name]: value_of(row, name) for name in KINDS}
    return tuple(partition_value(part, by_id[part.source_id]) for part in spec.fields)


def partition_value(part, value):
    if part.transform == "odd":
        return "odd" if value is not None and value % 2 else None  # unknown: null says nothing
    result = transformed(part.transform, part.source_type, value)
    if part.transform.startswith("truncate") and part.source_type in BITS and result is not None:
        half = 1 << BITS[part.source_type] - 1  # Java's numbers overflow
        return (result + half) % (2 * half) - half
    return result


def same(left, right):
    return all(a == b or (a != a and b != b) for a, b in zip(left, right, strict=True))  # noqa: PLR0124


def planned_file(rng, number, specs):
    spec, content = rng.choice(specs), random_file(rng)
    partition = partition_of(spec, content.rows[0])
    rows = [row for row in content.rows if same(partition_of(spec, row), partition)]
    live = [row for row in rows if row in content.live] or rows
    return PlannedFile(f"/t/{number}.parquet", spec, partition, DataFile(rows, live))
