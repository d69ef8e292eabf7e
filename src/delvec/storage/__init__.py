"""Files where a table is: one small interface over local disk, memory, S3, GCS and Azure."""

from delvec.storage.backend import Entry
from delvec.storage.root import Storage, open_storage

__all__ = ["Entry", "Storage", "open_storage"]
