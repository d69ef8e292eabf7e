"""Applies a ``MetadataChange``: the new protocol and ``metaData`` action."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from delvec.delta import column_mapping, properties
from delvec.delta.actions import Metadata
from delvec.delta.features import ROW_TRACKING, TYPE_WIDENING, Protocol
from delvec.delta.manifests import verify_manifests
from delvec.delta.properties import is_on
from delvec.delta.protocol_upgrade import features_asked, features_needed, upgraded
from delvec.delta.schema import FIELD_ID, MAPPING_NAME, MAPPING_NONE, PHYSICAL_NAME, render_schema
from delvec.delta.schema_evolution import evolved, verify_names
from delvec.delta.writer_features import fields_of
from delvec.errors import InvalidOperationError, UnsupportedFeatureError
from delvec.row_delta import MetadataChange
from delvec.schema import Schema

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

DRAFT_VERSION = -1
"""The version of a draft. The commit on top of it is version 0."""


@dataclass(frozen=True, slots=True)
class TableState:
    """Protocol and metadata, which are committed together."""

    protocol: Protocol
    metadata: Metadata


def state_after(snapshot: Snapshot, change: MetadataChange | None) -> TableState:
    """Protocol and metadata of ``snapshot`` after the change; refuses a change that it does not allow."""
    if change is None:
        return TableState(snapshot.protocol, snapshot.metadata)
    requested = dict(change.properties)
    properties.verify_texts(requested)
    description = requested.pop(properties.COMMENT, snapshot.metadata.description)
    features = {n: v for n, v in requested.items() if _is_feature(n)}
    configuration = _configured(snapshot, {n: v for n, v in requested.items() if not _is_feature(n)})
    _verify_mapping_change(snapshot, configuration)
    _verify_manifests_possible(snapshot, configuration)
    schema = _schema_after(snapshot, change.schema, configuration)
    configuration = _with_columns_for_lineage(snapshot, configuration)
    schema, configuration = _mapped(snapshot, schema, configuration)
    verify_names(schema, mapped=_mode(configuration) != MAPPING_NONE)
    needed = features_needed(schema, configuration) | features_asked(features)
    unchanged = schema is snapshot.schema
    return TableState(
        upgraded(snapshot.protocol, needed),
        replace(
            snapshot.metadata,
            description=description,
            schema_string=snapshot.metadata.schema_string if unchanged else render_schema(schema),
            configuration=configuration,
        ),
    )


def _is_feature(name: str) -> bool:
    return name.startswith(properties.FEATURE_PREFIX)


def _configured(snapshot: Snapshot, changes: Mapping[str, str | None]) -> dict[str, str]:
    configuration = dict(snapshot.properties)
    for name, value in changes.items():
        canonical = properties.verified(name, value)
        if canonical.startswith(properties.CONSTRAINT_PREFIX) and value is not None:
            _verify_constraint_allowed(snapshot, canonical)
        if value is None:
            configuration.pop(canonical, None)
        else:
            configuration[canonical] = value
    if not is_on(configuration, properties.ENABLE_TIMESTAMPS):
        configuration.pop(properties.TIMESTAMPS_SINCE, None)
        configuration.pop(properties.TIMESTAMPS_SINCE_VERSION, None)
    return configuration


def _verify_manifests_possible(snapshot: Snapshot, configuration: Mapping[str, str]) -> None:
    """Refuse symlink manifests of a table that has vectors, or may get some."""
    name = properties.SYMLINK_MANIFEST
    if not is_on(configuration, name):
        return
    if is_on(configuration, properties.ENABLE_VECTORS):
        raise InvalidOperationError(
            f"{name} and {properties.ENABLE_VECTORS} cannot both be true: manifests cannot express vectors"
        )
    if _mode(configuration) != MAPPING_NONE:
        raise InvalidOperationError(
            f"{name} cannot be true with {properties.MAPPING_MODE} = {_mode(configuration)}: readers of "
            "manifests find columns by their names"
        )
    if not is_on(snapshot.properties, name):
        verify_manifests(snapshot)


def _verify_constraint_allowed(snapshot: Snapshot, name: str) -> None:
    # The existing rows would have to be checked first.
    if not snapshot.is_draft and len(snapshot.adds):
        raise UnsupportedFeatureError(
            f"property {name} can only be set while the table has no rows: {snapshot.location}",
            feature=name,
        )


def _mode(configuration: Mapping[str, str]) -> str:
    return configuration.get(properties.MAPPING_MODE, MAPPING_NONE).lower()


def _verify_mapping_change(snapshot: Snapshot, configuration: Mapping[str, str]) -> None:
    old, new = snapshot.mapping, _mode(configuration)
    allowed = snapshot.is_draft or old == new or (old, new) == (MAPPING_NONE, MAPPING_NAME)
    if not allowed:
        raise UnsupportedFeatureError(
            f"{properties.MAPPING_MODE} cannot change from {old} to {new}, only from none to name: "
            f"{snapshot.location}",
            feature=properties.MAPPING_MODE,
        )


def _schema_after(snapshot: Snapshot, new: Schema | None, configuration: Mapping[str, str]) -> Schema:
    if new is None or new == snapshot.schema:
        return snapshot.schema
    _verify_no_collation(snapshot)
    widening = is_on(configuration, properties.ENABLE_TYPE_WIDENING) and (
        TYPE_WIDENING in snapshot.protocol.features_to_write
        or f"{TYPE_WIDENING}-preview" in snapshot.protocol.features_to_write
    )
    schema = evolved(snapshot.schema, new, widening=widening)
    if snapshot.mapping != MAPPING_NONE:
        _verify_ids_new(snapshot, schema)
    return schema


def _verify_no_collation(snapshot: Snapshot) -> None:
    if " collate " in snapshot.metadata.schema_string.lower():
        raise UnsupportedFeatureError(
            f"columns of a table with collations cannot be changed: {snapshot.location}", feature="collations"
        )


def _verify_ids_new(snapshot: Snapshot, schema: Schema) -> None:
    """Refuse ids and physical names of new columns that another column has or had."""
    old = {field.metadata.get(FIELD_ID) for _, field in fields_of(snapshot.schema)}
    last = _last_id(snapshot)
    seen: set[object] = set()
    for path, field in fields_of(schema):
        number, name = field.metadata.get(FIELD_ID), field.metadata.get(PHYSICAL_NAME)
        if number is None:
            continue
        if number in seen or (number not in old and number <= last) or name is None:
            raise InvalidOperationError(
                f"new column {'.'.join(path)} has {FIELD_ID} {number}, expected one above {last}, used once"
            )
        seen.add(number)


def _last_id(snapshot: Snapshot) -> int:
    recorded = snapshot.properties.get(properties.MAX_COLUMN_ID, "0")
    return max(int(recorded) if recorded.isdecimal() else 0, column_mapping.highest_id(snapshot.schema))


def _mapped(
    snapshot: Snapshot, schema: Schema, configuration: dict[str, str]
) -> tuple[Schema, dict[str, str]]:
    """The schema with ids and physical names, if the table has column mapping."""
    if _mode(configuration) == MAPPING_NONE:
        return schema, configuration
    # Existing files store the columns under their own names.
    existing = not snapshot.is_draft and snapshot.mapping == MAPPING_NONE
    name = column_mapping.own_name if existing else column_mapping.new_name
    mapped, last = column_mapping.assigned(schema, _last_id(snapshot), name)
    # If nothing was assigned, return the same schema, so that its text in the log does not change.
    return schema if mapped == schema else mapped, configuration | {properties.MAX_COLUMN_ID: str(last)}


def _with_columns_for_lineage(snapshot: Snapshot, configuration: dict[str, str]) -> dict[str, str]:
    """The names of the columns that keep the ids of moved rows, if this change enables row tracking."""
    if not is_on(configuration, properties.ENABLE_ROW_TRACKING):
        return configuration
    if is_on(configuration, properties.ROW_TRACKING_SUSPENDED):
        raise InvalidOperationError(
            f"{properties.ENABLE_ROW_TRACKING} and {properties.ROW_TRACKING_SUSPENDED} cannot both be true"
        )
    was_on = is_on(snapshot.properties, properties.ENABLE_ROW_TRACKING)
    if was_on and ROW_TRACKING in snapshot.protocol.features_to_write:
        return configuration
    _verify_rows_have_ids(snapshot)
    return {
        properties.ROW_ID_COLUMN: f"_row-id-col-{uuid.uuid4()}",
        properties.ROW_VERSION_COLUMN: f"_row-commit-version-col-{uuid.uuid4()}",
    } | configuration


def _verify_rows_have_ids(snapshot: Snapshot) -> None:
    has_no_id = pc.is_null(snapshot.adds.column("base_row_id"))
    if pc.any(has_no_id).as_py():
        raise UnsupportedFeatureError(
            f"{properties.ENABLE_ROW_TRACKING} cannot be enabled: {pc.sum(has_no_id).as_py()} files "
            f"have no row ids: {snapshot.location}",
            feature=ROW_TRACKING,
        )
