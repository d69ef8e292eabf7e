"""Statements as values. Expressions and queries inside of them are parts of the text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from delvec.ref_changes import IfExists
from delvec.statements.cursor import Name, Span
from delvec.statements.lexer import Token


@dataclass(frozen=True, slots=True)
class Assignment:
    """``column`` is the name as written, with its qualifier if it has one."""

    column: Name
    value: Span


@dataclass(frozen=True, slots=True)
class Delete:
    table: Name
    alias: str | None
    where: Span | None


@dataclass(frozen=True, slots=True)
class Update:
    table: Name
    alias: str | None
    set: tuple[Assignment, ...]
    where: Span | None


@dataclass(frozen=True, slots=True)
class MergeClause:
    """``kind`` and ``action`` are those of `delvec.spark.merge_clauses`. ``values`` is None for all columns
    (``UPDATE SET *``, ``INSERT *``) and for DELETE.
    """

    kind: str
    action: str
    condition: Span | None
    values: tuple[Assignment, ...] | None


@dataclass(frozen=True, slots=True)
class Merge:
    """``source`` is the text after USING, with its alias."""

    table: Name
    alias: str | None
    source: Span
    source_alias: str | None
    on: Span
    clauses: tuple[MergeClause, ...]
    merge_schema: bool


@dataclass(frozen=True, slots=True)
class Insert:
    """``partition``: the columns of PARTITION (…) and their values; None for a column without a value.

    ``where`` is the condition of REPLACE WHERE.
    """

    table: Name
    overwrite: bool
    columns: tuple[Name, ...] | None
    by_name: bool
    partition: tuple[tuple[Name, Span | None], ...]
    where: Span | None
    query: Span


@dataclass(frozen=True, slots=True)
class MultiInsert:
    """The INSERTs of one statement, each with its own query, in order."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, slots=True)
class Property:
    """``key`` is a string or a dotted name; ``value`` is a literal with its sign, or a marker."""

    key: Token | Name
    value: Span | None


@dataclass(frozen=True, slots=True)
class Create:
    """``partition_by``: columns and transforms of columns as texts (`delvec.partition_by`), with a definition
    if PARTITIONED BY also defines the column.
    """

    table: Name
    if_not_exists: bool
    columns: Span | None
    provider: str | None
    partition_by: tuple[tuple[str, Span | None], ...]
    properties: tuple[Property, ...]
    comment: Token | None
    location: Token | None
    query: Span | None


@dataclass(frozen=True, slots=True)
class SetProperties:
    table: Name
    properties: tuple[Property, ...]


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    table: Name
    properties: tuple[Property, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class NewColumn:
    """``name`` is its path through structs; ``definition`` is its type and the text after it."""

    name: Name
    definition: Span


@dataclass(frozen=True, slots=True)
class AddColumns:
    table: Name
    columns: tuple[NewColumn, ...]


@dataclass(frozen=True, slots=True)
class DescribeHistory:
    table: Name
    limit: int | None


@dataclass(frozen=True, slots=True)
class DescribeDetail:
    table: Name


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """``column``: describe only this column."""

    table: Name
    extended: bool
    column: Name | None


@dataclass(frozen=True, slots=True)
class ShowColumns:
    table: Name


@dataclass(frozen=True, slots=True)
class ShowProperties:
    """``key``: show only this property."""

    table: Name
    key: Property | None


@dataclass(frozen=True, slots=True)
class Truncate:
    table: Name


@dataclass(frozen=True, slots=True)
class DropTable:
    table: Name
    if_exists: bool


@dataclass(frozen=True, slots=True)
class Vacuum:
    """``hours``: the number after RETAIN, with its sign."""

    table: Name
    hours: Span | None
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Convert:
    """A folder of Parquet files becomes a table. ``partition_by``: its partition columns with their types."""

    table: Name
    format: str
    statistics: bool
    partition_by: Span | None


@dataclass(frozen=True, slots=True)
class GenerateManifest:
    table: Name


class ViewKind(Enum):
    PERMANENT = "VIEW"
    TEMPORARY = "TEMPORARY VIEW"
    GLOBAL = "GLOBAL TEMPORARY VIEW"


@dataclass(frozen=True, slots=True)
class Restore:
    """``version`` or ``timestamp``: the value after AS OF."""

    table: Name
    version: Span | None
    timestamp: Span | None


@dataclass(frozen=True, slots=True)
class DropFeature:
    """``feature``: the name as written."""

    table: Name
    feature: str
    truncate_history: bool


@dataclass(frozen=True, slots=True)
class Duration:
    """``number`` with its unit in milliseconds."""

    number: Span
    unit_ms: int


@dataclass(frozen=True, slots=True)
class CreateRef:
    """A branch or tag. ``version``: the value after AS OF VERSION.

    max_ref_age      after RETAIN
    min_versions, max_version_age    after WITH SNAPSHOT RETENTION
    """

    table: Name
    name: str
    kind: str
    if_exists: IfExists
    version: Span | None = None
    max_ref_age: Duration | None = None
    min_versions: Span | None = None
    max_version_age: Duration | None = None


@dataclass(frozen=True, slots=True)
class DropRef:
    table: Name
    name: str
    kind: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class Optimize:
    table: Name
    where: Span | None
    zorder_by: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Purge:
    """REORG TABLE … APPLY (PURGE)."""

    table: Name
    where: Span | None


@dataclass(frozen=True, slots=True)
class RewriteDeletes:
    """``to`` and ``encoding``: strings or markers."""

    table: Name
    to: Span | None
    encoding: Span | None
    where: Span | None
    dry_run: bool


@dataclass(frozen=True, slots=True)
class CreateView:
    """``columns``: new names for the query's columns; ``clauses``: the text before AS."""

    view: Name
    kind: ViewKind
    replace: bool
    columns: Span | None
    clauses: Span | None
    query: Span


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a change: what it would do."""

    statement: Delete | Update | Merge | Insert


@dataclass(frozen=True, slots=True)
class Query:
    """A query, or a statement on a table of Spark. Spark runs it after delvec's tables are replaced by their
    scans.
    """

    text: Span


@dataclass(frozen=True, slots=True)
class Other:
    """A statement that Spark runs unchanged."""


Statement = (
    Delete
    | Update
    | Merge
    | Insert
    | MultiInsert
    | Create
    | SetProperties
    | UnsetProperties
    | AddColumns
    | DescribeHistory
    | DescribeDetail
    | DescribeTable
    | ShowColumns
    | ShowProperties
    | Truncate
    | Convert
    | GenerateManifest
    | DropTable
    | Vacuum
    | Restore
    | DropFeature
    | CreateRef
    | DropRef
    | Optimize
    | Purge
    | RewriteDeletes
    | CreateView
    | Explain
    | Query
    | Other
)
