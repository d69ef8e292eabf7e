"""``Conflict``: why a statement must run again."""

from __future__ import annotations

from dataclasses import dataclass

from delvec.row_delta import Won


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a delta cannot be rebased: the commit that it conflicts with, and what that commit did."""

    version: int
    operation: str
    reason: str

    @classmethod
    def with_commit(cls, won: Won, reason: str) -> Conflict:
        return cls(won.version, won.operation, reason)
