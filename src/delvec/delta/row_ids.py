"""Row tracking: assigns row ids to new files.

A row's id is the ``baseRowId`` of its file plus its position. New ids are above the high-water mark, which is
in the domain metadata ``delta.rowTracking``: ``{"rowIdHighWaterMark": 41}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from delvec.delta import properties
from delvec.delta.actions import DomainMetadata
from delvec.delta.features import ROW_TRACKING
from delvec.delta.metadata_change import TableState
from delvec.errors import FormatError

DOMAIN = "delta.rowTracking"
HIGH_WATER_MARK = "rowIdHighWaterMark"
NO_IDS_YET = -1
FIELDS = ("baseRowId", "defaultRowCommitVersion")
"""The fields of an ``add`` action that say the ids and the version of its rows."""


def gives_ids(state: TableState) -> bool:
    """Whether every new file must have ids: yes if the feature is supported, even if it is not enabled."""
    return ROW_TRACKING in state.protocol.features_to_write and not are_suspended(state)


def are_suspended(state: TableState) -> bool:
    """Whether no file may get ids, because the feature is about to be dropped."""
    return properties.is_on(state.metadata.configuration, properties.ROW_TRACKING_SUSPENDED)


def high_water_mark(domains: Mapping[str, DomainMetadata]) -> int:
    """The highest id so far."""
    domain = domains.get(DOMAIN)
    if domain is None:
        return NO_IDS_YET
    try:
        mark = orjson.loads(domain.configuration)[HIGH_WATER_MARK]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        mark = None
    if not isinstance(mark, int):
        raise FormatError(
            f"domain {DOMAIN} is {domain.configuration!r}, expected a number as {HIGH_WATER_MARK}"
        )
    return mark


def with_ids(
    adds: Sequence[dict[str, Any]], record_counts: Sequence[int], mark: int, version: int
) -> tuple[list[dict[str, Any]], int]:
    """The adds with ids above ``mark``, and the new mark."""
    result = []
    for add, records in zip(adds, record_counts, strict=True):
        result.append(add | {"baseRowId": mark + 1, "defaultRowCommitVersion": version})
        mark += records
    return result, mark


def domain_of(mark: int) -> DomainMetadata:
    return DomainMetadata(DOMAIN, orjson.dumps({HIGH_WATER_MARK: mark}).decode(), removed=False)
