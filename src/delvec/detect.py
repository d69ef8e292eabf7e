"""Which format the table at a location has; the one place outside the formats that knows them all.

    _delta_log/…                                   Delta, also where Iceberg metadata lies beside it
    metadata/version-hint.text, metadata/*.metadata.json   Iceberg

Where there is no table, the error says what there is instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from delvec import blob, location, puffin
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
from delvec.formats import Table
from delvec.row_delta import has_file_id
from delvec.storage import Storage, open_storage

DELTA = "delta"
ICEBERG = "iceberg"

VECTOR_FILE_NAMES = (".bin", ".puffin")

_FIRST_COMMIT = f"{LOG}/{0:020d}.json"
_METADATA = "metadata"
_VERSION_HINT = f"{_METADATA}/version-hint.text"
_METADATA_FILE = ".metadata.json"
_DATA_FILE = ".parquet"
_NAMES_LOOKED_AT = 1000  # below a folder that is no table, to say what it is


def open_table(location_text: str, options: Mapping[str, str] | None = None) -> Table:
    """The table at the location; TableNotFoundError says what is there where it is none."""
    storage = open_storage(location_text, options)
    match find_format(storage):
        case "delta":
            return DeltaTable(storage)
        case "iceberg":
            message = f"Iceberg tables cannot be read yet: {storage.root}"
            raise UnsupportedFeatureError(message, feature=ICEBERG)
    raise TableNotFoundError(_what_is_there(storage))


def new_table(location_text: str, table_format: str, options: Mapping[str, str] | None = None) -> Table:
    """The place of a table that is yet to be created; refuses one where a table is."""
    storage = open_storage(location_text, options)
    found = find_format(storage)
    if found is not None:
        raise InvalidOperationError(f"a table ({found}) already exists: {storage.root}")
    _verify_no_data(storage)
    if table_format == DELTA:
        return DeltaTable(storage)
    if table_format == ICEBERG:
        message = f"Iceberg tables cannot be created yet: {storage.root}"
        raise UnsupportedFeatureError(message, feature=ICEBERG)
    raise InvalidOperationError(f"format is {table_format!r}, expected {DELTA} or {ICEBERG}")


def _verify_no_data(storage: Storage) -> None:
    """Refuse a folder of Parquet files that belong to no table: readers of the folder would see both."""
    found = next((entry.path for entry in storage.list() if _is_data(entry.path)), None)
    if found is not None:
        raise InvalidOperationError(
            f"the location holds Parquet files but no table ({found}), expected an empty location "
            f"(Table.convert, for a folder of Parquet files, is not there yet): {storage.root}"
        )


def _is_data(path: str) -> bool:
    """Whether Spark would read the file as one of a Parquet folder (no part of its path is hidden), and it is
    none that a crashed create left.
    """
    hidden = (part[:1] in ("_", ".") and "=" not in part for part in path.split("/"))
    return path.endswith(".parquet") and not any(hidden) and not has_file_id(path)


def find_format(storage: Storage) -> str | None:
    """``delta``, ``iceberg``, or None where the storage's root is no table."""
    # Two questions answer it for nearly every table, where listing a long log would take many.
    if storage.exists(LAST_CHECKPOINT) or storage.exists(_FIRST_COMMIT) or storage.list_folder(LOG):
        return DELTA
    if storage.exists(_VERSION_HINT):
        return ICEBERG
    if any(entry.path.endswith(_METADATA_FILE) for entry in storage.list_folder(_METADATA)):
        return ICEBERG
    return None


def write_sample_table(location_text: str, options: Mapping[str, str] | None = None) -> Table:
    """A small table with deletion vectors, written where none is; always the same rows and versions."""
    storage = open_storage(location_text, options)
    sample.write(storage)
    return DeltaTable(storage)


@dataclass(frozen=True, slots=True)
class VectorBlob:
    """A blob in a vector file: where it starts, its bytes with their frame, and what the file says of it."""

    offset: int
    data: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_vector(self) -> bool:
        return self.attributes.get("type", puffin.DELETION_VECTOR) == puffin.DELETION_VECTOR


def open_vector_file(location_text: str, options: Mapping[str, str] | None = None) -> list[VectorBlob]:
    """The blobs of a vector file that is no part of any table: Delta's, a Puffin file, or one blob alone.

    What the file is is told by its bytes, not by its name. The vectors themselves are not checked.
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
    """Why the root is no table, and where one is if it is near."""
    table = _table_above(storage)
    near = f"; {table} is a table" if table else ""
    if _is_file(storage):
        return f"no table at {storage.root}: it is a file, expected the folder of a table{near}"
    files = [entry.path for entry in storage.list_folder()]
    local = Path(storage.root) if storage.root.startswith("/") else None
    if local is not None:
        files += islice(_names_below(local), _NAMES_LOOKED_AT)
    if any(path.endswith(_DATA_FILE) for path in files):
        what = "the folder has Parquet files but no table metadata, expected _delta_log/ or metadata/"
    elif files:
        what = "the folder has files but no table metadata, expected _delta_log/ or metadata/"
    elif local is not None and local.is_dir():
        what = "the folder is empty"
    else:
        what = "the path does not exist"
    return f"no table at {storage.root}: {what}{near}"


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
        with suppress(StorageError):  # a folder that may not be read holds no answer
            if find_format(Storage(above, storage.options)) is not None:
                return above
    return None
