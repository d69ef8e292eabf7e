"""The values between engine and format, for writers.

A snapshot says how rows must be written (``WriteRules``). The engine returns a ``RowDelta``: the files added,
the files removed, and the rows deleted from other files. The format commits the delta and returns the
outcome. Whatever grows with the number of files is an Arrow table, as in `plan`.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum

import pyarrow as pa

from delvec.errors import InvalidOperationError
from delvec.footers.statistics import RECORD_COUNT, SPLIT_OFFSETS, SPLIT_OFFSETS_TYPE, MeasuredColumn
from delvec.partition_spec import UNPARTITIONED, PartitionSpec
from delvec.plan import DELETES_SCHEMA, Base
from delvec.retention import VacuumRecord
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
    """A random id for the names of data files. It is a UUID of version 5; other writers use version 4."""
    return uuid.uuid5(_FILE_IDS, uuid.uuid4().hex)


def has_file_id(name: str) -> bool:
    """Whether delvec chose this name of a data file. Such files without a table are left from a failed
    create.
    """
    return _FILE_ID.search(name) is not None


def with_statistics(files: pa.Table, statistics: pa.Table) -> pa.Table:
    """The files with their statistics, which `footers.statistics.measure` made, row for row."""
    other_columns = [name for name in files.column_names if name not in statistics.column_names]
    table = files.select(other_columns)
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
"""Columns of ``RowDelta.vectors``: the deleted rows of files of the base, one row per file.

file_id       as in ``ScanPlan.files``
rows          all deleted rows, old and new, as a framed blob (`delvec.blob`); null if an executor has stored
              the blob: then ``location``, ``offset`` and ``length`` say where
cardinality   the number of all deleted rows
deleted       the number of rows that this operation deletes
"""


ADDED_DELETES_SCHEMA = pa.schema(
    [
        *(
            DELETES_SCHEMA.field(name)
            for name in (
                "kind",
                "encoding",
                "location",
                "offset",
                "length",
                "cardinality",
                "sequence",
                "referenced_file",
                "file_format",
                "field_ids",
            )
        ),
        pa.field("file_size", pa.int64(), nullable=False),
        pa.field("lower", pa.int64()),
        pa.field("upper", pa.int64()),
        pa.field("spec_id", pa.int32()),
        pa.field("beside", pa.struct([("location", pa.string()), ("offset", pa.int64())])),
    ]
)
"""Columns of ``RowDelta.added_deletes``: deletes that are stored already, described as in
``ScanPlan.deletes``. `delvec.deletes.model` makes such tables.

A column ``partition`` may follow: a struct of the partition values for each field of the delete's spec. The
data files that a delete may apply to are those of the partition; with neither ``spec_id`` nor ``beside``, and
without ``referenced_file``, all data files.

sequence   the sequence number that a rewritten delete keeps; null: the commit's own
file_size  size of the file; ``length`` is that of the blob for a vector
lower, upper   the smallest and the largest key of a vector, as numbers, if the column has integers, dates or
           timestamps; of full rows the format reads the bounds of the key columns in the footer
spec_id    the partition spec of ``partition``
beside     ``location`` and ``offset`` of a delete of the base: the new one has its partition
"""


def added_deletes_schema(spec: PartitionSpec) -> pa.Schema:
    """The columns of new deletes, of which those with a partition have one of ``spec``."""
    return ADDED_DELETES_SCHEMA.append(pa.field("partition", spec.value_type))


REMOVED_DELETES_SCHEMA = pa.schema([DELETES_SCHEMA.field(name) for name in ("location", "offset", "entry")])
"""Columns of ``RowDelta.removed_deletes``: deletes of the base to remove, as in ``ScanPlan.deletes``.
They are found by ``location`` and ``offset``, because a later version may have them at another ``entry``.
"""


StoreVectors = Callable[[Storage, Sequence[bytes], Sequence[str]], list[tuple[str, int, int]]]
"""Stores framed blobs in the format's files. Gets the storage, the blobs, and for each blob its data file as
the metadata names it (``raw_location``). Returns for each blob its file's location, its offset and its
length. It runs on executors, so it depends on the storage and the format only.
"""


Folders = Callable[[pa.StructArray], Sequence[str]]
"""Chooses the folder of each new file by its partition values: a path below the table's location, or empty.
"""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition that every written row must satisfy. ``null_holds``: null counts as satisfied."""

    name: str
    condition: str
    null_holds: bool = False


class DeleteForm(Enum):
    """How a statement deletes rows of a file that keeps other rows."""

    VECTOR = "vector"
    POSITION_FILE = "position file"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True)
class KeyRules:
    """How a table deletes rows by their keys without reading them (`delvec.deletes.writers`).

    by_partition   all data files have the newest partitioning: keys that decide their partition may be
                   deleted in that partition only
    automatic      a DELETE whose condition is a set of keys is a delete of keys
    """

    by_partition: bool
    automatic: bool


