"""New tables: a draft is the snapshot before the first one. The first commit on top of it creates the table.

A draft knows the updates that create the table (`Opened.creation`). The first commit sends them together with
its own, so a table never exists without the rows that it was created with.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from delvec.errors import InvalidOperationError
from delvec.iceberg import metadata_updates
from delvec.iceberg.catalog_tables import StagedTable
from delvec.iceberg.delete_properties import may_have_vectors_of_keys, tell_that_gate_is_open
from delvec.iceberg.field_ids import fresh_ids
from delvec.iceberg.locations import Locations
from delvec.iceberg.metadata_change import (
    FORMAT_VERSION,
    TableState,
    properties_for_files,
    verified_properties,
)
from delvec.iceberg.metadata_updates import Update
from delvec.iceberg.new_columns import iceberg_schema, verify_names
from delvec.iceberg.partitions import FIRST_FIELD_ID
from delvec.iceberg.schema_json import render_schema
from delvec.iceberg.snapshot import Opened, Snapshot
from delvec.iceberg.updated_metadata import new_metadata, parsed
from delvec.iceberg.version_features import WRITABLE_VERSIONS
from delvec.iceberg.write_properties import MERGE_ON_READ, MODES
from delvec.partition_spec import PartitionField
from delvec.schema import DataType, Schema, Struct
from delvec.storage import Storage

DEFAULT_VERSION = 3

_FIRST_ID = 0  # of schemas, partition specs and sort orders


def creation_updates(
    schema: Schema,
    *,
    partition_by: Sequence[PartitionField] = (),
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
    location: str,
    table_uuid: uuid.UUID | None = None,
) -> tuple[Update, ...]:
    """The updates that create a table at ``location``, a location as the table is to record it.

    Deleted rows are recorded, and files are not rewritten for them, unless the properties say so.
    """
    requested = verified_properties(properties or {})
    texts = {name: value for name, value in requested.items() if value is not None}
    version = _verified_version(format_version, texts.pop(FORMAT_VERSION, None))
    if may_have_vectors_of_keys(texts, version):
        tell_that_gate_is_open(location, version)
    columns, last_id = fresh_ids(iceberg_schema(schema, version))
    verify_names(columns, version)
    state = TableState(version, columns, last_id, {**dict.fromkeys(MODES, MERGE_ON_READ), **texts})
    return (
        metadata_updates.assign_uuid(str(table_uuid or uuid.uuid4())),
        metadata_updates.upgrade_format_version(version),
        metadata_updates.add_schema(render_schema(columns, schema_id=_FIRST_ID), last_id),
        metadata_updates.set_current_schema(),
        metadata_updates.add_spec({"spec-id": _FIRST_ID, "fields": _spec_fields(columns, partition_by)}),
        metadata_updates.set_default_spec(),
        metadata_updates.add_sort_order({"order-id": _FIRST_ID, "fields": []}),
        metadata_updates.set_default_sort_order(),
        metadata_updates.set_location(location),
        metadata_updates.set_properties(properties_for_files(state)),
    )


def placed(updates: Sequence[Update], staged: StagedTable) -> tuple[Update, ...]:
    """The updates with the location that a catalog chose, and with the uuid and the properties that it gives
    the table.
    """
    result: list[Update] = []
    for update in updates:
        match update["action"]:
            case "set-location":
                result.append(metadata_updates.set_location(staged.location.rstrip("/")))
            case "assign-uuid" if staged.table_uuid is not None:
                result.append(metadata_updates.assign_uuid(staged.table_uuid))
            case "set-properties":
                both = {**staged.table_properties, **update["updates"]}
                both.pop(FORMAT_VERSION, None)
                result.append(metadata_updates.set_properties(both))
            case _:
                result.append(update)
    return tuple(result)


def draft(storage: Storage, updates: Sequence[Update], *, now_ms: int) -> Snapshot:
    """The snapshot before the first commit of the table that the updates create at the storage's root."""
    metadata = parsed(new_metadata(updates, now_ms=now_ms), storage.root)
    opened = Opened(
        storage=storage,
        metadata=metadata,
        metadata_path="",
        source=storage.root,
        locations=Locations(metadata.location),
        creation=tuple(updates),
    )
    return Snapshot(opened, None, metadata.current_schema_id)


def _verified_version(requested: int | None, by_property: str | None) -> int:
    """The format version: what ``format_version`` says, or the property, or the default."""
    found = requested if requested is not None else by_property
    if found is None:
        return DEFAULT_VERSION
    version = next((number for number in WRITABLE_VERSIONS if str(found) == str(number)), None)
    if version is None:
        raise InvalidOperationError(f"format_version is {found!r}, expected 2, 3 or 4")
    if by_property is not None and by_property != str(version):
        raise InvalidOperationError(
            f"format_version is {requested}, but the property {FORMAT_VERSION} is {by_property!r}, expected "
            "one of them"
        )
    return version


def _spec_fields(schema: Schema, fields: Sequence[PartitionField]) -> list[dict[str, Any]]:
    """The fields of the partition spec. Refuses a transform of a wrong type, and a partitioning that other
    engines refuse: two fields of one name or one meaning, or with the name of another column.
    """
    columns = {field.name for field in schema}
    rendered: list[dict[str, Any]] = []
    for field in fields:
        source_id, data_type = _source(schema, field)
        field.transform.result_type(data_type)
        if field.name in columns and not (field.is_identity and field.source == (field.name,)):
            raise InvalidOperationError(
                f"partition field {field} is named {field.name!r}, expected a name that no column has"
            )
        item = {"source-id": source_id, "name": field.name, "transform": str(field.transform)}
        for other in rendered:
            if other["name"] == field.name or _meaning(other) == _meaning(item):
                raise InvalidOperationError(
                    f"the table is partitioned by {field} twice (as {other['name']!r}), expected once"
                )
        rendered.append({"field-id": FIRST_FIELD_ID + len(rendered), **item})
    return rendered


def _meaning(field: Mapping[str, Any]) -> tuple[int, str]:
    """What makes two partition fields redundant. Of the years, months, days and hours of a column one is
    enough.
    """
    transform = field["transform"]
    return field["source-id"], "time" if transform in ("year", "month", "day", "hour") else transform


def _source(schema: Schema, field: PartitionField) -> tuple[int, DataType]:
    """The field id and the type of a partition field's source column."""
    data_type: DataType = schema
    found: int | None = None
    for name in field.source:
        columns = data_type.find(name, case_sensitive=True) if isinstance(data_type, Struct) else []
        if not columns:
            raise InvalidOperationError(f"partition column {'.'.join(field.source)!r} is not in the schema")
        found, data_type = columns[0].field_id, columns[0].type
    if found is None:
        raise InvalidOperationError(f"partition field {field.name!r} has no source column, expected one")
    return found, data_type
