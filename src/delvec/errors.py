"""The errors of delvec.

    DelvecError
    ├── FormatError                a file violates its format; has path and offset
    │   └── CorruptVectorError     a deletion vector is damaged
    ├── StorageError               the store refused a request or failed; has the path
    │   └── ObjectNotFoundError    no file at the path
    ├── UnsupportedFeatureError    the table or the store needs a feature that delvec does not have
    ├── CommitConflictError        another writer committed first, and the change cannot be rebased
    ├── TableNotFoundError         no table at the location
    └── InvalidOperationError      an invalid request; names the column, option, version or clause

A message says what is wrong, what was found, what was expected, and where:
``vector CRC is 0x1a2b3c4d, expected 0x99887766: orders/deletion_vector_….bin at 1``.
"""

from __future__ import annotations


class DelvecError(Exception):
    """The base class of all errors of delvec."""


class FormatError(DelvecError):
    """A file violates its format. ``path`` and ``offset`` say where, if known."""

    def __init__(self, message: str, *, path: str | None = None, offset: int | None = None) -> None:
        self.message = message
        self.path = path
        self.offset = offset
        super().__init__(message + _position(path, offset))

    def at(self, path: str, offset: int | None = None) -> FormatError:
        """The same error with a path and an offset, unless it has them already. For callers that know
        them.
        """
        return type(self)(
            self.message,
            path=self.path if self.path is not None else path,
            offset=self.offset if self.offset is not None else offset,
        )


class CorruptVectorError(FormatError):
    """A deletion vector is damaged. It is never read as "no rows deleted"."""


class StorageError(DelvecError):
    """The store refused a request or failed. ``path`` is the requested file."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        self.message = message
        self.path = path
        super().__init__(message + _position(path, None))


class ObjectNotFoundError(StorageError):
    """There is no file at ``path``."""


class UnsupportedFeatureError(DelvecError):
    """The table or the store needs a feature that delvec does not have; ``feature`` is its name."""

    def __init__(self, message: str, *, feature: str | None = None) -> None:
        self.feature = feature
        super().__init__(message)


class CommitConflictError(DelvecError):
    """Another writer committed first, and this change cannot be rebased on that commit."""


class TableNotFoundError(DelvecError):
    """No table at the location."""


class InvalidOperationError(DelvecError):
    """An invalid request. The message names the column, option, version or clause."""


class SubqueryScopeWarning(UserWarning):
    """A column without a qualifier in a subquery of a condition belongs to another table than it seems to."""


def _position(path: str | None, offset: int | None) -> str:
    if path is None:
        return "" if offset is None else f" at {offset}"
    return f": {path}" if offset is None else f": {path} at {offset}"
