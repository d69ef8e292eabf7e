"""Random files, facts about them, and conditions with an answer for every row.

The answers come from plain Python on the rows, by Spark's rules: three-valued logic, NaN equal to
itself and above all numbers, strings by their bytes, literals converted as Spark converts them (in
ANSI mode: outside of it, Spark compares times with a list of strings as strings).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal as Number
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from delvec.file_facts import ColumnPath, ColumnStats, ConstantColumn
from delvec.schema import Decimal, Field, Primitive, Struct, arrow_type

Row = dict[str, Any]
Truth = Callable[[Row], bool | None]

CUT = 32
LAST_CHARACTER = "\U0010ffff"
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "+05:30")

KINDS: dict[str, Any] = {
    "i": Primitive("integer"),
    "h": Primitive("short"),
    "l": Primitive("long"),
    "f": Primitive("float"),
    "x": Primitive("double"),
    "s": Primitive("string"),
    "z": Primitive("binary"),
    "d": Primitive("date"),
    "t": Primitive("timestamp"),
    "n": Primitive("timestamp_ntz"),
    "m": Decimal(10, 2),
    "w": Decimal(38, 10),
    "b": Primitive("boolean"),
    "g.c": Primitive("integer"),
    "g.k.s": Primitive("string"),
    "pi": Primitive("integer"),
    "ps": Primitive("string"),
    "pd": Primitive("date"),
    "pb": Primitive("boolean"),
    "px": Primitive("double"),
}
PARTITIONED = ("pi", "ps", "pd", "pb", "px")

SCHEMA = Struct(
    (
        *(Field(name, kind) for name, kind in KINDS.items() if "." not in name),
        Field(
            "g",
            Struct(
                (
                    Field("c", KINDS["g.c"]),
                    Field("k", Struct((Field("s", KINDS["g.k.s"]),))),
                )
            ),
        ),
    )
)

_LONG = "x" * CUT
POOLS: dict[str, list[Any]] = {
    "integer": [*range(-3, 13), 2**31 - 1, -(2**31), 16777217],
    "short": [*range(-3, 13), 32767, -32768],
    "long": [*range(-3, 13), 2**53, 2**53 + 1, 2**53 - 1, 2**63 - 1, -(2**63), 10**15],
    "double": [float("-inf"), -1.5, -0.0, 0.0, 0.1, 0.5, 1.5, 3.0, 4.0, 1e300, float("inf"), float("nan")],
    "float": [float(np.float32(v)) for v in (-1.5, -0.0, 0.0, 0.1, 0.5, 3.0, 4.0, 3.4e38, 16777216.0)]
    + [float("inf"), float("nan")],
    "string": [
        *("", "a", "ab", "abc", "abcd", "abd", "b", "a%", "a_c", "é", "\uffff", "\U0001f600", "x" * 31),
        *(_LONG, _LONG + "y", _LONG + "z", _LONG + "\U0001f600", _LONG + "\uffff", "x" * 40),
    ],
    "binary": [b"", b"\x00", b"a", b"ab", b"\x7f", b"\x80", b"\xff", b"\xff\xff"],
    "decimal(10,2)": [Number(v) / 100 for v in (-550, -100, -1, 0, 1, 25, 99, 100, 125, 300, 9999999999)],
    "decimal(38,10)": [Number(v).scaleb(-10) for v in (-(10**12), -1, 0, 1, 10**10, 15 * 10**9, 10**27)],
    "date": [date(2020, 1, 1) + timedelta(days=n) for n in range(-3, 5)]
    + [date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31)],
    "boolean": [True, False],
}
_MOMENTS = [
    *("2020-01-01 00:00:00", "2020-01-01 00:00:00.123456", "2020-01-01 00:00:00.123", "2020-01-02 12:00:00"),
    *("2021-03-28 00:30:00", "2021-03-28 01:30:00", "2021-03-28 02:30:00", "2021-10-31 00:30:00"),
    *("2021-10-31 01:30:00", "2021-10-31 02:30:00", "1969-12-31 23:59:59.999999", "1900-01-01 00:00:00"),
]
POOLS["timestamp"] = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in _MOMENTS]
POOLS["timestamp_ntz"] = [datetime.fromisoformat(text) for text in _MOMENTS]


def value_of(row: Row, name: str) -> Any:
    """The value at ``a.b.c``; None where anything on the way is NULL."""
    found: Any = row
    for part in name.split("."):
        found = None if found is None else found[part]
    return found


# Files


@dataclass(frozen=True)
class DataFile:
    """``rows`` are the physical ones, ``live`` those that no vector deletes."""

    rows: list[Row]
    live: list[Row]


def random_file(rng: random.Random) -> DataFile:
    count = rng.randint(1, 6)
    columns: dict[str, list[Any]] = {}
    for name, kind in KINDS.items():
        pool = POOLS[str(kind)]
        if rng.random() < 0.7:
            start = rng.randrange(len(pool))
            pool = pool[start : start + rng.randint(1, 3)]
        nulls = rng.choice((0, 0, 0, 0.3, 1))
        if name in PARTITIONED:
            columns[name] = [None if nulls else rng.choice(pool)] * count
        else:
            columns[name] = [None if rng.random() < nulls else rng.choice(pool) for _ in range(count)]
    rows = [_nested({name: values[n] for name, values in columns.items()}, rng) for n in range(count)]
    live = rows if rng.random() < 0.5 else rng.sample(rows, rng.randint(1, count))
    return DataFile(rows, live)


def _nested(flat: Row, rng: random.Random) -> Row:
    inner: Row | None = {"s": flat.pop("g.k.s")}
    outer: Row | None = {"c": flat.pop("g.c"), "k": inner if rng.random() < 0.9 else None}
    flat["g"] = outer if rng.random() < 0.9 else None
    return flat


# Facts


@dataclass(frozen=True)
class Facts:
    """Facts about files, held in memory."""

    record_count: pa.Array
    tight: pa.Array
    columns: dict[ColumnPath, ColumnStats | ConstantColumn] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.record_count)

    def column(self, path: ColumnPath) -> ColumnStats | ConstantColumn | None:
        return self.columns.get(path)


def random_facts(files: list[DataFile], rng: random.Random) -> Facts:
    """Facts that hold, and that leave out some."""
    columns: dict[ColumnPath, ColumnStats | ConstantColumn] = {}
    for name in KINDS:
        if rng.random() < 0.03:
            continue
        path = tuple(name.split("."))
        columns[path] = _constant(files, name, rng) if name in PARTITIONED else _stats(files, name, rng)
    tight = pa.array([file.live is file.rows for file in files])
    return Facts(_some([len(file.rows) for file in files], pa.int64(), rng), tight, columns)


def _some(values: list[Any], kind: pa.DataType, rng: random.Random) -> pa.Array:
    missing = rng.choice((0, 0, 0.1, 0.3))
    return pa.array([None if rng.random() < missing else value for value in values], kind)


def _constant(files: list[DataFile], name: str, rng: random.Random) -> ConstantColumn:
    values = [value_of(file.rows[0], name) for file in files]
    known = [rng.random() < 0.9 for _ in files] if rng.random() < 0.3 else None
    if known is not None:
        values = [value if sure else None for value, sure in zip(values, known, strict=True)]
    kind = arrow_type(KINDS[name])
    return ConstantColumn(pa.array(values, kind), None if known is None else pa.array(known))


def _stats(files: list[DataFile], name: str, rng: random.Random) -> ColumnStats:
    kind = arrow_type(KINDS[name])
    facts = [_bounds([value_of(row, name) for row in file.rows], rng) for file in files]
    lower, upper, prefix = (list(part) for part in zip(*facts, strict=True))
    values = [[value_of(row, name) for row in file.rows] for file in files]
    nulls = [sum(value is None for value in column) for column in values]
    nans = [sum(_is_nan(value) for value in column) for column in values]
    return ColumnStats(
        _some(lower, kind, rng),
        _some(upper, kind, rng),
        _some(nulls, pa.int64(), rng),
        _some([len(column) for column in values], pa.int64(), rng),
        pa.array(prefix) if kind == pa.string() else None,
        _some(nans, pa.int64(), rng) if rng.random() < 0.5 else None,
    )


def _bounds(values: list[Any], rng: random.Random) -> tuple[Any, Any, bool]:
    present = sorted((v for v in values if v is not None and not _is_nan(v)), key=_order)
    if not present:
        return None, None, False
    lower, upper = present[0], present[-1]
    if isinstance(lower, str):
        return _cut(lower, upper, rng)
    if isinstance(lower, datetime):
        lower, upper = _to_millisecond(lower), _to_millisecond(upper) + timedelta(milliseconds=1)
    return lower, upper, False


def _cut(lower: str, upper: str, rng: random.Random) -> tuple[str, str, bool]:
    if len(upper) <= CUT:
        return lower[:CUT], upper, rng.random() < 0.1
    if rng.random() < 0.5:
        return lower[:CUT], upper[:CUT], True
    return lower[:CUT], upper[:CUT] + LAST_CHARACTER, False


def _to_millisecond(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _order(value: Any) -> Any:
    """Spark's order among values of one type."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (True, 0.0) if _is_nan(value) else (False, value)
    return value


