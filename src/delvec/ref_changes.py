"""New branches and tags: names for versions. For every format that has them.

``formats.WithRefs`` makes them; SQL, ``Table`` and the formats share these values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from delvec.errors import InvalidOperationError

BRANCH, TAG = "branch", "tag"


class IfExists(Enum):
    """What happens to a branch or tag that exists already. ``MUST_REPLACE`` refuses one that does not."""

    REFUSE = "refuse"
    KEEP = "keep"
    REPLACE = "replace"
    MUST_REPLACE = "must replace"

    @classmethod
    def of(cls, value: IfExists | str) -> IfExists:
        """The member with this text."""
        try:
            return cls(value)
        except ValueError:
            names = ", ".join(member.value for member in cls)
            raise InvalidOperationError(f"if_exists is {value!r}, expected one of {names}") from None


@dataclass(frozen=True, slots=True)
class RefRetention:
    """How long a branch or tag, and the versions of a branch, are kept; None: as the table says.

    max_ref_age_ms       how old the newest version of the branch or tag may become
    max_version_age_ms   how old other versions of the branch may become
    min_versions         how many versions of the branch are kept, however old
    """

    max_ref_age_ms: int | None = None
    max_version_age_ms: int | None = None
    min_versions: int | None = None


@dataclass(frozen=True, slots=True)
class NewRef:
    """A branch or tag to make. ``version`` None: at the table's newest version."""

    name: str
    kind: str = BRANCH
    version: int | None = None
    if_exists: IfExists = IfExists.REFUSE
    retention: RefRetention = RefRetention()

    def __post_init__(self) -> None:
        verify_kind(self.kind)
        if not isinstance(self.name, str) or not self.name:
            raise InvalidOperationError(f"name of a {self.kind} is {self.name!r}, expected a text")
        retention = self.retention
        for_branches = (retention.max_version_age_ms, retention.min_versions)
        if self.kind == TAG and for_branches != (None, None):
            raise InvalidOperationError(
                f"tag {self.name!r} has a retention of snapshots, expected none: a tag has one snapshot"
            )
        for value in (retention.max_ref_age_ms, *for_branches):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InvalidOperationError(
                    f"retention of {self.kind} {self.name!r} is {value!r}, expected a whole number, 1 or more"
                )


def verify_kind(kind: str) -> None:
    if kind not in (BRANCH, TAG):
        raise InvalidOperationError(f"kind is {kind!r}, expected {BRANCH!r} or {TAG!r}")
