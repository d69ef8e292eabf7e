"""What a catalog says about a table, and names of tables in catalogs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from delvec.errors import InvalidOperationError, TableNotFoundError

Identifier = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A catalog's answer: the newest metadata file, and how to reach the store."""

    metadata_location: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A table that a catalog is asked to hold: its location, and how to reach the store.

    table_uuid         the uuid that the catalog gives the table; None: it leaves that to the writer
    table_properties   the properties of the new table, with those that the catalog adds
    """

    location: str
    properties: Mapping[str, str]
    table_uuid: str | None = None
    table_properties: Mapping[str, str] = field(default_factory=dict)


def verify_identifier(identifier: Sequence[str]) -> None:
    """Refuse an identifier without a namespace."""
    if len(identifier) < 2 or not all(identifier):
        raise InvalidOperationError(
            f"identifier is {'.'.join(identifier)!r}, expected a namespace and a table such as db.orders"
        )


def namespace_missing(catalog: str, identifier: Identifier) -> InvalidOperationError:
    namespace = ".".join(identifier[:-1])
    return InvalidOperationError(
        f"namespace {namespace} does not exist in catalog {catalog!r}, expected one that was created: "
        f"catalog.create_namespace({namespace!r}) of pyiceberg creates it"
    )


def already_exists(catalog: str, identifier: Identifier) -> InvalidOperationError:
    return InvalidOperationError(f"a table already exists: {catalog}.{'.'.join(identifier)}")


def dropped(catalog: str, identifier: Identifier) -> TableNotFoundError:
    return TableNotFoundError(f"the table was dropped while it was changed: {catalog}.{'.'.join(identifier)}")
