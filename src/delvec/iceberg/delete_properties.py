"""The table properties that say how deletes are written, as `delvec.deletes.write_options`.

write.delete.equality-vector.enabled   whether deletes by key may be vectors; default: only on tables that
no other engine reads (format version 4)
write.delete.encoding-hint             auto, deletion-vector or full-row
write.delete.strategy                  the older name of the hint
write.deletion-vector.compression      roaring or zstd
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from delvec.deletes.compression import COMPRESSIONS, ROARING, BlobCompression
from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.write_options import VECTORS_SINCE, DeleteWriteOptions, EncodingHint
from delvec.errors import InvalidOperationError, UnsupportedFeatureError

VECTORS_OF_KEYS = "write.delete.equality-vector.enabled"
ENCODING_HINT = "write.delete.encoding-hint"
STRATEGY = "write.delete.strategy"
COMPRESSION = "write.deletion-vector.compression"
PROPERTIES = (VECTORS_OF_KEYS, ENCODING_HINT, STRATEGY, COMPRESSION)

_ONLY_DELVEC_SINCE = 4
_EQUALITY_STRATEGY = "equality"
_LOGGER = logging.getLogger(__name__)


def delete_options(properties: Mapping[str, str], format_version: int) -> DeleteWriteOptions:
    """The options of a table; a value that delvec does not know is refused by name."""
    return DeleteWriteOptions(
        format_version,
        encoding_hint(properties),
        has_vectors_of_keys(properties, format_version),
        _compression(properties),
        VECTORS_OF_KEYS,
    )


def has_vectors_of_keys(properties: Mapping[str, str], format_version: int) -> bool:
    """Whether the table lets deletes by key be vectors: the gate."""
    text = properties.get(VECTORS_OF_KEYS)
    if text is None:
        return format_version >= _ONLY_DELVEC_SINCE
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise InvalidOperationError(f"property {VECTORS_OF_KEYS} is {text!r}, expected true or false")
    return value == "true"


def may_have_vectors_of_keys(properties: Mapping[str, str], format_version: int) -> bool:
    """Whether writers write vectors of keys: the gate is open, and the format version has vectors."""
    return format_version >= VECTORS_SINCE and has_vectors_of_keys(properties, format_version)


def tell_that_gate_is_open(location: str, format_version: int) -> None:
    """A warning in the log, for the user who opens the gate of a table that other engines read."""
    if format_version >= _ONLY_DELVEC_SINCE:
        return
    _LOGGER.warning(
        "%s is on: once the table has a vector of keys, only delvec can read it; a reader that ignores the "
        "vector shows deleted rows. To go back, switch it off and rewrite the deletes to vectors of "
        "positions: %s",
        VECTORS_OF_KEYS,
        location,
    )


def encoding_hint(properties: Mapping[str, str]) -> EncodingHint:
    """Which encoding the table prefers."""
    name = STRATEGY if STRATEGY in properties and ENCODING_HINT not in properties else ENCODING_HINT
    text = properties.get(name, EncodingHint.AUTO.value).strip().lower()
    if name == STRATEGY:
        _LOGGER.warning("property %s is deprecated: set %s instead", STRATEGY, ENCODING_HINT)
        text = EncodingHint.DELETION_VECTOR.value if text == _EQUALITY_STRATEGY else text
    for hint in EncodingHint:
        if hint.value == text:
            return hint
    expected = ", ".join(hint.value for hint in EncodingHint)
    if text == DeleteEncoding.HASH_MAP.text:
        raise UnsupportedFeatureError(
            f"property {name} is {text!r}, which is reserved, expected {expected}", feature=text
        )
    raise InvalidOperationError(f"property {name} is {properties[name]!r}, expected {expected}")


def verify_properties(properties: Mapping[str, str]) -> None:
    """Refuse values that no writer could use."""
    delete_options(properties, VECTORS_SINCE)


def _compression(properties: Mapping[str, str]) -> BlobCompression:
    text = properties.get(COMPRESSION, ROARING.name)
    found = COMPRESSIONS.get(text.strip().lower())
    if found is None:
        raise InvalidOperationError(
            f"property {COMPRESSION} is {text!r}, expected {' or '.join(COMPRESSIONS)}"
        )
    return found
