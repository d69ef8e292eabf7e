"""What a verb has done so far, told while it works to whoever listens; to no one by default.

A verb runs in its caller's thread, and so does the listener: it must be quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ROWS_FOUND = "rows found"
FILES_WRITTEN = "files written"
VECTORS_STORED = "vectors stored"

Listener = Callable[[str, int], None]
"""Gets what was done (one of the names above) and how many more of them there are now."""

_listener: ContextVar[Listener | None] = ContextVar("delvec_progress", default=None)


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """The verbs called inside tell ``listener`` what they do."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def tell(what: str, count: int) -> None:
    listener = _listener.get()
    if listener is not None:
        listener(what, count)
