"""Parses the frames of statements that maintain a table: VACUUM, CONVERT TO DELTA, GENERATE."""

from __future__ import annotations

from delvec.errors import UnsupportedFeatureError
from delvec.statements.cursor import Cursor, IsOurs, Name
from delvec.statements.lexer import Kind
from delvec.statements.statement import Convert, GenerateManifest, Vacuum

_MODES = ("FULL", "LITE")
_MANIFEST = "SYMLINK_FORMAT_MANIFEST"


def vacuum(cursor: Cursor, is_ours: IsOurs) -> Vacuum | None:
    """VACUUM table [FULL] [RETAIN n HOURS] [DRY RUN], the clauses in any order."""
    table = our_table(cursor, is_ours)
    if table is None:
        return None
    hours, dry_run = None, False
    while not cursor.is_done:
        if cursor.here.word in _MODES:
            _verify_full(cursor)
        elif cursor.takes("RETAIN"):
            hours = cursor.until("HOURS", expected="a number of hours")
            cursor.expect("HOURS")
        elif cursor.takes("DRY", "RUN"):
            dry_run = True
        elif cursor.sees("USING", "INVENTORY"):
            raise UnsupportedFeatureError(
                "delvec has no VACUUM … USING INVENTORY: it lists the table's folder",
                feature="VACUUM … USING INVENTORY",
            )
        else:
            raise cursor.error("expected RETAIN n HOURS, DRY RUN or the end of the statement")
    return Vacuum(table, hours, dry_run)


def convert(cursor: Cursor, is_ours: IsOurs) -> Convert | None:
    """CONVERT TO DELTA parquet.`path` [NO STATISTICS] [PARTITIONED BY (column type, …)]."""
    del is_ours  # it is not a table yet
    table = cursor.name("parquet.`path`")
    is_folder = len(table.parts) == 2 and table.parts[0].lower() == "parquet" and table.quoted[1]
    if not is_folder:
        return None
    statistics = not cursor.takes("NO", "STATISTICS")
    columns = None
    if cursor.takes("PARTITIONED", "BY"):
        columns = cursor.inside().rest("columns and their types")
    return Convert(table, "delta", statistics, columns)


def generate(cursor: Cursor, is_ours: IsOurs) -> GenerateManifest | None:
    """GENERATE symlink_format_manifest FOR TABLE table."""
    mode = cursor.here
    if not mode.is_name or not (cursor.ahead().word == "FOR" and cursor.ahead(2).word == "TABLE"):
        return None
    cursor.at += 3
    table = cursor.name("a table")
    if not is_ours(table):
        return None
    if mode.name.upper() != _MANIFEST:
        raise UnsupportedFeatureError(
            f"delvec has no GENERATE {mode.name}, expected {_MANIFEST.lower()}",
            feature=f"GENERATE {mode.name}",
        )
    return GenerateManifest(table)


def our_table(cursor: Cursor, is_ours: IsOurs) -> Name | None:
    """The name of a table here; None if there is no name, or if it is not a delvec table."""
    if cursor.here.kind not in (Kind.WORD, Kind.QUOTED):
        return None
    table = cursor.name("a table")
    return table if is_ours(table) else None


def _verify_full(cursor: Cursor) -> None:
    if cursor.takes("LITE"):
        raise UnsupportedFeatureError(
            "delvec has no VACUUM … LITE: VACUUM lists the table's folder and deletes all that is not needed",
            feature="VACUUM … LITE",
        )
    cursor.expect("FULL")
