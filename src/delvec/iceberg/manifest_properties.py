"""The table properties that say how manifests are merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from delvec.iceberg.property_values import flag, whole_number

MERGE_ENABLED = "commit.manifest-merge.enabled"
MIN_COUNT = "commit.manifest.min-count-to-merge"
TARGET_BYTES = "commit.manifest.target-size-bytes"


@dataclass(frozen=True, slots=True)
class ManifestProperties:
    """merges: small manifests are merged, if ``min_count`` of them or more fit into ``target_bytes``."""

    merges: bool = True
    min_count: int = 100
    target_bytes: int = 8 << 20

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ManifestProperties:
        return cls(
            merges=flag(properties, MERGE_ENABLED, default=True),
            min_count=whole_number(properties, MIN_COUNT, default=100, least=1),
            target_bytes=whole_number(properties, TARGET_BYTES, default=8 << 20, least=1),
        )