def _sign(left: Any, right: Any) -> int:
    a, b = _order(left), _order(right)
    return (a > b) - (a < b)


# Conditions


@dataclass(frozen=True)
class Case:
    """A condition as text, and what it is for a row."""

    text: str
    truth: Truth


@dataclass(frozen=True)
class Given:
    """A literal as text, and the sign of a value of the column against it."""

    text: str
    sign: Callable[[Any], int]
    group: str = ""


def random_case(rng: random.Random, zone: str, depth: int = 2) -> Case:
    """A condition of comparisons joined by AND, OR, NOT and IS."""
    shape = rng.random()
    if depth == 0 or shape < 0.35:
        return _leaf(rng, zone)
    if shape < 0.75:
        operands = [random_case(rng, zone, depth - 1) for _ in range(rng.randint(2, 3))]
        return _joined(rng.choice(("AND", "OR")), operands)
    inner = random_case(rng, zone, depth - 1)
    if shape < 0.9:
        return Case(f"NOT ({inner.text})", lambda row: _not(inner.truth(row)))
    word, value = rng.choice((("TRUE", True), ("FALSE", False), ("NULL", None)))
    if rng.random() < 0.5:
        return Case(f"({inner.text}) IS {word}", lambda row: inner.truth(row) is value)
    return Case(f"({inner.text}) IS NOT {word}", lambda row: inner.truth(row) is not value)


