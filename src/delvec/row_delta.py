"""The values in the middle, for writers: what the engine must keep to, and what it hands back.

A format's snapshot says how rows are to be written (``WriteRules``). The engine answers with a ``RowDelta``:
which files came, which went, and which rows of the others are deleted. The format commits it, and says what
became of it. What grows with the number of files is an Arrow table, as in `plan`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from delvec.errors import InvalidOperationError
from delvec.footers.statistics import RECORD_COUNT, SPLIT_OFFSETS, SPLIT_OFFSETS_TYPE, MeasuredColumn
from delvec.partition_spec import UNPARTITIONED, PartitionSpec
from delvec.plan import Base
from delvec.schema import Field, Schema
from delvec.storage import Storage

ADDED_SCHEMA = pa.schema(
    [
        pa.field("location", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified_ms", pa.int64(), nullable=False),
        pa.field(RECORD_COUNT, pa.int64()),
        pa.field(SPLIT_OFFSETS, SPLIT_OFFSETS_TYPE),
    ]
)
"""Columns of ``RowDelta.added`` and ``change_files``, ahead of ``partition``: new files in their final place.

``added`` also has the column ``stats``, whose type differs from table to table: statistics of the columns
that ``WriteRules.measured`` names (`delvec.footers.statistics`).

location    absolute, percent-decoded, below the table's location
partition   a struct with the partition value for each field of ``WriteRules.spec``, in the Arrow type of the
            field's result
record_count, split_offsets   the number of rows, and where row groups start; null: the file is not measured
"""


def added_schema(spec: PartitionSpec) -> pa.Schema:
    """The columns of new files that are partitioned by ``spec``."""
    return ADDED_SCHEMA.append(pa.field("partition", spec.value_type, nullable=False))


def no_added_files() -> pa.Table:
    return added_schema(UNPARTITIONED).empty_table()


def all_files(*parts: pa.Table) -> pa.Table:
    """New files of several parts. A part without files may have the columns of another spec."""
    return pa.concat_tables([part for part in parts if len(part)] or parts[:1])


_FILE_IDS = uuid.UUID("2b8f0f0e-4f0c-5d3a-9a55-0d4f6c1e7b21")
_FILE_ID = re.compile("-[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}[.]")


def new_file_id() -> uuid.UUID:
    """A random id for names of data files. Its version is 5, where other writers have 4."""
    return uuid.uuid5(_FILE_IDS, uuid.uuid4().hex)


def has_file_id(name: str) -> bool:
    """Whether delvec gave the name to a data file: without a table, it is what a crashed create left."""
    return _FILE_ID.search(name) is not None


def with_statistics(files: pa.Table, statistics: pa.Table) -> pa.Table:
    """The files with their statistics, which `footers.statistics.measure` made, row for row."""
    others = [name for name in files.column_names if name not in statistics.column_names]
    table = files.select(others)
    for name in statistics.column_names:
        table = table.append_column(name, statistics.column(name))
    return table


VECTORS_SCHEMA = pa.schema(
    [
        pa.field("file_id", pa.int64(), nullable=False),
        pa.field("rows", pa.binary()),
        pa.field("location", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("cardinality", pa.int64(), nullable=False),
        pa.field("deleted", pa.int64(), nullable=False),
    ]
)
"""Columns of ``RowDelta.vectors``: files of the base whose deleted rows are now these.

file_id       as in ``ScanPlan.files``
rows          all rows that are deleted, old ones included, as a framed blob (`delvec.blob`); null where an
              executor has stored it: then ``location``, ``offset`` and ``length`` say where the blob is
cardinality   the number of all deleted rows; ``deleted``: of those that this operation deleted
"""


StoreVectors = Callable[[Storage, Sequence[bytes]], list[tuple[str, int, int]]]
"""Stores framed blobs as the format has them; for each the file's location, the blob's offset and its length.
It is sent to executors, where storage and format are the only things known.
"""


Folders = Callable[[pa.StructArray], Sequence[str]]
"""Chooses the folder of each new file by its partition values: a path below the table's location, or empty.
"""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition that no written row may violate; null satisfies it where ``null_holds``."""

    name: str
    condition: str
    null_holds: bool = False


@dataclass(frozen=True, slots=True)
class WriteRules:
    """How rows reach a table, as its metadata asks.

    schema            the table's columns; what is stored stands under ``physical_name``, with the field's id
                      in the Parquet schema where ``with_ids``
    spec              the partitioning of new files. Unless ``store_partitions``, files do not contain the
                      columns whose values are partition values (``spec.identity_columns``)
    folders           the folders of new files
    empty_partition_is_null   the format records an empty string as a null partition value
    refused_partition_text    a string that no partition value may be, because the format reads it as null
    vectors           rows may be deleted by vectors; else their files are written again without them
    measured          the columns that new files need statistics of
    rewrite_share     a file of which more than this share of rows would be deleted, old deletes included, is
                      written again without them instead of getting a vector; None: never
    append_only       no row may be removed
    generated         top-level columns whose value follows from the row's others: SQL expressions by name
    defaults          values for top-level columns that a new row lacks: constant SQL expressions by name
    change_files      changes of rows must also be written as files of their own
    row_id, row_version   the stored columns in which rows keep their id, and the version that changed them
                      last, when they move to another file; None: the table does not keep them
    target_file_size  bytes of a data file, about
    store_vectors     how executors store vectors; None: only the driver does
    """

    schema: Schema
    spec: PartitionSpec
    folders: Folders
    vectors: bool
    measured: tuple[MeasuredColumn, ...] = ()
    with_ids: bool = False
    store_partitions: bool = False
    empty_partition_is_null: bool = False
    refused_partition_text: str | None = None
    append_only: bool = False
    constraints: tuple[Constraint, ...] = ()
    generated: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    change_files: bool = False
    row_id: Field | None = None
    row_version: Field | None = None
    target_file_size: int = 128 << 20
    store_vectors: StoreVectors | None = None
    rewrite_share: float | None = None


