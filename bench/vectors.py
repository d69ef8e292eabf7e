"""How vectors compare with the best plain use of pyroaring and numpy: ``python -m bench.vectors``.

Four sets of a million positions; five operations on each, ours and the best of several plain ways, in
interleaved rounds, by their medians. The plain ways skip what a careful decoder must do: they trust lengths,
magic, keys and cardinality, and know that there is one 32-bit bitmap. The aim is a ratio of at most 1.2.
Operations of a few microseconds show the fixed cost of the checks and of Python calls in their ratio.
"""

from __future__ import annotations

import statistics
import struct
import time
import zlib
from array import array
from collections.abc import Callable

import numpy as np
from pyroaring import BitMap

from delvec import blob
from delvec.bitmap import Bitmap

COUNT = 1_000_000
ROUNDS = 15
MAX_RATIO = 1.2
MAGIC = bytes.fromhex("d1d33964")


def shapes() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(20)
    starts = np.arange(0, 10 * COUNT, 1000)
    return {
        "random of 10M": np.sort(rng.choice(10 * COUNT, COUNT, replace=False)),
        "one run": np.arange(COUNT) + 12_345,
        "clustered runs": (starts[:, None] + np.arange(100)).ravel(),
        "dense half": np.sort(rng.choice(2 * COUNT, COUNT, replace=False)),
    }


def plain_encode(positions: np.ndarray) -> bytes:
    values = array("I")
    values.frombytes(positions.astype(np.uint32).view(np.uint8).data)
    bitmap = BitMap(values)
    bitmap.run_optimize()
    body = b"".join((MAGIC, struct.pack("<QI", 1, 0), bitmap.serialize()))
    return b"".join((struct.pack(">I", len(body)), body, struct.pack(">I", zlib.crc32(body))))


def plain_decode(data: bytes) -> BitMap:
    view = memoryview(data)
    if zlib.crc32(view[4:-4]) != int.from_bytes(data[-4:], "big"):
        raise ValueError("CRC")
    return BitMap.deserialize(view[20:-4])


def plain_mask_by_index(bitmap: BitMap, length: int) -> np.ndarray:
    mask = np.zeros(length, np.bool_)
    mask[np.frombuffer(bitmap.to_array(), np.uint32)] = True
    return mask


def plain_mask_by_container(bitmap: BitMap, length: int) -> np.ndarray:
    data = bitmap.serialize()
    (cookie,) = struct.unpack_from("<I", data)
    with_runs = cookie & 0xFFFF == 12347
    n = (cookie >> 16) + 1 if with_runs else struct.unpack_from("<I", data, 4)[0]
    flags = data[4 : 4 + (n + 7) // 8] if with_runs else bytes((n + 7) // 8)
    place = 4 + len(flags) if with_runs else 8
    descriptors = np.frombuffer(data, "<u2", 2 * n, place).reshape(n, 2).tolist()
    place += 8 * n if n >= 4 or not with_runs else 4 * n
    mask = np.zeros((length + 65535) // 65536 * 65536, np.uint8)
    for i, (key, last) in enumerate(descriptors):
        base = key << 16
        if flags[i >> 3] >> (i & 7) & 1:
            (runs,) = struct.unpack_from("<H", data, place)
            for start, more in np.frombuffer(data, "<u2", 2 * runs, place + 2).reshape(-1, 2).tolist():
                mask[base + start : base + start + more + 1] = 1
            place += 2 + 4 * runs
        elif last < 4096:
            mask[np.frombuffer(data, "<u2", last + 1, place).astype(np.intp) + base] = 1
            place += 2 * (last + 1)
        else:
            bits = np.frombuffer(data, np.uint8, 8192, place)
            mask[base : base + 65536] = np.unpackbits(bits, bitorder="little")
            place += 8192
    return mask[:length].view(np.bool_)


Way = Callable[[], object]


def operations(positions: np.ndarray) -> dict[str, tuple[Way, list[Way]]]:
    """For each operation our way and the plain ways, on equal inputs."""
    data = blob.encode(Bitmap.from_numpy(positions))
    other_data = blob.encode(Bitmap.from_numpy(positions + 37))
    ours, other = blob.decode(data), blob.decode(other_data)
    theirs, their_other = plain_decode(data), plain_decode(other_data)
    length = int(positions[-1]) + 1
    assert plain_encode(positions) == data
    for way in (plain_mask_by_index, plain_mask_by_container):
        assert (way(theirs, length) == ours.to_mask(length)).all()
    return {
        "encode": (
            lambda: blob.encode(Bitmap.from_numpy(positions)),
            [lambda: plain_encode(positions)],
        ),
        "decode": (
            lambda: blob.decode(data, expected_cardinality=COUNT),
            [lambda: plain_decode(data)],
        ),
        "mask": (
            lambda: ours.to_mask(length),
            [lambda: plain_mask_by_index(theirs, length), lambda: plain_mask_by_container(theirs, length)],
        ),
        "blob to mask": (
            lambda: blob.decode(data, expected_cardinality=COUNT).to_mask(length),
            [
                lambda: plain_mask_by_index(plain_decode(data), length),
                lambda: plain_mask_by_container(plain_decode(data), length),
            ],
        ),
        "union": (lambda: ours | other, [lambda: theirs | their_other]),
    }


def seconds(way: Way, repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        way()
    return (time.perf_counter() - begin) / repeats


def measure(ours: Way, plain: list[Way], rounds: int) -> tuple[float, float]:
    """Median seconds of our way, and of the best of the plain ways."""
    ways = [ours, *plain]
    repeats = [max(1, int(2e-3 / max(seconds(way, 1), 1e-7))) for way in ways]
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, count, times in zip(ways, repeats, taken, strict=True):
            times.append(seconds(way, count))
    medians = [statistics.median(times) for times in taken]
    return medians[0], min(medians[1:])


def run(rounds: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for shape, positions in shapes().items():
        for operation, (ours, plain) in operations(positions).items():
            mine, best = measure(ours, plain, rounds)
            rows.append(
                {
                    "set": shape,
                    "operation": operation,
                    "ours_ms": mine * 1e3,
                    "plain_ms": best * 1e3,
                    "ratio": mine / best,
                }
            )
    return rows
