"""Tables of catalogs. A catalog holds the pointer to a table's newest metadata file; delvec reads the file.

pyiceberg talks to the catalog: REST, SQL, Hive, Glue, DynamoDB, BigQuery. It is imported only when a table of
a catalog is opened: that takes more than a second. A catalog's name is one of pyiceberg's configuration,
``.pyiceberg.yaml`` or ``PYICEBERG_CATALOG__<NAME>__URI``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delvec import location
from delvec.errors import DelvecError, InvalidOperationError, TableNotFoundError
from delvec.formats import OptionsFor
from delvec.iceberg import metadata_files
from delvec.iceberg.catalog_errors import catalog_errors
from delvec.iceberg.catalog_options import VendedOptions, storage_options
from delvec.iceberg.json_object import JsonObject
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.pointers import CurrentFile
from delvec.iceberg.read_only import refuse_writing
from delvec.iceberg.swaps import BaseFile, SwapOutcome
from delvec.iceberg.table import IcebergTable
from delvec.storage import Storage

_ENVIRONMENT = "PYICEBERG_CATALOG__"
_CONFIGURATION = ".pyiceberg.yaml"
# The catalogs of this process by name and configuration. To load one can take several requests.
_LOADED: dict[tuple[str, str], Any] = {}
_LOADED_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A catalog's answer: the newest metadata file, and how to reach the store."""

    metadata_location: str
    properties: Mapping[str, str]


class IcebergCatalog:
    """A catalog, by its name in pyiceberg's configuration or as a pyiceberg ``Catalog``."""

    def __init__(self, name: str, catalog: Any | None = None) -> None:
        self.name = name
        self._catalog = catalog

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IcebergCatalog):
            return NotImplemented
        return (self.name, self._catalog) == (other.name, other._catalog)

    def __hash__(self) -> int:
        return hash(self.name)

    def open_table(self, identifier: Sequence[str], options_for: OptionsFor) -> IcebergTable:
        """The table with this identifier, such as ``("db", "orders")``; TableNotFoundError if none has it."""
        pointer = CatalogPointer(self, tuple(identifier), options_for)
        file, vended = pointer.load()
        options = vended.combined(options_for(file))
        folder, _, name = file.rpartition("/")
        metadata = metadata_files.read_metadata(Storage(folder or "/", options), name)
        storage = Storage(location.unencoded(metadata.location), options)
        return IcebergTable(storage, pointer, credentials=vended.hadoop_names)

    def load(self, identifier: tuple[str, ...]) -> LoadedTable:
        """Ask the catalog for the table's newest metadata file."""
        if len(identifier) < 2 or not all(identifier):
            raise InvalidOperationError(
                f"identifier is {'.'.join(identifier)!r}, expected a namespace and a table such as db.orders"
            )
        with catalog_errors(self.name, identifier):
            catalog = self._loaded()
            ask = _ask_sql if _is_a(catalog, "SqlCatalog") else _ask
            loaded = ask(catalog, identifier)
        if not loaded.metadata_location:
            raise TableNotFoundError(
                f"table {'.'.join(identifier)} of catalog {self.name!r} has no metadata file"
            )
        return loaded

    def _loaded(self) -> Any:
        if self._catalog is not None:
            return self._catalog
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415

        configured: Any = _configuration().get_catalog_config(self.name) or {}
        key = self.name, repr(configured)
        with _LOADED_LOCK:
            if key not in _LOADED:
                _LOADED[key] = load_catalog(self.name, **configured)
            return _LOADED[key]


@dataclass(frozen=True, slots=True)
class CatalogPointer:
    """A catalog that knows the newest metadata file of a table."""

    catalog: IcebergCatalog
    identifier: tuple[str, ...]
    options_for: OptionsFor

    def current(self, storage: Storage) -> CurrentFile:  # noqa: ARG002 - as the others
        file, vended = self.load()
        options = vended.combined(self.options_for(file)) if vended.hadoop_names else None
        return CurrentFile(file, options=options)

    def commit(self, storage: Storage, base: BaseFile | None, updates: Sequence[Update]) -> SwapOutcome:  # noqa: ARG002
        refuse_writing(storage.root)

    def load(self) -> tuple[str, VendedOptions]:
        """The metadata file, and the options of its store that the catalog gives."""
        loaded = self.catalog.load(self.identifier)
        file = location.unencoded(loaded.metadata_location)
        return file, storage_options(loaded.properties, file)


