"""The options of ``spark.read.format("delvec")``: which version and columns, how to reach the store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from delvec.errors import InvalidOperationError
from delvec.location import is_absolute
from delvec.predicate.binding import quoted
from delvec.schema import Schema
from delvec.storage.options import store_config

# A name, in backquotes (one inside is doubled) or plain, and the comma or the end after it.
_NAME = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`,]*[^`,\s]))\s*(?P<end>,|$)")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read. ``columns`` is None for all columns; ``storage`` are all other options.

    path       the location of a table, or with ``catalog`` its identifier in this catalog
    relocate   the table was copied, and its files are taken from where it is now
    """

    path: str
    version: int | None
    timestamp: str | None
    columns: tuple[str, ...] | None
    time_zone: str
    storage: Mapping[str, str]
    ref: str | None = None
    catalog: str | None = None
    relocate: bool = False

    def choose(self, schema: Schema) -> tuple[str, ...]:
        """The requested columns, in the schema's spelling."""
        if self.columns is None:
            return tuple(column.name for column in schema)
        names = tuple(_find(schema, name) for name in self.columns)
        for name in names:
            if names.count(name) > 1:
                raise InvalidOperationError(f"option columns names {quoted([name])} twice")
        return names


def read_options(raw_options: Mapping[str, str]) -> ReadOptions:
    """The options of a read; their names ignore case. Refuses unknown and contradicting options."""
    options = {name.lower(): value for name, value in raw_options.items()}
    if "paths" in options:
        raise InvalidOperationError(f"paths are {options['paths']}, expected the location of one table")
    path, catalog = options.pop("path", ""), options.pop("catalog", None)
    _verify_path(path, catalog)
    version, timestamp = _either(options, "version"), _either(options, "timestamp")
    if version is not None and timestamp is not None:
        raise InvalidOperationError(
            f"both version {version} and timestamp {timestamp} are given, expected one of them"
        )
    columns, time_zone = options.pop("columns", None), options.pop("timezone", "UTC")
    _verify_zone(time_zone)
    ref, relocate = options.pop("ref", None), _flag(options, "relocate")
    _verify_known(options)
    return ReadOptions(
        path,
        None if version is None else _version(version),
        timestamp,
        None if columns is None else split_names(columns),
        time_zone,
        options,
        ref,
        catalog,
        relocate,
    )


def _verify_path(path: str, catalog: str | None) -> None:
    if not path:
        raise InvalidOperationError("no location, expected load(<location of a table>)")
    if catalog is None and not is_absolute(path):
        # Spark resolves it in a process of its own, whose folder is the one that Spark was started in.
        raise InvalidOperationError(
            f"path {path!r} is relative, expected an absolute path or a URL: Spark looks it up in a process "
            "of its own, not in your program's folder. Pass os.path.abspath(path), or use Table.open"
        )


def _either(options: dict[str, str], name: str) -> str | None:
    """The option of that name or of Delta's name for it, but not both."""
    own_value, delta_value = options.pop(name, None), options.pop(f"{name}asof", None)
    if own_value is not None and delta_value is not None:
        raise InvalidOperationError(
            f"both {name} {own_value} and {name}AsOf {delta_value} are given, expected one of them"
        )
    return delta_value if own_value is None else own_value


def split_names(text: str) -> tuple[str, ...]:
    """The names of a list such as ``id, `a, b```; a name with special characters is in backquotes."""
    names = []
    at, more = 0, True
    while more:
        match = _NAME.match(text, at)
        if match is None:
            raise InvalidOperationError(
                f"option columns is {text!r}, expected names separated by commas, special ones in backquotes"
            )
        names.append(match["plain"] or match["quoted"].replace("``", "`"))
        at, more = match.end(), match["end"] == ","
    return tuple(names)


def _find(schema: Schema, name: str) -> str:
    """The column's name in the schema; an exact match wins over one that ignores case."""
    matches = schema.find(name, case_sensitive=True) or schema.find(name)
    if not matches:
        column_names = ", ".join(column.name for column in schema)
        raise InvalidOperationError(
            f"unknown column {quoted([name])} in option columns, expected some of {column_names}"
        )
    if len(matches) > 1:
        raise InvalidOperationError(
            f"column {quoted([name])} in option columns may be any of "
            f"{', '.join(quoted([column.name]) for column in matches)}, expected one of these"
        )
    return matches[0].name


def _flag(options: dict[str, str], name: str) -> bool:
    text = options.pop(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidOperationError(f"option {name} is {text!r}, expected true or false")
    return text == "true"


def _version(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidOperationError(f"option version is {text!r}, expected a number") from None


def _verify_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        raise InvalidOperationError(
            f"option timezone is {name!r}, expected a zone such as Europe/Berlin"
        ) from None


def _verify_known(storage: Mapping[str, str]) -> None:
    """Refuse unknown options here: a storage that needs no options does not check them."""
    for name, value in storage.items():
        try:
            store_config("s3", "", "", {name: value}, {})
        except InvalidOperationError:
            raise InvalidOperationError(
                f"option {name!r} is not known, expected version, timestamp, ref, columns, timezone, "
                "catalog, relocate or an option of the storage"
            ) from None