@dataclass(frozen=True, slots=True)
class WriteRules:
    """How a statement must write rows, from the table's metadata.

    schema            the table's columns. Files store them under ``physical_name``, and with the field's id
                      in the Parquet schema if ``with_ids``
    spec              the partitioning of new files. Unless ``store_partitions``, files do not contain the
                      columns whose values are partition values (``spec.identity_columns``)
    folders           the folders of new files
    empty_partition_is_null   the format records an empty string as a null partition value
    refused_partition_text    a string that no partition value may be, because the format reads it as null
    deletes           how rows are deleted. With VECTOR and POSITION_FILE the engine passes
                      ``RowDelta.vectors``, and the format stores the rows in its form; with REWRITE the
                      engine writes the remaining rows of a file to a new file
    keys              how rows are deleted by key; None: they are found first
    measured          the columns that new files need statistics of
    vectors_since     the version of the table's format from which deletes are vectors; None: this one or none
    rewrite_share     if more than this share of a file's rows would be deleted, old deletes included, the
                      file is rewritten instead; None: never
    append_only       no row may be removed
    generated         top-level columns that are computed from the row's other columns: SQL expressions by
                      name
    defaults          values for top-level columns that a new row lacks: constant SQL expressions by name
    change_files      changes of rows must also be written to change files
    row_id, row_version   the stored columns in which rows keep their id, and the version that changed them
                      last, when they move to another file; None: the table does not keep them
    target_file_size  approximate size of a data file, in bytes
    compacted_file_size   the same for the files of a compaction
    clustered_by      the columns by which a clustering engine lays out rows; delvec does not cluster
    store_vectors     stores vectors on executors; None: only the driver can store them
    change            the change of metadata to commit with the rows: the requested one, with the ids and
                      stored names of new columns
    """

    schema: Schema
    spec: PartitionSpec
    folders: Folders
    deletes: DeleteForm
    keys: KeyRules | None = None
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
    compacted_file_size: int = 1 << 30
    clustered_by: tuple[str, ...] = ()
    store_vectors: StoreVectors | None = None
    vectors_since: int | None = None
    rewrite_share: float | None = None
    change: MetadataChange | None = None


class Verb(StrEnum):
    """The kind of a commit, for conflicts with other writers. Overwriting the rows that satisfy a condition
    is a DELETE. Overwriting all rows, or all rows of some partitions, is a REPLACE.
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
    """Which concurrent commits a writer may ignore.

    serializable         none: the result is as if the writers ran one after the other, in the order of
                         versions
    write-serializable   appends of rows, if their writers did not read the table
    snapshot             new rows of any commit; two changes of one row still conflict
    """

    SERIALIZABLE = "serializable"
    WRITE_SERIALIZABLE = "write-serializable"
    SNAPSHOT = "snapshot"

    @classmethod
    def of(cls, text: str) -> Isolation:
        """The level with this name. Case, hyphens and a final "isolation" do not count."""
        levels = {level.replace("-", ""): level for level in cls}
        level = levels.get(text.lower().replace("-", "").removesuffix("isolation"))
        if level is None:
            raise InvalidOperationError(f"isolation is {text!r}, expected one of {', '.join(cls)}")
        return level


@dataclass(frozen=True, slots=True)
class Read:
    """What a statement read from the table: decides which concurrent commits conflict with it.

    condition   Spark SQL text, for messages; None: every row, unless ``blind``
    blind       the statement read nothing from the table, as an append does
    """

    condition: str | None = None
    blind: bool = False
    isolation: Isolation = Isolation.SERIALIZABLE


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """New columns and properties of a table. ``schema`` None keeps the columns. Properties that are not
    listed keep their values; None unsets a property.
    """

    schema: Schema | None = None
    properties: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Txn:
    """A version of an idempotent writer. The writer has committed it already if the table records the same or
    a larger version for ``app_id``.
    """

    app_id: str
    version: int


class Operation(Enum):
    """What a user asked for. A format has its own name for it in the table's history."""

    CREATE = "create"
    CREATE_WITH_ROWS = "create with rows"
    CONVERT = "convert"
    APPEND = "append"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"
    DELETE_KEYS = "delete keys"
    UPSERT = "upsert"
    COMPACT = "compact"
    VACUUM_START = "vacuum start"
    VACUUM_END = "vacuum end"
    PURGE = "purge"
    SET_PROPERTIES = "set properties"
    ADD_COLUMNS = "add columns"
    RESTORE = "restore"
    KEEP_VECTOR_FILES = "keep vector files of older versions"
    EMPTY = "empty"
    DROP_VECTORS = "drop vectors"
    REWRITE_DELETES = "rewrite deletes"


