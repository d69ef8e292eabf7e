"""Tables of a SQL catalog: rows of ``iceberg_tables`` in SQLite, PostgreSQL or another database.

    catalog_name  table_namespace  table_name  metadata_location             previous_metadata_location
    lake          db               orders      …/00008-<uuid>.metadata.json  …/00007-<uuid>.metadata.json

A commit writes a metadata file with a name of its own, and sets ``metadata_location`` in the row that still
has the old one. One of several writers changes the row. pyiceberg itself refuses to commit to tables of
version 3, so the rows are written here, as pyiceberg and Iceberg's own library write them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar

from delvec import location
from delvec.errors import DelvecError, StorageError
from delvec.iceberg import metadata_files
from delvec.iceberg.catalog_errors import catalog_errors, reason_of
from delvec.iceberg.catalog_tables import (
    Identifier,
    LoadedTable,
    StagedTable,
    already_exists,
    dropped,
    namespace_missing,
)
from delvec.iceberg.locations import Locations
from delvec.iceberg.metadata import TableMetadata
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.swaps import (
    BaseFile,
    SwapOutcome,
    Swapped,
    SwapUnknown,
    Taken,
    delete_old_files,
    discard,
    encoded,
    file_ending,
    metadata_folder,
    shows_commit,
    verify_same_table,
)
from delvec.iceberg.updated_metadata import apply_updates, metadata_bytes, new_metadata, parsed
from delvec.storage import Storage

_LOCKED_TRIES = 10
_LOCKED_PAUSE = 0.2


class SqlCatalogTable:
    """A row of the catalog ``catalog``, an object of pyiceberg's class SqlCatalog."""

    takes_trees: ClassVar[bool] = True

    def __init__(self, catalog: Any, name: str, identifier: Identifier) -> None:
        self._catalog = catalog
        self._name = name
        self._identifier = identifier

    def load(self) -> LoadedTable:
        """The row's pointer. pyiceberg's ``load_table`` would read the metadata file."""
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415

        found = self._pointer()
        if found is None:
            raise NoSuchTableError(".".join(self._identifier))
        return LoadedTable(found, dict(self._catalog.properties))

    def stage(self, updates: Sequence[Update]) -> StagedTable:
        """Where a new table goes. Refuses a name that exists, and a namespace that does not."""
        with catalog_errors(self._name, self._identifier):
            if not self._catalog.namespace_exists(self._identifier[:-1]):
                raise namespace_missing(self._name, self._identifier)
            if self._pointer() is not None:
                raise already_exists(self._name, self._identifier)
            namespace, name = ".".join(self._identifier[:-1]), self._identifier[-1]
            requested = next((u["location"] for u in updates if u["action"] == "set-location"), None)
            place = self._catalog._resolve_table_location(requested, namespace, name)
        return StagedTable(place, dict(self._catalog.properties))

    def verify_writable(self) -> None:
        """Every table of such a catalog can be written to."""

    def commit(
        self, storage: Storage, base: BaseFile | None, updates: Sequence[Update], now_ms: int
    ) -> SwapOutcome:
        """Write the next metadata file, and set the row to it unless the row has changed."""
        old = None if base is None else self._verified_pointer(storage, base)
        if base is not None and old is None:
            return Taken()
        swap = _prepared(storage, base, old, updates, now_ms)
        try:
            storage.put(swap.new.path, swap.data)
        except DelvecError:
            discard(storage, [swap.new.path])
            raise
        outcome = self._outcome(storage, swap, self._execute(self._statement(swap)))
        if isinstance(outcome, Taken):
            discard(storage, [swap.new.path])
        elif isinstance(outcome, Swapped) and base is not None:
            delete_old_files(storage, base.metadata, swap.new.metadata)
        return outcome

    def _verified_pointer(self, storage: Storage, base: BaseFile) -> str | None:
        """The row's pointer as it is recorded; None if it is no longer at the base. Refuses another table."""
        with catalog_errors(self._name, self._identifier):
            found = self._pointer()
        if found is None:
            raise dropped(self._name, self._identifier)
        if location.unencoded(found) == base.path:
            return found
        self._verify_same_table(base, self._read(storage, found))
        return None

    def _outcome(self, storage: Storage, swap: _Swap, result: _Row | _Failure) -> SwapOutcome:
        if result is _Row.CHANGED:
            return Swapped(swap.new)
        if result is _Row.UNCHANGED:
            with catalog_errors(self._name, self._identifier):
                return self._lost(storage, swap)
        try:
            outcome = self._after_failure(storage, swap, result)
        except Exception:  # whatever the database's driver raises
            return SwapUnknown(reason_of(result.error))
        if outcome is None:
            discard(storage, [swap.new.path])
            raise self._refused(result.error) from result.error
        return outcome

    def _lost(self, storage: Storage, swap: _Swap) -> SwapOutcome:
        """Another writer changed the row, or made it; or an earlier try of this one that seemed to fail."""
        found = self._pointer()
        if found == swap.file:
            return Swapped(swap.new)
        discard(storage, [swap.new.path])
        if swap.base is None:
            if found is None:
                raise already_exists(self._name, self._identifier)  # a view
            return Taken()
        if found is None:
            raise dropped(self._name, self._identifier)
        self._verify_same_table(swap.base, self._read(storage, found))
        return Taken()

    def _after_failure(self, storage: Storage, swap: _Swap, failure: _Failure) -> SwapOutcome | None:
        """The row tells whether the statement was executed. None: it was not, and will not be."""
        found = self._pointer()
        if found == swap.file:
            return Swapped(swap.new)
        if found is not None and found != swap.old:
            now = self._read(storage, found)
            return Swapped(swap.new) if shows_commit(now, swap.updates, swap.file) else Taken()
        return SwapUnknown(reason_of(failure.error)) if failure.while_committing else None

    def _verify_same_table(self, base: BaseFile, now: TableMetadata) -> None:
        verify_same_table(base.metadata, now.table_uuid, f"{self._name}.{'.'.join(self._identifier)}")

    def _read(self, storage: Storage, file: str) -> TableMetadata:
        return metadata_files.read_metadata(storage, location.unencoded(file))

    def _refused(self, error: Exception) -> StorageError:
        return StorageError(
            f"catalog {self._name!r} did not take the commit: {reason_of(error)}",
            path=f"{self._name}.{'.'.join(self._identifier)}",
        )

    def _execute(self, statement: Any) -> _Row | _Failure:
        """Execute and commit the statement. A database that is locked by others is asked again."""
        from sqlalchemy.exc import IntegrityError  # noqa: PLC0415

        for _ in range(_LOCKED_TRIES):
            while_committing = False
            try:
                with self._catalog.engine.connect() as connection:
                    changed = connection.execute(statement).rowcount
                    while_committing = True
                    connection.commit()
                return _Row.CHANGED if changed == 1 else _Row.UNCHANGED
            except IntegrityError:  # the name exists
                return _Row.UNCHANGED
            except Exception as error:  # whatever the database's driver raises
                failure = _Failure(error, while_committing)
                if not self._is_locked(error):
                    return failure
            time.sleep(_LOCKED_PAUSE)
        return _Failure(failure.error, while_committing=False)

    def _is_locked(self, error: Exception) -> bool:
        """Whether SQLite did nothing, because other connections use the file."""
        return self._catalog.engine.dialect.name == "sqlite" and "locked" in str(error)

    def _statement(self, swap: _Swap) -> Any:
        from pyiceberg.catalog.sql import IcebergTables  # noqa: PLC0415
        from sqlalchemy import insert, update  # noqa: PLC0415

        namespace, name = ".".join(self._identifier[:-1]), self._identifier[-1]
        if swap.old is None:
            return insert(IcebergTables).values(**self._catalog._create_table_row(namespace, name, swap.file))
        return (
            update(IcebergTables)
            .where(*self._row(), IcebergTables.metadata_location == swap.old)
            .values(metadata_location=swap.file, previous_metadata_location=swap.old)
        )

    def _pointer(self) -> str | None:
        """The row's ``metadata_location``; None if there is no such row."""
        from pyiceberg.catalog.sql import IcebergTables  # noqa: PLC0415
        from sqlalchemy import select  # noqa: PLC0415

        query = select(IcebergTables.metadata_location).where(*self._row())
        with self._catalog.engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else (row[0] or "")

    def _row(self) -> list[Any]:
        """The conditions of the table's row. Views are rows of the same table."""
        from pyiceberg.catalog.sql import IcebergTables  # noqa: PLC0415

        only_tables = self._catalog._iceberg_type_filter()
        return [
            IcebergTables.catalog_name == self._catalog.name,
            IcebergTables.table_namespace == ".".join(self._identifier[:-1]),
            IcebergTables.table_name == self._identifier[-1],
            *([] if only_tables is None else [only_tables]),
        ]