def _joined(word: str, operands: list[Case]) -> Case:
    def truth(row: Row) -> bool | None:
        answers = [operand.truth(row) for operand in operands]
        deciding = word == "OR"
        return deciding if deciding in answers else None if None in answers else not deciding

    return Case(f" {word} ".join(f"({operand.text})" for operand in operands), truth)


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _leaf(rng: random.Random, zone: str) -> Case:
    name = rng.choice(list(KINDS))
    kind = str(KINDS[name])
    shape = rng.random()
    if shape < 0.03:
        word, value = rng.choice((("TRUE", True), ("FALSE", False), ("NULL", None)))
        return Case(word, lambda _: value)
    if shape < 0.12:
        return _null_test(rng, name)
    if kind == "boolean" and shape < 0.3:
        return Case(name, lambda row: value_of(row, name))
    if kind == "string" and shape < 0.4:
        return _prefix_test(rng, name)
    if shape < 0.6:
        return _comparison(rng, name, random_literal(rng, kind, zone))
    if shape < 0.75:
        low, high = random_literal(rng, kind, zone), random_literal(rng, kind, zone)
        return _between(name, low, high)
    return _listed(rng, name, kind, zone)


def _null_test(rng: random.Random, name: str) -> Case:
    if rng.random() < 0.5:
        return Case(f"{name} IS NULL", lambda row: value_of(row, name) is None)
    return Case(f"{name} IS NOT NULL", lambda row: value_of(row, name) is not None)


