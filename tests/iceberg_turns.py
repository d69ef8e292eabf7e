"""A table that delvec and Iceberg-Spark change in turn, and a model of its rows in plain Python.

After each step both engines and DuckDB must read the model's rows. In version 3 the model knows the row ids
too: a row keeps its id for as long as it lives, and its version is the sequence number of the commit that
wrote its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rows import multiset
from shared_tables import SharedTable

Row = dict[str, Any]
Predicate = Callable[[Row], bool]

ROW_ID, VERSION = "_row_id", "_last_updated_sequence_number"
VERBS = ("delete", "update", "merge")
MERGE_ON_READ, COPY_ON_WRITE = "merge-on-read", "copy-on-write"
PARTS = ["a b", "x/y=50%41", None, "é'#?\"\\", ""]
PLAIN = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int32())])
LISTS = PLAIN.append(pa.field("l", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))))


def none(_: Row) -> bool:
    return False


def same_row(row: Row) -> Row:
    return row


@dataclass(slots=True)
class Turns:
    """The table and its model. ``lineage``: the id and the version of each row, by key; in version 2 empty.

    ``states`` has rows and lineage as they were at a snapshot.
    """

    table: SharedTable
    schema: pa.Schema
    format_version: int
    rows: dict[int, Row] = field(default_factory=dict)
    lineage: dict[int, tuple[int, int]] = field(default_factory=dict)
    states: dict[int, tuple[dict[int, Row], dict[int, tuple[int, int]]]] = field(default_factory=dict)

    def new_rows(self, *keys: int, v: int = 0) -> list[Row]:
        """The rows with these keys, as they are inserted."""
        values = {
            "p": lambda key: PARTS[key % len(PARTS)],
            "v": lambda key: v + key,
            "l": lambda key: None if key % 4 == 3 else [{"a": key, "b": None}, {"a": None, "b": f"b{key}"}],
        }
        return [{"id": key} | {name: values[name](key) for name in self.schema.names[1:]} for key in keys]

    def arrow(self, rows: Iterable[Row]) -> pa.Table:
        return pa.Table.from_pylist(list(rows), self.schema)

    def mine(self, action: Callable[[Any], object], **effect: Any) -> None:
        """A verb of delvec."""
        action(self.table.open())
        self.happened(**effect)

    def theirs(self, statement: str, **effect: Any) -> None:
        """A statement of Iceberg-Spark."""
        self.table.sql(statement)
        self.happened(**effect)

    def their_call(self, procedure: str, **given: str) -> None:
        self.table.call(procedure, **given)
        self.happened()

    def source(self, rows: list[Row]) -> None:
        """``source`` is a view with these rows, for statements of Iceberg-Spark."""
        self.table.spark.createDataFrame(self.arrow(rows)).createOrReplaceTempView("source")

    def columns(self) -> Any:
        """The schema as Spark has it."""
        return self.table.spark.createDataFrame(self.schema.empty_table()).schema

    def happened(
        self,
        gone: Predicate = none,
        hit: Predicate = none,
        new: Callable[[Row], Row] = same_row,
        added: Iterable[Row] = (),
    ) -> None:
        """The last step deleted the rows that are ``gone``, gave those ``hit`` new values, and added some."""
        changed = {key for key, row in self.rows.items() if hit(row) and not gone(row)}
        kept = {key: row for key, row in self.rows.items() if not gone(row)}
        self.rows = {key: row | new(row) if key in changed else row for key, row in kept.items()}
        fresh = {row["id"]: row for row in added}
        assert not fresh.keys() & self.rows.keys()
        self.rows |= fresh
        self.check(changed, fresh.keys())

    def back(self, snapshot: int) -> None:
        """The table is as it was at a snapshot."""
        self.rows, self.lineage = self.states[snapshot]
        self.check(set(), set())

    def check(self, changed: Iterable[int], fresh: Iterable[int]) -> None:
        hidden = (ROW_ID, VERSION) if self.format_version == 3 else ()
        wanted = multiset(self.rows.values())
        metadata = self.table.metadata()
        for engine, rows in self.table.read_by_all(hidden).items():
            held = multiset({name: row[name] for name in self.schema.names} for row in rows)
            assert held == wanted, f"{engine} lost {wanted - held}, gained {held - wanted}"
            if hidden:
                found = {row["id"]: (row[ROW_ID], row[VERSION]) for row in rows}
                self.check_lineage(engine, found, set(changed), set(fresh), metadata["last-sequence-number"])
        if hidden:
            self.lineage = found
        self.states[metadata.get("current-snapshot-id")] = self.rows, self.lineage

    def check_by_pyiceberg(self) -> None:
        """It takes a null list of structs for an empty one (apache/iceberg-python issue 3833)."""
        lists = [name for name in self.schema.names if name == "l"]
        wanted = multiset(row | {name: row[name] or [] for name in lists} for row in self.rows.values())
        assert multiset(self.table.read_by_pyiceberg()) == wanted

    def upgraded(self) -> None:
        """The table was of version 2 before the last step but one, so the last gave all its rows ids."""
        self.format_version = 3
        seen = [
            {row["id"]: (row[ROW_ID], row[VERSION]) for row in rows}
            for rows in self.table.read_by_all((ROW_ID, VERSION)).values()
        ]
        self.lineage = seen[0]
        assert seen == [self.lineage] * len(seen)
        ids = {row_id for row_id, _ in self.lineage.values()}
        assert len(ids) == len(self.rows)
        assert None not in ids

    def check_lineage(
        self,
        engine: str,
        found: Mapping[int, tuple[int, int]],
        changed: set[int],
        fresh: set[int],
        sequence: int,
    ) -> None:
        expected = {key: known for key, known in self.lineage.items() if key in self.rows}
        expected |= {key: (expected[key][0], sequence) for key in changed}
        taken = {row_id for row_id, _ in self.lineage.values()}
        for key in fresh:
            row_id = found[key][0]
            assert row_id not in {None, *taken}, (engine, key, found[key])
            taken.add(row_id)
            expected[key] = row_id, sequence
        assert found == expected, engine


def set_modes(t: Turns, mode: str) -> None:
    t.mine(lambda table: table.set_properties({f"write.{verb}.mode": mode for verb in VERBS}))


def id_in(*keys: int) -> Predicate:
    return lambda row: row["id"] in keys


def upsert(t: Turns, rows: list[Row]) -> dict[str, Any]:
    """The effect of a MERGE of these rows."""
    by_key = {row["id"]: row for row in rows}
    return {
        "hit": lambda row: row["id"] in by_key,
        "new": lambda row: by_key[row["id"]],
        "added": [row for row in rows if row["id"] not in t.rows],
    }


def merged_by_delvec(t: Turns, rows: list[Row]) -> None:
    def merge(table: Any) -> object:
        merging = table.merge(t.arrow(rows), "target.id = source.id")
        return merging.when_matched_update_all().when_not_matched_insert_all().execute()

    t.mine(merge, **upsert(t, rows))


def merged_by_iceberg_spark(t: Turns, rows: list[Row], gone: int) -> None:
    t.source(rows)
    t.theirs(
        "MERGE INTO {t} t USING source s ON t.id = s.id "
        f"WHEN MATCHED AND s.id = {gone} THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *",
        gone=id_in(gone),
        **upsert(t, [row for row in rows if row["id"] != gone]),
    )
