"""Spark as the judge of conditions: its answers for rows, against what ``predicate`` says of their files."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa

from condition_cases import SCHEMA, DataFile, Facts
from delvec.predicate import Matches
from delvec.schema import arrow_type


def frame_of_files(spark: Any, files: list[DataFile]) -> Any:
    """All live rows with the number of their file."""
    columns = {
        field.name: pa.array([row[field.name] for file in files for row in file.live], arrow_type(field.type))
        for field in SCHEMA
    }
    numbers = [number for number, file in enumerate(files) for _ in file.live]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = pa.table({"file": pa.array(numbers, pa.int32()), **columns})
        shape = str(SCHEMA).replace("struct<", "struct<file:integer,", 1)
        return spark.createDataFrame(table, schema=shape)


def known_bounds(facts: Facts) -> int:
    """How much is known of the files."""
    stats = facts.columns.values()
    return sum(len(s.lower) - s.lower.null_count for s in stats if hasattr(s, "lower"))


def spark_answers(rows: Any, texts: list[str]) -> tuple[Any, list[Any]]:
    """For each text, Spark's answer for each row (NULL as no match), and the rows' files."""
    found = rows.selectExpr(
        "file", *(f"({text}\n) IS TRUE AS c{n}" for n, text in enumerate(texts))
    ).toArrow()
    return found["file"].to_numpy(), [found[f"c{n}"].to_numpy() for n in range(len(texts))]


def check(text: str, numbers: Any, answers: Any, matches: Matches) -> None:
    """No file with a matching row is pruned, and no file with another row is said to match whole."""
    some = np.zeros(len(matches.may), dtype=bool)
    some[numbers[answers]] = True
    every = np.ones(len(matches.may), dtype=bool)
    every[numbers[~answers]] = False
    pruned = np.flatnonzero(some & ~matches.may)
    assert not len(pruned), f"files {pruned} hold a matching row and are pruned: {text}"
    deleted = np.flatnonzero(matches.only & ~every)
    assert not len(deleted), f"files {deleted} hold a row that does not match and are deleted: {text}"
