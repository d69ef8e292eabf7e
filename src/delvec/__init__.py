"""Row-level deletes for lakehouse tables, from plain PySpark."""

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

__version__ = "0.1.0.dev0"

__all__ = [
    "CommitConflictError",
    "CorruptVectorError",
    "DelvecError",
    "FormatError",
    "InvalidOperationError",
    "ObjectNotFoundError",
    "StorageError",
    "TableNotFoundError",
    "UnsupportedFeatureError",
    "__version__",
]
