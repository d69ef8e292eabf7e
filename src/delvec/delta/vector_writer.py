"""Writes new vectors to vector files, and makes their descriptors."""

from __future__ import annotations

import re
import secrets
import string
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from delvec import blob, location, z85
from delvec.delta import properties, vector_file
from delvec.delta.action_writer import Body
from delvec.storage import Storage

TARGET_SIZE = 2 << 20
DEFAULT_PREFIX_LENGTH = 2

_PREFIX_CHARACTERS = string.ascii_letters + string.digits
_RELATIVE = re.compile(r"(?:(?P<prefix>[^/]+)/)?deletion_vector_(?P<uuid>[0-9a-f-]{36})\.bin")


def store(
    storage: Storage, blobs: Sequence[bytes], table_properties: Mapping[str, str]
) -> tuple[list[Body], list[str]]:
    """Write the framed blobs with `store_at`.

    Returns a descriptor for each blob, without its cardinality, and the paths of the files.
    """
    places = store_at(table_properties, storage, blobs, ())
    paths = list(dict.fromkeys(path for path, _, _ in places))
    return [descriptor_at(storage.root, *place) for place in places], paths


def store_at(
    table_properties: Mapping[str, str],
    storage: Storage,
    blobs: Sequence[bytes],
    names: Sequence[str],  # noqa: ARG001 - vector files do not name data files
) -> list[tuple[str, int, int]]:
    """Write the framed blobs to files of about 2 MiB, as ``row_delta.StoreVectors``."""
    places: list[tuple[str, int, int]] = []
    for group in _groups(blobs):
        prefix = _prefix(table_properties)
        path = f"{prefix}/" * bool(prefix) + f"deletion_vector_{uuid.uuid4()}.bin"
        data, positions = vector_file.pack_blobs(group)
        storage.put(path, data)
        file = location.join(storage.root, path)
        places += [(file, offset, size + blob.FRAME_SIZE) for offset, size in positions]
    return places


def descriptor_at(root: str, file: str, offset: int, length: int) -> Body:
    """The descriptor of a framed blob of ``length`` bytes in a file that is written already."""
    size = length - blob.FRAME_SIZE
    relative_path = file.removeprefix(root.rstrip("/") + "/")
    name = _RELATIVE.fullmatch(relative_path)
    if name is None or relative_path == file:
        path = f"file://{location.encode(file)}" if file.startswith("/") else location.encode(file)
        return {"storageType": "p", "pathOrInlineDv": path, "offset": offset, "sizeInBytes": size}
    encoded = z85.encode(uuid.UUID(name["uuid"]).bytes)
    return _stored_at((name["prefix"] or "") + encoded, offset, size)


def _stored_at(name: str, offset: int, size: int) -> dict[str, Any]:
    return {"storageType": "u", "pathOrInlineDv": name, "offset": offset, "sizeInBytes": size}


def _groups(blobs: Sequence[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for framed in blobs:
        if group and size + len(framed) > TARGET_SIZE:
            yield group
            group, size = [], 0
        group.append(framed)
        size += len(framed)
    if group:
        yield group


def _prefix(table_properties: Mapping[str, str]) -> str:
    if not properties.is_on(table_properties, properties.RANDOM_PREFIXES):
        return ""
    length = properties.count(table_properties, properties.RANDOM_PREFIX_LENGTH, DEFAULT_PREFIX_LENGTH)
    return "".join(secrets.choice(_PREFIX_CHARACTERS) for _ in range(length))
