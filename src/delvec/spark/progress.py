"""Progress reports: a verb reports what it has done while it runs. Without a listener nothing happens.

The listener runs in the thread of the verb's caller, so it must be fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ROWS_FOUND = "rows found"
FILES_WRITTEN = "files written"
VECTORS_STORED = "vectors stored"

Listener = Callable[[str, int], None]
"""Called with what was done (one of the names above) and how many were added."""

_listener: ContextVar[Listener | None] = ContextVar("delvec_progress", default=None)


@contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Verbs that run inside report their progress to ``listener``."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def tell(what: str, count: int) -> None:
    """Report that ``count`` more were done."""
    listener = _listener.get()
    if listener is not None:
        listener(what, count)
