"""Puffin files: Iceberg's container for blobs such as deletion vectors."""

from delvec.puffin.file import DELETION_VECTOR, MAGIC, PuffinReader, PuffinWriter
from delvec.puffin.footer import BlobMetadata

__all__ = ["DELETION_VECTOR", "MAGIC", "BlobMetadata", "PuffinReader", "PuffinWriter"]
