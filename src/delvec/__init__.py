"""Row-level deletes for lakehouse tables, from plain PySpark."""

from typing import TYPE_CHECKING, Any

from delvec.errors import (
    CommitConflictError,
    CorruptVectorError,
    DelvecError,
    FormatError,
    InvalidOperationError,
    ObjectNotFoundError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delvec.version import __version__

if TYPE_CHECKING:
    from delvec.table import Table


__all__ = [
    "CommitConflictError",
    "CorruptVectorError",
    "DelvecError",
    "FormatError",
    "InvalidOperationError",
    "ObjectNotFoundError",
    "StorageError",
    "Table",
    "TableNotFoundError",
    "UnsupportedFeatureError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """``Table`` needs PySpark, which is loaded only when it is asked for."""
    if name == "Table":
        from delvec.table import Table  # noqa: PLC0415 - see above

        return Table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
