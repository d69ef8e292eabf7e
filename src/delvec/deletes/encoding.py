"""``DeleteEncoding``: how a delete file stores its deletes. The ids stand in manifests and never change.

0  full-row          a row for each delete: (file path, position), or the values of a key
1  deletion-vector   a bitmap of positions, or of the values of one key column
2  hash-map          reserved, for keys of several columns
"""

from __future__ import annotations

from enum import Enum

from delvec.errors import InvalidOperationError, UnsupportedFeatureError

PUFFIN = "puffin"


class DeleteEncoding(Enum):
    FULL_ROW = 0
    DELETION_VECTOR = 1
    HASH_MAP = 2

    @property
    def id(self) -> int:
        """The number in manifests."""
        return self.value

    @property
    def text(self) -> str:
        """The name in plans (``ScanPlan.deletes``), in properties and in messages."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def from_id(cls, encoding_id: int) -> DeleteEncoding:
        """The encoding with this id; an unknown one is refused by name."""
        for encoding in cls:
            if encoding.value == encoding_id:
                return encoding
        raise UnsupportedFeatureError(
            f"encoding of a delete file is {text_of_id(encoding_id)!r}, expected one of {_listed()}",
            feature=text_of_id(encoding_id),
        )

    @classmethod
    def from_text(cls, text: str) -> DeleteEncoding:
        """The encoding of this name."""
        for encoding in cls:
            if encoding.text == text:
                return encoding
        raise InvalidOperationError(f"encoding is {text!r}, expected one of {_listed()}")

    @classmethod
    def inferred(cls, file_format: str) -> DeleteEncoding:
        """The encoding of a delete file of which none is recorded: Puffin files have vectors."""
        return cls.DELETION_VECTOR if file_format.lower() == PUFFIN else cls.FULL_ROW


def text_of_id(encoding_id: int) -> str:
    """The name of the encoding with this id, also of one that delvec does not know."""
    known = {encoding.id: encoding.text for encoding in DeleteEncoding}
    return known.get(encoding_id, f"unknown encoding {encoding_id}")


def _listed() -> str:
    return ", ".join(encoding.text for encoding in DeleteEncoding)
