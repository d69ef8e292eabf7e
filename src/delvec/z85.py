"""Z85, ZeroMQ's text form of binary data: four bytes, read big-endian, are five digits of base 85.

Groups are independent of each other: values whose sizes are multiples of four can be joined, encoded in one
call and split again, which is much faster than one call per value.
"""

from __future__ import annotations

import numpy as np

from delvec.errors import FormatError, InvalidOperationError

GROUP_BYTES = 4
GROUP_DIGITS = 5
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

_PAD = "#"
_INVALID = 255
_DIGITS = np.frombuffer(ALPHABET.encode("ascii"), np.uint8)
_VALUES = np.full(256, _INVALID, np.uint8)
_VALUES[_DIGITS] = np.arange(85)
_WEIGHTS = np.array([85**4, 85**3, 85**2, 85, 1], np.int64)


def encode(data: bytes) -> str:
    """``data``, whose length must be a multiple of four, as text."""
    if len(data) % GROUP_BYTES:
        raise InvalidOperationError(f"Z85 input is {len(data)} bytes, expected a multiple of {GROUP_BYTES}")
    groups = np.frombuffer(data, ">u4").astype(np.int64)
    digits = groups[:, None] // _WEIGHTS % 85
    return str(_DIGITS[digits].tobytes(), "ascii")


def decode(text: str) -> bytes:
    """The bytes of ``text``; FormatError if it is not Z85.

    A last group that starts with ``#`` has fewer than four bytes: each ``#`` is one byte less, and the other
    digits encode the rest. Some writers do this; an ordinary group never starts with that digit.
    """
    _check_length(text)
    missing = _padding(text)
    if missing:
        return decode(text[:-GROUP_DIGITS]) + _decode_short(text, missing)
    values = _VALUES[np.frombuffer(text.encode("latin-1", "replace"), np.uint8)]
    _check_characters(text, values)
    groups = values.reshape(-1, GROUP_DIGITS) @ _WEIGHTS
    _check_groups(text, groups)
    return groups.astype(">u4").tobytes()


def _padding(text: str) -> int:
    last = text[-GROUP_DIGITS:]
    return len(last) - len(last.lstrip(_PAD)) if last[:1] == _PAD else 0


def _decode_short(text: str, missing: int) -> bytes:
    last = text[-GROUP_DIGITS:]
    digits, size = last[missing:], GROUP_BYTES - missing
    value: int = sum(ALPHABET.find(digit) * 85**place for place, digit in enumerate(reversed(digits)))
    if size < 1 or value >= 256**size or not set(digits) <= set(ALPHABET):
        raise FormatError(f"Z85 group {last!r} at the end is marked short, expected digits of 1 to 3 bytes")
    return value.to_bytes(size, "big")


def _check_length(text: str) -> None:
    if len(text) % GROUP_DIGITS:
        raise FormatError(f"Z85 text is {len(text)} characters, expected a multiple of {GROUP_DIGITS}")


def _check_characters(text: str, values: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
    # Characters beyond Latin-1 were replaced by "?", which is a valid digit: so check the text itself too.
    wrong = np.flatnonzero(values == _INVALID)
    if len(wrong) or not text.isascii():
        at = next(i for i, character in enumerate(text) if character not in ALPHABET)
        raise FormatError(f"Z85 character {at} is {text[at]!r}, expected one of {ALPHABET}")


def _check_groups(text: str, groups: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    wrong = np.flatnonzero(groups > 0xFFFFFFFF)
    if len(wrong):
        at = int(wrong[0]) * GROUP_DIGITS
        group = text[at : at + GROUP_DIGITS]
        raise FormatError(f"Z85 group {group!r} at character {at} is {groups[wrong[0]]}, expected below 2^32")
