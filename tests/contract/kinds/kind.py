"""What the contract suite asks of a kind of table."""

from __future__ import annotations

import random
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rows import multiset, read_rows
from scanning import collected, plain

# What a test may ask of a table, in words that belong to no format.
VECTORS_OFF = "deletes rewrite files"
CHANGE_FILES = "changes are also written as files"
CHANGE_FEED = "changes can be read"
ROW_IDS = "rows have ids"
ANY_COLUMN_NAMES = "columns may have any name"
POSITION_FILES = "deletes are position files, which do not say how many rows of a file they delete"
NESTED_COLUMNS = "columns may be structs, arrays and maps"
APPEND_ONLY = "rows are only added"
TYPE_WIDENING = "types of columns may be widened"
FREQUENT_CHECKPOINTS = "the log is summarised after every second commit"

# What the tables of a kind may have, for tests marked ``needs``.
VECTOR_FILES = "deletes are vectors in files"
INLINE_VECTORS = "deletes may be vectors inside the metadata"
EMPTY_PARTITIONS = "the empty text is a partition value, not null"
IMAGES = "the change feed pairs old and new rows of an update"
NUMBERED = "versions count up from 0, also where properties or columns change"
RESTORED_COLUMNS = "a restore also brings back columns and properties"
SMALL_INTEGERS = "there are the types tinyint and smallint"
VARIANTS = "variant columns can be written"
REQUESTS = "the history has what was asked for, and how often a commit was tried"

Reader = Callable[[str], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Written:
    """What a commit wrote: the data files that it added and removed, those that stay and have more deleted
    rows than before, and the files that tell of changes.
    """

    added: int = 0
    removed: int = 0
    more_deleted: int = 0
    change_files: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that are deleted; or changed, if there are new values. Once as SQL, once as functions of a row."""

    where: str
    matches: Callable[[dict[str, Any]], bool]
    set: Mapping[str, str] | None = None
    new: Callable[[dict[str, Any]], dict[str, Any]] | None = None


@dataclass(frozen=True)
class Kind(ABC):
    """A kind of table. ``features``: what all of its tables have. ``whole``: not only the core runs on it.

    ``numbered``: tests that count commits of every kind, also of maintenance, run on it.
    ``rare``: tests that are neither of the core nor ``common`` are slow on it.
    ``common``: tests that are marked so are not.
    ``abilities``: what a test may need that is marked ``needs``.
    """

    name: str
    features: tuple[str, ...] = ()
    whole: bool = False
    numbered: bool = field(default=True, kw_only=True)
    rare: bool = field(default=False, kw_only=True)
    common: bool = field(default=False, kw_only=True)
    abilities: frozenset[str] = field(default=frozenset(), kw_only=True)
    readers: tuple[Reader, ...] = field(default=(), kw_only=True)
    format: str = field(default="", kw_only=True)
    format_version: int | None = field(default=None, kw_only=True)

    @abstractmethod
    def properties(self, *features: str) -> Mapping[str, str]:
        """The properties that switch features on; KeyError for a feature that the format lacks."""

    def version(self, table: Any, number: int) -> int:
        """The version that a table had after so many commits: 0 is the one that created it."""
        del table
        return number

    def commits(self, table: Any) -> int:
        """How many commits there are after the one that created the table."""
        return int(table.version)

    @abstractmethod
    def constraint(self, name: str, condition: str) -> Mapping[str, str]:
        """The properties of a table whose rows must satisfy a condition."""

    @abstractmethod
    def written(self, table: Any, version: int | None = None) -> Written:
        """What the commit of a version, or of the newest, wrote; read without delvec."""

    @abstractmethod
    def changes(self, table: Any, version: int | None = None) -> Counter[tuple[Any, ...]]:
        """The rows of a commit's change files: the change, the columns, the partition values as texts."""

    @abstractmethod
    def lake(self, root: Path, schema: Any, **options: Any) -> Any:
        """A table whose data files are written one by one, without delvec and Spark: see ``lake.Lake``."""

    @abstractmethod
    def switch_vectors(self, *, on: bool) -> Mapping[str, str]:
        """The properties that make later deletes write vectors, or rewrite files."""

    def random_properties(self, rng: random.Random) -> dict[str, str]:
        """Properties that change how commits are written, and no rows."""
        del rng
        return {}

    def random_deletes(self, rng: random.Random) -> dict[str, str]:
        """Properties that change how later deletes are stored, and no rows; none if there is one way only."""
        del rng
        return {}

    def rows_at(self, table: Any, version: int) -> list[dict[str, Any]]:
        """The rows of a version of a format's table, read without Spark."""
        return read_rows(table.snapshot(version).plan(), table.storage)

    def readers_of(self, table: Any) -> tuple[Reader, ...]:
        """The other engines that can read this table."""
        del table
        return self.readers

    def has(self, feature: str) -> bool:
        """Whether there are tables with the feature."""
        try:
            self.properties(feature)
        except KeyError:
            return False
        return True

    def fresh(self, template: Path, place: Path) -> Path:
        """Where there is now a table as the template was when this was first called: a copy at ``place``, or
        the template itself, if the tables of the kind cannot be copied.
        """
        return Path(shutil.copytree(template, place))

    def copied(self, table: Any, place: str) -> str:
        """A place where other engines can read the table; ``place`` is free for a copy."""
        del place
        return str(table.location)

    def having(self, *features: str) -> dict[str, str]:
        """The properties of a table with these features too; skips the test if the format lacks one."""
        try:
            return dict(self.properties(*self.features, *features))
        except KeyError as error:
            pytest.skip(f"{self.name} has no tables where {error.args[0]}")

    def create(
        self,
        spark: Any,
        place: Any,
        given: Any,
        *,
        having: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Any:
        """``Table.create`` of this kind. ``having``: further features of the table."""
        from delvec.table import Table

        made = self.options(*having)
        made["properties"] |= dict(properties or {})
        return Table.create(spark, str(place), given, **made, **options)

    def options(self, *features: str) -> dict[str, Any]:
        """The arguments of ``Table.create`` that make a table of this kind."""
        return {
            "format": self.format,
            "format_version": self.format_version,
            "properties": self.having(*features),
        }

    def table(self, spark: Any, place: Any, ddl: str, rows: Any = (), **options: Any) -> Any:
        """A table whose rows are in one file for each partition; version 0 has none of them."""
        table = self.create(spark, place, ddl, **options)
        if rows:
            table.append(spark.createDataFrame([tuple(row) for row in rows], ddl).coalesce(1))
        return table

    def history(
        self, spark: Any, place: Any, ddl: str, rows: Any, *changes: Change, **options: Any
    ) -> tuple[Any, list[int]]:
        """A table with these rows, in one file for each partition, and its versions: one with the rows, and
        one after each change.
        """
        table = self.table(spark, place, ddl, rows, **options)
        versions = [table.version]
        for change in changes:
            done = (
                table.delete(change.where) if change.set is None else table.update(change.set, change.where)
            )
            versions.append(done.version)
        return table, versions

    def is_read_by_others(self, table: Any) -> None:
        """Other engines read the rows that delvec reads."""
        assert self.readers_of(table) or not self.readers
        mine = multiset(collected(table.to_df()))
        for read in self.readers_of(table):
            theirs = multiset(plain(row) for row in read(table.location))
            assert theirs == mine, f"{read.__name__}: lost {mine - theirs}, gained {theirs - mine}"
