"""Runs ALTER TABLE … DROP FEATURE deletionVectors [TRUNCATE HISTORY]."""

from __future__ import annotations

from delvec.errors import UnsupportedFeatureError
from delvec.statements.run_query import Frames
from delvec.statements.statement import DropFeature

_VECTORS = "deletionvectors"


def drop_feature(frames: Frames, statement: DropFeature) -> None:
    if statement.feature.lower() != _VECTORS:
        raise UnsupportedFeatureError(
            f"feature {statement.feature} cannot be dropped, expected deletionVectors: ALTER TABLE "
            f"{statement.table} DROP FEATURE {statement.feature}",
            feature=f"DROP FEATURE {statement.feature}",
        )
    table = frames.tables.of(statement.table)
    table.drop_deletion_vectors(truncate_history=statement.truncate_history)
