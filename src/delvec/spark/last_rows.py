"""The new rows of an upsert: of each key the last row, by the columns of ``order_by``."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from delvec.errors import InvalidOperationError
from delvec.row_delta import WriteRules
from delvec.schema import Struct
from delvec.spark.computed_columns import new_rows
from delvec.spark.key_columns import KeyFields, with_exact_keys
from delvec.spark.scan import own_prefix
from delvec.spark.text_lengths import with_padding
from delvec.spark.types import quoted

OrderBy = str | Column | Sequence[str | Column] | None
"""What decides which row of a key is the last: the one with the greatest value. Null is before all values."""


def last_rows(frame: DataFrame, rules: WriteRules, fields: KeyFields, order_by: OrderBy) -> DataFrame:
    """The rows in the table's columns. A column that the table lacks may only order them."""
    rows = with_padding(with_exact_keys(frame, fields), Struct(fields))
    order, only_for_order = _order(rows, rules, order_by)
    if order:
        rank = own_prefix(rules.schema, *rows.columns) + "rank"
        window = Window.partitionBy(*(quoted(field.name) for field in fields)).orderBy(*order)
        rows = rows.withColumn(rank, F.rank().over(window)).where(f"{rank} = 1").drop(rank)
    return new_rows(rows.drop(*only_for_order), rules)


def verify_unique(rows: DataFrame, fields: KeyFields) -> None:
    """Refuse rows that have the same key: it is not known which of them is the last."""
    names = [quoted(field.name) for field in fields]
    repeated = rows.groupBy(*names).count().where("count > 1").limit(1)
    found = repeated.select(F.to_json(F.struct(*names), {"ignoreNullFields": "false"}), "count").collect()
    if found:
        key, count = found[0]
        raise InvalidOperationError(
            f"{count} new rows have the key {key}, expected one of each key; order_by chooses the last row "
            "of a key, if its greatest value is in one row"
        )


def _order(rows: DataFrame, rules: WriteRules, order_by: OrderBy) -> tuple[list[Column], list[str]]:
    """Descending, and the columns that the table does not have."""
    given = [] if order_by is None else [order_by] if isinstance(order_by, str | Column) else list(order_by)
    order, others = [], []
    for one in given:
        if isinstance(one, Column):
            order.append(one.desc_nulls_last())
            continue
        found = [name for name in rows.columns if isinstance(one, str) and name.lower() == one.lower()]
        if len(found) != 1:
            expected = ", ".join(rows.columns)
            raise InvalidOperationError(
                f"order_by names column {one!r}, expected columns of the new rows: one of {expected}"
            )
        order.append(F.col(quoted(found[0])).desc_nulls_last())
        if not rules.schema.find(found[0]):
            others.append(found[0])
    return order, others
