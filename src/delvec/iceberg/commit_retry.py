"""The table properties that say how often a commit is tried again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from delvec.commit_retries import CommitRetries
from delvec.iceberg.property_values import whole_number

NUM_RETRIES = "commit.retry.num-retries"
MIN_WAIT_MS = "commit.retry.min-wait-ms"
MAX_WAIT_MS = "commit.retry.max-wait-ms"
TIMEOUT_MS = "commit.retry.total-timeout-ms"
PROPERTIES = (NUM_RETRIES, MIN_WAIT_MS, MAX_WAIT_MS, TIMEOUT_MS)


def commit_retries(properties: Mapping[str, str]) -> CommitRetries:
    """What the properties say; where they say nothing, delvec's defaults."""
    given = {name: whole_number(properties, name, default=0) for name in PROPERTIES if name in properties}
    retries = CommitRetries()
    if NUM_RETRIES in given:
        retries = replace(retries, attempts=given[NUM_RETRIES] + 1)
    if MIN_WAIT_MS in given:
        retries = replace(retries, least_pause=given[MIN_WAIT_MS] / 1000)
    if MAX_WAIT_MS in given:
        retries = replace(retries, longest_pause=given[MAX_WAIT_MS] / 1000)
    if TIMEOUT_MS in given:
        retries = replace(retries, timeout=given[TIMEOUT_MS] / 1000)
    return retries
