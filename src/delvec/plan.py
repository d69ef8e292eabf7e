"""``ScanPlan``: the value that a table format hands to the engine for reading.

A format turns (snapshot, condition) into a plan. Everything that grows with the table is an Arrow table: a
row per data file in ``files``, a row per delete in ``deletes``. All formats fill the same columns. A column
that a format does not use is null.

Only `delvec.deletes` reads which deletes apply to which file (``vector``, ``delete_group``). All others use
`delvec.deletes.sets`, or ``ScanPlan.deleted_rows`` for the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from delvec.chunked import Rows, rows_of
from delvec.partition_spec import PartitionSpec
from delvec.schema import NO_FIELDS, Field, Schema, united

if TYPE_CHECKING:
    from delvec.file_facts import SelectableFacts
    from delvec.predicate import Condition

MATCH_SOME = "some"
MATCH_ALL = "all"

# Kinds of deletes (``deletes.kind``).
POSITION_VECTOR = "position-vector"
POSITION_FILE = "position-file"
EQUALITY_FILE = "equality-file"

# Encodings of deletes (``deletes.encoding``).
DELETION_VECTOR = "deletion-vector"
FULL_ROW = "full-row"

_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

_ENTRY = pa.struct([("manifest", pa.string()), ("position", pa.int64())])

FILES_SCHEMA = pa.schema(
    [
        pa.field("file_id", pa.int64(), nullable=False),
        pa.field("location", pa.string(), nullable=False),
        pa.field("raw_location", pa.string(), nullable=False),
        pa.field("file_format", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("record_count", pa.int64()),
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("read_schema", pa.int32(), nullable=False),
        pa.field("data_sequence", pa.int64()),
        pa.field("file_sequence", pa.int64()),
        pa.field("first_row_id", pa.int64()),
        pa.field("row_version", pa.int64()),
        pa.field("vector", pa.int32()),
        pa.field("delete_group", pa.int32()),
        pa.field("own_deletes", pa.int32()),
        pa.field("match", pa.string(), nullable=False),
        pa.field("entry", _ENTRY),
        pa.field("carry", pa.int64()),
    ]
)
"""Columns of ``ScanPlan.files``. A column ``partition`` follows, whose type differs from table to table: a
struct with the typed values of all fields of ``ScanPlan.specs``, null where the file's spec does not have it.

file_id        number of the file in its snapshot; the same in all plans of that snapshot
location       absolute, percent-decoded
raw_location   the location as the metadata records it
record_count   physical rows, deleted rows included; null: not recorded
spec_id        key into ``ScanPlan.specs``
read_schema    index into ``ScanPlan.read_schemas``
data_sequence  sequence number of the file's rows; null: the format has none
file_sequence  sequence number of the commit that added the file; null: the format has none
first_row_id, row_version      row lineage
vector         row of ``ScanPlan.deletes`` with the file's position vector; null: the file has no vector
delete_group   index into ``ScanPlan.delete_groups``; null: no delete that other files share may apply
own_deletes    the same, for position files that are about this file alone; null: there are none
match          ``all``: the condition is true for every live row; ``some``: it may be true for some rows
entry          where the metadata records the file, for formats that delete entries by position
carry          row of ``ScanPlan.carry``: what the format copies when it adds the file again
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
        pa.field("referenced_file", pa.string()),
        pa.field("file_format", pa.string()),
        pa.field("field_ids", pa.list_(pa.int32())),
        pa.field("lower", pa.int64()),
        pa.field("upper", pa.int64()),
        pa.field("spec_id", pa.int32()),
        pa.field("scope", pa.int64()),
        pa.field("entry", _ENTRY),
        pa.field("carry", pa.int64()),
    ]
)
"""Columns of ``ScanPlan.deletes``.

kind             ``position-vector``: deleted rows of one data file, as a bitmap
                 ``position-file``: a Parquet file with the columns ``file_path`` and ``pos``, of one or more
                 data files; ``file_path`` is the data file's ``raw_location``
                 ``equality-file``: values of deleted rows: a row of an older data file is deleted if it has
                 the same values in the columns ``field_ids``
encoding         ``deletion-vector``: the framed Roaring blob of `delvec.blob`, for values in a Puffin file of
                 `delvec.deletes.key_vector`; ``full-row``: rows of a file
location, offset, length   the whole blob with its frame, or the whole file; ``location`` is null for an
                 inline blob, ``offset`` is null for a whole file
inline           the blob's magic and vector, without length and checksum
cardinality      number of deleted rows that the metadata records; of a position or equality file: its number
                 of rows
sequence         sequence number of the delete; null: the format has none
referenced_file  ``location`` of the only data file that the delete applies to; null: there may be several
file_format      of a position or equality file: ``parquet``, which null means too; another one is refused
field_ids        of an equality file: the columns that it compares, by field id
lower, upper     of an equality file that compares one column of integers, dates or timestamps: no key is null
                 or outside of these numbers; null: not known
spec_id, scope   the partition spec, and a number for each distinct pair of a spec and a partition; ``scope``
                 is null for deletes that apply to all data files
entry, carry     as in ``ScanPlan.files``
"""


