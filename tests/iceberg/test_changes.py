"""The change feed of Iceberg tables: random histories and single cases, as a list of rows says."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from delvec import sql
from delvec.errors import InvalidOperationError
from delvec.table import Table
from iceberg_tables.avro import DATA
from iceberg_tables.changes import expected_changes
from iceberg_tables.histories import History
from iceberg_tables.snapshots import Entry
from iceberg_tables.writer import IcebergWriter
from rows import multiset
from scanning import collected, opened

pytestmark = pytest.mark.spark

TIME = "_commit_timestamp"
SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 2004 else []) for seed in range(2000, 2060)]


class ChangingHistory(History):
    """A history with copy-on-write, updates by vector, and equality deletes that become positions."""

    def steps(self):
        found = super().steps() + [self.rewrite] * 3
        if self.table.format_version > 1:
            found += [self.update, self.convert]
        return found

    def rewrite(self) -> None:
        """A file again, with some rows changed and some gone."""
        entries = self._newest_schema()
        if not entries:
            return
        entry = self.rng.choice(entries)
        gone = self.table.deleted(entry)
        live = [(at, row) for at, row in enumerate(entry.file.rows) if at not in gone]
        kept = [(at, row) for at, row in live if self.rng.random() < 0.8]
        images = [self._image(entry, at, row) for at, row in kept]
        self.table.remove_file(entry.file)
        if images:
            self._add_images(entry, images)
        self.table.commit(operation="overwrite")

    def update(self) -> None:
        """Rows deleted by position, and new images of them in another file."""
        entries = [
            entry for entry in self._newest_schema() if entry.file.records > len(self.table.deleted(entry))
        ]
        if not entries:
            return
        entry = self.rng.choice(entries)
        live = sorted(set(range(entry.file.records)) - self.table.deleted(entry))
        chosen = self.rng.sample(live, self.rng.randrange(1, len(live) + 1))
        self.table.delete_rows(entry.file, chosen)
        self._add_images(entry, [self._image(entry, at, entry.file.rows[at]) for at in chosen])
        self.table.commit()

    def convert(self) -> None:
        """Equality deletes that are replaced by positions, and perhaps more rows deleted at once."""
        entries = [entry for entry in self.table.head.entries(DATA) if self.table.deleted(entry)]
        if not entries:
            return
        positions = {}
        for entry in entries:
            more = self.rng.randrange(entry.file.records)
            positions[entry.file] = self.table.deleted(entry) | ({more} if self.rng.random() < 0.3 else set())
        if self.table.format_version > 2:
            self.table.delete_by_vectors(positions)
        else:
            self.table.delete_positions(positions, referenced=self.rng.random() < 0.5)
        for entry in self.table.head.entries(2):
            self.table.remove_file(entry.file)
        self.table.commit()

    def _newest_schema(self) -> list[Entry]:
        entries = [entry for entry in self.table.head.entries(DATA) if entry.file.schema == self.table.schema]
        return [entry for entry in entries if entry.file.spec == self.table.spec]

    def _image(self, entry: Entry, at: int, row: Any) -> tuple[Any, int | None, int | None]:
        """A row, its id and version: copied, or changed in a column that is not partitioned."""
        file = entry.file
        row_id = None if file.row_ids is None else file.row_ids[at]
        version = None if file.row_versions is None else file.row_versions[at]
        if entry.first_row_id is not None:
            row_id = entry.first_row_id + at if row_id is None else row_id
            version = entry.sequence if version is None else version
        partitioned = {part.source_id for part in self.table.spec.fields}
        free = [column for column in self.table.schema if column.id != 1 and column.id not in partitioned]
        if not free or self.rng.random() < 0.6:
            return row, row_id, version
        changed = self.rng.choice(free)
        return {**row, changed.name: self._row()[changed.name]}, row_id, None

    def _add_images(self, entry: Entry, images: Any) -> None:
        lineage = {}
        if self.table.format_version > 2 and entry.first_row_id is not None and self.table.ids:
            lineage = {"row_ids": [i for _, i, _ in images], "row_versions": [v for *_, v in images]}
        self.table.add_file([row for row, *_ in images], partition=entry.file.partition, **lineage)


def verify(table: Any, found: Any, snapshots: list[int], *, newest: bool) -> None:
    """The feed of these snapshots, oldest first, which are of one line."""
    last = None if newest else snapshots[-1]
    schema = table.schema if newest else table.schemas[table.snapshots[snapshots[-1]].schema_id]
    rows = [
        {name: value for name, value in row.items() if name != TIME}
        for row in collected(found.changes(snapshots[0], last))
    ]
    expected = expected_changes(table, snapshots, schema)
    was, should = multiset(rows), multiset(expected)
    assert was == should, f"{snapshots}: lost {should - was}, gained {was - should}"


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_of_a_random_history(spark: Any, tmp_path: Path, seed: int) -> None:
    history = ChangingHistory(tmp_path / "t", random.Random(seed))
    for _ in range(history.rng.randrange(5, 15)):
        history.step()
    table = history.table
    snapshots = list(table.snapshots)
    found = opened(spark, table)
    verify(table, found, snapshots, newest=True)
    for _ in range(2):
        first, last = sorted(history.rng.choices(range(len(snapshots)), k=2))
        verify(table, found, snapshots[first : last + 1], newest=False)


def told(found: Any, first: int, last: int | None = None, *names: str) -> list[tuple[Any, ...]]:
    """The changes: kind, number of the snapshot in the range, and columns, by default ``id``."""
    order = found.changes(first, last).select("_commit_version", TIME).distinct().orderBy(TIME).collect()
    number = {row[0]: at for at, row in enumerate(order)}
    rows = collected(found.changes(first, last))
    return sorted(
        (number[row["_commit_version"]], row["_change_type"], *(row[name] for name in names or ("id",)))
        for row in rows
    )


def ids(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": number, **more} for number in numbers]


ID = pa.schema([("id", pa.int64()), ("s", pa.string())])


def test_rows_are_deleted_once(spark: Any, tmp_path: Path) -> None:
    """By the first of the deletes that apply to them, whatever their kinds are."""
    table = IcebergWriter(tmp_path / "t", ID, format_version=2)
    file = table.add_file(ids(*range(8)))
    table.commit()
    table.delete_keys(ids(0, 1), on=["id"])
    table.commit()  # 1
    table.delete_positions({file: [1, 2]})
    table.commit()  # 2: row 1 is gone already
    table.delete_keys(ids(1, 2, 3), on=["id"])
    table.append(ids(0, 3, s="again"))  # 3: new rows stay
    table.delete_keys(ids(0, 3, 4), on=["id"])
    table.delete_positions({file: [4, 5]})
    table.commit()  # 4: row 4 by both, the new rows by value
    found = opened(spark, table)
    expected = [
        (0, "delete", 0),
        (0, "delete", 1),
        (1, "delete", 2),
        (2, "delete", 3),
        (2, "insert", 0),
        (2, "insert", 3),
        (3, "delete", 0),
        (3, "delete", 3),
        (3, "delete", 4),
        (3, "delete", 5),
    ]
    snapshots = list(table.snapshots)
    assert told(found, snapshots[1]) == expected
    assert told(found, snapshots[2], snapshots[3]) == [(n - 1, *rest) for n, *rest in expected[2:6]]


def test_deletes_that_are_too_large_for_the_driver(spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("delvec.spark.scan.DRIVER_CHUNK_BYTES", -1)
    monkeypatch.setattr("delvec.spark.equality_join.DRIVER_ROWS", -1)
    test_rows_are_deleted_once(spark, tmp_path)


def test_rows_that_a_rewrite_copies(spark: Any, tmp_path: Path) -> None:
    """In version 2 by their values: as many pairs as there are."""
    table = IcebergWriter(tmp_path / "t", ID, format_version=2)
    file = table.add_file(ids(1, 1, 1, 2, 3))
    first = table.commit()
    table.remove_file(file)
    table.add_file([*ids(1, 1, 2, 4), {"id": 3, "s": "new"}])
    table.commit(operation="overwrite")
    assert told(opened(spark, table), first, None, "id", "s")[5:] == [
        (1, "delete", 1, None),
        (1, "delete", 3, None),
        (1, "insert", 3, "new"),
        (1, "insert", 4, None),
    ]


def test_rows_with_ids(spark: Any, tmp_path: Path) -> None:
    table = IcebergWriter(tmp_path / "t", ID, format_version=3)
    file = table.add_file(ids(1, 2, 3, 4, 5))
    first = table.commit()
    table.remove_file(file)
    table.add_file(
        [*ids(1), {"id": 2, "s": "new"}, *ids(3, 4, 4)],
        row_ids=[0, 1, 2, None, 3],
        row_versions=[1, None, None, None, 1],
    )
    table.commit(operation="overwrite")
    assert told(opened(spark, table), first, None, "id", "s")[5:] == [
        (1, "delete", 5, None),
        (1, "insert", 4, None),  # a new row with the values of another one
        (1, "update_postimage", 2, "new"),
        (1, "update_preimage", 2, None),
    ]


def test_a_column_that_has_the_name_of_the_row_id(spark: Any, tmp_path: Path) -> None:
    table = IcebergWriter(tmp_path / "t", ID, format_version=3)
    table.add_column(pa.field("_row_id", pa.int64()))
    file = table.add_file([{"id": 1, "_row_id": 7}, {"id": 2, "_row_id": 8}])
    first = table.commit()
    table.remove_file(file)
    table.add_file([{"id": 1, "_row_id": 7}, {"id": 3, "_row_id": 8}])
    table.commit(operation="overwrite")
    changes = told(opened(spark, table), first, None, "id", "_row_id")
    assert changes[2:] == [(1, "delete", 2, 8), (1, "insert", 3, 8)]


VALUES = pa.schema(
    [
        ("id", pa.int64()),
        ("f", pa.float64()),
        ("fs", pa.list_(pa.float32())),
        ("m", pa.map_(pa.string(), pa.struct([("x", pa.float64()), ("n", pa.map_(pa.int32(), pa.int32()))]))),
        ("b", pa.binary()),
    ]
)
NAN = float("nan")
SAME = [
    {
        "id": 1,
        "f": NAN,
        "fs": [NAN, 0.0, None],
        "m": [("a", {"x": -0.0, "n": [(1, 2), (3, None)]})],
        "b": b"\0",
    },
    {"id": 2, "f": -0.0, "fs": [], "m": [("a", None), ("b", {"x": None, "n": None})], "b": None},
    {"id": 3, "f": None, "fs": None, "m": None, "b": b""},
]


@pytest.mark.parametrize("version", [2, 3])
def test_values_that_spark_does_not_compare(spark: Any, tmp_path: Path, version: int) -> None:
    table = IcebergWriter(tmp_path / "t", VALUES, format_version=version)
    others = [
        {"id": 4, "f": 0.0, "fs": [0.0], "m": [("a", {"x": 0.0, "n": [(1, 2)]})]},
        {"id": 5, "f": 0.0},
        {"id": 6, "fs": [0.0]},
        {"id": 7, "m": [("a", {"x": 1.0, "n": [(1, 2)]})]},
    ]
    file = table.add_file(SAME + others)
    first = table.commit()
    table.remove_file(file)
    changed = [
        {**others[0], "m": [("a", {"x": -0.0, "n": [(1, 2)]})]},
        {"id": 5, "f": -0.0},
        {"id": 6, "fs": [-0.0]},
        {"id": 7, "m": [("a", {"x": 1.0, "n": [(1, 3)]})]},
    ]
    swapped = [{**SAME[1], "m": SAME[1]["m"][::-1]}]
    lineage = {"row_ids": [0, 2, 1, 3, 4, 5, 6]} if version > 2 else {}
    table.add_file([SAME[0], SAME[2], *swapped, *changed], **lineage)
    last = table.commit(operation="overwrite")
    kinds = ("delete", "insert") if version == 2 else ("update_postimage", "update_preimage")
    found = opened(spark, table)
    assert told(found, last) == sorted((0, kind, number) for kind in kinds for number in (4, 5, 6, 7))
    verify(table, found, [first, last], newest=True)


def test_columns_of_the_last_snapshot(spark: Any, tmp_path: Path) -> None:
    """A renamed, a dropped and a new column; the equality delete compares the dropped one."""
    table = IcebergWriter(tmp_path / "t", ID, format_version=2)
    table.append([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}])
    table.delete_keys([{"s": "a"}], on=["s"])
    middle = table.commit()
    table.rename_column("id", "number")
    table.drop_column("s")
    table.add_column(pa.field("s", pa.int32()))
    table.append([{"number": 3, "s": 5}])
    found, first = opened(spark, table), next(iter(table.snapshots))
    assert told(found, first, None, "number", "s") == [
        (0, "insert", 1, None),
        (0, "insert", 2, None),
        (1, "delete", 1, None),
        (2, "insert", 3, 5),
    ]
    assert told(found, first, middle, "id", "s")[-1] == (1, "delete", 1, "a")
    assert told(found, middle, None, "number") == [(0, "delete", 1), (1, "insert", 3)]


def test_in_sql_and_by_branch(spark: Any, tmp_path: Path) -> None:
    table = IcebergWriter(tmp_path / "t", ID, format_version=3)
    file = table.add_file(ids(1, 2))
    first = table.commit()
    table.set_branch("audit", first)
    table.delete_rows(file, [0])
    second = table.commit()
    third = table.append(ids(9), branch="audit")
    query = f"SELECT _change_type, id FROM table_changes('iceberg.`{table.root}`', {second})"
    assert [tuple(row) for row in sql(spark, query).collect()] == [("delete", 1)]
    audit = Table.open(spark, str(table.root), ref="audit")
    assert told(audit, third) == [(0, "insert", 9)]
    with pytest.raises(InvalidOperationError, match="is not an ancestor of snapshot"):
        audit.changes(second)


def test_a_file_that_is_gone(spark: Any, tmp_path: Path) -> None:
    table = IcebergWriter(tmp_path / "t", ID, format_version=3)
    file = table.add_file(ids(1, 2))
    first = table.commit()
    table.remove_file(file)
    second = table.commit()
    Path(file.path).unlink()
    with pytest.raises(InvalidOperationError, match=f"changes of version {second} can no longer be read"):
        opened(spark, table).changes(second)
    assert first != second
