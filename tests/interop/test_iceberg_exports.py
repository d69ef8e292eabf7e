"""A table of Iceberg-Spark that delvec upgraded to version 4 and went on writing: its export is read alike by
Iceberg-Spark, DuckDB and pyiceberg.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from delvec.table import Table
from iceberg_tables.readers import read_by_duckdb, read_by_pyiceberg
from rows import multiset
from scanning import collected

pytestmark = [pytest.mark.interop, pytest.mark.spark]

IN_LEAVES = {
    "delvec.tree.root-data-files": "1",
    "delvec.tree.root-deletes": "0",
    "delvec.tree.affiliated-entries": "1",
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("limits", [{}, IN_LEAVES], ids=["root", "leaves"])
def test_every_engine_reads_the_export(iceberg_table, version, limits):
    name = f"exported_{version}_{len(limits)}"
    theirs = iceberg_table(name)
    theirs.create("id bigint, p int, s string", version, "PARTITIONED BY (p)")
    for start in (0, 10):
        theirs.sql(
            f"INSERT INTO {{t}} SELECT id, CAST(id % 3 AS int), concat('s', id) "
            f"FROM range({start}, {start + 10})"
        )
    theirs.sql("DELETE FROM {t} WHERE id IN (1, 12)")
    before = {path: path.read_bytes() for path in Path(theirs.location).rglob("*.avro")}
    mine = Table.open(theirs.spark, theirs.location)
    mine.upgrade(4)
    mine = Table.open(theirs.spark, theirs.location)
    if limits:
        mine.set_properties(limits)
    mine.append(theirs.spark.sql("SELECT id, CAST(9 AS int) AS p, 'new' AS s FROM range(100, 105)"))
    mine.delete("id IN (2, 13, 101)")
    mine.update({"s": "upper(s)"}, "id IN (4, 102)")
    mine.delete("p = 0")
    expected = collected(mine.to_df())
    assert mine.verify().errors == 0
    view = replace(theirs, name=f"{name}_view")
    assert mine.export(location=view.location) == view.location
    assert multiset(collected(view.rows())) == multiset(expected)
    assert multiset(read_by_duckdb(view.location)) == multiset(expected)
    mine.rewrite_deletes()  # pyiceberg refuses deletes of keys
    assert multiset(read_by_pyiceberg(mine.export(location=f"{view.location}_plain"))) == multiset(expected)
    columns = "id, _row_id, _last_updated_sequence_number"
    lineage = multiset(collected(view.sql(f"SELECT {columns} FROM {{t}}")))
    assert len(lineage) == len(expected)
    exported = Table.open(theirs.spark, view.location)
    assert (exported.format_version, exported.verify().errors) == (3, 0)
    assert {path: path.read_bytes() for path in before} == before
