"""How a table wants its deletes to be written. A format reads these options from the table's properties."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from delvec.deletes.compression import ROARING, BlobCompression

VECTORS_SINCE = 3
"""The first format version that has vectors."""


class EncodingHint(Enum):
    """Which encoding the table prefers. Writers may choose another one."""

    AUTO = "auto"
    DELETION_VECTOR = "deletion-vector"
    FULL_ROW = "full-row"


@dataclass(frozen=True, slots=True)
class DeleteWriteOptions:
    """``vectors_of_keys``: the gate. If it is off, deletes by key are full rows, whatever the hint says.
    ``gate``: the property that opens it, for messages.
    """

    format_version: int
    hint: EncodingHint = EncodingHint.AUTO
    vectors_of_keys: bool = False
    compression: BlobCompression = ROARING
    gate: str | None = None
