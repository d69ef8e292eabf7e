"""Several requests at a time: object stores answer slowly, but many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AT_ONCE = 8

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(read: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """``read`` of each item, in order."""
    items = list(items)
    if len(items) < 2:
        return [read(item) for item in items]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(read, items))
