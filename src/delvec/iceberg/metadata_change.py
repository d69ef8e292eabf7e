"""Applies a ``MetadataChange``: the table's state after it, and the updates of the metadata that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.iceberg import write_properties
from delvec.iceberg.delete_properties import may_have_vectors_of_keys, tell_that_gate_is_open
from delvec.iceberg.field_ids import with_new_ids
from delvec.iceberg.mapping_update import can_have_ids, covering_mapping, with_columns_mapped
from delvec.iceberg.metadata_updates import (
    Update,
    add_schema,
    remove_properties,
    set_current_schema,
    set_properties,
    upgrade_format_version,
)
from delvec.iceberg.name_mapping import PROPERTY as NAME_MAPPING
from delvec.iceberg.new_columns import LINEAGE_VERSION, verify_names
from delvec.iceberg.schema import field_ids
from delvec.iceberg.schema_evolution import evolved
from delvec.iceberg.schema_json import known_fields, render_schema
from delvec.iceberg.tree.mark import RESERVED as MARKS
from delvec.iceberg.version_features import WRITABLE_VERSIONS
from delvec.row_delta import MetadataChange
from delvec.schema import Schema

if TYPE_CHECKING:
    from delvec.iceberg.metadata import TableMetadata

FORMAT_VERSION = "format-version"

RESERVED_PROPERTIES = frozenset(
    {
        "uuid",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""Names that Iceberg gives a meaning of their own: they are never stored as properties."""


@dataclass(frozen=True, slots=True)
class TableState:
    """What a change of metadata can change. ``last_column_id``: the highest field id ever used."""

    format_version: int
    schema: Schema
    last_column_id: int
    properties: Mapping[str, str]


def state_after(metadata: TableMetadata, change: MetadataChange | None) -> TableState:
    """The state of the table after the change; refuses a change that the table does not allow.

    New columns that have ids keep them, so the change that a statement was made with can be applied again.
    """
    if change is None:
        change = MetadataChange()
    requested = dict(change.properties)
    version = _version_after(metadata, requested)
    properties = _properties_after(metadata, requested)
    schema, last_id = metadata.schema, metadata.last_column_id
    if change.schema is not None and change.schema != schema:
        schema = evolved(schema, change.schema, format_version=version)
        _verify_ids_new(metadata, schema)
        schema, last_id = with_new_ids(schema, last_id)
        verify_names(schema, version)
        properties = with_columns_mapped(properties, schema, lineage=version >= LINEAGE_VERSION)
    return TableState(version, schema, last_id, properties)


def updates_of(
    metadata: TableMetadata, change: MetadataChange | None, *, adds_files: bool = False
) -> list[Update]:
    """The updates that make the change. ``adds_files``: the same commit adds data files, for which a table
    with lists or maps needs a name mapping.
    """
    state = state_after(metadata, change)
    opens_gate = may_have_vectors_of_keys(state.properties, state.format_version)
    if opens_gate and not may_have_vectors_of_keys(metadata.properties, metadata.format_version):
        tell_that_gate_is_open(metadata.location, state.format_version)
    updates: list[Update] = []
    if state.format_version != metadata.format_version:
        updates.append(upgrade_format_version(state.format_version))
    if state.schema is not metadata.schema:
        updates += _schema_updates(metadata, state)
    properties = properties_for_files(state) if adds_files else state.properties
    changed = {name: value for name, value in properties.items() if metadata.properties.get(name) != value}
    removed = [name for name in metadata.properties if name not in properties]
    if changed:
        updates.append(set_properties(changed))
    if removed:
        updates.append(remove_properties(removed))
    return updates


def properties_for_files(state: TableState) -> Mapping[str, str]:
    """The properties that a table with new data files must have."""
    if can_have_ids(state.schema):
        return state.properties
    lineage = state.format_version >= LINEAGE_VERSION
    mapping = covering_mapping(state.properties, state.schema, lineage=lineage)
    return {**state.properties, NAME_MAPPING: mapping}


def verified_properties(properties: Mapping[str, object]) -> dict[str, str | None]:
    """The properties to set; None unsets one. Refuses reserved names, and values that delvec could not
    read.
    """
    for name in properties:
        if name in MARKS:
            raise InvalidOperationError(f"property {name} is reserved: delvec sets it, it cannot be changed")
        if name in RESERVED_PROPERTIES:
            raise InvalidOperationError(f"property {name} is reserved: Iceberg tables cannot have it")
    return write_properties.verified(properties)


def _version_after(metadata: TableMetadata, requested: dict[str, str | None]) -> int:
    """The format version; takes its name out of the requested properties."""
    old = metadata.format_version
    if FORMAT_VERSION not in requested:
        return old
    text = requested.pop(FORMAT_VERSION)
    version = int(text) if isinstance(text, str) and text.strip().isdecimal() else None
    if version is None or (version not in WRITABLE_VERSIONS and version != old):
        raise UnsupportedFeatureError(
            f"{FORMAT_VERSION} is {text!r}, expected 2, 3 or 4: {metadata.location}",
            feature=f"format version {text}",
        )
    if version < old:
        raise InvalidOperationError(
            f"{FORMAT_VERSION} is {version}, expected {old} or more: a table cannot get an older one: "
            f"{metadata.location}"
        )
    return version


def _properties_after(metadata: TableMetadata, requested: Mapping[str, str | None]) -> dict[str, str]:
    changes = verified_properties(requested)
    properties = {name: value for name, value in metadata.properties.items() if name not in changes}
    return properties | {name: value for name, value in changes.items() if value is not None}


def _verify_ids_new(metadata: TableMetadata, schema: Schema) -> None:
    """Refuse ids of new columns that another column has or had."""
    old, last = set(field_ids(metadata.schema)), metadata.last_column_id
    seen: set[int] = set()
    for number in field_ids(schema):
        if (number not in old and number <= last) or number in seen:
            raise InvalidOperationError(
                f"a new column has the field id {number}, expected one above {last}, used once: "
                f"{metadata.location}"
            )
        seen.add(number)


def _schema_updates(metadata: TableMetadata, state: TableState) -> list[Update]:
    """Makes the schema the current one. An older schema that is identical is used again."""
    identifiers = metadata.identifier_ids.get(metadata.current_schema_id, frozenset())
    known: dict[int, Mapping[str, Any]] = {}
    for schema_id in sorted(metadata.schemas):
        known |= known_fields(_schema_json(metadata, schema_id))
    new = render_schema(state.schema, schema_id=0, identifier_ids=identifiers, known=known)
    for schema_id, schema in metadata.schemas.items():
        same_ids = metadata.identifier_ids.get(schema_id, frozenset()) == identifiers
        if same_ids and render_schema(schema, schema_id=0, identifier_ids=identifiers, known=known) == new:
            return [set_current_schema(schema_id)]
    new["schema-id"] = max(metadata.schemas) + 1
    return [add_schema(new, state.last_column_id), set_current_schema()]


def _schema_json(metadata: TableMetadata, schema_id: int) -> Any:
    trees = metadata.raw.get("schemas") or [metadata.raw.get("schema", {})]
    return next((tree for tree in trees if tree.get("schema-id", 0) == schema_id), {})
