"""Numbers of bytes as text, for people."""

from __future__ import annotations

import math

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(count: int) -> str:
    """Bytes in the largest unit in which the number is at least one: ``1.4 KiB``."""
    power = 0 if count < 1024 else min(int(math.log(count, 1024)), len(_UNITS) - 1)
    return f"{count} B" if not power else f"{count / 1024**power:.1f} {_UNITS[power]}"
