"""Damaged vectors, Puffin files, vector files and Z85: read right or refused, quickly and in little memory.

The cases come from seeded generators. DELVEC_FUZZ_SCALE multiplies their number.
"""

from __future__ import annotations

import json
import os
import random
import resource
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from delvec import blob, z85
from delvec.bitmap import MAX_POSITION, Bitmap
from delvec.delta import vector_file
from delvec.errors import CorruptVectorError, FormatError, UnsupportedFeatureError
from delvec.puffin import PuffinReader, PuffinWriter

SCALE = int(os.environ.get("DELVEC_FUZZ_SCALE", "1"))
MAX_CASE_SECONDS = 5.0
MAGIC = blob.MAGIC


def framed(bare: bytes) -> bytes:
    return struct.pack(">I", len(bare)) + bare + struct.pack(">I", zlib.crc32(bare))


def sample_sets() -> list[Bitmap]:
    evens, runs = np.arange(0, 20_000, 2), np.flatnonzero(np.arange(80_000) % 100 < 60)
    return [
        Bitmap(),
        Bitmap.of(0),
        Bitmap.of(3, 4, 7, 11, 18, 29),
        Bitmap.from_range(10, 100_000),
        Bitmap.from_numpy(evens),
        Bitmap.from_numpy(np.concatenate([evens, runs + 70_000, [1 << 18, 1 << 19, 1 << 20]])),
        Bitmap.of(*range(0, 9 << 16, 1 << 16)),
        Bitmap.of(1, 1 << 32, 5 << 32, MAX_POSITION) | Bitmap.from_range((5 << 32) + 9, (5 << 32) + 99),
    ]


SETS = sample_sets()
BLOBS = [blob.encode(bitmap) for bitmap in SETS]
INTERESTING = [0, 1, 0x7F, 0x80, 0xFF, 0x30, 0x3A, 0x3B]


def flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(rng: random.Random, data: bytes) -> bytes:
    """Bytes near the beginning, where the headers are, set to values that mean something there."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 4))):
        if changed:
            changed[rng.randrange(min(len(changed), 64))] = rng.choice(INTERESTING)
    return bytes(changed)


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))] if data else data


def splice(rng: random.Random, data: bytes) -> bytes:
    """A piece left out, said twice, or put in from nowhere."""
    a, b = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    b = min(b, a + 64)
    middle = rng.choice((b"", data[a:b] * 2, rng.randbytes(rng.randrange(12))))
    return data[:a] + middle + data[b:]


MUTATIONS = (flip, overwrite, cut, splice)


def timed(case: Callable[[], object]) -> object:
    begin = time.perf_counter()
    result = case()
    taken = time.perf_counter() - begin
    assert taken < MAX_CASE_SECONDS, f"one case took {taken:.1f} s"
    return result


def decoded(data: bytes) -> Bitmap | None:
    """The set, or None where it was refused; anything else fails the test."""
    try:
        bitmap = timed(lambda: blob.decode(data))
    except CorruptVectorError:
        return None
    assert isinstance(bitmap, Bitmap)
    return bitmap


def check_against_another_reader(bitmap: Bitmap, vector: bytes) -> None:
    theirs = BitMap64.deserialize(vector)
    theirs.run_optimize()
    assert bitmap.serialize() == theirs.serialize()
    assert bitmap.cardinality == len(theirs)


def test_damage_under_the_crc_is_always_refused():
    rng = random.Random(101)
    for _ in range(30_000 * SCALE):
        original = rng.choice(BLOBS)
        damaged = rng.choice(MUTATIONS)(rng, original)
        if damaged != original:
            assert decoded(damaged) is None


def test_random_bytes_are_refused():
    rng = random.Random(102)
    for _ in range(10_000 * SCALE):
        assert decoded(rng.randbytes(rng.randrange(200))) is None


def test_damage_with_a_true_crc_is_read_as_another_reader_reads_it_or_refused():
    rng = random.Random(103)
    read = refused = 0
    for _ in range(30_000 * SCALE):
        bare = rng.choice(BLOBS)[4:-4]
        damaged = rng.choice(MUTATIONS)(rng, bare)
        bitmap = decoded(framed(damaged))
        if bitmap is None:
            refused += 1
            continue
        read += 1
        check_against_another_reader(bitmap, damaged[4:])
        ranges = bitmap.ranges()
        assert int((ranges[:, 1] - ranges[:, 0]).sum()) == bitmap.cardinality
    assert min(read, refused) > 1000 * SCALE, "the generator has lost its aim"


def random_bitmap(rng: random.Random) -> bytes:
    """A 32-bit bitmap whose header is well formed, or nearly, around contents that may not be."""
    n = rng.choice((0, 1, 1, 2, 3, 4, 5, 9))
    keys = sorted(rng.sample(range(12), n)) if rng.random() < 0.9 else rng.choices(range(4), k=n)
    cards = [rng.choice((1, 2, 3, 20)) for _ in keys]
    runs = rng.random() < 0.5 and n > 0
    flags = [runs and rng.random() < 0.6 for _ in keys]
    payloads = []
    for i, card in enumerate(cards):
        if flags[i]:
            starts = sorted(rng.sample(range(0, 200, 5), rng.choice((0, 1, 1, 2, 3))))
            pairs = [(start, rng.randrange(4 if rng.random() < 0.95 else 9)) for start in starts]
            cards[i] = sum(more + 1 for _, more in pairs) or 1
            payloads.append(struct.pack(f"<H{2 * len(pairs)}H", len(pairs), *(x for p in pairs for x in p)))
        else:
            values = (
                sorted(rng.sample(range(300), card)) if rng.random() < 0.95 else rng.choices(range(9), k=card)
            )
            payloads.append(struct.pack(f"<{card}H", *values))
    header = struct.pack("<HH", 12347, n - 1) if runs else struct.pack("<II", 12346, n)
    if runs:
        header += sum(1 << i for i in range(n) if flags[i]).to_bytes((n + 7) // 8, "little")
    header += b"".join(struct.pack("<HH", key, card - 1) for key, card in zip(keys, cards, strict=True))
    if not runs or n >= 4:
        place = len(header) + 4 * n
        for payload in payloads:
            header += struct.pack("<I", place)
            place += len(payload)
    return header + b"".join(payloads)


def test_random_structures_are_read_as_another_reader_reads_them_or_refused():
    rng = random.Random(104)
    read = 0
    for _ in range(10_000 * SCALE):
        keys = rng.sample(range(5), rng.randrange(4))
        if rng.random() < 0.9:
            keys.sort()
        vector = struct.pack("<Q", len(keys)) + b"".join(
            struct.pack("<I", k) + random_bitmap(rng) for k in keys
        )
        bitmap = decoded(framed(MAGIC + vector))
        if bitmap is not None:
            read += 1
            check_against_another_reader(bitmap, vector)
    assert read > 2000 * SCALE, "the generator has lost its aim"


EXTREMES = r"""
import resource, struct, sys, time, zlib
from delvec import blob
from delvec.errors import CorruptVectorError

