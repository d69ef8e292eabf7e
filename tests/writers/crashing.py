"""Storage calls that fail, or that are the process's last: counted, and met one by one.

    die    the process ends there, with nothing cleaned up
    fail   the store fails once, and works again
    gone   the store fails, and at all calls that follow

``before`` a call it is not carried out; ``after`` it is, and its answer is lost. The steps by which a local
file gets its name are calls of their own: ``write`` (of which "before" means half of the bytes) and ``link``.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delvec.storage import local
from delvec.storage.local import LocalBackend
from delvec.storage.objects import ObjectBackend

DIE, FAIL, GONE = "die", "fail", "gone"
BEFORE, AFTER = "before", "after"
COMMITS = "put_if_absent"
DIED = 86
"""The exit code of a process that met its point."""

_LISTS = ("list", "list_folder", "walk")
_READING = ("read", "read_spans", "open_input", "head", *_LISTS)
_CHANGING = ("put", "put_if_absent", "delete", "delete_folder", "delete_empty_folders", "copy", "move")
_STEPS = ("_write", "_link")


@dataclass(frozen=True, slots=True)
class Point:
    """At which call, counted from 0 (of those named ``of``, if any), on which side, and what happens."""

    mode: str
    when: str
    call: int
    of: str | None = None

    def __str__(self) -> str:
        return f"{self.mode} {self.when} {self.of or 'call'} {self.call}"


def points_of(calls: Sequence[str]) -> list[Point]:
    """All points of a statement that makes these calls.

    Left out is what is the same as another: a store that is gone after a call that only reads is gone before
    it, and that a step fails is that its call does.
    """
    found = []
    for number, call in enumerate(calls):
        kind = call.split()[0]
        modes = (DIE, FAIL, GONE) if kind in _READING + _CHANGING else (DIE,)
        sides = [(mode, when) for mode in modes for when in (BEFORE, AFTER)]
        if kind in _READING:
            sides.remove((GONE, AFTER))
        found += [Point(mode, when, number) for mode, when in sides]
    return found


class Calls:
    """The storage calls of this process while ``watched``; ``point``: where something happens."""

    def __init__(self, point: Point | None = None) -> None:
        self.point = point
        self.names: list[str] = []
        self.met = False
        self._lock = threading.Lock()
        self._inside = threading.local()

    def around(
        self,
        name: str,
        where: str,
        call: Callable[[], Any],
        fail: Callable[[], None],
        half: Callable[[], None] | None = None,
    ) -> Any:
        """What ``call`` gives, unless this is the point. ``fail`` raises as the store does, ``half`` is what
        may have been done of a call that was not carried out.
        """
        with self._lock:
            number = self._number(name)
            self.names.append(f"{name} {where}")
        if self._happens(number, BEFORE):
            self._end(fail, half)
        try:
            return call()
        finally:  # also where the answer was that nothing is there
            if self._happens(number, AFTER):
                self._end(fail)

    def _number(self, name: str) -> int | None:
        """The call's number as the point counts; None: it does not count."""
        of = None if self.point is None else self.point.of
        if of is None:
            return len(self.names)
        return sum(one.split()[0] == of for one in self.names) if name == of else None

    def _happens(self, number: int | None, when: str) -> bool:
        point = self.point
        if point is None:
            return False
        if number == point.call and when == point.when:
            self.met = True
            return True
        return point.mode == GONE and self.met and when == BEFORE

    def _end(self, fail: Callable[[], None], half: Callable[[], None] | None = None) -> None:
        if half is not None:
            half()
        assert self.point is not None
        if self.point.mode == DIE:
            os._exit(DIED)
        fail()

    @property
    def nested(self) -> bool:
        return getattr(self._inside, "call", False)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Calls of a backend to itself are one call."""
        self._inside.call = True
        try:
            yield
        finally:
            self._inside.call = False


@contextmanager
def watched(calls: Calls) -> Iterator[Calls]:
    """Every storage call inside goes through ``calls``."""
    olds: list[tuple[Any, str, Any]] = []
    try:
        for backend in (LocalBackend, ObjectBackend):
            for name in (*_READING, *_CHANGING):
                olds.append((backend, name, getattr(backend, name)))
                setattr(backend, name, _method(calls, name, getattr(backend, name)))
        for name in _STEPS:
            olds.append((local, name, getattr(local, name)))
            setattr(local, name, _step(calls, name, getattr(local, name)))
        yield calls
    finally:
        for owner, name, old in olds:
            setattr(owner, name, old)


@contextmanager
def meeting_at_commit(wait: Callable[[], Any]) -> Iterator[None]:
    """``wait`` is called once, before the first commit is put: writers who meet there have all read."""
    old = {backend: backend.put_if_absent for backend in (LocalBackend, ObjectBackend)}
    met: list[bool] = []

    def put(self: Any, key: str, data: bytes) -> bool:
        if ("_delta_log/" in key or key.endswith(".metadata.json")) and not met:
            met.append(True)
            wait()
        return old[type(self)](self, key, data)

    for backend in old:
        backend.put_if_absent = put
    try:
        yield
    finally:
        for backend, method in old.items():
            backend.put_if_absent = method


def _method(calls: Calls, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def called(self: Any, *given: Any, **options: Any) -> Any:
        if calls.nested:
            return method(self, *given, **options)

        def call() -> Any:
            with calls.inside():
                found = method(self, *given, **options)
                return iter(list(found)) if name in _LISTS else found

        def fail() -> None:
            if name == "open_input":  # its errors are told apart by the request that it is given
                with given[1]():
                    _raise()
            _raise()

        return calls.around(name, _shown(given[0]), call, fail)

    return called


def _step(calls: Calls, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
    def called(first: str, second: Any, **options: Any) -> Any:
        def call() -> Any:
            return step(first, second, **options)

        if name == "_link":
            return calls.around("link", _shown(second), call, _raise)
        return calls.around("write", _shown(first), call, _raise, half=lambda: _write_half(first, second))

    return called


def _write_half(path: str, data: bytes) -> None:
    with suppress(OSError):
        Path(path).write_bytes(data[: len(data) // 2])


def _raise() -> None:
    raise OSError(errno.EIO, "the store was made to fail")


def _shown(key: Any) -> str:
    """The end of a name, without what is random in it."""
    if not isinstance(key, str):
        return f"{len(list(key))} files"
    parts = key.split("/")
    kinds = {
        "_delta_log": "_delta_log/",
        "_delvec_staging": "_delvec_staging/",
        "metadata": "metadata/",
        "_change_data": "_change_data/",
    }
    folder = next((kinds[part] for part in parts if part in kinds), "")
    name = parts[-1]
    for kind in (".staged", ".bin", ".parquet", ".json", "_last_checkpoint", ".puffin", ".avro", ".text"):
        if name.endswith(kind):
            return folder + (name if kind == ".json" or name[0].isdigit() else f"*{kind}")
    return folder or "*"
