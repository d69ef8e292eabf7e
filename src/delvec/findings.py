"""``Finding``: a problem that `delvec.verify` reports, found by its own checks or by those of a format."""

from __future__ import annotations

from dataclasses import dataclass

ERROR = "error"
WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with the table (``error``); something that could not be checked, or that is of no use
    but harms no reader (``warning``).
    """

    severity: str
    check: str
    path: str
    message: str
