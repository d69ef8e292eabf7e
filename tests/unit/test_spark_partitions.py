"""Which files Spark may take partition values of from their folders' names."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as Dec
from types import SimpleNamespace

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is absent")

from delvec.partition_spec import PartitionField, PartitionSpec
from delvec.schema import Decimal, Field, Primitive, arrow_type
from delvec.spark.partition_folders import in_folder_names
from delvec.transforms import IDENTITY

NOON = dt.datetime(2024, 2, 29, 12, 30)
NULL = "__HIVE_DEFAULT_PARTITION__"


def native(folders, fields, values, root="/t"):
    """For each file: whether Spark may read its values; ``values`` by column."""
    arrays = [pa.array(column, arrow_type(f.type)) for column, f in zip(values, fields, strict=True)]
    partition = pa.StructArray.from_arrays(arrays, names=[f"part of {f.name}" for f in fields])
    parts = tuple(PartitionField(f"part of {f.name}", (f.name,), IDENTITY, f.type) for f in fields)
    places = [f if f.startswith("/") else f"{root}/{f}" for f in folders]
    files = pa.table({"location": [f"{place}/a.parquet" for place in places], "partition": partition})
    plan = SimpleNamespace(files=files, location=root, specs={0: PartitionSpec(0, parts)})
    return in_folder_names(plan, tuple(fields)).tolist()


AGREE = [
    ("string", "p=x", "x"),
    ("string", "p=a%2Fb", "a/b"),
    ("string", "p=é", "é"),
    ("string", "p=a%", "a%"),
    ("string", "p=a=b", "a=b"),
    ("string", f"p={NULL}", None),
    ("integer", "p=-5", -5),
    ("integer", "p=007", 7),
    ("long", f"p={2**63 - 1}", 2**63 - 1),
    ("double", "p=1.5", 1.5),
    ("double", "p=1.0E300", 1e300),
    ("double", "p=NaN", float("nan")),
    ("double", "p=-Infinity", float("-inf")),
    ("boolean", "p=true", True),
    ("date", "p=2024-02-29", NOON.date()),
    ("timestamp", "p=2024-02-29 12%3A30%3A00", NOON.replace(tzinfo=dt.UTC)),
    ("timestamp_ntz", "p=2024-02-29 12%3A30%3A00.000000", NOON),
    ("decimal", "p=1.50", Dec("1.50")),
]
DISAGREE = [
    ("string", "p=x", "y"),
    ("string", "p=", None),
    ("string", f"p={NULL}", NULL),
    ("string", "p=%C3%A9", "é"),
    ("string", "x", "x"),
    ("string", "P=x", "x"),
    ("string", "q=x", "x"),
    ("string", "p=x/more", "x"),
    ("string", "more/p=x", "x"),
    ("integer", "p=1_0", 10),
    ("integer", "p= 1", 1),
    ("integer", "p=%31", 1),
    ("integer", "p=١", 1),
    ("integer", f"p={NULL}", 0),
    ("float", "p=0.5", 0.5),
    ("double", "p=1_0", 10.0),
    ("double", "p=inf", float("inf")),
    ("boolean", "p=1", True),
    ("date", "p=20240229", NOON.date()),
    ("date", "p=2024-W09-4", NOON.date()),
    ("timestamp", "p=2024-02-29T12%3A30%3A00%2B02%3A00", NOON.replace(tzinfo=dt.UTC)),
    ("timestamp", "p=2024-02-29 12%3A30%3A00", NOON.replace(hour=7, tzinfo=dt.UTC)),
    ("timestamp_ntz", "p=2024-02-29T12%3A30%3A00Z", NOON),
    ("decimal", "p=1.5", Dec("1.50")),
    ("decimal", "p=150e-2", Dec("1.50")),
    ("binary", "p=x", b"x"),
]


def field(name):
    return Field("p", Decimal(10, 2) if name == "decimal" else Primitive(name))


@pytest.mark.parametrize(("name", "folder", "value"), AGREE)
def test_folders_that_say_what_the_plan_says(name, folder, value):
    assert native([folder], [field(name)], [[value]]) == [True]


@pytest.mark.parametrize(("name", "folder", "value"), DISAGREE)
def test_folders_that_say_something_else(name, folder, value):
    assert native([folder], [field(name)], [[value]]) == [False]


def test_each_file_is_judged_alone():
    fields = [Field("p", Primitive("integer")), Field("q", Primitive("string"), physical_name="col 1")]
    folders = ["p=1/col 1=x", "p=2/col 1=x", "p=1/col 1=y", "col 1=x/p=1", "/elsewhere/p=1/col 1=x"]
    values = [[1, 1, 1, 1, 1], ["x", "x", "y", "x", "x"]]
    assert native(folders, fields, values) == [True, False, True, False, False]


def test_a_table_without_partition_columns():
    files = pa.table({"location": ["/t/a.parquet"]})
    assert in_folder_names(SimpleNamespace(files=files, location="/t"), ()).tolist() == [False]
