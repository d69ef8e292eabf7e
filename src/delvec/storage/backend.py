"""What a place to keep files must do for ``storage``, and how its failures become ours.

A backend is asked by key (the full name in its store) and knows neither roots nor absolute locations: those
are ``storage.Storage``'s. There are two: plain files (``storage.local``) and object stores
(``storage.objects``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa
from obstore.exceptions import BaseError

from delvec.errors import ObjectNotFoundError, StorageError

_LONGEST_REASON = 400
_ABSENT = (FileNotFoundError, NotADirectoryError)
_WRITING = ("put", "list", "delete")  # "not found" is then the bucket, not the file
_S3_REASON = re.compile(r"<Code>(.*?)</Code>\s*<Message>(.*?)</Message>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored file: ``path`` is relative to the storage's root and decoded, ``modified`` is in UTC."""

    path: str
    size: int
    modified: datetime


Request = Callable[[], AbstractContextManager[None]]
"""Counts the request made inside it and maps its errors: for files that ask again while they are open."""


class Backend(Protocol):
    """Files by key. Reading what is absent raises FileNotFoundError (or OSError or obstore's errors)."""

    gap: int  # ranges nearer than this are worth one request

    def check_process(self) -> None: ...
    def read(self, key: str) -> bytes: ...
    def read_spans(self, key: str, spans: Sequence[tuple[int, int]]) -> list[Any]: ...  # of (start, end)
    def open_input(self, key: str, request: Request) -> pa.NativeFile: ...
    def head(self, key: str) -> Entry: ...
    def list(self, prefix: str, after: str | None) -> Iterator[Entry]: ...
    def list_folder(self, prefix: str) -> Iterator[Entry]: ...
    def put(self, key: str, data: bytes) -> None: ...
    def put_if_absent(self, key: str, data: bytes) -> bool: ...
    def delete(self, keys: Iterable[str]) -> None: ...
    def delete_folder(self, prefix: str) -> None: ...
    def copy(self, source: str, target: str, *, overwrite: bool) -> bool: ...
    def move(self, source: str, target: str, *, overwrite: bool) -> bool: ...


@contextmanager
def mapped_errors(action: str, location: str) -> Iterator[None]:
    """Raises what the store raises inside as ObjectNotFoundError or StorageError at ``location``."""
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        if isinstance(error, _ABSENT) and action not in _WRITING:
            raise ObjectNotFoundError(f"cannot {action}: not found", path=location) from error
        raise StorageError(f"cannot {action}: {_reason(error)}", path=location) from error


def _reason(error: Exception) -> str:
    """The store's own words on one line; obstore appends a dump of its Rust values, which is cut off."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).split("\n\nDebug source")[0]
    answer = _S3_REASON.search(text)
    text = " ".join((f"{answer[1]}: {answer[2]}" if answer else text).split())
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "…"