def find_catalog(catalog: object) -> IcebergCatalog | None:
    """The catalog with a configured name, or the catalog that a pyiceberg object is; None if it is neither.

    For a name that no configuration mentions, pyiceberg is not imported.
    """
    if isinstance(catalog, str):
        return IcebergCatalog(catalog) if catalog and _is_configured(catalog) else None
    if _is_a(catalog, "Catalog"):
        return IcebergCatalog(str(getattr(catalog, "name", "")), catalog)
    return None


def configured_names() -> list[str]:
    """The names of all configured catalogs."""
    return sorted(_configuration().get_known_catalogs()) if _may_be_configured(None) else []


def _is_configured(name: str) -> bool:
    return _may_be_configured(name) and _configuration().get_catalog_config(name) is not None


def _may_be_configured(name: str | None) -> bool:
    """Whether a configuration mentions the name, or any catalog. A cheap check, before pyiceberg's own."""
    names = [] if name is None else [name.lower(), name.lower().replace("-", "_")]
    prefixes = tuple(f"{_ENVIRONMENT}{each}__".upper() for each in names) or _ENVIRONMENT
    if any(variable.upper().startswith(prefixes) for variable in os.environ):
        return True
    folders = [Path(folder).expanduser() for folder in (os.environ.get("PYICEBERG_HOME"), "~", ".") if folder]
    files = [folder / _CONFIGURATION for folder in folders if (folder / _CONFIGURATION).is_file()]
    texts = [file.read_text("utf-8", errors="replace").lower() for file in files]
    return any(not names or any(each in text for each in names) for text in texts)


def _configuration() -> Any:
    """The configuration as it is now: pyiceberg itself keeps the one of its import."""
    from pyiceberg.utils.config import Config  # noqa: PLC0415

    try:
        return Config()
    except DelvecError:
        raise
    except Exception as error:
        raise InvalidOperationError(f"pyiceberg's configuration cannot be read: {error}") from error


def _ask(catalog: Any, identifier: tuple[str, ...]) -> LoadedTable:
    """Any catalog, through its ``load_table``, which also parses the metadata."""
    from pydantic import ValidationError  # noqa: PLC0415

    try:
        table = catalog.load_table(identifier)
    except ValidationError:
        if not _is_a(catalog, "RestCatalog"):
            raise
        return _ask_rest(catalog, identifier)
    return LoadedTable(table.metadata_location, dict(table.io.properties))


def _ask_rest(catalog: Any, identifier: tuple[str, ...]) -> LoadedTable:
    """A REST catalog, for a table whose metadata pyiceberg cannot parse: one with a variant column."""
    from pyiceberg.catalog.rest import Endpoints  # noqa: PLC0415

    place = catalog._split_identifier_for_path(identifier)
    response = catalog._session.get(catalog.url(Endpoints.load_table, prefixed=True, **place))
    response.raise_for_status()
    answer = JsonObject.parse(response.content, "the catalog's answer")
    metadata_location = answer.text("metadata-location", "")
    credentials = [
        (item.text("prefix"), item.text_map("config")) for item in answer.children("storage-credentials")
    ]
    fitting = [item for item in credentials if metadata_location.startswith(item[0])]
    vended = max(fitting, key=lambda item: len(item[0]))[1] if fitting else {}
    return LoadedTable(metadata_location, {**catalog.properties, **answer.text_map("config"), **vended})


def _ask_sql(catalog: Any, identifier: tuple[str, ...]) -> LoadedTable:
    """A SQL catalog, by its table of pointers: its ``load_table`` would read the metadata file."""
    from pyiceberg.catalog.sql import IcebergTables  # noqa: PLC0415
    from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415
    from sqlalchemy import select  # noqa: PLC0415

    query = select(IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == ".".join(identifier[:-1]),
        IcebergTables.table_name == identifier[-1],
    )
    only_tables = catalog._iceberg_type_filter()  # views are rows of the same table
    if only_tables is not None:
        query = query.where(only_tables)
    with catalog.engine.connect() as connection:
        row = connection.execute(query).first()
    if row is None:
        raise NoSuchTableError(".".join(identifier))
    return LoadedTable(row[0], dict(catalog.properties))


def _is_a(catalog: object, name: str) -> bool:
    """Whether the object is of a class of pyiceberg with this name, without importing pyiceberg."""
    return any(
        cls.__name__ == name and cls.__module__.partition(".")[0] == "pyiceberg"
        for cls in type(catalog).__mro__
    )
