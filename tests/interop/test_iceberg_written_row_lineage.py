"""Row ids and row versions of tables that delvec writes, as delvec, Iceberg-Spark and DuckDB see them.

The model follows the specification: a row keeps its id for as long as it lives, and its version is the
sequence number of the commit that wrote its values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from iceberg_spark import SparkTable
from iceberg_tables.readers import newest_metadata, read_by_duckdb
from scanning import collected

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ROW_ID, VERSION = "_row_id", "_last_updated_sequence_number"
COLUMNS = f"id, {ROW_ID}, {VERSION}"
PLAIN = "id bigint, v bigint"
LISTS = "id bigint, v bigint, l array<struct<a: int>>"
COPY_ON_WRITE = {f"write.{verb}.mode": "copy-on-write" for verb in ("delete", "update", "merge")}

Lineage = dict[int, tuple[int | None, int | None]]


@dataclass
class Followed:
    """A table, and what is known of its rows: their ids (None before the first look) and versions, by key."""

    theirs: SparkTable
    ddl: str
    rows: Lineage = field(default_factory=dict)

    @property
    def mine(self) -> Any:
        from delvec.table import Table

        return Table.open(self.theirs.spark, self.theirs.location)

    def create(self, version: int = 3, **options: Any) -> None:
        from delvec.table import Table

        Table.create(
            self.theirs.spark,
            self.theirs.location,
            self.ddl,
            format="iceberg",
            format_version=version,
            **options,
        )

    def frame(self, first: int, last: int, v: int = 0) -> Any:
        """The rows with these keys, in two files."""
        rows = (
            f"SELECT id, {v}L AS v, array(named_struct('a', int(id))) AS l FROM range({first}, {last}, 1, 2)"
        )
        return self.theirs.spark.sql(rows).select(*(part.split()[0] for part in self.ddl.split(", ")))

    def sequence(self) -> int:
        metadata = json.loads(Path(newest_metadata(self.theirs.location)).read_text())
        return int(metadata["last-sequence-number"])

    def inserted(self, keys: Iterable[int]) -> None:
        self.rows |= dict.fromkeys(keys, (None, self.sequence()))
        self.check()

    def changed(self, *keys: int) -> None:
        self.rows |= {key: (self.rows[key][0], self.sequence()) for key in keys}
        self.check()

    def gone(self, *keys: int) -> None:
        for key in keys:
            del self.rows[key]
        self.check()

    def compacted(self, result: Any) -> None:
        assert result.metrics["numRemovedFiles"]
        self.check()

    def check(self) -> None:
        """All engines see the same lineage, which is that of the model; new ids are used by no other row."""
        found = {row[0]: tuple(row[1:]) for row in self.theirs.sql(f"SELECT {COLUMNS} FROM {{t}}").collect()}
        place = self.theirs.location
        self.same("DuckDB", read_by_duckdb(place, columns=COLUMNS), found)
        self.same("delvec", collected(self.mine.to_df(columns=["id", ROW_ID, VERSION])), found)
        assert {key: version for key, (_, version) in found.items()} == {
            key: version for key, (_, version) in self.rows.items()
        }
        known = {row_id for row_id, _ in self.rows.values() if row_id is not None}
        for key, (row_id, version) in self.rows.items():
            if row_id is None:
                assert found[key][0] is not None
                assert found[key][0] not in known
                self.rows[key] = found[key][0], version
        assert found == self.rows
        assert len({row_id for row_id, _ in found.values()}) == len(found)

    def same(self, engine: str, rows: list[dict[str, Any]], expected: Lineage) -> None:
        found = {row["id"]: (row[ROW_ID], row[VERSION]) for row in rows}
        assert found == expected, engine


def through_every_verb(table: Followed) -> None:
    table.mine.append(table.frame(0, 20))
    table.inserted(range(20))
    table.mine.update({"v": "v + 1"}, "id % 7 = 3")
    table.changed(3, 10, 17)
    table.mine.delete("id IN (4, 10, 11)")
    table.gone(4, 10, 11)
    merging = table.mine.merge(table.frame(16, 23, v=5), "target.id = source.id")
    merging.when_matched_update_all(
        "source.id <> 18"
    ).when_matched_delete().when_not_matched_insert_all().execute()
    table.rows |= dict.fromkeys((20, 21, 22), (None, table.sequence()))
    del table.rows[18]
    table.changed(16, 17, 19)
    table.compacted(table.mine.optimize())
    table.mine.update({"v": "v + 1"}, "id IN (3, 5, 22)")
    table.changed(3, 5, 22)
    table.compacted(table.mine.purge())


@pytest.mark.parametrize("ddl", [PLAIN, LISTS], ids=["ids", "name mapping"])
@pytest.mark.parametrize(
    "properties", [{}, pytest.param(COPY_ON_WRITE, marks=pytest.mark.slow)], ids=["vectors", "copy-on-write"]
)
def test_every_verb(iceberg_table: Any, ddl: str, properties: dict[str, str]) -> None:
    name = f"lineage_{len(ddl)}_{len(properties)}"
    table = Followed(iceberg_table(name), ddl)
    table.create(properties=properties, partition_by=["bucket(2, id)"] if properties else [])
    through_every_verb(table)


@pytest.mark.parametrize("ddl", [PLAIN, LISTS], ids=["ids", "name mapping"])
def test_in_turns_with_iceberg_spark(iceberg_table: Any, ddl: str) -> None:
    """Each engine keeps the lineage of rows that the other has written, updated and compacted."""
    table = Followed(iceberg_table(f"lineage_turns_{len(ddl)}"), ddl)
    table.create()
    table.mine.append(table.frame(0, 8))
    table.inserted(range(8))
    table.theirs.sql("UPDATE {t} SET v = 1 WHERE id IN (1, 2)")
    table.changed(1, 2)
    table.mine.update({"v": "2"}, "id IN (2, 3)")
    table.changed(2, 3)
    insert(table, 8, 12)
    table.inserted(range(8, 12))
    table.compacted(table.mine.optimize())
    table.theirs.sql("DELETE FROM {t} WHERE id IN (2, 9)")
    table.gone(2, 9)
    table.mine.update({"v": "3"}, "id IN (1, 8)")
    table.changed(1, 8)
    options = "map('rewrite-all', 'true')"
    table.theirs.sql(f"CALL ice.system.rewrite_data_files(table => '{{t}}', options => {options})")
    table.check()
    table.mine.update({"v": "4"}, "id IN (1, 11)")
    table.changed(1, 11)


def insert(table: Followed, first: int, last: int) -> None:
    table.frame(first, last).createOrReplaceTempView("new_rows")
    table.theirs.sql("INSERT INTO {t} SELECT * FROM new_rows")


@pytest.mark.parametrize("upgrades", ["delvec", "Iceberg-Spark"])
@pytest.mark.parametrize("commits", ["delvec", "Iceberg-Spark"])
def test_rows_from_before_an_upgrade(iceberg_table: Any, upgrades: str, commits: str) -> None:
    """They get ids with the first commit in version 3, whoever commits it."""
    table = Followed(iceberg_table(f"upgraded_{len(upgrades)}_{len(commits)}"), PLAIN)
    table.create(version=2)
    table.mine.append(table.frame(0, 6))
    table.mine.update({"v": "1"}, "id = 2")
    table.mine.delete("id = 4")
    if upgrades == "delvec":
        table.mine.set_properties({"format-version": "3"})
    else:
        table.theirs.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    assert table.mine.format_version == 3
    if commits == "delvec":
        table.mine.append(table.frame(6, 8))
    else:
        insert(table, 6, 8)
    table.rows = dict.fromkeys((0, 1, 3, 5), (None, 1)) | {2: (None, 2)}
    table.inserted((6, 7))
    table.mine.update({"v": "2"}, "id IN (0, 2, 6)")
    table.changed(0, 2, 6)
    table.theirs.sql("UPDATE {t} SET v = 3 WHERE id IN (2, 3)")
    table.changed(2, 3)
    table.compacted(table.mine.optimize())
