"""What the snapshots of a test table changed, in the slowest and plainest way: all rows before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from iceberg_tables.avro import DATA
from iceberg_tables.columns import StructType, projected
from iceberg_tables.expected import deleted_rows
from iceberg_tables.snapshots import Entry, Snapshot
from iceberg_tables.writer import IcebergWriter
from rows import multiset

Row = Mapping[str, Any]
Place = tuple[str, int]


class SnapshotChanges:
    """The changes of one snapshot."""

    def __init__(self, table: IcebergWriter, snapshot: Snapshot, schema: StructType) -> None:
        parent = snapshot.json.get("parent-snapshot-id")
        self.schema = schema
        before = {} if parent is None else self._live(table.snapshots[parent], snapshot)
        after = self._live(snapshot, snapshot)
        self.deleted = {place: found for place, found in before.items() if place not in after}
        self.inserted = {place: found for place, found in after.items() if place not in before}
        self.moves = snapshot.json["summary"]["operation"] == "replace"
        changed = (*self.deleted.values(), *self.inserted.values())
        # Without row ids the snapshot is compared by values.
        self.lacks_ids = "first-row-id" not in snapshot.json or any(
            row_id is None for _, row_id, _ in changed
        )

    def _live(self, snapshot: Snapshot, newer: Snapshot) -> dict[Place, tuple[Row, int | None, int | None]]:
        """The live rows by their places, each with its id and its version. ``newer`` may have given ids."""
        found = {}
        newest = {entry.file.path: entry for entry in newer.entries(DATA)}
        for entry in snapshot.entries(DATA):
            gone = deleted_rows(entry, snapshot)
            for at, row in enumerate(entry.file.rows):
                if at not in gone:
                    shown = projected(row, entry.file.schema, self.schema)
                    found[entry.file.path, at] = (shown, *_lineage(newest.get(entry.file.path, entry), at))
        return found

    def changes(self) -> Iterator[tuple[str, Row]]:
        """The kind and the row of each change."""
        if self.moves:
            return
        yield from self._by_values() if self.lacks_ids else self._by_ids()

    def _by_values(self) -> Iterator[tuple[str, Row]]:
        removed, added = ([row for row, *_ in rows.values()] for rows in (self.deleted, self.inserted))
        both = multiset(removed) & multiset(added)
        for kind, rows in (("delete", removed), ("insert", added)):
            skipped: Counter[str] = Counter()
            for row in rows:
                (text,) = multiset([row])
                skipped[text] += 1
                if skipped[text] > both[text]:
                    yield kind, row

    def _by_ids(self) -> Iterator[tuple[str, Row]]:
        removed, added = (
            {row_id: (row, version) for row, row_id, version in rows.values()}
            for rows in (self.deleted, self.inserted)
        )
        assert (len(removed), len(added)) == (len(self.deleted), len(self.inserted)), "an id twice"
        for kind, image, rows, others in (
            ("delete", "update_preimage", removed, added),
            ("insert", "update_postimage", added, removed),
        ):
            for row_id, (row, version) in rows.items():
                other = others.get(row_id)
                if other is None:
                    yield kind, row
                elif version != other[1] and multiset([row]) != multiset([other[0]]):
                    yield image, row


def _lineage(entry: Entry, at: int) -> tuple[int | None, int | None]:
    if entry.first_row_id is None:
        return None, None
    stored_ids, stored_versions = entry.file.row_ids, entry.file.row_versions
    row_id = None if stored_ids is None else stored_ids[at]
    version = None if stored_versions is None else stored_versions[at]
    return (
        entry.first_row_id + at if row_id is None else row_id,
        entry.sequence if version is None else version,
    )


def expected_changes(table: IcebergWriter, snapshots: list[int], schema: StructType) -> list[dict[str, Any]]:
    """The rows of a change feed of these snapshots, without the time."""
    return [
        {**row, "_change_type": kind, "_commit_version": number}
        for number in snapshots
        for kind, row in SnapshotChanges(table, table.snapshots[number], schema).changes()
    ]
