"""The files of a table: one small interface for local disk, memory, S3, GCS and Azure."""

from delvec.storage.backend import LINK, WALKED_SCHEMA, Entry
from delvec.storage.local import STAGED_NAME
from delvec.storage.parallel import in_parallel
from delvec.storage.root import Storage, open_storage

__all__ = ["LINK", "STAGED_NAME", "WALKED_SCHEMA", "Entry", "Storage", "in_parallel", "open_storage"]
