"""Writes actions as log lines: the inverse of `action_reader`.

An action's body is a dictionary with the protocol's field names; a commit has few of them. Fields without a
value are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from delvec.delta.actions import DomainMetadata, Metadata, SetTransaction
from delvec.delta.features import FEATURES_READER_VERSION, FEATURES_WRITER_VERSION, Protocol

Body = dict[str, Any]


def lines(actions: Iterable[tuple[str, Body]]) -> bytes:
    """The bytes of a commit file: one action per line."""
    return b"".join(orjson.dumps({name: body}) + b"\n" for name, body in actions)


def add_body(row: Mapping[str, Any]) -> Body:
    """The ``add`` of a row of ``actions.ADDS_SCHEMA``."""
    return _without_nulls(
        {
            "path": row["path"],
            "partitionValues": row["partition_values"] or {},
            "size": row["size"],
            "modificationTime": row["modification_time"],
            "dataChange": row["data_change"],
            "stats": row["stats"],
            "tags": row["tags"],
            "deletionVector": descriptor(row),
            "baseRowId": row["base_row_id"],
            "defaultRowCommitVersion": row["default_row_commit_version"],
            "clusteringProvider": row["clustering_provider"],
        }
    )


def remove_body(row: Mapping[str, Any], *, now_ms: int, data_change: bool) -> Body:
    """The ``remove`` of a live file and its vector, from its row of ``actions.ADDS_SCHEMA``."""
    return _without_nulls(
        {
            "path": row["path"],
            "deletionTimestamp": now_ms,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": row["partition_values"] or {},
            "size": row["size"],
            "tags": row["tags"],
            "deletionVector": descriptor(row),
            "baseRowId": row["base_row_id"],
            "defaultRowCommitVersion": row["default_row_commit_version"],
        }
    )


def tombstone_body(path: str, now_ms: int) -> Body:
    """The ``remove`` of a file that is no data file, so that writers do not delete it before its time."""
    return {"path": path, "deletionTimestamp": now_ms, "dataChange": False}


def descriptor(row: Mapping[str, Any]) -> Body | None:
    """The vector's descriptor, from a row of ``actions.ADDS_SCHEMA``; None if the file has no vector."""
    if row["dv_storage"] is None:
        return None
    return _without_nulls(
        {
            "storageType": row["dv_storage"],
            "pathOrInlineDv": row["dv_path"],
            "offset": row["dv_offset"],
            "sizeInBytes": row["dv_size"],
            "cardinality": row["dv_cardinality"],
        }
    )


def protocol_body(protocol: Protocol) -> Body:
    body: Body = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
    }
    if protocol.min_reader_version >= FEATURES_READER_VERSION:
        body["readerFeatures"] = sorted(protocol.reader_features)
    if protocol.min_writer_version >= FEATURES_WRITER_VERSION:
        body["writerFeatures"] = sorted(protocol.writer_features)
    return body


def metadata_body(metadata: Metadata) -> Body:
    return _without_nulls(
        {
            "id": metadata.id,
            "name": metadata.name,
            "description": metadata.description,
            "format": {"provider": metadata.provider, "options": {}},
            "schemaString": metadata.schema_string,
            "partitionColumns": list(metadata.partition_columns),
            "configuration": dict(metadata.configuration),
            "createdTime": metadata.created_time,
        }
    )


def txn_body(txn: SetTransaction) -> Body:
    return {"appId": txn.app_id, "version": txn.version, "lastUpdated": txn.last_updated}


def domain_body(domain: DomainMetadata) -> Body:
    return {"domain": domain.domain, "configuration": domain.configuration, "removed": domain.removed}


def _without_nulls(body: Body) -> Body:
    return {name: value for name, value in body.items() if value is not None}
