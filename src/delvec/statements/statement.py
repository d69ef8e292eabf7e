"""Statements as values: what was asked of which table; expressions and queries are pieces of the text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from delvec.statements.cursor import Name, Span
from delvec.statements.lexer import Token


@dataclass(frozen=True, slots=True)
class Assignment:
    """``column`` are the parts of its name, a qualifier among them if there is one."""

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
    """``values`` None: all columns from the source's (``UPDATE SET *``, ``INSERT *``), or a DELETE."""

    kind: str
    action: str
    condition: Span | None
    values: tuple[Assignment, ...] | None


@dataclass(frozen=True, slots=True)
class Merge:
    """``source`` is what stands after USING, its alias included."""

    table: Name
    alias: str | None
    source: Span
    source_alias: str | None
    on: Span
    clauses: tuple[MergeClause, ...]
    merge_schema: bool


@dataclass(frozen=True, slots=True)
class Insert:
    """``partition`` are the columns of PARTITION (…), with None for those without a value.

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
    """The INSERTs of one statement, each with a query of its own, in their order."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, slots=True)
class Property:
    """``key`` is a text in quotes, or a dotted name; ``value`` a literal with its sign, or a marker."""

    key: Token | Name
    value: Span | None


@dataclass(frozen=True, slots=True)
class Create:
    """``partition_by``: columns by name, or with a type where PARTITIONED BY also defines them."""

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
    """``name`` leads to it, through structs; ``definition`` is its type and what may follow."""

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
    """``column``: what is known of that column alone."""

    table: Name
    extended: bool
    column: Name | None


@dataclass(frozen=True, slots=True)
class ShowColumns:
    table: Name


@dataclass(frozen=True, slots=True)
class ShowProperties:
    """``key``: of that property alone."""

    table: Name
    key: Property | None


@dataclass(frozen=True, slots=True)
class Truncate:
    table: Name


@dataclass(frozen=True, slots=True)
class DropTable:
    table: Name


class ViewKind(Enum):
    PERMANENT = "VIEW"
    TEMPORARY = "TEMPORARY VIEW"
    GLOBAL = "GLOBAL TEMPORARY VIEW"


@dataclass(frozen=True, slots=True)
class CreateView:
    """``columns``: new names for the query's, in parentheses; ``clauses``: what stands before AS."""

    view: Name
    kind: ViewKind
    replace: bool
    columns: Span | None
    clauses: Span | None
    query: Span


@dataclass(frozen=True, slots=True)
class Explain:
    """What a change would do."""

    statement: Delete | Update | Merge | Insert


@dataclass(frozen=True, slots=True)
class Query:
    """What Spark runs once the tables in it are known to it: a query, or a statement on a table of Spark."""

    text: Span


@dataclass(frozen=True, slots=True)
class Other:
    """What Spark runs as it is."""


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
    | DropTable
    | CreateView
    | Explain
    | Query
    | Other
)
