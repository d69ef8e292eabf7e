"""The first delete by value of each row: the smallest sequence above the data sequence of the row's file.

A row is deleted once: later deletes of its key do not change it. So a scan finds the commit that deleted a
row by one look-up in a table of (scope, key, sequences), however many commits deleted rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delvec.chunked import Rows
from delvec.deletes.equality import EqualityDeletes, EqualityLayer, KeyColumn
from delvec.deletes.equality_set import SCOPE, SEQUENCE, EqualityDeleteSet, key_names
from delvec.spark.equality_join import deleted_names, equal_keys, key_frame


@dataclass(frozen=True, slots=True)
class FirstDeleteJoin:
    """One layer as a join (`equality_join.LayerJoin`).

    deleted    the keys, each with the sequences of its deletes
    condition  when a row has a key
    value      the expression for the sequence, null if no delete applies to the row
    """

    columns: tuple[KeyColumn, ...]
    key_names: Sequence[str]
    file_values: Mapping[str, Rows]
    deleted: DataFrame
    condition: str
    value: str


def first_delete_joins(
    spark: SparkSession, deletes: EqualityDeletes, keys: Sequence[EqualityDeleteSet | DataFrame], prefix: str
) -> list[FirstDeleteJoin]:
    """The joins for some data files; ``keys`` have every delete. ``prefix``: no column of the table has a
    name that starts with it.
    """
    return [
        _join(spark, layer, loaded, f"{prefix}{number}_")
        for number, (layer, loaded) in enumerate(zip(deletes.layers, keys, strict=True))
        if layer.has_deletes.any()
    ]


def _join(
    spark: SparkSession, layer: EqualityLayer, keys: EqualityDeleteSet | DataFrame, own: str
) -> FirstDeleteJoin:
    frame = key_frame(spark, keys) if isinstance(keys, EqualityDeleteSet) else keys
    others = [name for name in frame.columns if name != SEQUENCE]
    frame = frame.groupBy(*others).agg(F.collect_set(SEQUENCE).alias(SEQUENCE))
    if isinstance(keys, EqualityDeleteSet):  # others may be too large for the driver
        frame = F.broadcast(frame)
    deleted, scope, sequence, each = deleted_names(frame, own), own + SCOPE, own + SEQUENCE, own + "each"
    conditions = [*equal_keys(layer.columns, own, deleted), f"{scope} = {deleted[SCOPE]}"]
    return FirstDeleteJoin(
        columns=layer.columns,
        key_names=[own + name for name in key_names(layer.columns)],
        file_values={scope: layer.scope, sequence: layer.sequence},
        deleted=frame.toDF(*deleted.values()),
        condition=" AND ".join(conditions),
        value=f"array_min(filter({deleted[SEQUENCE]}, {each} -> {each} > {sequence}))",
    )


def with_first_delete(frame: DataFrame, joins: Sequence[FirstDeleteJoin], name: str) -> DataFrame:
    """The frame with the sequence of each row's first delete in the column ``name``; null: there is none."""
    for join in joins:
        frame = frame.join(join.deleted, F.expr(join.condition), "left")
    values = [F.expr(join.value) for join in joins]
    first = values[0] if len(values) == 1 else F.least(*values)  # which ignores null
    return frame.withColumn(name, first)


def only_with_first_delete(frame: DataFrame, joins: Sequence[FirstDeleteJoin], name: str) -> DataFrame:
    """As `with_first_delete`, without rows that no delete applies to."""
    if len(joins) == 1:
        (join,) = joins
        frame = frame.join(join.deleted, F.expr(join.condition)).withColumn(name, F.expr(join.value))
    else:
        frame = with_first_delete(frame, joins, name)
    return frame.where(F.col(name).isNotNull())
