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
    from delvec.statements.run import sql
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
    "sql",
]


def __getattr__(name: str) -> Any:
    """``Table`` and ``sql`` need PySpark, which is loaded only when one of them is used."""
    if name == "Table":
        from delvec.table import Table  # noqa: PLC0415 - see above

        return Table
    if name == "sql":
        from delvec.statements.run import sql  # noqa: PLC0415

        return sql
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
