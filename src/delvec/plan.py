"""The values in the middle, where table formats and the engine meet.

A format turns (snapshot, condition) into a ``ScanPlan``; the engine reads it. Everything whose
number grows with the table is an Arrow table: a row per data file in ``files``, a row per delete in
``deletes``. A plan for a table of another format has the same columns, with nulls where the format
has no such thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from delvec.chunked import Rows, rows_of
from delvec.partition_spec import PartitionSpec
from delvec.schema import Schema

if TYPE_CHECKING:
    from delvec.file_facts import SelectableFacts
    from delvec.predicate import Condition

MATCH_SOME = "some"
MATCH_ALL = "all"

POSITION_VECTOR = "position-vector"
DELETION_VECTOR = "deletion-vector"

FILES_SCHEMA = pa.schema(
    [
        pa.field("file_id", pa.int64(), nullable=False),
        pa.field("location", pa.string(), nullable=False),
        pa.field("raw_location", pa.string(), nullable=False),
        pa.field("file_format", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified_ms", pa.int64()),
        pa.field("record_count", pa.int64()),
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("read_schema", pa.int32(), nullable=False),
        pa.field("data_sequence", pa.int64()),
        pa.field("file_sequence", pa.int64()),
        pa.field("first_row_id", pa.int64()),
        pa.field("row_version", pa.int64()),
        pa.field("vector", pa.int32()),
        pa.field("delete_group", pa.int32()),
        pa.field("match", pa.string(), nullable=False),
        pa.field("entry", pa.struct([("manifest", pa.string()), ("position", pa.int64())])),
        pa.field("carry", pa.int64()),
    ]
)
"""Columns of ``ScanPlan.files``, ahead of ``partition``, whose type differs from table to table: a struct
with the typed values of all fields of ``ScanPlan.specs``, null where the file's spec does not have the field.

file_id        ordinal of the file in its snapshot: stable across plans of that snapshot
location       absolute, percent-decoded; ``raw_location`` is the text as recorded
record_count   physical rows, deleted ones included; null where not recorded
spec_id        key into ``ScanPlan.specs``
read_schema    index into ``ScanPlan.read_schemas``
data_sequence, file_sequence   when the rows and when the file came; null where the format has none
first_row_id, row_version      row lineage
vector         row of ``ScanPlan.deletes`` with the file's position vector; null: no row is deleted
delete_group   index into ``ScanPlan.delete_groups``; null: no other delete applies
match          ``all``: every live row satisfies the condition; ``some``: rows may
entry          where the metadata records the file, for formats that delete entries by position
carry          row of ``ScanPlan.carry``: what the format must copy when it adds the file again
"""

DELETES_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("encoding", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("inline", pa.binary()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("cardinality", pa.int64()),
        pa.field("sequence", pa.int64()),
        pa.field("spec_id", pa.int32()),
        pa.field("partition", pa.string()),
        pa.field("field_ids", pa.list_(pa.int32())),
        pa.field("value_min", pa.int64()),
        pa.field("value_max", pa.int64()),
        pa.field("referenced_file", pa.string()),
        pa.field("identity", pa.string(), nullable=False),
        pa.field("entry", pa.struct([("manifest", pa.string()), ("position", pa.int64())])),
        pa.field("carry", pa.int64()),
    ]
)
"""Columns of ``ScanPlan.deletes``.

kind           ``position-vector`` (rows of one file), later also position and equality deletes
encoding       how the set is stored: ``deletion-vector`` is the framed Roaring blob
location, offset, length   the whole blob with its frame; ``location`` is null where it is inline
inline         the blob's magic and vector, without length and checksum
cardinality    what the metadata says the set holds
identity       distinguishes this delete from every other one of the same data file
"""


@dataclass(frozen=True, slots=True)
class Base:
    """The state of the table a plan was made from."""

    version: int
    ref: str | None = None
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class ReadSchema:
    """How data files of one shape hold the table's columns.

    ``by_id``: columns are found by Parquet field id, else by physical name. The names, ids and
    widenings themselves stand on the fields of ``schema``. ``constants`` are the top-level columns
    that are not in the files at all and come from the partition values.
    """

    schema: Schema
    by_id: bool
    constants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """Which files hold the rows of a table that may satisfy a condition, and which of them are deleted.

    ``facts`` are the statistics of exactly the files of ``files``, row for row, parsed when asked
    for. ``delete_groups`` lists each distinct set of other deletes once, as rows of ``deletes``.
    ``skipped`` counts the live files that cannot hold a matching row.
    """

    location: str
    base: Base
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    read_schemas: tuple[ReadSchema, ...]
    condition: Condition | None
    files: pa.Table
    facts: SelectableFacts
    deletes: pa.Table
    delete_groups: tuple[tuple[int, ...], ...]
    carry: pa.Table
    skipped: int

    def at(self, rows: Rows) -> ScanPlan:
        """The plan of some of its files, by their rows in ``files``. ``skipped`` stays as it was."""
        return replace(self, files=rows_of(self.files, rows), facts=self.facts.at(rows))
