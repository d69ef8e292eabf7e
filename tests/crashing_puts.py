"""Statements during which one request that writes a local file fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from delvec.errors import StorageError
from delvec.storage.local import LocalBackend

SWAP = -1
CRASHES = [
    *(pytest.param(at, when, marks=pytest.mark.slow) for at in range(6) for when in ("before", "after")),
    (SWAP, "before"),
]
"""Which request fails, and whether before or after it took effect. ``SWAP``: the swap itself."""


def crash(
    monkeypatch: pytest.MonkeyPatch,
    at: int,
    when: str,
    *,
    counted: Callable[[], Any],
    crashing: Callable[[], Any],
) -> None:
    """Run ``counted`` to find the swap, then ``crashing``, the same statement on another table, with the
    failing request.
    """
    calls: list[str] = []
    failing: list[int] = []
    for name in ("put", "put_if_absent"):
        method = getattr(LocalBackend, name)

        def request(self: Any, *args: Any, _method: Any = method, _name: str = name, **options: Any) -> Any:
            fails = len(calls) in failing
            calls.append(_name)
            if fails and when == "before":
                raise StorageError("the store is down", path=str(args[0]))
            result = _method(self, *args, **options)
            if fails:
                raise StorageError("the answer was lost", path=str(args[0]))
            return result

        monkeypatch.setattr(LocalBackend, name, request)
    counted()
    swap = calls.index("put_if_absent")
    calls.clear()
    failing.append(swap if at == SWAP else at)
    with contextlib.suppress(StorageError):
        crashing()
    assert len(calls) > failing[0]
