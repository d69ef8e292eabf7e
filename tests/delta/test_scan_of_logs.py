"""The native scan of Delta tables that other engines wrote, or whose log is wrong about sizes."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from delvec.delta.table import DeltaTable
from golden_data import GOLDEN, golden
from lake import Lake
from rows import read_rows
from scanning import collected, opened, same

pytestmark = pytest.mark.spark

GOLDEN_TABLES = sorted(path.name for path in (GOLDEN / "delta").glob("*")) if GOLDEN.is_dir() else []
NUMBERS = pa.schema([("id", pa.int64()), ("v", pa.float64())])


def numbers(first, count):
    return [{"id": i, "v": i / 4} for i in range(first, first + count)]


@pytest.mark.parametrize("name", GOLDEN_TABLES)
def test_golden_tables_at_every_version(spark, name):
    from pyspark.sql import functions

    from delvec.table import Table

    place = str(golden(f"delta/{name}"))
    reference, table = DeltaTable.open(place), Table.open(spark, place)
    expected, found = [], None
    for version in range(table.version + 1):
        rows = read_rows(reference.snapshot(version).plan(), reference.storage)
        expected += [{**row, "version": version} for row in rows]
        frame = table.to_df(version=version).withColumn("version", functions.lit(version))
        found = frame if found is None else found.union(frame)
    same(found, expected)
    assert table.to_df().schema == table.schema


def test_sizes_that_the_log_has_wrong(spark, tmp_path):
    """As where a store counts bytes of its own: the files are told apart by their names then."""
    lake = Lake(tmp_path / "t", NUMBERS)
    for n in range(4):
        lake.write(numbers(n * 100, 50 + n), deleted=[n])
    lake.commit()
    (log,) = (lake.root / "_delta_log").glob("*.json")
    sized = re.sub(r'"size": ?(\d+)', lambda found: f'"size":{int(found[1]) + 16}', log.read_text())
    assert sized != log.read_text()
    log.write_text(sized)
    same(opened(spark, lake).to_df(), lake.live)


@pytest.mark.parametrize("files", [2, 40])
def test_a_recorded_size_that_is_wrong_takes_no_vector_away(spark, tmp_path, files):
    lake = Lake(tmp_path / "t", NUMBERS)
    for number in range(files):
        lake.write(numbers(1000 * number, 20 + number), deleted=[3])
    lake.commit()
    (commit,) = sorted((tmp_path / "t" / "_delta_log").glob("*.json"))[-1:]
    text = commit.read_text()
    size = max(int(found) for found in re.findall(r'"size": (\d+)', text))
    commit.write_text(text.replace(f'"size": {size}', f'"size": {size + 1}'))
    found = collected(opened(spark, lake).to_df())
    assert sorted(row["id"] for row in found) == sorted(row["id"] for row in lake.live)
