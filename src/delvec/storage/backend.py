"""The interface of a storage backend, and the translation of its errors.

A backend gets keys (full names in its store) and knows neither roots nor locations: ``storage.Storage`` does.
There are two backends: local files (``storage.local``) and object stores (``storage.objects``).
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

_MAX_REASON = 400  # characters
_ABSENT = (FileNotFoundError, NotADirectoryError)
_NOT_OF_A_FILE = ("put", "list", "delete")  # requests for which "not found" means the bucket
_S3_REASON = re.compile(r"<Code>(.*?)</Code>\s*<Message>(.*?)</Message>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored file: ``path`` is relative to the storage's root and decoded, ``modified`` is in UTC."""

    path: str
    size: int
    modified: datetime


WALKED_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified_ms", pa.int64(), nullable=False),
        pa.field("entries", pa.int64()),
    ]
)
"""Columns of ``Storage.walk``. ``entries``: how many files and folders a folder holds; null for a file,
``LINK`` for a link to a folder, which is not entered.
"""

LINK = -1

Enter = Callable[[str], bool]
"""Whether to list the folder with this path, relative to where the walk started."""

Request = Callable[[], AbstractContextManager[None]]
"""A context that counts a request and translates its errors. An open file uses it for each later request."""


class Backend(Protocol):
    """Files by key. Reading a file that does not exist raises FileNotFoundError; other failures raise OSError
    or errors of obstore.
    """

    gap: int  # two ranges with fewer bytes between them are read in one request

    def check_process(self) -> None: ...
    def read(self, key: str) -> bytes: ...
    def read_spans(self, key: str, spans: Sequence[tuple[int, int]]) -> list[Any]: ...  # (start, end)
    def open_input(self, key: str, request: Request) -> pa.NativeFile: ...
    def head(self, key: str) -> Entry: ...
    def list(self, prefix: str, after: str | None) -> Iterator[Entry]: ...
    def list_folder(self, prefix: str) -> Iterator[Entry]: ...
    def walk(self, prefix: str, enter: Enter) -> Iterator[pa.Table]: ...  # paths relative to the prefix
    def put(self, key: str, data: bytes) -> None: ...
    def put_if_absent(self, key: str, data: bytes) -> bool: ...
    def delete(self, keys: Iterable[str]) -> None: ...
    def delete_folder(self, prefix: str) -> None: ...
    def delete_empty_folders(self, keys: Iterable[str]) -> int: ...
    def copy(self, source: str, target: str, *, overwrite: bool) -> bool: ...
    def move(self, source: str, target: str, *, overwrite: bool) -> bool: ...


def walked(rows: Sequence[tuple[str, int, int, int | None]]) -> pa.Table:
    """The rows as ``WALKED_SCHEMA``."""
    columns = zip(*rows, strict=True) if rows else [()] * len(WALKED_SCHEMA)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, WALKED_SCHEMA, strict=True)],
        schema=WALKED_SCHEMA,
    )


@contextmanager
def mapped_errors(action: str, location: str) -> Iterator[None]:
    """Translate the store's errors to ObjectNotFoundError and StorageError with the location."""
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        if isinstance(error, _ABSENT) and action not in _NOT_OF_A_FILE:
            raise ObjectNotFoundError(f"cannot {action}: not found", path=location) from error
        raise StorageError(f"cannot {action}: {_reason(error)}", path=location) from error


def _reason(error: Exception) -> str:
    """The store's message on one line, without the dump of Rust values that obstore appends."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).split("\n\nDebug source")[0]
    answer = _S3_REASON.search(text)
    text = " ".join((f"{answer[1]}: {answer[2]}" if answer else text).split())
    return text if len(text) <= _MAX_REASON else text[:_MAX_REASON] + "…"
