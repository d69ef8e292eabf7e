"""Vector descriptors of all three storage kinds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from delta_log import add, vector
from delvec import blob, z85
from delvec.bitmap import Bitmap
from delvec.delta.actions import ADD_TYPE, ADDS_SCHEMA, flatten
from delvec.delta.descriptor import deletes_of, vector_file
from delvec.errors import CorruptVectorError

INLINE = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
PREFIXED = "ab^-aqEH.-t@S}K{vb[*k^"
UUID = "d2c639aa-8816-431a-aaf6-d3fe2512ff61"


def deletes(*descriptors: dict[str, Any] | None) -> tuple[list[Any], list[dict[str, Any]]]:
    actions = [add(f"{i}.parquet", deletion_vector=found)["add"] for i, found in enumerate(descriptors)]
    adds = flatten(pa.array(actions, ADD_TYPE), ADDS_SCHEMA)
    locations = pa.array([f"/t/{i}.parquet" for i in range(len(descriptors))])
    index, table = deletes_of("/t", adds, locations)
    return index.to_pylist(), table.to_pylist()


def test_the_published_name_with_a_random_prefix() -> None:
    assert vector_file("s3://mytable", PREFIXED) == f"s3://mytable/ab/deletion_vector_{UUID}.bin"
    assert vector_file("/t", PREFIXED[2:]) == f"/t/deletion_vector_{UUID}.bin"
    assert vector_file("/t", f"ab//./c/{PREFIXED[2:]}") == f"/t/ab/c/deletion_vector_{UUID}.bin"


def test_stored_absolute_and_inline_side_by_side() -> None:
    index, rows = deletes(
        vector(PREFIXED, offset=4, size=40, cardinality=6),
        None,
        vector("s3a://other/with%20space.bin", kind="p", offset=None, size=36, cardinality=2),
        vector(INLINE, kind="i", offset=None, size=44, cardinality=6),
        vector(PREFIXED, offset=52, size=36, cardinality=1),
    )
    assert index == [0, None, 1, 2, 3]
    stored, absolute, inline, shared = rows
    assert (stored["location"], stored["offset"], stored["length"]) == (
        f"/t/ab/deletion_vector_{UUID}.bin",
        4,
        48,
    )
    assert (shared["location"], shared["offset"]) == (stored["location"], 52)
    assert (absolute["location"], absolute["offset"], absolute["length"]) == (
        "s3://other/with space.bin",
        1,
        44,
    )
    assert (inline["location"], inline["offset"], inline["length"]) == (None, None, 44)
    assert list(blob.decode_bare(inline["inline"], expected_cardinality=6)) == [3, 4, 7, 11, 18, 29]
    assert [row["referenced_file"] for row in rows] == [f"/t/{i}.parquet" for i in (0, 2, 3, 4)]


def test_an_inline_vector_whose_size_is_no_multiple_of_four() -> None:
    bare = blob.encode_bare(Bitmap.of(3))
    assert len(bare) % 4 == 2
    text = z85.encode(bare + b"\0\0")
    _, (row,) = deletes(vector(text, kind="i", offset=None, size=len(bare), cardinality=1))
    assert row["inline"] == bare


@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        (vector("x" * 20, kind="z"), r"storage type is 'z', expected u, p or i: 0\.parquet"),
        (vector("short"), "has 5 characters, expected at least 20"),
        (vector('"' * 20), "does not end in a UUID in Z85"),
        (vector("../" + PREFIXED[2:]), "points outside the table"),
        (vector("/etc/" + PREFIXED[2:]), "points outside the table"),
        (vector("relative.bin", kind="p"), "relative, expected an absolute one"),
        (vector(INLINE, kind="i", offset=None, size=40), "inline vector has 44 bytes, expected 40"),
        (vector(INLINE, kind="i", offset=None, size=45), "inline vector has 44 bytes, expected 45"),
        (vector(INLINE[:-1], kind="i", offset=None, size=44), r"inline vector: Z85 .*: 0\.parquet"),
        (vector(PREFIXED, size=-1), "dv_size of a vector is -1"),
        (vector(PREFIXED, cardinality=-1), "dv_cardinality of a vector is -1"),
        (vector(PREFIXED, offset=-1), "dv_offset of a vector is -1"),
        (vector(PREFIXED) | {"sizeInBytes": None}, "dv_size of a vector is None, expected a value"),
        (vector(PREFIXED) | {"cardinality": None}, "dv_cardinality of a vector is None"),
    ],
)
def test_a_bad_descriptor_is_refused(descriptor: dict[str, Any], message: str) -> None:
    with pytest.raises(CorruptVectorError, match=message):
        deletes(descriptor)
