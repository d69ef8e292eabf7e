"""The footer payload of a Puffin file: JSON that describes the file's blobs.

{"blobs": [{"type": …, "fields": [id, …], "snapshot-id": …, "sequence-number": …,
            "offset": …, "length": …, "compression-codec"?: …, "properties"?: {…}}, …],
 "properties"?: {"created-by": …, …}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from delvec.errors import FormatError

_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class BlobMetadata:
    """The footer's entry for one blob. ``length`` is the stored size."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


def parse_footer(
    payload: bytes, *, blobs_from: int, blobs_to: int
) -> tuple[tuple[BlobMetadata, ...], dict[str, str]]:
    """The blobs and the file's properties. Every blob must be between ``blobs_from`` and ``blobs_to``."""
    footer = _load(payload)
    where = "Puffin footer"
    listed = _required(footer, "blobs", list, where)
    blobs = tuple(_parse_blob(entry, i, blobs_from, blobs_to) for i, entry in enumerate(listed))
    return blobs, _properties(footer, where)


def render_footer(blobs: list[BlobMetadata], properties: Mapping[str, str]) -> bytes:
    """The payload that `parse_footer` reads."""
    return orjson.dumps({"blobs": [_blob_object(blob) for blob in blobs], "properties": dict(properties)})


def _blob_object(blob: BlobMetadata) -> dict[str, Any]:
    described: dict[str, Any] = {
        "type": blob.type,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
        "properties": dict(blob.properties),
    }
    if blob.compression_codec is not None:
        described["compression-codec"] = blob.compression_codec
    return described


def _load(payload: bytes) -> dict[str, Any]:
    try:
        footer = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise FormatError(f"Puffin footer is not JSON: {error}") from error
    if not isinstance(footer, dict):
        raise FormatError(f"Puffin footer is a JSON {type(footer).__name__}, expected an object")
    return footer


def _parse_blob(entry: object, index: int, blobs_from: int, blobs_to: int) -> BlobMetadata:
    where = f"blob {index} of the Puffin footer"
    if not isinstance(entry, dict):
        raise FormatError(f"{where} is a JSON {type(entry).__name__}, expected an object")
    blob = BlobMetadata(
        type=_required(entry, "type", str, where),
        fields=_field_ids(entry, where),
        snapshot_id=_integer(entry, "snapshot-id", where),
        sequence_number=_integer(entry, "sequence-number", where),
        offset=_integer(entry, "offset", where),
        length=_integer(entry, "length", where),
        compression_codec=_codec(entry, where),
        properties=_properties(entry, where),
    )
    _check_bounds(blob, where, blobs_from, blobs_to)
    return blob


def _required(entry: dict[str, Any], name: str, kind: type, where: str) -> Any:
    if name not in entry:
        raise FormatError(f"{where} has no {name!r}")
    value = entry[name]
    # Compare the exact type: True is an int in Python.
    if type(value) is not kind:
        raise FormatError(f"{name!r} of {where} is {_short(value)}, expected a JSON {kind.__name__}")
    return value


def _integer(entry: dict[str, Any], name: str, where: str) -> int:
    value: int = _required(entry, name, int, where)
    if not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        raise FormatError(f"{name!r} of {where} is {value}, expected a signed 64-bit number")
    return value


def _field_ids(entry: dict[str, Any], where: str) -> tuple[int, ...]:
    ids = _required(entry, "fields", list, where)
    for value in ids:
        if type(value) is not int or not -_INT32_MAX - 1 <= value <= _INT32_MAX:
            raise FormatError(f"a field id of {where} is {_short(value)}, expected a signed 32-bit number")
    return tuple(ids)


def _codec(entry: dict[str, Any], where: str) -> str | None:
    if entry.get("compression-codec") is None:
        return None
    codec: str = _required(entry, "compression-codec", str, where)
    return codec


def _properties(entry: dict[str, Any], where: str) -> dict[str, str]:
    if entry.get("properties") is None:
        return {}
    properties: dict[str, str] = _required(entry, "properties", dict, where)
    for name, value in properties.items():
        if not isinstance(value, str):
            raise FormatError(f"property {name!r} of {where} is {_short(value)}, expected a JSON str")
    return properties


def _check_bounds(blob: BlobMetadata, where: str, blobs_from: int, blobs_to: int) -> None:
    if blob.offset < blobs_from or blob.length < 0 or blob.offset + blob.length > blobs_to:
        raise FormatError(
            f"{where} has offset {blob.offset} and length {blob.length}, "
            f"expected a place between {blobs_from} and {blobs_to}"
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