@dataclass(frozen=True, slots=True)
class _Swap:
    """A commit that is about to be made. ``old``, ``file``: metadata files as the row has them."""

    base: BaseFile | None
    old: str | None
    file: str
    new: BaseFile
    data: bytes
    updates: Sequence[Update]


class _Row(Enum):
    """What a statement did to the table's row."""

    CHANGED = auto()
    UNCHANGED = auto()


@dataclass(frozen=True, slots=True)
class _Failure:
    """A statement that failed. ``while_committing``: the database may have committed it, or may do so yet."""

    error: Exception
    while_committing: bool


def _prepared(
    storage: Storage, base: BaseFile | None, old: str | None, updates: Sequence[Update], now_ms: int
) -> _Swap:
    if base is None:
        members = new_metadata(updates, now_ms=now_ms)
    else:
        members = apply_updates(base.metadata, updates, now_ms=now_ms, file=old)
    metadata = parsed(members, storage.root)
    number = -1 if base is None else _number(base.path)
    file = f"{metadata_folder(metadata)}/{number + 1:05d}-{uuid.uuid4()}{file_ending(metadata)}"
    path = Locations(metadata.location).resolve(file)
    data = encoded(metadata_bytes(members), path)
    return _Swap(base, old, file, BaseFile(path, metadata), data, updates)


def _number(path: str) -> int:
    """The number of a metadata file; -1 if its name has none."""
    file = metadata_files.numbered(path)
    return -1 if file is None else file.number
