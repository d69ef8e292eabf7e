"""Errors of catalogs as errors of delvec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from delvec.errors import DelvecError, InvalidOperationError, StorageError, TableNotFoundError

_NOT_FOUND = ("NoSuchTableError", "NoSuchNamespaceError", "NoSuchIdentifierError", "NoSuchIcebergTableError")
_BAD_REQUEST = (ValueError, TypeError, ImportError)
_MAX_LENGTH = 300


@contextmanager
def catalog_errors(catalog: str, identifier: Sequence[str]) -> Iterator[None]:
    """Inside the context, what a catalog raises becomes an error that names the catalog and the table.

    Each kind of catalog has libraries of its own and their errors. So all are caught here.
    """
    table = ".".join(identifier)
    try:
        yield
    except DelvecError:
        raise
    except Exception as error:
        name, reason = type(error).__name__, reason_of(error)
        if name in _NOT_FOUND:
            raise TableNotFoundError(f"no table {table} in catalog {catalog!r}: {reason}") from error
        if name == "NotInstalledError" or type(error) in _BAD_REQUEST:
            raise InvalidOperationError(f"catalog {catalog!r} cannot be opened: {reason}") from error
        raise StorageError(
            f"catalog {catalog!r} did not answer as expected: {name}: {reason}", path=f"{catalog}.{table}"
        ) from error


def reason_of(error: Exception) -> str:
    """The first line of the error's message."""
    text = str(error).strip().split("\n", 1)[0]
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"
