"""Arrow tables as DataFrames: PySpark loses the rows after a chunk without rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from delvec.spark.arrow_frame import frame_of_table
from delvec.table import Table

pytestmark = pytest.mark.spark

CHUNKS = [
    [[], [1, 2, 3]],
    [[1], [], [2, 3]],
    [[1, 2, 3], []],
    [[], [1], [], [], [2], [3], []],
]


def table_of(chunks):
    """Three rows; the second column has chunks of its own."""
    ids = pa.chunked_array([pa.array(chunk, pa.int64()) for chunk in chunks])
    names = pa.chunked_array([pa.array(["a"]), pa.array([], pa.string()), pa.array(["b", "c"])])
    return pa.table({"id": ids, "name": names})


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("with_schema", [True, False])
def test_no_row_is_lost(spark, chunks, with_schema):
    schema = StructType([StructField("id", LongType()), StructField("name", StringType())])
    frame = frame_of_table(spark, table_of(chunks), schema if with_schema else None)
    assert [tuple(row) for row in frame.collect()] == [(1, "a"), (2, "b"), (3, "c")]


def test_a_table_without_rows(spark):
    frame = frame_of_table(spark, table_of([[1, 2, 3]]).slice(0, 0))
    assert (frame.collect(), frame.columns) == ([], ["id", "name"])


def test_rows_that_a_user_appends(spark, tmp_path):
    table = Table.create(spark, str(tmp_path / "t"), "id BIGINT, name STRING")
    table.append(table_of(CHUNKS[1]))
    assert sorted(map(tuple, table.to_df().collect())) == [(1, "a"), (2, "b"), (3, "c")]
