"""Damaged copies of a file's bytes, for tests that feed them to readers."""

from __future__ import annotations

import random


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Bytes flipped, overwritten, cut off, left out or doubled."""
    broken = bytearray(data)
    match rng.randrange(4):
        case 0:
            return bytes(broken[: rng.randrange(len(broken))])
        case 1:
            for _ in range(rng.choice((1, 1, 2, 8))):
                broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        case 2:
            place = rng.randrange(len(broken))
            broken[place : place + rng.randrange(1, 9)] = rng.randbytes(rng.randrange(9))
        case 3:
            start, stop = sorted((rng.randrange(len(broken)), rng.randrange(len(broken))))
            broken[start:start] = broken[start:stop][:200]
    return bytes(broken)