def framed(bare):
    return struct.pack(">I", len(bare)) + bare + struct.pack(">I", zlib.crc32(bare))

def vector(count, *pieces):
    return framed(blob.MAGIC + struct.pack("<Q", count) + b"".join(pieces))

key = struct.pack("<I", 0)
counts = (1 << 20, 1 << 32, 1 << 60, (1 << 64) - 1)
claims = [vector(count, tail) for count in counts for tail in (b"", bytes(999))]
claims += [vector(1, key, struct.pack("<II", 12346, n)) for n in (1, 65535, 65536, 65537, (1 << 32) - 1)]
claims += [vector(1, key, struct.pack("<II", 12346, n), bytes(500_000)) for n in (65535, 65536, 1 << 31)]
claims += [vector(1, key, struct.pack("<HH", 12347, n), b"\xff" * 500_000) for n in (0, 3, 65535)]
claims += [vector(1, key, struct.pack("<HHBHHH", 12347, 0, 1, 0, 0, 65535))]
claims += [struct.pack(">I", n) + bytes(16) for n in (0, 1 << 31, (1 << 32) - 1)]
many = b"".join(struct.pack("<III", key, 12346, 0) for key in range(20_000))
sound = vector(20_000, many)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
assert len(blob.decode(sound)) == 0
for claim in claims:
    begin = time.perf_counter()
    try:
        blob.decode(claim)
    except CorruptVectorError:
        assert time.perf_counter() - begin < 2.0
    else:
        raise AssertionError(claim[:40])