class Verb(StrEnum):
    """What a commit does, as far as another writer must know. Overwriting rows that satisfy a condition is a
    DELETE, overwriting all rows, or all of some partitions, is a REPLACE.
    """

    APPEND = "append"
    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"
    REPLACE = "replace"
    COMPACT = "compact"
    REWRITE_DELETES = "rewrite deletes"
    DELETE_KEYS = "delete keys"
    UPSERT = "upsert"
    ALTER = "alter"


class Isolation(StrEnum):
    """What a writer may miss of those that came first.

    serializable         nothing: the outcome is that of one after the other, in the order of versions
    write-serializable   rows appended meanwhile, where nobody in between has read them
    snapshot             rows that came meanwhile; a row changed by two writers is never lost
    """

    SERIALIZABLE = "serializable"
    WRITE_SERIALIZABLE = "write-serializable"
    SNAPSHOT = "snapshot"

    @classmethod
    def of(cls, text: str) -> Isolation:
        """The level with this name. Case, hyphens and a final "isolation" do not count."""
        known = {level.replace("-", ""): level for level in cls}
        level = known.get(text.lower().replace("-", "").removesuffix("isolation"))
        if level is None:
            raise InvalidOperationError(f"isolation is {text!r}, expected one of {', '.join(cls)}")
        return level


@dataclass(frozen=True, slots=True)
class Read:
    """What an operation looked at, so that a later commit can be told to matter or not.

    condition   Spark SQL text, for people; None: every row, unless ``blind``
    blind       nothing of the table was looked at: an append
    """

    condition: str | None = None
    blind: bool = False
    isolation: Isolation = Isolation.SERIALIZABLE


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """Columns and properties after the operation; None and absent ones stay as they are.

    A property whose value is None is unset.
    """

    schema: Schema | None = None
    properties: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Txn:
    """An idempotent writer's own count: the same or a smaller version was committed before."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class RowDelta:
    """One operation's change of a table, all or nothing.

    ``verb`` decides what other writers matter; the default is the one that gives way most.
    ``removed`` are file ids of the base that leave whole; no file is both there and in ``vectors``.
    ``rewritten`` are those of them whose remaining rows are in ``added``.
    ``moved``: rows of ``added`` are new images of rows that this operation deleted.
    ``lineage``: files of ``added`` hold the row ids of rows that moved, in the rules' columns.
    """

    base: Base
    operation: str
    parameters: Mapping[str, str]
    read: Read
    verb: Verb = Verb.MERGE
    metrics: Mapping[str, int] = field(default_factory=dict)
    added: pa.Table = field(default_factory=no_added_files)
    removed: pa.Array = field(default_factory=lambda: pa.array([], pa.int64()))
    rewritten: pa.Array = field(default_factory=lambda: pa.array([], pa.int64()))
    vectors: pa.Table = field(default_factory=VECTORS_SCHEMA.empty_table)
    change_files: pa.Table = field(default_factory=no_added_files)
    metadata: MetadataChange | None = None
    txn: Txn | None = None
    data_change: bool = True
    moved: bool = False
    lineage: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """The delta is version ``version`` of the table. ``metrics``: what the format counted on its own."""

    version: int
    metrics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lost:
    """Version ``version`` is another writer's. Nothing was committed."""

    version: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """The store did not say whether the delta was committed, and the log could not be read to find out."""

    version: int
    reason: str


Outcome = Committed | Lost | Unknown


def no_files() -> pa.Array:
    return pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class Won:
    """A commit that came first, in terms that do not depend on the format.

    Files are named as the metadata records them (``raw_location`` of a plan).

    changed      what of columns, properties or the like it changed, in words; None: nothing
    blind        it read nothing of the table
    added        files that may hold rows which were not live before
    removed      files that went
    rearranged   those of ``removed`` whose rows are live in other files, ``carried``: a compaction's
    vectors      files of which more rows are deleted
    """

    version: int
    operation: str
    verb: Verb
    changed: str | None = None
    blind: bool = False
    app_ids: frozenset[str] = frozenset()
    added: pa.Array = field(default_factory=no_files)
    removed: pa.Array = field(default_factory=no_files)
    rearranged: pa.Array = field(default_factory=no_files)
    carried: pa.Array = field(default_factory=no_files)
    vectors: pa.Array = field(default_factory=no_files)