def _prefix_test(rng: random.Random, name: str) -> Case:
    text = rng.choice([s for s in POOLS["string"] if "%" not in s and "_" not in s])
    prefix = text[: rng.randint(0, len(text))]
    form = rng.randrange(4)

    def starts(row: Row) -> bool | None:
        value = value_of(row, name)
        return None if value is None else value.startswith(prefix)

    def starts_and_more(row: Row) -> bool | None:
        value = value_of(row, name)
        return None if value is None else value.startswith(prefix) and len(value) > len(prefix)

    if form == 0:
        return Case(f"startswith({name}, '{prefix}')", starts)
    if form == 1:
        return Case(f"{name} LIKE '{prefix}%'", starts)
    if form == 2:
        return Case(f"{name} NOT LIKE '{prefix}%'", lambda row: _not(starts(row)))
    return Case(f"{name} LIKE '{prefix}_%'", starts_and_more)


_OPERATORS: dict[str, Callable[[int], bool]] = {
    "=": lambda sign: sign == 0,
    "==": lambda sign: sign == 0,
    "<>": lambda sign: sign != 0,
    "!=": lambda sign: sign != 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}


def _comparison(rng: random.Random, name: str, literal: Given) -> Case:
    shape = rng.random()
    if shape < 0.1:
        return Case(f"{name} <=> {literal.text}", lambda row: _same(row, name, literal))
    if shape < 0.15:
        return Case(f"{name} IS DISTINCT FROM {literal.text}", lambda row: not _same(row, name, literal))
    if shape < 0.2:
        return Case(f"{name} <=> NULL", lambda row: value_of(row, name) is None)
    if shape < 0.25:
        return Case(f"{name} < NULL", lambda _: None)
    operator, test = rng.choice(list(_OPERATORS.items()))
    if shape < 0.5:
        return Case(f"{literal.text} {operator} {name}", _compared(name, literal, lambda sign: test(-sign)))
    return Case(f"{name} {operator} {literal.text}", _compared(name, literal, test))


def _same(row: Row, name: str, literal: Given) -> bool:
    value = value_of(row, name)
    return value is not None and literal.sign(value) == 0


def _compared(name: str, literal: Given, test: Callable[[int], bool]) -> Truth:
    def truth(row: Row) -> bool | None:
        value = value_of(row, name)
        return None if value is None else test(literal.sign(value))

    return truth


def _between(name: str, low: Given, high: Given) -> Case:
    def truth(row: Row) -> bool | None:
        value = value_of(row, name)
        return None if value is None else low.sign(value) >= 0 and high.sign(value) <= 0

    return Case(f"{name} BETWEEN {low.text} AND {high.text}", truth)


def _listed(rng: random.Random, name: str, kind: str, zone: str) -> Case:
    first = random_literal(rng, kind, zone)
    size = rng.choice((0, 1, 2, 3, 25))
    others = [random_literal(rng, kind, zone) for _ in range(size)]
    literals = [first, *(other for other in others if other.group == first.group)]
    texts = [literal.text for literal in literals]
    has_null = rng.random() < 0.2
    if has_null:
        texts.insert(rng.randint(0, len(texts)), "NULL")

    def truth(row: Row) -> bool | None:
        value = value_of(row, name)
        if value is None:
            return None
        return True if any(literal.sign(value) == 0 for literal in literals) else None if has_null else False

    if rng.random() < 0.3:
        return Case(f"{name} NOT IN ({', '.join(texts)})", lambda row: _not(truth(row)))
    return Case(f"{name} IN ({', '.join(texts)})", truth)


# Literals


