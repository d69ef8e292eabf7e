"""The clustering columns of a table, from the domain metadata ``delta.clustering``.

{"clusteringColumns": [["col-1"], ["col-2", "col-3"]]}      physical names, outermost first
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from delvec.delta.actions import DomainMetadata
from delvec.errors import FormatError

DOMAIN = "delta.clustering"
COLUMNS = "clusteringColumns"
NO_COLUMNS = orjson.dumps({COLUMNS: [], "domainName": DOMAIN}).decode()
"""The domain of a table that is no longer clustered."""


def clustering_columns(domains: Mapping[str, DomainMetadata]) -> frozenset[tuple[str, ...]]:
    """The physical paths of the columns; empty if the table is not clustered."""
    domain = domains.get(DOMAIN)
    if domain is None:
        return frozenset()
    try:
        columns: Any = orjson.loads(domain.configuration)[COLUMNS]
        return frozenset((column,) if isinstance(column, str) else tuple(column) for column in columns)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise FormatError(
            f"domain {DOMAIN} is {domain.configuration!r}, expected a list as {COLUMNS}"
        ) from None
