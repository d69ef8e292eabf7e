"""The rows that a reader must find, in the slowest and plainest way: each row of each file, each delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iceberg_tables.avro import DATA, EQUALITY_DELETES, POSITION_DELETES
from iceberg_tables.columns import StructType, children, projected
from iceberg_tables.files import File
from iceberg_tables.snapshots import Entry, Snapshot


def live_rows(snapshot: Snapshot, schema: StructType) -> list[dict[str, Any]]:
    """The live rows of a snapshot, as a schema shows them."""
    found = []
    for entry in snapshot.entries(DATA):
        gone = deleted_rows(entry, snapshot)
        rows = enumerate(entry.file.rows)
        found += [projected(row, entry.file.schema, schema) for at, row in rows if at not in gone]
    return found


def deleted_rows(entry: Entry, snapshot: Snapshot) -> frozenset[int]:
    """The deleted rows of a data file, by every kind of delete."""
    gone: frozenset[int] = frozenset()
    for delete in _by_position(entry, snapshot):
        gone |= delete.file.positions.get(entry.file.path, frozenset())
    for delete in snapshot.entries(EQUALITY_DELETES):
        in_scope = not delete.file.spec.fields or _same_partition(delete.file, entry.file)
        if in_scope and delete.sequence > entry.sequence:
            gone |= _with_keys(delete.file, entry.file)
    return gone


def _by_position(entry: Entry, snapshot: Snapshot) -> list[Entry]:
    """The vector of a file; without one, the position-delete files that apply to it."""
    deletes = snapshot.entries(POSITION_DELETES)
    vectors = [each for each in deletes if each.file.is_vector and each.file.referenced == entry.file.path]
    return vectors or [
        each
        for each in deletes
        if not each.file.is_vector
        and each.sequence >= entry.sequence
        and _same_partition(each.file, entry.file)
    ]


def _same_partition(delete: File, data: File) -> bool:
    return (delete.spec.id, delete.partition) == (data.spec.id, data.partition)


def _with_keys(delete: File, data: File) -> frozenset[int]:
    """The rows of a data file whose key is in an equality-delete file; null equals null."""
    ids = delete.equality_ids or ()
    keys = {repr([_value(key, delete.schema, number) for number in ids]) for key in delete.rows}
    rows = [projected(row, data.schema, delete.schema) for row in data.rows]
    return frozenset(
        position
        for position, row in enumerate(rows)
        if repr([_value(row, delete.schema, number) for number in ids]) in keys
    )


def _value(row: Mapping[str, Any] | None, schema: StructType, number: int, depth: int = 0) -> Any:
    """The value of the column with this id, which may be in structs. A struct that is null differs from a
    null in it, as in Iceberg-Spark.
    """
    if row is None:
        return f"no struct at depth {depth}"
    for column in schema:
        if column.id == number:
            return row.get(column.name)
        if number in children(column.type).by_id():
            return _value(row.get(column.name), children(column.type), number, depth + 1)
    return None