def random_literal(rng: random.Random, kind: str, zone: str) -> Given:
    """A literal that Spark compares with a column of that type, mostly one near its values."""
    value = rng.choice(POOLS[kind])
    if kind in ("integer", "short", "long"):
        return _integral(rng, value)
    if kind in ("double", "float"):
        return _floating(rng, value, kind)
    if kind.startswith("decimal"):
        return _fixed(rng, value)
    if kind == "string":
        return Given(f"'{value}'", lambda v: _sign(v, value), "string")
    if kind == "binary":
        return Given(f"X'{value.hex()}'", lambda v: _sign(v, value), "binary")
    if kind == "boolean":
        return Given(str(value).upper(), lambda v: _sign(v, value), "boolean")
    if kind == "date":
        form = rng.choice(("DATE '{}'", "'{}'", "CAST('{}' AS DATE)"))
        return Given(form.format(value.isoformat()), lambda v: _sign(v, value), form[:1])
    return _moment(rng, value, kind, zone)


def _integral(rng: random.Random, value: int) -> Given:
    form = rng.randrange(6)
    if form == 0 and abs(value) < 2**62:
        return Given(f"{value}L", lambda v: _sign(v, value), "exact")
    if form == 1:
        return Given(f"{value}.0", lambda v: _sign(v, value), "exact")
    if form == 2:
        half = Number(value) + Number("0.5")
        return Given(str(half), lambda v: _sign(v, half), "exact")
    if form == 3:
        return Given(f"{value}D", lambda v: _sign(float(v), float(value)), "double")
    if form == 4:
        far = value * 7
        return Given(str(far), lambda v: _sign(v, far), "exact")
    return Given(str(value), lambda v: _sign(v, value), "exact")


def _floating(rng: random.Random, value: float, kind: str) -> Given:
    form = rng.randrange(4)
    if _is_nan(value):
        return Given("CAST('NaN' AS DOUBLE)", lambda v: _sign(v, value), "double")
    if abs(value) == float("inf") or form == 0:
        small = rng.randint(-2, 5)
        return Given(str(small), lambda v: _sign(v, float(small)), "double")
    if form == 1 or abs(value) > 1e9:
        return Given(f"{value!r}D", lambda v: _sign(v, value), "double")
    text = rng.choice(("0.1", "0.5", "-1.5", "3.40", "16777217.0", "0.100000001490116119384765625"))
    return Given(text, lambda v: _sign(v, float(text)), "double")


def _fixed(rng: random.Random, value: Number) -> Given:
    form = rng.randrange(4)
    if form == 0:
        whole = int(value) % 2**31
        return Given(str(whole), lambda v: _sign(v, whole), "exact")
    if form == 1:
        finer = value + Number("0.005")
        return Given(f"{finer:f}", lambda v: _sign(v, finer), "exact")
    if form == 2:
        return Given(f"{value:f}BD", lambda v: _sign(v, value), "exact")
    return Given(f"{value:f}", lambda v: _sign(v, value), "exact")


def _moment(rng: random.Random, value: datetime, kind: str, zone: str) -> Given:
    local = value.replace(tzinfo=None)
    text = local.isoformat() if rng.random() < 0.2 else str(local)
    if rng.random() < 0.15:
        local, text = datetime(local.year, local.month, local.day), local.date().isoformat()
    prefix = rng.choice(("", "TIMESTAMP " if kind == "timestamp" else "TIMESTAMP_NTZ "))
    if len(text) == 10 and rng.random() < 0.5:
        prefix = "DATE "
    if kind == "timestamp_ntz":
        return Given(f"{prefix}'{text}'", lambda v: _sign(v, local), prefix or "string")
    if len(text) > 10 and rng.random() < 0.3:
        text, fixed = rng.choice(((text + "Z", UTC), (text + "+02:00", timezone(timedelta(hours=2)))))
        return Given(f"{prefix}'{text}'", lambda v: _sign(v, local.replace(tzinfo=fixed)), prefix or "string")
    # Like Java, Python takes the first of two instants, and goes on from before a gap.
    instant = local.replace(tzinfo=zone_of(zone)).astimezone(UTC)
    return Given(f"{prefix}'{text}'", lambda v: _sign(v, instant), prefix or "string")


def zone_of(name: str) -> Any:
    """The zone as Python has it."""
    if name.startswith("+"):
        hours, minutes = name[1:].split(":")
        return timezone(timedelta(hours=int(hours), minutes=int(minutes)))
    return ZoneInfo(name)
