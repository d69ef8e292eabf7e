"""Z85: the published examples, and what is refused."""

from __future__ import annotations

import random
import uuid

import pytest

from delvec import z85
from delvec.errors import FormatError, InvalidOperationError


def test_the_published_example():
    assert z85.encode(bytes.fromhex("864fd26fb559f75b")) == "HelloWorld"
    assert z85.decode("HelloWorld") == bytes.fromhex("864fd26fb559f75b")


def test_the_uuid_of_a_vector_file():
    assert uuid.UUID(bytes=z85.decode("^-aqEH.-t@S}K{vb[*k^")) == uuid.UUID(
        "d2c639aa-8816-431a-aaf6-d3fe2512ff61"
    )


def test_round_trips_of_every_byte_and_of_the_ends():
    for data in (b"", bytes(4), b"\xff" * 4, bytes(range(256)), random.Random(3).randbytes(4096)):
        assert z85.decode(z85.encode(data)) == data
    assert z85.encode(b"\xff" * 4) == "%nSc0"


def test_joined_values_may_be_coded_in_one_call():
    rng = random.Random(4)
    values = [rng.randbytes(16) for _ in range(50)]
    assert z85.encode(b"".join(values)) == "".join(z85.encode(value) for value in values)


def test_refuses_to_encode_a_length_that_is_not_a_multiple_of_four():
    with pytest.raises(InvalidOperationError, match="Z85 input is 5 bytes, expected a multiple of 4"):
        z85.encode(bytes(5))


def test_rejects_a_length_that_is_not_a_multiple_of_five():
    with pytest.raises(FormatError, match="Z85 text is 6 characters, expected a multiple of 5"):
        z85.decode("000000")


@pytest.mark.parametrize(
    "character", [" ", '"', "'", "\\", ",", ";", "_", "`", "|", "~", "\x00", "é", "€", "😀", "\ud800"]
)
def test_rejects_characters_outside_the_alphabet(character):
    with pytest.raises(FormatError, match="Z85 character 7 is "):
        z85.decode("0000000" + character + "00")


@pytest.mark.parametrize("group", ["%nSc1", "#####"])
def test_rejects_a_group_beyond_four_bytes(group):
    with pytest.raises(FormatError, match=r"at character 5 is .*, expected below 2"):
        z85.decode("00000" + group + "00000")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("##093", b"\x03\x00"),
        ("###0z", b"\x23"),
        ("#0007", b"\x00\x00\x07"),
        ("0rr91##093", b"\x01\0\0\0\x03\0"),
    ],
)
def test_a_short_last_group_marked_by_its_padding(text: str, data: bytes) -> None:
    assert z85.decode(text) == data


@pytest.mark.parametrize("text", ["####0", "#####", "##%%%", "###zz", "##é93"])
def test_rejects_a_short_last_group_that_does_not_fit(text: str) -> None:
    with pytest.raises(FormatError, match="Z85"):
        z85.decode(text)


def test_rejects_padding_anywhere_but_at_the_end() -> None:
    with pytest.raises(FormatError, match="Z85 group '##093' at character 0"):
        z85.decode("##0930rr91")
