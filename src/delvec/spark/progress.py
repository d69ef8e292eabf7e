"""Progress reports: a verb reports its progress while it runs. Without a listener, reports are ignored.

The listener runs in the thread of the verb's caller, so it must be fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ROWS_FOUND = "rows found"
FILES_WRITTEN = "files written"
VECTORS_STORED = "vectors stored"
DELETES_READ = "delete files read"

Listener = Callable[[str, int], None]
"""Called with the kind of progress (one of the names above) and the increment."""

_listener: ContextVar[Listener | None] = ContextVar("delvec_progress", default=None)


@contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Inside the context, verbs report their progress to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(kind: str, count: int) -> None:
    """Report that the count of this kind has grown by ``count``."""
    listener = _listener.get()
    if listener is not None:
        listener(kind, count)
