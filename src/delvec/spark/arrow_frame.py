"""Arrow tables as DataFrames."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType


def frame_of_table(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """The rows of the table.

    PySpark sends a table batch by batch, and its JVM side stops at the first batch without rows: all rows
    after an empty chunk would be lost, without an error. So batches without rows are left out.
    """
    batches = [batch for batch in table.to_batches() if len(batch)]
    filled = pa.Table.from_batches(batches, table.schema) if batches else table.schema.empty_table()
    return spark.createDataFrame(filled) if schema is None else spark.createDataFrame(filled, schema)
