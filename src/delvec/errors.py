"""Every error delvec raises on purpose.

    DelvecError
    ├── FormatError                a file that breaks its format; carries path and offset
    │   └── CorruptVectorError     a deletion vector that cannot be trusted
    ├── StorageError               the store refused or failed; carries path
    │   └── ObjectNotFoundError    nothing is stored at the path
    ├── UnsupportedFeatureError    a table or a store that asks for what delvec does not do
    ├── CommitConflictError        another writer won, and the change cannot be put on top
    ├── TableNotFoundError         no table at the location
    └── InvalidOperationError      a bad request; names the column, option, version or clause

A message says what, where, found and expected, in that order:
``vector CRC is 0x1a2b3c4d, expected 0x99887766: orders/deletion_vector_….bin at 1``.
"""

from __future__ import annotations


class DelvecError(Exception):
    """The root: catching it catches whatever delvec raises on purpose."""


class FormatError(DelvecError):
    """A file that is not what its format says. ``path`` and ``offset`` name the place, where known."""

    def __init__(self, message: str, *, path: str | None = None, offset: int | None = None) -> None:
        self.message = message
        self.path = path
        self.offset = offset
        super().__init__(message + _place(path, offset))

    def at(self, path: str, offset: int | None = None) -> FormatError:
        """The same error with its place filled in, for code that learns the place further out."""
        return type(self)(
            self.message,
            path=self.path if self.path is not None else path,
            offset=self.offset if self.offset is not None else offset,
        )


class CorruptVectorError(FormatError):
    """A deletion vector that cannot be trusted. It is never read as "nothing deleted"."""


class StorageError(DelvecError):
    """The object store refused a request or failed at it. ``path`` is the object asked for."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        self.message = message
        self.path = path
        super().__init__(message + _place(path, None))


class ObjectNotFoundError(StorageError):
    """Nothing is stored at ``path``."""


class UnsupportedFeatureError(DelvecError):
    """The table or the store needs something that delvec does not do; ``feature`` is its name."""

    def __init__(self, message: str, *, feature: str | None = None) -> None:
        self.feature = feature
        super().__init__(message)


class CommitConflictError(DelvecError):
    """Another writer committed first, and this change cannot be put on top of it."""


class TableNotFoundError(DelvecError):
    """No table at the location."""


class InvalidOperationError(DelvecError):
    """A bad request: the message names the column, option, version or clause."""


class SubqueryScopeWarning(UserWarning):
    """A bare column in a subquery of a condition means another table than it seems to."""


def _place(path: str | None, offset: int | None) -> str:
    if path is None:
        return "" if offset is None else f" at {offset}"
    return f": {path}" if offset is None else f": {path} at {offset}"
