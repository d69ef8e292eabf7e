"""Actions that a commit has beside those of its ``RowDelta``: the delta's ``carry``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from delvec.delta import properties
from delvec.delta.actions import DomainMetadata
from delvec.delta.metadata_change import TableState
from delvec.delta.row_ids import NO_IDS_YET
from delvec.row_delta import RowDelta


@dataclass(frozen=True, slots=True)
class ExtraActions:
    """What only Delta knows about a commit.

    state            protocol and metadata after the commit; None: those that the delta's change gives
    states_metadata  the commit has a ``metaData`` action even if the metadata stays the same: then every
                     concurrent writer sees that the table was replaced
    restored         files that are added again as they were: rows of ``actions.ADDS_SCHEMA``
    with_other_ids   live files that are added again with other row ids: rows of ``actions.ADDS_SCHEMA``
    row_id_mark      new row ids are above it, and the table's high-water mark is at least this
    tombstones       paths of vector files, as the log records paths
    protects         the commit's version is the one before which checkpoints are protected
    metrics          replace the counts of files; None: the counts stay
    """

    state: TableState | None = None
    states_metadata: bool = False
    restored: tuple[Mapping[str, Any], ...] = ()
    with_other_ids: tuple[Mapping[str, Any], ...] = ()
    row_id_mark: int = NO_IDS_YET
    tombstones: tuple[str, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    protects: bool = False
    metrics: Mapping[str, int] | None = None

    def state_of(self, state: TableState, version: int) -> TableState:
        """The state that version ``version`` commits."""
        if not self.protects:
            return state
        protected = {properties.CHECKPOINT_PROTECTION: str(version)}
        configuration = {**state.metadata.configuration, **protected}
        return replace(state, metadata=replace(state.metadata, configuration=configuration))


NONE = ExtraActions()


def extra_actions(delta: RowDelta) -> ExtraActions:
    return delta.carry if isinstance(delta.carry, ExtraActions) else NONE
