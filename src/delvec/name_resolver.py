"""Which table a name means. SQL, ``Table.open`` and the command line all use this module.

    orders                        a name given with ``Table.register``
    delvec.`path`, delta.`path`   the table at a path; a format's name before it is the format it must have
    lake.db.orders                the table ``db.orders`` of the catalog ``lake``
    orders.branch_audit           after each of these: the table at a branch, or at a tag (``tag_``)

Any other name belongs to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from delvec import detect, formats
from delvec.errors import InvalidOperationError, TableNotFoundError, UnsupportedFeatureError
from delvec.formats import Catalog, CreatingCatalog, OptionsFor, on_ref
from delvec.partition_spec import PartitionField
from delvec.schema import Schema

ANY_FORMAT = "delvec"
"""The word before a path that leaves the format open; after USING it means the default format."""


@dataclass(frozen=True, slots=True)
class AtPath:
    """The table at a path. ``format``: the format it must have; None accepts every format.

    ``relocate``: the table was copied, and its files are taken from where it is now.
    """

    path: str
    format: str | None = None
    relocate: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """A table that ``Table.register`` gave a name to."""

    table: formats.Table


@dataclass(frozen=True, slots=True)
class InCatalog:
    """A table of a catalog."""

    catalog: Catalog
    identifier: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OnRef:
    """A table at a branch or tag."""

    table: AtPath | Registered
    ref: str
    kind: str


Reference = AtPath | Registered | InCatalog | OnRef

_SELECTOR = re.compile(r"(branch|tag)_(.+)", re.DOTALL)

_registered: dict[str, formats.Table] = {}


def providers() -> tuple[str, ...]:
    """The words that may stand before a path, and after USING."""
    return (ANY_FORMAT, *detect.format_names())


def creating(catalog: Catalog, identifier: Sequence[str]) -> CreatingCatalog:
    """The catalog, if it can create and drop tables."""
    if not isinstance(catalog, CreatingCatalog):
        raise UnsupportedFeatureError(
            f"the catalog only finds tables, it creates and drops none: {'.'.join(identifier)}",
            feature="tables of this catalog",
        )
    return catalog


def created_format(provider: str | None, reference: Reference | None = None) -> str:
    """The format of a new table: what USING or the word before its path says, or that of its catalog."""
    if provider not in (None, ANY_FORMAT):
        return str(provider)
    if isinstance(reference, InCatalog):
        return creating(reference.catalog, reference.identifier).format
    return detect.DEFAULT_FORMAT


def resolve(parts: Sequence[str], quoted: Sequence[bool]) -> Reference | None:
    """The table that a name in a statement means; None: one of Spark's. ``quoted``: parts in backquotes."""
    if is_path(parts, quoted):
        provider = parts[0].lower()
        return AtPath(parts[1], None if provider == ANY_FORMAT else provider)
    selector = _SELECTOR.fullmatch(parts[-1]) if len(parts) in (2, 3) else None
    if selector is not None:
        found = resolve(parts[:-1], quoted[:-1])
        if isinstance(found, AtPath | Registered):
            return OnRef(found, selector[2], selector[1])
    if len(parts) == 1:
        table = registered(parts[0])
        return None if table is None else Registered(table)
    # Spark's names have up to two parts, such as default.orders; a catalog may be called default, too.
    catalog = detect.find_catalog(parts[0]) if len(parts) > 2 else None
    return None if catalog is None else InCatalog(catalog, tuple(parts[1:]))


def is_path(parts: Sequence[str], quoted: Sequence[bool]) -> bool:
    """Whether the name is that of a path, such as delvec.`path` or delta.`path`."""
    return len(parts) == 2 and parts[0].lower() in providers() and quoted[1]


def in_catalog(catalog: object, identifier: str) -> InCatalog:
    """The table with a dotted identifier in a catalog, given as an object or by its name."""
    resolved = detect.find_catalog(catalog)
    if resolved is None:
        raise detect.unknown_catalog(catalog)
    return InCatalog(resolved, tuple(identifier.split(".")))


def reference_to(text: str, *, catalog: object | None = None, relocate: bool = False) -> Reference:
    """What a user opens: a path, or with ``catalog`` an identifier in it."""
    if catalog is None:
        return AtPath(text, relocate=relocate)
    if relocate:
        raise InvalidOperationError(
            "relocate is for a copied table at a path, expected no catalog: the catalog knows where it is"
        )
    return in_catalog(catalog, text)


def open_table(reference: Reference, options_for: OptionsFor) -> formats.Table:
    """Open the table; TableNotFoundError if there is none."""
    match reference:
        case Registered(table):
            return table
        case InCatalog():
            return _of_catalog(reference, options_for)
        case OnRef(table, ref, kind):
            return on_ref(open_table(table, options_for), ref, kind)
        case AtPath(path, expected, relocate):
            table = detect.open_table(path, options_for(path), relocate=relocate)
            if expected is not None and table.format != expected:
                raise InvalidOperationError(
                    f"the table has the format {table.format}, expected {expected}: {table.location}"
                )
            return table


def draft_table(
    reference: Reference,
    table_format: str,
    schema: Schema,
    options_for: OptionsFor,
    *,
    partition_by: Sequence[PartitionField] = (),
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
    place: str | None = None,
) -> tuple[formats.Table, formats.Snapshot]:
    """A table that does not exist yet, and its draft: the first commit creates it. Refuses one that exists.

    ``place``: the location of a table of a catalog, by default where the catalog puts it.
    """
    match reference:
        case AtPath(path):
            table = detect.new_table(path, table_format, options_for(path))
            draft = table.draft(
                schema, partition_by=partition_by, properties=properties, format_version=format_version
            )
            return table, draft
        case InCatalog(found, identifier):
            catalog = creating(found, identifier)
            if table_format != catalog.format:
                raise InvalidOperationError(
                    f"format is {table_format!r}, expected {catalog.format!r}: tables of catalog "
                    f"{catalog.name!r} have this format: {'.'.join(identifier)}"
                )
            return catalog.draft_table(
                identifier,
                schema,
                options_for,
                partition_by=partition_by,
                properties=properties,
                format_version=format_version,
                place=place,
            )
        case Registered(existing):
            raise InvalidOperationError(f"a table already exists: {existing.location}")
        case OnRef(ref=ref, kind=kind):
            raise InvalidOperationError(f"{kind} {ref!r} of a table cannot be created as a table")


def _of_catalog(reference: InCatalog, options_for: OptionsFor) -> formats.Table:
    """The table with this identifier; if there is none, the last part may name a branch or tag."""
    *parts, last = reference.identifier
    selector = _SELECTOR.fullmatch(last) if len(parts) > 1 else None
    try:
        return reference.catalog.open_table(reference.identifier, options_for)
    except TableNotFoundError as error:
        if selector is None:
            raise
        missing = error
    try:
        table = reference.catalog.open_table(tuple(parts), options_for)
    except TableNotFoundError:
        raise missing from None
    return on_ref(table, selector[2], selector[1])


def register(name: str, table: formats.Table) -> None:
    """Give a table a name for statements; the case of letters does not count."""
    _registered[name.lower()] = table


def unregister(name: str) -> None:
    """Forget a name that ``register`` gave."""
    _registered.pop(name.lower(), None)


def registered(name: str) -> formats.Table | None:
    """The table with this name; None if no table has it."""
    return _registered.get(name.lower())
