"""Writes deletion vectors: a Puffin file with a blob for each data file (`delvec.puffin`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delvec import blob, location
from delvec.puffin import DELETION_VECTOR, PuffinWriter
from delvec.puffin.file import CARDINALITY, REFERENCED_DATA_FILE, ROW_POSITION_FIELD
from delvec.row_delta import new_file_id
from delvec.storage import Storage

DATA_FOLDER = "data"
"""Where new files of a table with deletes are."""


@dataclass(frozen=True, slots=True)
class VectorFile:
    """A new file with vectors: its location, its size in bytes, and offset and length of each blob."""

    location: str
    size: int
    places: tuple[tuple[int, int], ...]


def write_vectors(
    storage: Storage, blobs: Sequence[bytes], names: Sequence[str], *, folder: str
) -> VectorFile:
    """Write the framed blobs to one new file in ``folder``, a path below the storage's root.

    ``names`` are the data files, as the metadata names them.
    """
    path = f"{folder}/deletes-{new_file_id()}.puffin".lstrip("/")
    data, places = vectors_file(blobs, names)
    storage.put(path, data)
    return VectorFile(location.join(storage.root, path), len(data), places)


def vectors_file(blobs: Sequence[bytes], names: Sequence[str]) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """The content of a Puffin file with framed blobs, and offset and length of each."""
    writer = PuffinWriter()
    for framed, name in zip(blobs, names, strict=True):
        cardinality = blob.decode(framed).cardinality
        writer.add_blob(
            framed,
            blob_type=DELETION_VECTOR,
            fields=(ROW_POSITION_FIELD,),
            properties={REFERENCED_DATA_FILE: name, CARDINALITY: str(cardinality)},
        )
    data = writer.finish()
    return data, tuple((written.offset, written.length) for written in writer.blobs)


def store_vectors(
    storage: Storage, blobs: Sequence[bytes], names: Sequence[str], *, folder: str
) -> list[tuple[str, int, int]]:
    """`write_vectors` as a ``row_delta.StoreVectors``, for a given folder. Writes no file without blobs."""
    if not blobs:
        return []
    file = write_vectors(storage, blobs, names, folder=folder)
    return [(file.location, *place) for place in file.places]
