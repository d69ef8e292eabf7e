"""The formats, and which format the table at a location has. Only this module knows all formats.

    _delta_log/…                                           Delta, also if Iceberg metadata is there too
    metadata/version-hint.text, metadata/*.metadata.json   Iceberg; also the path of one metadata.json

If there is no table, the error says what is there instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from delvec import blob, location, puffin
from delvec.deletes.key_vector import EQUALITY_DELETE_VECTOR
from delvec.delta import sample, vector_file
from delvec.delta.log_files import LAST_CHECKPOINT, LOG
from delvec.delta.table import DeltaTable
from delvec.errors import (
    FormatError,
    InvalidOperationError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delvec.formats import Catalog, Relocatable, Table, on_ref
from delvec.iceberg import catalogs, metadata_files
from delvec.iceberg.table import IcebergTable
from delvec.row_delta import has_file_id
from delvec.storage import Storage, open_storage

DELTA = "delta"
ICEBERG = "iceberg"
DEFAULT_FORMAT = DELTA

_VECTOR_TYPES = (puffin.DELETION_VECTOR, EQUALITY_DELETE_VECTOR)
VECTOR_FILE_NAMES = (".bin", ".puffin")

_FIRST_COMMIT = f"{LOG}/{0:020d}.json"
_METADATA = metadata_files.FOLDER
_DELTA_FILE = re.compile(rf"(.+?)/{LOG}/.+", re.DOTALL)
_ICEBERG_FILE = re.compile(rf"(.+?)/{_METADATA}/([^/]*\.metadata\.json(\.gz)?|version-hint\.text)", re.DOTALL)
_DATA_FILE = ".parquet"
_MAX_NAMES_LISTED = 1000  # below a folder that is not a table, to describe what is in it


@dataclass(frozen=True, slots=True)
class Format:
    """A table format.

    title     its name in messages
    metadata  the folder inside a table that has the metadata
    is_at     whether a table of this format is at the storage's root
    table     the table at the storage's root, existing or new; None: delvec only recognizes the format
    mark      a pattern of paths that only a table has; its first group is the table's folder
    """

    title: str
    metadata: str
    is_at: Callable[[Storage], bool]
    table: Callable[[Storage], Table] | None
    mark: re.Pattern[str]

    def folder_of(self, path: str) -> str | None:
        """The folder of the table that has a file at this path; None if the path does not say."""
        found = self.mark.fullmatch(path)
        return None if found is None else found[1]


def _is_delta(storage: Storage) -> bool:
    # One or two requests answer this for nearly every table; listing a long log would take many.
    return storage.exists(LAST_CHECKPOINT) or storage.exists(_FIRST_COMMIT) or bool(storage.list_folder(LOG))


def _is_iceberg(storage: Storage) -> bool:
    return storage.exists(metadata_files.VERSION_HINT) or any(
        metadata_files.is_metadata_file(entry.path) for entry in storage.list_folder(_METADATA)
    )


FORMATS: dict[str, Format] = {
    DELTA: Format("Delta", LOG, _is_delta, DeltaTable, _DELTA_FILE),
    ICEBERG: Format("Iceberg", _METADATA, _is_iceberg, IcebergTable, _ICEBERG_FILE),
}
"""All formats by name. If a location has metadata of several formats, the first of them is its format."""


def format_names() -> tuple[str, ...]:
    """The formats whose tables can be opened and created."""
    return tuple(name for name, table_format in FORMATS.items() if table_format.table is not None)


def find_format(storage: Storage) -> str | None:
    """The format of the table at the storage's root; None if no table is there."""
    return next((name for name, table_format in FORMATS.items() if table_format.is_at(storage)), None)


def find_catalog(catalog: object) -> Catalog | None:
    """The catalog with a name, or the catalog that an object is; None if there is none."""
    return catalog if isinstance(catalog, Catalog) else catalogs.find_catalog(catalog)


def unknown_catalog(catalog: object) -> InvalidOperationError:
    """The error for a catalog that `find_catalog` does not find."""
    names = ", ".join(catalogs.configured_names()) or "none is configured"
    return InvalidOperationError(
        f"catalog is {catalog!r}, expected a pyiceberg Catalog or the name of a configured one ({names}): "
        ".pyiceberg.yaml and PYICEBERG_CATALOG__<NAME>__URI configure them"
    )


def open_table(
    location_text: str,
    options: Mapping[str, str] | None = None,
    *,
    ref: str | None = None,
    relocate: bool = False,
) -> Table:
    """The table at the location; TableNotFoundError says what is there instead.

    ``ref``: at this branch or tag. ``relocate``: the table was copied; files are taken from where it is now.
    A format that records relative paths does that anyway.
    """
    table = _open(location_text, options)
    if relocate and isinstance(table, Relocatable):
        table = table.relocated()
    return on_ref(table, ref)


def _open(location_text: str, options: Mapping[str, str] | None) -> Table:
    storage = open_storage(location_text, options)
    if metadata_files.is_metadata_file(storage.root) and _is_file(storage):
        return IcebergTable.of_file(storage.root, options)
    format_name = find_format(storage)
    if format_name is None:
        raise TableNotFoundError(_what_is_there(storage))
    return _table(format_name, storage, "read")


def new_table(location_text: str, table_format: str, options: Mapping[str, str] | None = None) -> Table:
    """A table that is not created yet; refuses a location where a table exists."""
    storage = open_storage(location_text, options)
    table = _absent_table(storage, table_format)
    _verify_no_data(storage)
    return table


def table_of_files(location_text: str, table_format: str, options: Mapping[str, str] | None = None) -> Table:
    """The table that a folder of data files is to become. Refuses a location where a table exists, and one
    with a table below: not all files of that table are live.
    """
    storage = open_storage(location_text, options)
    table = _absent_table(storage, table_format)
    _verify_no_table_below(storage)
    return table


