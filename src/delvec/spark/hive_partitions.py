"""Partition values from the names of folders that another writer made: ``column=value``, one level for each
column.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from delvec.errors import InvalidOperationError
from delvec.hive_folders import NULL_FOLDER, unescaped
from delvec.partition_spec import identity_fields
from delvec.schema import Field, Schema, Text, arrow_type
from delvec.spark.arrow_frame import frame_of_table
from delvec.spark.types import type_text


def partition_values(
    spark: SparkSession, root: str, paths: Sequence[str], columns: Schema, *, case_sensitive: bool
) -> pa.StructArray:
    """The typed values of ``columns`` for the files at ``paths``, which are relative to ``root``.

    Refuses, by its name, a file whose folders are not exactly those of the columns, and a value that is not
    one of the column's type. Values are read as Spark reads texts, in the session's time zone.
    """
    if len({field.name.lower() for field in columns}) != len(columns.fields):
        names = ", ".join(field.name for field in columns)
        raise InvalidOperationError(f"partition columns are {names}, expected each once")
    folders: list[list[str | None]] = []
    number_of: dict[str, int] = {}
    numbers: list[int] = []
    for path in paths:
        folder = path.rpartition("/")[0]
        if folder not in number_of:
            number_of[folder] = len(folders)
            folders.append(_texts(root, path, columns, case_sensitive=case_sensitive))
        numbers.append(number_of[folder])
    if not columns.fields:
        return pa.array([{}] * len(paths), pa.struct([]))
    arrays = [_typed(spark, root, field, [row[at] for row in folders]) for at, field in enumerate(columns)]
    spec = identity_fields(columns, [field.name for field in columns])
    fields = [pa.field(field.name, arrow_type(field.type)) for field in spec]
    return pa.StructArray.from_arrays(arrays, fields=fields).take(pa.array(numbers, pa.int64()))


def _texts(root: str, path: str, columns: Schema, *, case_sensitive: bool) -> list[str | None]:
    """The value of each column in the folders of a file; None for null."""
    parts = path.split("/")[:-1]
    if not columns.fields:
        for part in parts:
            if "=" in part:
                raise _unexpected(root, path, f"is in the folder {part}", "no partition folders")
        return []
    expected = "/".join(f"{field.name}=…" for field in columns)
    if len(parts) != len(columns.fields):
        found = "/".join(parts) or "no folder"
        raise _unexpected(root, path, f"is in {found}", expected)
    texts: list[str | None] = []
    for part, field in zip(parts, columns, strict=True):
        name, equals, text = part.partition("=")
        if not equals or not _same(unescaped(name), field.name, case_sensitive=case_sensitive):
            raise _unexpected(root, path, f"is in the folder {part}", expected)
        texts.append(None if text == NULL_FOLDER else unescaped(text))
    return texts


def _same(name: str, other: str, *, case_sensitive: bool) -> bool:
    return name == other or (not case_sensitive and name.lower() == other.lower())


def _unexpected(root: str, path: str, found: str, expected: str) -> InvalidOperationError:
    return InvalidOperationError(f"file {path} {found}, expected {expected}: {root}")


def _typed(spark: SparkSession, root: str, field: Field, texts: Sequence[str | None]) -> pa.Array:
    """The values of one column, one for each text."""
    distinct = sorted({text for text in texts if text is not None})
    frame = frame_of_table(spark, pa.table({"text": pa.array(distinct, pa.string())}))
    kind = type_text(field.type)
    fits = _fits(field, kind)
    values = frame.selectExpr(
        "text", f"CASE WHEN {fits} THEN try_cast(text AS {kind}) END AS value"
    ).toArrow()
    by_text = dict(zip(values.column("text").to_pylist(), values.column("value"), strict=True))
    for text, value in by_text.items():
        if not value.is_valid:
            raise InvalidOperationError(
                f"partition value {text!r} of column {field.name} is not a value of the type {field.type}: "
                f"{root}"
            )
    positions = {text: at for at, text in enumerate(by_text)}
    column = values.column("value").cast(arrow_type(field.type)).combine_chunks()
    return column.take(pa.array([None if text is None else positions[text] for text in texts], pa.int64()))


def _fits(field: Field, kind: str) -> str:
    """A condition on ``text`` that is true if the cast to the type loses nothing of the value."""
    if isinstance(field.type, Text):
        return f"length(text) <= {field.type.length}"
    if kind.startswith("decimal"):
        return f"try_cast(text AS {kind}) = try_cast(text AS DECIMAL(38, 18))"
    if kind == "date":
        return "try_cast(text AS DATE) = try_cast(text AS TIMESTAMP_NTZ)"
    return "true"
