"""What each writer does: seeded, so that writer and judge make the same statements of the same numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from writers.statements import (
    APPEND,
    DELETE,
    DELETE_KEYS,
    MERGE,
    OPTIMIZE,
    OVERWRITE,
    PURGE,
    UPDATE,
    UPSERT,
    Row,
    Statement,
    Term,
    row,
)

KEYS = 48
"""Few enough for two writers to meet on a row often, many enough for them not to meet always."""

_MOST_STATEMENTS = 100_000  # of a writer: tokens must be unique
_WEIGHTS = {
    APPEND: 4,
    DELETE: 5,
    UPDATE: 5,
    MERGE: 4,
    OVERWRITE: 2,
    OPTIMIZE: 2,
    PURGE: 1,
}


def first_rows() -> tuple[Row, ...]:
    """What a table has before any writer comes."""
    return tuple(row(number, 0) for number in range(KEYS))


def statements(seed: int, writer: int) -> Iterator[Statement]:
    """The statements of a writer, without end."""
    chance = random.Random(f"{seed}/{writer}")
    verbs, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    for number in range(_MOST_STATEMENTS):
        token = (writer + 1) * _MOST_STATEMENTS + number
        (verb,) = chance.choices(verbs, weights)
        yield _MAKERS[verb](chance, token)


def _append(chance: random.Random, token: int) -> Statement:
    rows = tuple(row(chance.randrange(2 * KEYS), token) for _ in range(chance.randint(1, 3)))
    return Statement(APPEND, token, rows=rows)


def _delete(chance: random.Random, token: int) -> Statement:
    return Statement(DELETE, token, where=_condition(chance))


def _update(chance: random.Random, token: int) -> Statement:
    return Statement(UPDATE, token, where=_condition(chance), moves=chance.random() < 0.3)


def _merge(chance: random.Random, token: int) -> Statement:
    ids = chance.sample(range(KEYS + 8), chance.randint(1, 4))
    limit = chance.randint(1, 3) if chance.random() < 0.3 else None
    return Statement(MERGE, token, rows=tuple(row(number, token) for number in ids), delete_from=limit)


def _overwrite(chance: random.Random, token: int) -> Statement:
    if chance.random() < 0.04:  # all rows: which also keeps the number of files small
        return Statement(OVERWRITE, token, rows=tuple(row(number, token) for number in range(KEYS)))
    first, length = chance.randrange(KEYS), chance.randint(2, 5)
    new = chance.sample(range(first, first + length), chance.randint(1, 2))
    return Statement(OVERWRITE, token, where=_span(first, length), rows=tuple(row(n, token) for n in new))


def _delete_keys(chance: random.Random, token: int) -> Statement:
    ids = chance.sample(range(KEYS + 8), chance.randint(1, 4))
    return Statement(DELETE_KEYS, token, rows=tuple(row(number, token) for number in ids))


def _upsert(chance: random.Random, token: int) -> Statement:
    ids = chance.sample(range(KEYS + 8), chance.randint(1, 4))
    return Statement(UPSERT, token, rows=tuple(row(number, token) for number in ids))


def _optimize(chance: random.Random, token: int) -> Statement:
    return Statement(OPTIMIZE, token)


def _purge(chance: random.Random, token: int) -> Statement:
    return Statement(PURGE, token)


def _condition(chance: random.Random) -> tuple[Term, ...]:
    kind = chance.randrange(6)
    first = chance.randrange(KEYS)
    match kind:
        case 0 | 1:
            return (Term("id", "=", first),)
        case 2:
            return (Term("id", "IN", tuple(chance.sample(range(KEYS), 3))),)
        case 3:
            return _span(first, chance.randint(1, 4))
        case 4:
            return (Term("p", "=", chance.randrange(3)), *_span(first, 8))
    # Depends on what others wrote: a row's new image may match where its old one did not.
    return (Term("v", "%", (4, chance.randrange(4))), Term("v", ">=", 1), *_span(first, 16))


def _span(first: int, length: int) -> tuple[Term, ...]:
    return (Term("id", ">=", first), Term("id", "<", first + length))


_MAKERS: dict[str, Callable[[random.Random, int], Statement]] = {
    APPEND: _append,
    DELETE: _delete,
    UPDATE: _update,
    MERGE: _merge,
    OVERWRITE: _overwrite,
    OPTIMIZE: _optimize,
    PURGE: _purge,
    DELETE_KEYS: _delete_keys,
    UPSERT: _upsert,
}