def _absent_table(storage: Storage, table_format: str) -> Table:
    existing = find_format(storage)
    if existing is not None:
        raise InvalidOperationError(f"a table ({existing}) already exists: {storage.root}")
    if table_format not in FORMATS:
        raise InvalidOperationError(f"format is {table_format!r}, expected {' or '.join(FORMATS)}")
    return _table(table_format, storage, "created")


def _table(name: str, storage: Storage, verb: str) -> Table:
    table_format = FORMATS[name]
    if table_format.table is None:
        raise UnsupportedFeatureError(
            f"{table_format.title} tables cannot be {verb} yet: {storage.root}", feature=name
        )
    return table_format.table(storage)


def _verify_no_data(storage: Storage) -> None:
    """Refuse a folder of Parquet files that belong to no table: other readers of the folder would read the
    old files and those of the new table.
    """
    data_file = next((entry.path for entry in storage.list() if _is_data(entry.path)), None)
    if data_file is not None:
        raise InvalidOperationError(
            f"the location holds Parquet files but no table ({data_file}), expected an empty location "
            f"(Table.convert makes a table of the files): {storage.root}"
        )


def _verify_no_table_below(storage: Storage) -> None:
    for entry in storage.list():
        for table_format in FORMATS.values():
            folder = table_format.folder_of(entry.path)
            if folder is not None and not _is_hidden(folder):
                raise InvalidOperationError(
                    f"the folder {folder} is a table ({table_format.title}), expected only files that belong "
                    f"to no table: {storage.root}"
                )


def _is_data(path: str) -> bool:
    """Whether Spark would read the file as part of a Parquet folder (no part of its path is hidden). Files
    of a crashed ``create`` are ignored.
    """
    return path.endswith(_DATA_FILE) and not _is_hidden(path) and not has_file_id(path)


def _is_hidden(path: str) -> bool:
    return any(part[:1] in ("_", ".") and "=" not in part for part in path.split("/"))


def write_sample_table(location_text: str, options: Mapping[str, str] | None = None) -> Table:
    """Write a small table with deletion vectors: always the same rows and versions. Refuses a location where
    a table exists.
    """
    storage = open_storage(location_text, options)
    sample.write(storage)
    return DeltaTable(storage)


@dataclass(frozen=True, slots=True)
class VectorBlob:
    """A blob in a vector file: its offset, its bytes with length and CRC, and its attributes in the file."""

    offset: int
    data: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_vector(self) -> bool:
        """Whether the blob is a set of numbers: positions of rows, or keys."""
        return self.attributes.get("type", puffin.DELETION_VECTOR) in _VECTOR_TYPES


def open_vector_file(location_text: str, options: Mapping[str, str] | None = None) -> list[VectorBlob]:
    """The blobs of a vector file outside of any table: a Delta vector file, a Puffin file, or a single blob.

    The bytes decide which of these it is, not the name. The vectors themselves are not checked.
    """
    root = location.normalize(location_text)
    folder, _, name = root.rpartition("/")
    data = open_storage(folder or "/", options).read(name)
    try:
        return list(_blobs(data, root))
    except FormatError as error:
        raise error.at(root) from None


def _blobs(data: bytes, name: str) -> Iterator[VectorBlob]:
    magic_at = data.find(blob.MAGIC, 0, blob.LENGTH_SIZE + blob.MAGIC_SIZE)
    if data.startswith(puffin.MAGIC) or (name.endswith(".puffin") and magic_at != blob.LENGTH_SIZE):
        yield from _puffin_blobs(data)
    elif magic_at == blob.LENGTH_SIZE:
        yield VectorBlob(0, data, {})
    else:
        for offset, framed in vector_file.read_blobs(data):
            yield VectorBlob(offset, framed, {})


def _puffin_blobs(data: bytes) -> Iterator[VectorBlob]:
    reader = puffin.PuffinReader.from_bytes(data)
    for metadata in reader.blobs:
        attributes = {"type": metadata.type, **metadata.properties}
        yield VectorBlob(metadata.offset, reader.read_blob(metadata), attributes)


def _what_is_there(storage: Storage) -> str:
    """Why there is no table at the root, and which folder above it is a table."""
    table = _table_above(storage)
    hint = f"; {table} is a table" if table else ""
    if _is_file(storage):
        return f"no table at {storage.root}: it is a file, expected the folder of a table{hint}"
    files = [entry.path for entry in storage.list_folder()]
    local = Path(storage.root) if storage.root.startswith("/") else None
    if local is not None:
        files += islice(_names_below(local), _MAX_NAMES_LISTED)
    if files:
        kind = "Parquet files" if any(path.endswith(_DATA_FILE) for path in files) else "files"
        expected = " or ".join(f"{table_format.metadata}/" for table_format in FORMATS.values())
        problem = f"the folder has {kind} but no table metadata, expected {expected}"
    elif local is not None and local.is_dir():
        problem = "the folder is empty"
    else:
        problem = "the path does not exist"
    return f"no table at {storage.root}: {problem}{hint}"


def _names_below(folder: Path) -> Iterator[str]:
    return (name for _, _, names in os.walk(folder) for name in names)


def _is_file(storage: Storage) -> bool:
    _, key = location.split_store(storage.root)
    return bool(key) and storage.exists(storage.root)


def _table_above(storage: Storage) -> str | None:
    """The nearest folder above the root that is a table."""
    store, key = location.split_store(storage.root)
    segments = key.split("/")
    for count in range(len(segments) - 1, -1, -1):
        above = location.join(store, "/".join(segments[:count])) if count else store
        with suppress(StorageError):  # no permission to read this folder
            if find_format(Storage(above, storage.options)) is not None:
                return above
    return None
