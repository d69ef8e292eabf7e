"""Older metadata files of a table, and metadata files that are another table's.

The newest metadata names the last ones in its log. The oldest of these names those before it, and so on, as
long as they are there.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pyarrow as pa

from delvec import location
from delvec.errors import (
    FormatError,
    InvalidOperationError,
    ObjectNotFoundError,
    UnsupportedFeatureError,
)
from delvec.iceberg import metadata_files
from delvec.iceberg.locations import Locations
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.metadata_files import FOLDER, VERSION_HINT
from delvec.storage import Storage, in_parallel

PATTERN = r"(?:^|/)[^/]+(?:\.gz)?\.metadata\.json(?:\.gz)?$"
"""Paths of metadata files."""


def old_metadata_files(storage: Storage, path: str, metadata: TableMetadata) -> pa.Array:
    """The locations of the newest metadata file, of the older ones, and of the version hint."""
    locations = Locations(metadata.location)
    found = {_absolute(storage, path), location.join(storage.root, VERSION_HINT)}
    log = metadata.metadata_log
    while log:
        older = [locations.resolve(recorded) for _, recorded in log]
        known = older[0] in found
        found.update(older)
        log = () if known else _log_of(storage, older[0])
    return pa.array(sorted(found), pa.large_string())


def verify_alone(
    storage: Storage, path: str, metadata: TableMetadata, listed: pa.Array, other_tables: Sequence[str]
) -> pa.Array:
    """Refuse a location with another table's metadata. Returns the listed files that must stay: older ones
    of a table at a path, and those that cannot be read.
    """
    if other_tables:
        raise _other_table(storage, f"folder {other_tables[0] or '.'}")
    newest = metadata_files.numbered(path)
    own = set(old_metadata_files(storage, path, metadata).to_pylist())
    stay, unknown = [], []
    for place in listed.to_pylist():
        if _is_older(newest, place):
            stay.append(place)
        elif _absolute(storage, place) not in own:
            unknown.append(place)
    for place, uuid in zip(unknown, in_parallel(lambda one: _uuid_of(storage, one), unknown), strict=True):
        if uuid is None:
            stay.append(place)
        elif uuid != metadata.table_uuid:
            raise _other_table(storage, place)
    return pa.array(stay, pa.string())


def _is_older(newest: metadata_files.MetadataFile | None, place: str) -> bool:
    """Whether the file is an older one of a table at a path, by its number."""
    file = metadata_files.numbered(place)
    if newest is None or file is None or newest.of_catalog or file.of_catalog:
        return False
    return place.rpartition("/")[0] == FOLDER and file.number <= newest.number


def _other_table(storage: Storage, place: str) -> InvalidOperationError:
    return InvalidOperationError(
        f"{place} belongs to another table, expected one table in the location: which files belong to which "
        f"table is not known, and nothing is deleted: {storage.root}"
    )


def _absolute(storage: Storage, path: str) -> str:
    return path if location.is_absolute(path) else location.join(storage.root, path)


def _log_of(storage: Storage, place: str) -> tuple[tuple[int, str], ...]:
    """The log of an older metadata file; empty if it is gone or cannot be read."""
    try:
        return metadata_files.read_metadata(storage, place).metadata_log
    except (FormatError, UnsupportedFeatureError):
        return ()


def _uuid_of(storage: Storage, place: str) -> str | None:
    """The uuid of the table that a metadata file belongs to; None if the file cannot be read."""
    try:
        data = metadata_files.decompressed(storage.read(place), place)
        members = orjson.loads(data)
    except (ObjectNotFoundError, FormatError, orjson.JSONDecodeError):
        return None
    return str(members.get("table-uuid")) if isinstance(members, dict) else None
