"""Statements of Spark SQL and Delta Lake that delvec does not have: each is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.statements.cursor import Cursor, IsOurs, Name

_CACHE = "use Table.to_df().cache(), or CACHE TABLE of a temporary view"
_NEWEST = "it is not needed, each statement reads the newest version"
_STATISTICS = "it is not needed, files carry their statistics"


@dataclass(frozen=True, slots=True)
class Missing:
    """``words``: the first words of the statement; ``before``: words that may be between them and the
    table's name; ``instead``: what to use instead.
    """

    words: tuple[str, ...]
    instead: str | None = None
    before: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return " ".join(self.words)


def _missing(words: str, instead: str | None = None, before: str = "") -> Missing:
    return Missing(tuple(words.split()), instead, tuple(before.split()))


MISSING: Sequence[Missing] = (
    _missing("REFRESH TABLE", _NEWEST),
    _missing("REFRESH", _NEWEST),
    _missing("ANALYZE TABLE", _STATISTICS),
    _missing("CACHE TABLE", _CACHE),
    _missing("CACHE LAZY TABLE", _CACHE),
    _missing("UNCACHE TABLE", "use DataFrame.unpersist()", "IF EXISTS"),
    _missing("CONVERT TO DELTA", "use it with parquet.`path`, or Table.convert"),
    _missing("MSCK REPAIR TABLE", "partitions are in the table's log"),
    _missing("REPAIR TABLE", "partitions are in the table's log"),
    _missing("LOAD DATA", "use INSERT INTO t SELECT … FROM parquet.`path`"),
    _missing("SHOW PARTITIONS", "use SELECT DISTINCT of the partition columns"),
    _missing("SHOW CREATE TABLE", "use DESCRIBE TABLE EXTENDED"),
    _missing("COMMENT ON COLUMN"),
    _missing("COMMENT ON TABLE", "use ALTER TABLE t SET TBLPROPERTIES ('comment' = '…')"),
    _missing("DROP VIEW", "use DROP TABLE", "IF EXISTS"),
    _missing("ALTER VIEW"),
)


OF_DELVEC_TABLES = ("VACUUM", "OPTIMIZE", "REORG", "REWRITE")
"""First words of statements that delvec has and Spark without the jar of Delta Lake cannot parse."""


def verify_table_known(cursor: Cursor) -> None:
    """Refuse a statement of ``OF_DELVEC_TABLES`` that names no table of delvec."""
    word = cursor.here.word
    if word in OF_DELVEC_TABLES:
        raise InvalidOperationError(
            f"{word} names no table of delvec, expected delvec.`path`, delta.`path` or a registered name"
        )


def verify_known(cursor: Cursor, is_ours: IsOurs) -> None:
    """Refuse a statement that delvec does not have, if it names a delvec table."""
    missing = missing_at(cursor)
    if missing is None:
        return
    start = cursor.at
    cursor.at += len(missing.words)
    cursor.takes(*missing.before)
    if any(is_ours(name) for name in _names(cursor, missing)):
        raise unsupported(missing)
    cursor.at = start


def missing_at(cursor: Cursor) -> Missing | None:
    """The statement of the list that starts here; the longest if several match."""
    matches = (statement for statement in MISSING if cursor.sees(*statement.words))
    return max(matches, key=lambda statement: len(statement.words), default=None)


def unsupported(statement: Missing) -> UnsupportedFeatureError:
    instead = f": {statement.instead}" if statement.instead else ""
    return UnsupportedFeatureError(f"delvec has no {statement.name}{instead}", feature=statement.name)


def _names(cursor: Cursor, statement: Missing) -> list[Name]:
    """The possible names of the statement's table: the first name, or the one after TABLE."""
    if statement.words == ("LOAD", "DATA"):
        while not (cursor.is_done or cursor.takes("TABLE")):
            cursor.at += 1
    if not cursor.here.is_name:
        return []
    name = cursor.name("a table")
    if statement.name != "COMMENT ON COLUMN":
        return [name]
    count = len(name.parts)
    return [Name(name.parts[:n], name.quoted[:n], name.span) for n in range(1, count)]
