"""Several requests at the same time, because a single request to an object store is slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

MAX_THREADS = 8

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(read: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """The results of ``read`` for each item, in order."""
    items = list(items)
    if len(items) < 2:
        return [read(item) for item in items]
    with ThreadPoolExecutor(MAX_THREADS) as pool:
        return list(pool.map(read, items))
