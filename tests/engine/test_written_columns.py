"""Columns in written files: names and Parquet field ids, also of the columns that keep a row's lineage."""

from __future__ import annotations

import pyarrow.parquet as pq

from delvec.field_names import parquet_field_id, schemas_by_id
from delvec.partition_spec import UNPARTITIONED
from delvec.row_delta import DeleteForm, WriteRules
from delvec.schema import Field, Primitive, Struct
from delvec.spark.row_lineage import lineage_fields
from delvec.spark.write_rows import write_rows
from delvec.storage import open_storage

LONG = Primitive("long")
ROW_ID = Field("_row_id", LONG, field_id=2147483540)
ROW_VERSION = Field("version of the row", LONG, field_id=2147483539, physical_name="_version")


def test_lineage_columns_have_ids(spark, tmp_path):
    rules = WriteRules(
        schema=Struct((Field("id", LONG, field_id=1, physical_name="col-1"),)),
        spec=UNPARTITIONED,
        folders=lambda values: [""] * len(values),
        deletes=DeleteForm.VECTOR,
        with_ids=True,
        row_id=ROW_ID,
        row_version=ROW_VERSION,
    )
    frame = spark.range(2).selectExpr("id", "id + 10 AS _row_id", "5L AS `version of the row`", "'x' AS kind")
    storage = open_storage(str(tmp_path))
    files = write_rows(frame.coalesce(1), storage, rules, extra=("_row_id", ROW_VERSION.name, "kind")).files
    (place,) = files.column("location").to_pylist()
    ids = {field.name: parquet_field_id(field) for field in pq.read_schema(place)}
    assert ids == {"col-1": 1, "_row_id": ROW_ID.field_id, "_version": ROW_VERSION.field_id, "kind": None}
    assert lineage_fields(rules) == (ROW_ID, ROW_VERSION)
    renamed = Struct(tuple(Field(f"new {n}", LONG, field_id=n) for n in (ROW_VERSION.field_id, 1)))
    (found,) = schemas_by_id(storage, [place], renamed)
    assert [field.physical_name for field in found] == ["_version", "col-1"]
