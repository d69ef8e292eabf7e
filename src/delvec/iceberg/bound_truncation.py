"""Shorter bounds of strings and binary values.

A lower bound is cut. An upper bound is cut, and its last character or byte is replaced by the next one, so
that it still is above every value; where the last one has no next one, it is dropped first. If nothing is
left, there is no upper bound. Lengths of strings are in characters (code points).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_MAX_BYTE = 0xFF
_MAX_CHARACTER = 0x10FFFF
_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000


def cut_lower(bounds: pa.Array, length: int | None) -> pa.Array:
    """Lower bounds of at most ``length``; values of other types stay as they are."""
    if length is None or not _is_cut(bounds):
        return bounds
    return _cut(bounds, length)


def cut_upper(bounds: pa.Array, length: int | None) -> pa.Array:
    """Upper bounds of at most ``length``, null where there is none."""
    if length is None or not _is_cut(bounds):
        return bounds
    is_text = pa.types.is_string(bounds.type)
    lengths = pc.utf8_length(bounds) if is_text else pc.binary_length(bounds)
    is_long = pc.fill_null(pc.greater(lengths, length), False)  # noqa: FBT003
    if not pc.any(is_long).as_py():
        return bounds
    next_above: Callable[[Any], Any] = next_text if is_text else next_bytes
    short = _cut(bounds.filter(is_long), length)
    above = pa.array([next_above(value) for value in short.to_pylist()], bounds.type)
    return pc.replace_with_mask(bounds, is_long, above)


def upper_of_prefix(bounds: pa.Array) -> pa.Array:
    """Upper bounds above all values that start with ``bounds``, which another writer may have cut."""
    if not _is_cut(bounds):
        return bounds
    next_above: Callable[[Any], Any] = next_text if pa.types.is_string(bounds.type) else next_bytes
    values = [None if value is None else next_above(value) for value in bounds.to_pylist()]
    return pa.array(values, bounds.type)


def next_text(text: str) -> str | None:
    """The first string of at most this length that is above all strings that start with ``text``."""
    for end in range(len(text), 0, -1):
        number = ord(text[end - 1])
        if number < _MAX_CHARACTER:
            above = _AFTER_SURROGATES if number == _BEFORE_SURROGATES else number + 1
            return text[: end - 1] + chr(above)
    return None


def next_bytes(data: bytes) -> bytes | None:
    """The first binary value of at most this length that is above all values that start with ``data``."""
    for end in range(len(data), 0, -1):
        if data[end - 1] < _MAX_BYTE:
            return data[: end - 1] + bytes([data[end - 1] + 1])
    return None


def _is_cut(bounds: pa.Array) -> bool:
    return bool(pa.types.is_string(bounds.type) or pa.types.is_binary(bounds.type))


def _cut(bounds: pa.Array, length: int) -> pa.Array:
    if pa.types.is_string(bounds.type):
        return pc.utf8_slice_codeunits(bounds, 0, length)  # Arrow counts code points, whatever the name says
    return pc.binary_slice(bounds, 0, length)