@dataclass(frozen=True, slots=True)
class Request:
    """An operation with its arguments, as the format records them in the history.

    condition    Spark SQL text: the rows to delete, update or overwrite, or ON of a MERGE; None: all rows.
                 Of DELETE_KEYS and UPSERT: the columns that are compared
    dynamic      an OVERWRITE of the partitions that have new rows
    columns      the columns that ADD_COLUMNS adds, as the user gave them
    properties   the properties that SET_PROPERTIES sets; None unsets one
    version, timestamp   the version that RESTORE goes back to, or the time that chose it
    truncate_history     DROP_VECTORS comes after the versions that have vectors are removed
    vacuum       the run of VACUUM_START and VACUUM_END
    zorder_by    the columns that COMPACT sorts rows by
    statistics   whether CONVERT measured the columns of the files
    deletes_to   what REWRITE_DELETES stores deletes as
    """

    operation: Operation
    condition: str | None = None
    dynamic: bool = False
    columns: Schema | None = None
    properties: Mapping[str, str | None] = field(default_factory=dict)
    version: int | None = None
    timestamp: dt.datetime | None = None
    truncate_history: bool = False
    vacuum: VacuumRecord | None = None
    zorder_by: tuple[str, ...] = ()
    statistics: bool = True
    deletes_to: str | None = None


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows a statement read from its source, inserted, updated, deleted, and copied to new files
    without a change. None: the statement does not count them, or the metadata does not record them.
    """

    source: int | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    copied: int | None = None

    @property
    def new(self) -> int | None:
        """The rows written by a statement that inserts rows: inserted and updated ones."""
        return None if self.inserted is None else self.inserted + (self.updated or 0)


@dataclass(frozen=True, slots=True)
class Execution:
    """What it took to run and commit a statement.

    duration_ms    until the first attempt to commit; None: not measured
    runs           how often the statement ran because of conflicts
    attempts       how often the last run tried to commit
    united_files   files whose vector was united with the vector of a concurrent commit
    """

    duration_ms: int | None = None
    runs: int = 1
    attempts: int = 1
    united_files: int = 0


@dataclass(frozen=True, slots=True)
class FileGroups:
    """The groups of a compaction: the live rows of a group's removed files are in its new files, unchanged.
    Each group can be committed without the others.

    removed   the group of each file of ``RowDelta.removed``
    added     the group of each file of ``RowDelta.added``
    """

    removed: pa.Array
    added: pa.Array


@dataclass(frozen=True, slots=True)
class RowDelta:
    """The changes of one statement to a table, committed all or nothing.

    request     what the user asked for, for the history
    verb        decides which concurrent commits conflict. The default conflicts with most of them
    removed     ids of files of the base that are removed; no file is both here and in ``vectors``
    rewritten   those of ``removed`` whose remaining rows are in ``added``
    added_deletes, removed_deletes   delete files; the deletes of ``vectors`` are not among them
    moved       rows of ``added`` are new versions of rows that this operation deletes
    lineage     files of ``added`` store the ids of moved rows, in the columns that the rules name
    carry       what else the format commits with this delta: a value of the format, which made the delta
    groups      the groups of a compaction; None: all its files are one group
    data_sequence   the sequence number that the rows of ``added`` keep, as those of a compaction do; None:
                that of the commit, or the format has none
    """

    base: Base
    request: Request
    read: Read
    verb: Verb = Verb.MERGE
    counts: RowCounts = RowCounts()
    execution: Execution = Execution()
    added: pa.Table = field(default_factory=no_added_files)
    removed: pa.Array = field(default_factory=lambda: pa.array([], pa.int64()))
    rewritten: pa.Array = field(default_factory=lambda: pa.array([], pa.int64()))
    vectors: pa.Table = field(default_factory=VECTORS_SCHEMA.empty_table)
    added_deletes: pa.Table = field(default_factory=ADDED_DELETES_SCHEMA.empty_table)
    removed_deletes: pa.Table = field(default_factory=REMOVED_DELETES_SCHEMA.empty_table)
    change_files: pa.Table = field(default_factory=no_added_files)
    metadata: MetadataChange | None = None
    txn: Txn | None = None
    data_change: bool = True
    moved: bool = False
    lineage: bool = False
    carry: object | None = None
    groups: FileGroups | None = None
    data_sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The delta is version ``version`` of the table. ``metrics``: counts by the names of the format's
    history.
    """

    version: int
    metrics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VersionTaken:
    """Another writer committed version ``version`` first. Nothing was committed."""

    version: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """The store did not answer whether the delta was committed, and the metadata could not be read."""

    version: int
    reason: str


Outcome = Committed | VersionTaken | Unknown


def no_files() -> pa.Array:
    return pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class Won:
    """A commit of another writer that was first, in neutral terms.

    Files are named as the metadata records them; ``Snapshot.file_ids`` has their ids.

    operation    its name in the table's history
    changed      the metadata that it changed, in words; None: none
    blind        its writer read nothing from the table
    added        files that may hold rows that were not live before
    removed      files that it removed
    rearranged   those of ``removed`` whose rows are now live in the files ``carried``, as after a compaction
    vectors      files in which it deleted rows
    stored_again   files whose deleted rows it only stored in another place: no row of them was deleted
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
    stored_again: pa.Array = field(default_factory=no_files)
