"""A descriptor may point at any file: what that file holds is in no error."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pytest

from deleted_rows import deleted_rows
from delvec import blob, detect
from delvec.errors import CorruptVectorError, FormatError
from delvec.puffin import PuffinReader
from delvec.verify import verify_table

SECRET = b"hunter2:correct-horse-battery-staple:0123456789abcdef\n" * 3


def leaks(text: str) -> list[str]:
    """What the text says of the secret: characters, hexadecimal or numbers of four bytes, its checksums."""
    windows = [SECRET[at : at + 4] for at in range(len(SECRET) - 3)]
    numbers = {struct.unpack(order, window)[0] for window in windows for order in ("<I", ">I")}
    ends = [(a, b) for a in range(0, 60) for b in (len(SECRET), 60, 100)]
    numbers |= {zlib.crc32(SECRET[a:b]) for a, b in ends}
    forms = {window.decode() for window in windows if window.strip() == window}
    forms |= {window.hex() for window in windows} | {str(number) for number in numbers}
    forms |= {f"{number:08x}" for number in numbers}
    return sorted(form for form in forms if form in text)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "key.pem"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


def pointing_at(table: Path, secret: Path, offset: int | None, size: int) -> detect.Table:
    """The sample table, whose newest vector is now said to be in the other file."""
    detect.write_sample_table(str(table))
    commit = table / "_delta_log" / f"{2:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            place = {} if offset is None else {"offset": offset}
            line["add"]["deletionVector"] = {
                "storageType": "p",
                "pathOrInlineDv": f"file://{secret}",
                "sizeInBytes": size,
                "cardinality": 7,
                **place,
            }
    commit.write_text("\n".join(map(json.dumps, lines)))
    return detect.open_table(str(table))


@pytest.mark.parametrize("size", [12, 20, len(SECRET) - 9])
@pytest.mark.parametrize("offset", [None, 0, 1])
def test_a_descriptor_that_points_at_another_file(tmp_path, secret, offset, size):
    table = pointing_at(tmp_path / "t", secret, offset, size)
    with pytest.raises(CorruptVectorError, match="not a deletion vector, expected the magic") as caught:
        deleted_rows(table.storage, table.snapshot().plan())
    assert (caught.value.path, caught.value.offset) == (str(secret), 1 if offset is None else offset)
    (finding,) = verify_table(table).findings
    assert str(secret) in finding.message
    assert leaks(str(caught.value) + finding.message) == []


@pytest.mark.parametrize("name", ["v.bin", "v.puffin", "v"])
@pytest.mark.parametrize("before", [b"", b"\x01", b"PFA1", bytes(4)])
def test_a_file_that_is_no_vector_file(tmp_path, name, before):
    (tmp_path / name).write_bytes(before + SECRET)
    with pytest.raises(FormatError, match="not a") as caught:
        detect.open_vector_file(str(tmp_path / name))
    assert leaks(str(caught.value)) == []


@pytest.mark.parametrize("read", [blob.decode, blob.decode_bare, blob.describe, PuffinReader.from_bytes])
def test_the_readers_of_bytes(read):
    for start in range(40):
        with pytest.raises(FormatError) as caught:
            read(SECRET[start:])
        assert leaks(str(caught.value)) == []


def test_the_leaks_are_found():
    first, last = SECRET[:4], SECRET[-5:-1]
    assert leaks(f"magic is {first.hex()}")
    assert leaks(f"length is {int.from_bytes(first, 'big')}")
    assert leaks(f"CRC is 0x{zlib.crc32(SECRET[4:100]):08x}")
    assert leaks(f"name is {last.decode()}")