@dataclass(frozen=True, slots=True)
class Base:
    """The version of the table that a plan was made from.

    ``ref``: the branch or tag that the table was opened at. ``schema_id``: the schema of the plan, in formats
    whose schema can change without a new version.
    """

    version: int
    ref: str | None = None
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class ReadSchema:
    """How some of the data files store the table's columns.

    schema     the table's columns, with the physical names, ids and types of these files
    by_id      columns are found by Parquet field id; otherwise by physical name
    constants  top-level columns that are not in the files: their values come from the partition values
    unnamed    those of the constants that the names of folders never state
    names      if columns are found by id: the names that each field may have in a file without field ids, by
               id. None: such a file is refused
    from_partition   if columns are found by id: top-level columns whose values come from the partition
               values in files that do not have them
    """

    schema: Schema
    by_id: bool
    constants: tuple[str, ...]
    unnamed: tuple[str, ...] = ()
    names: Mapping[int, tuple[str, ...]] | None = None
    from_partition: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The files that may hold rows for which a condition is true, and the deletes that apply to them.

    facts          statistics of the files, in the order of ``files``; parsed on demand
    delete_groups  each distinct set of deletes other than vectors, once, as rows of ``deletes``
    skipped        number of live files that cannot hold a matching row
    dropped        columns that the table no longer has and that equality files compare. Data files may still
                   have them. A field that was dropped from a struct is in a struct with the id of that one
    lineage        the columns for a row's id and version, if a reader may ask for them
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
    dropped: Schema = NO_FIELDS
    lineage: tuple[Field, ...] = ()

    @property
    def stored_schema(self) -> Schema:
        """The columns that a scan may read: those of the table and the dropped ones."""
        return united(self.schema, self.dropped)

    def at(self, rows: Rows) -> ScanPlan:
        """The plan of some of its files, by their rows in ``files``. ``skipped`` stays the same."""
        return replace(self, files=rows_of(self.files, rows), facts=self.facts.at(rows))

    def partition_of(self, file: Mapping[str, Any]) -> dict[str, Any]:
        """The partition values of a row of ``files``: only the fields of the file's own spec."""
        return {field.name: file["partition"][field.name] for field in self.specs[file["spec_id"]].fields}

    @property
    def deleted_rows(self) -> pa.ChunkedArray:
        """Number of deleted rows of each file, int64; null where the metadata does not record it.

        A position file may repeat a row or name other data files, so its count says nothing about one file.
        An equality file has values, and not rows.
        """
        vector = self.files.column("vector")
        counts = pc.if_else(pc.is_null(vector), 0, self.deletes.column("cardinality").take(vector))
        groups = [self.files.column(name) for name in ("delete_group", "own_deletes")]
        groups = [group for group in groups if group.null_count < len(group)]
        if not groups:
            return counts
        by_position, by_value = self._newest_of_groups()
        data = pc.fill_null(self.files.column("data_sequence"), _FIRST + 1).to_numpy()
        may_apply = np.zeros(len(self.files), np.bool_)
        for group in groups:
            numbers = self._known_groups(group)
            # A vector replaces the file's position files.
            may_apply |= (by_position[numbers] >= data) & pc.is_null(vector).to_numpy()
            may_apply |= by_value[numbers] > data
        return pc.if_else(pa.array(may_apply), pa.scalar(None, pa.int64()), counts)

    def _known_groups(self, group: pa.ChunkedArray) -> NDArray[np.int32]:
        """The groups as indices into `_newest_of_groups`."""
        unknown = len(self.delete_groups)
        numbers: NDArray[np.int32] = np.minimum(pc.fill_null(group, unknown + 1).to_numpy(), unknown + 1)
        numbers[pc.is_valid(group).to_numpy() & (numbers > unknown)] = unknown
        return numbers

    def _newest_of_groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The largest sequence of the position files and of the equality files of each group; then of a group
        that is not known, and of no group. Deletes that are not understood may delete anything.
        """
        kinds = self.deletes.column("kind").to_pylist()
        sequences = pc.fill_null(self.deletes.column("sequence"), _LAST).to_pylist()
        newest = np.full((2, len(self.delete_groups) + 2), _FIRST)
        newest[:, len(self.delete_groups)] = _LAST
        for number, deletes in enumerate(self.delete_groups):
            for delete in deletes:
                row = 0 if kinds[delete] == POSITION_FILE else 1
                sequence = _LAST if kinds[delete] not in (POSITION_FILE, EQUALITY_FILE) else sequences[delete]
                newest[row, number] = max(newest[row, number], sequence)
        return newest[0], newest[1]


def share_of_rows(files: pa.Table, counts: pa.ChunkedArray) -> NDArray[np.float64]:
    """``counts`` rows of each file as a share of its rows; 0 if the number of its rows is not known."""
    records = pc.fill_null(files.column("record_count"), 0).to_numpy()
    shares = np.zeros(len(records))
    np.divide(counts.to_numpy(), records, out=shares, where=records > 0)
    return shares
