"""How often a commit is tried again when other writers were first."""

from __future__ import annotations

import random
from dataclasses import dataclass

MAX_COMMIT_ATTEMPTS = 100
"""How often a commit is tried when each conflict can be resolved by rebasing."""


@dataclass(frozen=True, slots=True)
class CommitRetries:
    """How often a commit is tried, and how long it pauses between two attempts, in seconds.

    first_pause    the longest pause after the first attempt; it doubles with each further one
    least_pause    no pause is shorter
    longest_pause  no pause is longer
    timeout        after so many seconds no attempt starts; None: no limit
    """

    attempts: int = MAX_COMMIT_ATTEMPTS
    first_pause: float = 0.01
    least_pause: float = 0.0
    longest_pause: float = 1.0
    timeout: float | None = None

    def pause(self, attempt: int) -> float:
        """A random pause after this attempt, the first of which is 1."""
        most = min(self.longest_pause, max(self.first_pause, self.least_pause) * 2 ** min(attempt - 1, 60))
        return random.uniform(min(self.least_pause, most), most)

    def allow(self, attempts: int, seconds: float) -> bool:
        """Whether another attempt may start after so many attempts and seconds."""
        return attempts < self.attempts and (self.timeout is None or seconds < self.timeout)
