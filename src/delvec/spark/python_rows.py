"""Rows from Python as a Spark DataFrame: from pandas, Arrow, polars and lists.

Values in lists get the types of the table's columns with the same names; for other columns Arrow infers the
types. All other inputs keep their own types, which are converted to the table's types like those of a
DataFrame.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from delvec.errors import InvalidOperationError
from delvec.schema import Primitive, Schema, arrow_type
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.types import logical

_ACCEPTED = (
    "a Spark, pandas or polars DataFrame, an Arrow table or record batch, a list of dicts, Rows or tuples, "
    "or a function that returns one of these"
)
_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def frame_of(spark: SparkSession, rows: Any, schema: Schema | None) -> DataFrame:
    """The rows as a DataFrame. ``schema`` is the table's schema, or None for a new table."""
    if isinstance(rows, DataFrame):
        return rows
    if schema is not None and isinstance(rows, list | tuple) and not rows:
        return spark.createDataFrame([], logical(schema))
    try:
        table = _arrow_table(rows, schema)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidOperationError(f"the rows do not fit the table's columns: {error}") from None
    # Times without a zone stay without one here. Store assignment converts them in the session's time zone if
    # the column has a zone.
    kinds = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    if not len(table):
        return spark.createDataFrame([], kinds)
    return frame_of_table(spark, table, kinds)


def _arrow_table(rows: Any, schema: Schema | None) -> pa.Table:
    if type(rows).__module__.split(".")[0] == "pandas" and hasattr(rows, "columns"):
        return pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata()
    if isinstance(rows, pa.RecordBatch):
        return _plain(pa.Table.from_batches([rows]))
    if hasattr(rows, "__arrow_c_stream__"):
        return _plain(pa.table(rows))
    if isinstance(rows, list | tuple) and not hasattr(rows, "_fields"):
        return _from_list(rows, schema)
    expected = _ACCEPTED if schema is not None else f"a schema (a StructType or DDL text), {_ACCEPTED}"
    raise InvalidOperationError(f"rows are {type(rows).__name__}, expected {expected}")


def _plain(table: pa.Table) -> pa.Table:
    """The table in types that Spark accepts."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, _decoded(table.column(at)))
    return table.cast(pa.schema([field.with_type(_spark_arrow(field.type)) for field in table.schema]))


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of a dictionary column. Arrow has no way to decode one whose values are views."""
    kind = _spark_arrow(column.type.value_type)
    chunks = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(chunks, kind)


def _spark_arrow(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return pa.string()
    if pa.types.is_large_binary(kind) or str(kind) == "binary_view":
        return pa.binary()
    return _UNSIGNED.get(kind, kind)


def _from_list(rows: Sequence[Any], schema: Schema | None) -> pa.Table:
    names = [field.name for field in schema] if schema is not None else None
    records = [_record(row, names) for row in rows]
    record_names = dict.fromkeys(name for record in records for name in record)
    if not record_names:
        raise InvalidOperationError("rows are an empty list, expected at least one row with its columns")
    types = {} if schema is None else {field.name.lower(): field.type for field in schema}
    columns = {}
    for name in record_names:
        values = [record.get(name) for record in records]
        kind = types.get(name.lower())
        if kind == Primitive("timestamp"):
            values = [_zoned(value) for value in values]
        try:
            columns[name] = pa.array(values, None if kind is None else arrow_type(kind))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise InvalidOperationError(f"column {name!r} of the rows: {error}") from None
    return pa.table(columns)


def _record(row: Any, names: Sequence[str] | None) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if isinstance(row, Row) and hasattr(row, "__fields__"):
        return row.asDict(recursive=True)
    if hasattr(row, "_asdict"):
        return dict(row._asdict())
    if isinstance(row, tuple | list):
        if names is None:
            raise InvalidOperationError(
                "rows are tuples, expected dicts or Rows: a new table has no columns yet"
            )
        if len(row) != len(names):
            raise InvalidOperationError(
                f"a row has {len(row)} values, expected {len(names)}: {', '.join(names)}"
            )
        return dict(zip(names, row, strict=True))
    raise InvalidOperationError(f"a row is {type(row).__name__}, expected a dict, a Row or a tuple")


def _zoned(value: Any) -> Any:
    """A datetime without a zone is in Python's local time, as Spark interprets it."""
    naive = isinstance(value, dt.datetime) and value.tzinfo is None
    return value.astimezone() if naive else value
