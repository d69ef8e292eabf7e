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
from typing import Any, ClassVar, NoReturn, Protocol

from delvec import location
from delvec.errors import DelvecError, InvalidOperationError, TableNotFoundError, UnsupportedFeatureError
from delvec.formats import OptionsFor
from delvec.iceberg import metadata_files
from delvec.iceberg.catalog_errors import catalog_errors
from delvec.iceberg.catalog_options import VendedOptions, storage_options
from delvec.iceberg.catalog_tables import Identifier, LoadedTable, StagedTable, verify_identifier
from delvec.iceberg.creation import creation_updates, draft, placed
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.pointers import CurrentFile
from delvec.iceberg.rest_catalog import RestCatalogTable
from delvec.iceberg.snapshot import Snapshot
from delvec.iceberg.sql_catalog import SqlCatalogTable
from delvec.iceberg.swaps import BaseFile, SwapOutcome, clock_ms
from delvec.iceberg.table import IcebergTable
from delvec.iceberg.tree.mark import TREE_VERSION
from delvec.partition_spec import PartitionField
from delvec.schema import Schema
from delvec.storage import Storage

_ENVIRONMENT = "PYICEBERG_CATALOG__"
_CONFIGURATION = ".pyiceberg.yaml"
# The catalogs of this process by name and configuration. To load one can take several requests.
_LOADED: dict[tuple[str, str], Any] = {}
_LOADED_LOCK = threading.Lock()


class CatalogTable(Protocol):
    """A table as a catalog holds it."""

    takes_trees: ClassVar[bool]
    """Whether the table may be of format version 4: delvec writes its metadata files, not the catalog."""

    def load(self) -> LoadedTable: ...

    def verify_writable(self) -> None:
        """Refuse a table of a catalog that cannot be written to."""
        ...

    def stage(self, updates: Sequence[Update]) -> StagedTable:
        """Where the table that the updates create goes. Nothing is created yet."""
        ...

    def commit(
        self, storage: Storage, base: BaseFile | None, updates: Sequence[Update], now_ms: int
    ) -> SwapOutcome:
        """As `swaps.Swap`."""
        ...


class IcebergCatalog:
    """A catalog, by its name in pyiceberg's configuration or as a pyiceberg ``Catalog``."""

    format = "iceberg"

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

    def draft_table(
        self,
        identifier: Sequence[str],
        schema: Schema,
        options_for: OptionsFor,
        *,
        partition_by: Sequence[PartitionField] = (),
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
        place: str | None = None,
    ) -> tuple[IcebergTable, Snapshot]:
        """A table of the catalog that does not exist yet, and its draft. The first commit creates it.

        ``place``: its location; by default where the catalog puts it. Refuses an identifier that exists, and
        a namespace that does not.
        """
        pointer = CatalogPointer(self, tuple(identifier), options_for)
        requested = creation_updates(
            schema,
            partition_by=partition_by,
            properties=properties,
            format_version=format_version,
            location=place or "",
        )
        with catalog_errors(self.name, identifier):
            pointer.verify_format(requested)
            staged = self.table(pointer.identifier).stage(requested)
        found = location.unencoded(staged.location)
        vended = storage_options(staged.properties, found)
        storage = Storage(found, vended.combined(options_for(found)))
        table = IcebergTable(storage, pointer, credentials=vended.hadoop_names)
        return table, draft(storage, placed(requested, staged), now_ms=clock_ms())

    def drop_table(self, identifier: Sequence[str]) -> None:
        """Remove the table from the catalog. Its files stay."""
        verify_identifier(identifier)
        with catalog_errors(self.name, identifier):
            self._loaded().drop_table(tuple(identifier))

    def table(self, identifier: Identifier) -> CatalogTable:
        """The table as the catalog holds it, by the kind of the catalog."""
        verify_identifier(identifier)
        catalog = self._loaded()
        if _is_a(catalog, "SqlCatalog"):
            return SqlCatalogTable(catalog, self.name, identifier)
        if _is_a(catalog, "RestCatalog"):
            return RestCatalogTable(catalog, self.name, identifier)
        return _OtherCatalogTable(catalog, self.name, identifier)

    def load(self, identifier: Identifier) -> LoadedTable:
        """Ask the catalog for the table's newest metadata file."""
        with catalog_errors(self.name, identifier):
            loaded = self.table(identifier).load()
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

    def commit(self, storage: Storage, base: BaseFile | None, updates: Sequence[Update]) -> SwapOutcome:
        with catalog_errors(self.catalog.name, self.identifier):
            self.verify_format(updates, base)
            return self.catalog.table(self.identifier).commit(storage, base, updates, clock_ms())

    def verify_writable(self, storage: Storage, base: BaseFile) -> None:  # noqa: ARG002 - as the others
        with catalog_errors(self.catalog.name, self.identifier):
            self.catalog.table(self.identifier).verify_writable()
            self.verify_format((), base)

    def verify_format(self, updates: Sequence[Update], base: BaseFile | None = None) -> None:
        """Refuse a table with trees in a catalog that writes metadata files itself: it does not know them."""
        versions = [update["format-version"] for update in updates if "format-version" in update]
        version = max([*versions, 0 if base is None else base.metadata.format_version])
        if version >= TREE_VERSION and not self.catalog.table(self.identifier).takes_trees:
            raise UnsupportedFeatureError(
                f"format version {version} is written by path and in a SqlCatalog only, but "
                f"{self.catalog.name}.{'.'.join(self.identifier)} is in another catalog, expected version 3",
                feature=f"format version {version} in this catalog",
            )

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


class _OtherCatalogTable:
    """A table of a catalog whose tables can only be read: Hive, Glue, DynamoDB, BigQuery."""

    takes_trees: ClassVar[bool] = False

    def __init__(self, catalog: Any, name: str, identifier: Identifier) -> None:
        self._catalog = catalog
        self._name = name
        self._identifier = identifier

    def load(self) -> LoadedTable:
        table = self._catalog.load_table(self._identifier)
        return LoadedTable(table.metadata_location, dict(table.io.properties))

    def stage(self, updates: Sequence[Update]) -> StagedTable:  # noqa: ARG002 - as the others
        self.verify_writable()

    def commit(
        self,
        storage: Storage,  # noqa: ARG002 - as the others
        base: BaseFile | None,  # noqa: ARG002
        updates: Sequence[Update],  # noqa: ARG002
        now_ms: int,  # noqa: ARG002
    ) -> SwapOutcome:
        self.verify_writable()

    def verify_writable(self) -> NoReturn:
        kind = type(self._catalog).__name__
        raise UnsupportedFeatureError(
            f"tables of catalog {self._name!r} ({kind}) can only be read, expected a SqlCatalog or a "
            f"RestCatalog to write to: {self._name}.{'.'.join(self._identifier)}",
            feature=f"writing to a {kind}",
        )


def _is_a(catalog: object, name: str) -> bool:
    """Whether the object is of a class of pyiceberg with this name, without importing pyiceberg."""
    return any(
        cls.__name__ == name and cls.__module__.partition(".")[0] == "pyiceberg"
        for cls in type(catalog).__mro__
    )
