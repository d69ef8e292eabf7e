"""The files of a metadata tree, as commit and planning logic uses them: an interface without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """A leaf that was stored: its location as the metadata records it, and its size in bytes."""

    location: str
    size: int


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A blob in a Puffin file: the file's recorded location and size, and where the blob is in it."""

    location: str
    file_size: int
    offset: int
    length: int


class LeafReader(Protocol):
    """Reads what the entries of a root refer to. Locations are as the metadata records them."""

    def entries(self, location: str, size: int | None, content_type: int) -> pa.Table:
        """All entries of a leaf in the order of the file, DELETED ones too. Nothing is inherited.

        ``content_type``: DATA_MANIFEST or DELETE_MANIFEST.
        """
        ...

    def blob(self, location: str, offset: int, length: int) -> bytes:
        """The framed blob of a stored manifest vector."""
        ...


class ManifestFiles(LeafReader, Protocol):
    """Also stores new files. A file that is stored does not belong to the table before the root does."""

    def store(self, entries: pa.Table, content_type: int) -> StoredManifest:
        """Store a leaf with these entries."""
        ...

    def store_blobs(self, blobs: Sequence[bytes], leaves: Sequence[str]) -> list[StoredBlob]:
        """Store the framed blobs of manifest vectors, of these leaves, in one Puffin file."""
        ...
