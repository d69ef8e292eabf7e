"""The table properties that say how rows are written, by Iceberg's names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from delvec.errors import InvalidOperationError
from delvec.iceberg import commit_retry, delete_properties, expiry, manifest_properties
from delvec.iceberg.property_values import whole_number
from delvec.iceberg.swaps import METADATA_CODEC, metadata_codec
from delvec.iceberg.tree import limits
from delvec.row_delta import Isolation, Verb

COPY_ON_WRITE, MERGE_ON_READ = "copy-on-write", "merge-on-read"

DELETE_MODE, UPDATE_MODE, MERGE_MODE = "write.delete.mode", "write.update.mode", "write.merge.mode"
MODES = (DELETE_MODE, UPDATE_MODE, MERGE_MODE)

DELETE_ISOLATION = "write.delete.isolation-level"
UPDATE_ISOLATION = "write.update.isolation-level"
MERGE_ISOLATION = "write.merge.isolation-level"
ISOLATION_LEVELS = (DELETE_ISOLATION, UPDATE_ISOLATION, MERGE_ISOLATION)

TARGET_FILE_SIZE = "write.target-file-size-bytes"
DEFAULT_FILE_SIZE = 512 << 20

REWRITE_SHARE = "delvec.rewriteDeletedShare"
"""delvec's own: a file that would lose a larger share of its rows is rewritten."""

_WHOLE_NUMBERS = {
    TARGET_FILE_SIZE: 1,
    manifest_properties.MIN_COUNT: 1,
    manifest_properties.TARGET_BYTES: 1,
    expiry.MIN_SNAPSHOTS: 1,
    expiry.MAX_SNAPSHOT_AGE: 0,
    expiry.MAX_REF_AGE: 0,
}
"""Properties that are whole numbers, and the least value of each."""

_SHARE = re.compile(r"0?\.[0-9]+")
_MODE_OF = {Verb.UPDATE: UPDATE_MODE, Verb.MERGE: MERGE_MODE, Verb.UPSERT: MERGE_MODE}
_ISOLATION_OF = {
    Verb.UPDATE: UPDATE_ISOLATION,
    Verb.MERGE: MERGE_ISOLATION,
    Verb.UPSERT: MERGE_ISOLATION,
}


def mode_property(verb: Verb) -> str:
    """The property that says how a verb deletes rows. Overwriting some rows deletes as DELETE does."""
    return _MODE_OF.get(verb, DELETE_MODE)


def merges_on_read(properties: Mapping[str, str], verb: Verb) -> bool:
    """Whether a verb records deleted rows, and does not rewrite their files. Iceberg's default is to
    rewrite.
    """
    name = mode_property(verb)
    mode = properties.get(name, COPY_ON_WRITE)
    verify_mode(name, mode)
    return mode.lower() == MERGE_ON_READ


def mode_texts(properties: Mapping[str, str]) -> list[str]:
    """How DELETE, UPDATE and MERGE delete rows, for people: also where the table leaves it to the default."""
    return [
        f"{name.split('.')[1].upper()} {properties.get(name, f'{COPY_ON_WRITE} (default)')}" for name in MODES
    ]


def isolation(properties: Mapping[str, str], verb: Verb) -> Isolation:
    """The isolation level of a verb on the table."""
    name = _ISOLATION_OF.get(verb, DELETE_ISOLATION)
    level = properties.get(name, Isolation.SERIALIZABLE)
    verify_level(name, level)
    return Isolation(level.lower())


def target_file_size(properties: Mapping[str, str]) -> int:
    """The size of data files that the table asks for, in bytes."""
    return whole_number(properties, TARGET_FILE_SIZE, default=DEFAULT_FILE_SIZE, least=1)


def rewrite_share(properties: Mapping[str, str]) -> float | None:
    """The property ``REWRITE_SHARE``; None if it is not set."""
    text = properties.get(REWRITE_SHARE)
    if text is None:
        return None
    if _SHARE.fullmatch(text.strip()) is None or not float(text):
        raise InvalidOperationError(
            f"property {REWRITE_SHARE} is {text!r}, expected a number above 0 and below 1, such as 0.8"
        )
    return float(text)


def verified(properties: Mapping[str, object]) -> dict[str, str | None]:
    """Properties to set; None unsets one. Refuses values that delvec could not read."""
    texts: dict[str, str | None] = {}
    for name, value in properties.items():
        if value is not None and not isinstance(value, str):
            raise InvalidOperationError(f"property {name} is {value!r}, expected a string")
        texts[name] = value
        if value is not None:
            _verify(name, value)
    return texts


def _verify(name: str, value: str) -> None:
    if name in MODES:
        verify_mode(name, value)
    elif name in ISOLATION_LEVELS:
        verify_level(name, value)
    elif name in _WHOLE_NUMBERS:
        whole_number({name: value}, name, default=0, least=_WHOLE_NUMBERS[name])
    elif name == METADATA_CODEC:
        metadata_codec({name: value})
    elif name in commit_retry.PROPERTIES:
        commit_retry.commit_retries({name: value})
    elif name == REWRITE_SHARE:
        rewrite_share({name: value})
    elif name in limits.PROPERTIES:
        limits.TreeLimits.of({name: value})
    elif name in delete_properties.PROPERTIES:
        delete_properties.verify_properties({name: value})


def verify_mode(name: str, mode: str) -> None:
    if mode.lower() not in (COPY_ON_WRITE, MERGE_ON_READ):
        raise InvalidOperationError(
            f"property {name} is {mode!r}, expected {COPY_ON_WRITE} or {MERGE_ON_READ}"
        )


def verify_level(name: str, level: str) -> None:
    if level.lower() not in (Isolation.SERIALIZABLE, Isolation.SNAPSHOT):
        raise InvalidOperationError(
            f"property {name} is {level!r}, expected {Isolation.SERIALIZABLE} or {Isolation.SNAPSHOT}"
        )
