"""The files of a table: one small interface for local disk, memory, S3, GCS and Azure."""

from delvec.storage.backend import Entry
from delvec.storage.parallel import in_parallel
from delvec.storage.root import Storage, open_storage

__all__ = ["Entry", "Storage", "in_parallel", "open_storage"]
