"""Protocol, metadata and domains of an older version, as they are when it becomes the table's state again.

Columns, properties, partitioning, name and description go back. The protocol never loses a feature: readers
of the versions between need it. These never go back either:

    delta.columnMapping.maxColumnId        ids of columns are used once
    delta.identity.highWaterMark           in a column: its values are used once
    delta.inCommitTimestampEnablement…     since when commits state their times
    delta.rowTracking.materialized…        files store row ids under these names
    delta.requireCheckpointProtection…     checkpoints before that version stay protected
    domains                                except clustering, which goes back
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from delvec.delta import clustering, properties
from delvec.delta.actions import DomainMetadata
from delvec.delta.metadata_change import TableState
from delvec.delta.protocol_upgrade import upgraded
from delvec.delta.schema import IDENTITY_PREFIX, MAPPING_NONE

if TYPE_CHECKING:
    from delvec.delta.snapshot import Snapshot

_HIGHEST_IDENTITY = f"{IDENTITY_PREFIX}highWaterMark"
_IDENTITY_STEP = f"{IDENTITY_PREFIX}step"
_TIMES = (properties.TIMESTAMPS_SINCE_VERSION, properties.TIMESTAMPS_SINCE)
_LINEAGE = (properties.ROW_ID_COLUMN, properties.ROW_VERSION_COLUMN)
_HIGHEST = (properties.MAX_COLUMN_ID, properties.CHECKPOINT_PROTECTION)


def restored_state(newest: Snapshot, then: Snapshot) -> TableState:
    """Protocol and metadata of ``then``, on top of ``newest``."""
    metadata = replace(
        then.metadata,
        schema_string=_schema_string(newest.metadata.schema_string, then.metadata.schema_string),
        configuration=_configuration(newest.properties, then.properties),
    )
    features = then.protocol.features_to_write | then.protocol.features_to_read
    return TableState(upgraded(newest.protocol, features), metadata)


def restored_domains(newest: Snapshot, then: Snapshot) -> tuple[DomainMetadata, ...]:
    """The domains to commit: the clustering of ``then``, if it differs."""
    current, old = newest.domains.get(clustering.DOMAIN), then.domains.get(clustering.DOMAIN)
    if current == old:
        return ()
    if old is None:
        old = DomainMetadata(clustering.DOMAIN, clustering.NO_COLUMNS, removed=False)
    return () if current is not None and current.configuration == old.configuration else (old,)


def _configuration(newest: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    configuration = {name: value for name, value in then.items() if name not in _TIMES}
    if properties.is_on(then, properties.ENABLE_TIMESTAMPS):
        # If they are off now, the commit that restores enables them, and records that itself.
        configuration |= {name: newest[name] for name in _TIMES if name in newest}
    configuration |= {name: newest[name] for name in _LINEAGE if name in newest and name not in then}
    for name in _HIGHEST:
        values = [values[name] for values in (newest, then) if values.get(name, "").isdecimal()]
        if values:
            configuration[name] = max(values, key=int)
    if then.get(properties.MAPPING_MODE, MAPPING_NONE) == MAPPING_NONE:
        configuration.pop(properties.MAX_COLUMN_ID, None)  # columns have no ids
    return configuration


def _schema_string(newest: str, then: str) -> str:
    """The old schema; its identity columns keep the highest value that they have given."""
    if _HIGHEST_IDENTITY not in newest or _HIGHEST_IDENTITY not in then:
        return then
    schema: Any = orjson.loads(then)
    current = {field["name"].lower(): field["metadata"] for field in orjson.loads(newest)["fields"]}
    for field in schema["fields"]:
        _keep_highest(field["metadata"], current.get(field["name"].lower(), {}))
    return orjson.dumps(schema).decode()


def _keep_highest(column: dict[str, Any], current: Mapping[str, Any]) -> None:
    marks = [
        mark for mark in (column.get(_HIGHEST_IDENTITY), current.get(_HIGHEST_IDENTITY)) if mark is not None
    ]
    if marks and _IDENTITY_STEP in column:
        column[_HIGHEST_IDENTITY] = max(marks) if column[_IDENTITY_STEP] > 0 else min(marks)
