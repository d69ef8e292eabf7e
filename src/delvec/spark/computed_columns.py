"""Values that the table defines: defaults for columns that new rows do not have, and generated columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from delvec.errors import InvalidOperationError
from delvec.row_delta import WriteRules
from delvec.schema import Schema
from delvec.spark.conditions import reason_of
from delvec.spark.new_rows import conformed
from delvec.spark.session import kept_frame
from delvec.spark.store_assignment import assigned
from delvec.spark.text_lengths import with_padding
from delvec.spark.types import quoted, spark_type


def new_rows(frame: DataFrame, rules: WriteRules) -> DataFrame:
    """The frame's rows as rows of the table. Columns that the frame does not have get their default or
    generated value.
    """
    present = {name.lower() for name in frame.columns}
    missing = [field.name for field in rules.schema if field.name.lower() not in present]
    rows = conformed(frame, rules.schema, absent=default_values(frame.sparkSession, rules, missing))
    return with_generated(with_padding(rows, rules.schema), rules, missing)


def default_values(spark: SparkSession, rules: WriteRules, names: Collection[str]) -> dict[str, Column]:
    """The default values of the columns ``names`` that have one, in the types of the columns."""
    texts = {name: rules.defaults[name] for name in names if name in rules.defaults}
    return _typed(kept_frame(spark), texts, rules.schema, "default") if texts else {}


def with_generated(
    frame: DataFrame,
    rules: WriteRules,
    names: Collection[str],
    *,
    conditions: Mapping[str, Column] | None = None,
) -> DataFrame:
    """The frame, which has the table's columns, with the generated columns among ``names`` computed again.

    ``conditions`` has a condition for some of the columns: rows for which it is true keep their value.
    """
    texts = {name: rules.generated[name] for name in names if name in rules.generated}
    if not texts:
        return frame
    columns = _typed(frame, texts, rules.schema, "generation expression")
    for name, condition in (conditions or {}).items():
        if name in columns:
            columns[name] = F.when(condition, F.col(quoted(name))).otherwise(columns[name])
    return frame.withColumns(columns)


def _typed(frame: DataFrame, texts: Mapping[str, str], schema: Schema, what: str) -> dict[str, Column]:
    """The expressions over a row of the frame, converted to the types of the columns that they are for."""
    types = {field.name: spark_type(field.type) for field in schema}
    columns = {}
    for name, text in texts.items():
        try:
            value = F.expr(text)
            data_type = frame.select(value).schema[0].dataType
        except PySparkException as error:
            raise InvalidOperationError(
                f"{what} {text!r} of column {name} is invalid: {reason_of(error)}"
            ) from None
        columns[name] = assigned(value, data_type, types[name], name)
    return columns
