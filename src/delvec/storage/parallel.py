"""Several requests at the same time, because a single request to an object store is slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
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


def walk_in_parallel(
    start: Iterable[T], visit: Callable[[T], R], following: Callable[[R], Iterable[T]]
) -> Iterator[R]:
    """The result of ``visit`` for each item, as it is ready; then for the items that ``following`` returns
    for each result.
    """
    with ThreadPoolExecutor(MAX_THREADS) as pool:
        pending: set[Future[R]] = {pool.submit(visit, item) for item in start}
        try:
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    pending |= {pool.submit(visit, item) for item in following(result)}
                    yield result
        finally:
            for future in pending:
                future.cancel()