print(len(claims))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits a process's memory as Linux does")
def test_extreme_claims_are_refused_in_little_memory():
    done = subprocess.run(
        [sys.executable, "-c", EXTREMES], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 20


def sample_puffin() -> bytes:
    writer = PuffinWriter()
    for i, bitmap in enumerate(SETS[:4]):
        writer.add_vector(bitmap, f"data/{i}.parquet")
    return writer.finish()


def compressed(data: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def puffin(payload: bytes, content: bytes, *, flags: int = 0) -> bytes:
    return b"PFA1" + content + b"PFA1" + payload + struct.pack("<iI", len(payload), flags) + b"PFA1"


def read_everything(data: bytes) -> str:
    """Open the file and read all it holds; what became of it in a word. Other exceptions fail the test."""
    outcome = "read"
    try:
        reader = PuffinReader.from_bytes(data)
    except FormatError:
        return "refused"
    for metadata in reader.blobs:
        for reading in (reader.read_blob, reader.read_vector):
            try:
                reading(metadata)
            except (FormatError, UnsupportedFeatureError):
                outcome = "blob refused"
    return outcome


def test_damaged_puffin_files():
    rng = random.Random(105)
    data = sample_puffin()
    outcomes: Counter[str] = Counter()
    for _ in range(8_000 * SCALE):
        if rng.random() < 0.3:
            damaged = rng.choice(MUTATIONS)(rng, data)
        else:
            tail = rng.randrange(1, 500)
            damaged = data[:-tail] + rng.choice(MUTATIONS)(rng, data[-tail:])
        outcomes[str(timed(lambda damaged=damaged: read_everything(damaged)))] += 1
    assert outcomes["refused"] > 3000 * SCALE


VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    4,
    5,
    1.5,
    1 << 31,
    1 << 62,
    1 << 63,
    (1 << 64) - 1,
    1 << 70,
    "",
    "zstd",
    "lz4",
]
VALUES += [
    "deletion-vector-v1",
    "x" * 300,
    [],
    [1],
    ["1"],
    [None],
    {},
    {"a": "b"},
    {"cardinality": "x"},
    {"a": 1},
]
NAMES = [
    "type",
    "fields",
    "snapshot-id",
    "sequence-number",
    "offset",
    "length",
    "compression-codec",
    "properties",
]


def random_footer(rng: random.Random, lengths: int) -> object:
    entries = []
    for _ in range(rng.randrange(4)):
        entry: dict[str, object] = dict(
            zip(
                NAMES,
                ("deletion-vector-v1", [1], 1, 1, 4, lengths, rng.choice((None, "zstd", "lz4")), {}),
                strict=True,
            )
        )
        for _ in range(rng.choice((0, 0, 1, 2))):
            name = rng.choice(NAMES)
            if rng.random() < 0.2:
                entry.pop(name, None)
            else:
                entry[name] = rng.choice(VALUES)
        entries.append(entry if rng.random() < 0.95 else rng.choice(VALUES))
    footer: dict[str, object] = {"blobs": entries if rng.random() < 0.95 else rng.choice(VALUES)}
    if rng.random() < 0.3:
        footer["properties"] = rng.choice(VALUES)
    return footer if rng.random() < 0.97 else rng.choice(VALUES)


def test_random_puffin_footers_over_true_and_false_content():
    rng = random.Random(106)
    contents = [BLOBS[2], compressed(BLOBS[2], "zstd"), compressed(BLOBS[5], "lz4"), b"", rng.randbytes(50)]
    outcomes: Counter[str] = Counter()
    for _ in range(8_000 * SCALE):
        content = rng.choice(contents)
        content = flip(rng, content) if rng.random() < 0.3 else content
        payload = json.dumps(random_footer(rng, len(content))).encode()
        flags = int(rng.random() < 0.3)
        if flags:
            payload = compressed(payload, "lz4")
        if rng.random() < 0.2:
            payload = rng.choice(MUTATIONS)(rng, payload)
        data = puffin(payload, content, flags=flags)
        outcomes[str(timed(lambda data=data: read_everything(data)))] += 1
    assert all(outcomes[kind] > 300 * SCALE for kind in ("read", "refused", "blob refused")), outcomes


def test_decompression_bombs_are_refused_in_little_memory():
    zeros = bytes(1 << 20)
    for codec, mebibytes in (("zstd", 1024), ("lz4", 64)):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            for _ in range(mebibytes):
                stream.write(zeros)
        bomb = sink.getvalue().to_pybytes()
        entry = dict(zip(NAMES, ("x", [], 1, 1, 4, len(bomb), codec, {}), strict=True))
        reader = PuffinReader.from_bytes(puffin(json.dumps({"blobs": [entry]}).encode(), bomb))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if codec == "zstd":
            with pytest.raises(FormatError, match="decompresses to more than"):
                reader.read_blob(reader.blobs[0])
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
        else:
            # LZ4 cannot grow by more than 255: what it makes is in proportion, and is read.
            assert len(reader.read_blob(reader.blobs[0])) == mebibytes << 20


def test_damaged_vector_files():
    rng = random.Random(107)
    data, _ = vector_file.pack(SETS[:4] + SETS[6:])
    refused = []
    for _ in range(6_000 * SCALE):
        damaged = rng.choice(MUTATIONS)(rng, data)
        try:
            found = vector_file.read_blobs(damaged)
        except CorruptVectorError as error:
            refused.append(error.offset)
            continue
        assert b"\x01" + b"".join(framed for _, framed in found) == damaged
        for _, framed_blob in found:
            bitmap = decoded(framed_blob)
            assert bitmap is None or bitmap in SETS
    assert len(refused) > 1000 * SCALE
    assert None not in refused


def test_random_z85():
    rng = random.Random(108)
    read = 0
    for _ in range(6_000 * SCALE):
        text = "".join(rng.choices(z85.ALPHABET[: rng.choice((60, 80, 85))], k=5 * rng.randrange(6)))
        if rng.random() < 0.4 and text:
            at = rng.randrange(len(text))
            text = (
                text[:at]
                + chr(rng.choice((0, 32, 34, 44, 95, 126, 127, 200, 0x3B1, 0x1F600)))
                + text[at + 1 :]
            )
        if rng.random() < 0.2:
            text = text[1:]
        try:
            data = z85.decode(text)
        except FormatError:
            continue
        read += 1
        assert z85.encode(data) == text
    assert read > 500 * SCALE
