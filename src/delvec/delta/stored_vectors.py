"""New vectors on their way into the log: packed into files, and the descriptors that name them."""

from __future__ import annotations

import re
import secrets
import string
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from delvec import blob, location, z85
from delvec.delta import properties, vector_file
from delvec.delta.render import Body
from delvec.storage import Storage

TARGET_SIZE = 2 << 20
DEFAULT_PREFIX_LENGTH = 2

_PREFIX_CHARACTERS = string.ascii_letters + string.digits
_RELATIVE = re.compile(r"(?:(?P<prefix>[^/]+)/)?deletion_vector_(?P<uuid>[0-9a-f-]{36})\.bin")


def store(
    storage: Storage, blobs: Sequence[bytes], table_properties: Mapping[str, str]
) -> tuple[list[Body], list[str]]:
    """Write the framed blobs, several to a file of about 2 MiB.

    Returned are a descriptor for each, without its cardinality, and the paths of the files.
    """
    descriptors: list[Body] = []
    paths: list[str] = []
    for group in _groups(blobs):
        prefix, identifier = _prefix(table_properties), uuid.uuid4()
        data, places = vector_file.pack_blobs(group)
        path = f"{prefix}/" * bool(prefix) + f"deletion_vector_{identifier}.bin"
        storage.put(path, data)
        paths.append(path)
        name = prefix + z85.encode(identifier.bytes)
        descriptors += [_stored_at(name, offset, size) for offset, size in places]
    return descriptors, paths


def descriptor_at(root: str, found: str, offset: int, length: int) -> Body:
    """The descriptor of a framed blob of ``length`` bytes that is in the file ``found`` already."""
    size = length - blob.FRAME_SIZE
    inside = found.removeprefix(root.rstrip("/") + "/")
    name = _RELATIVE.fullmatch(inside)
    if name is None or inside == found:
        path = f"file://{location.encode(found)}" if found.startswith("/") else location.encode(found)
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
