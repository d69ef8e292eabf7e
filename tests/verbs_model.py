"""A table as a list of rows in plain Python, and random changes of it, told to an engine and to the model.

Conditions and values are made twice at once: as SQL, and as a function of rows with SQL's three truth values.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
Sides = Mapping[str, Row | None]

KEY = "id"
TARGET, SOURCE = "target", "source"
MATCHED, NOT_MATCHED, BY_SOURCE = "MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"
UPDATE, DELETE, INSERT = "UPDATE", "DELETE", "INSERT"
BEFORE, AFTER = "update_preimage", "update_postimage"

TEXTS = (
    "a",
    "A",
    "",
    "a b",
    "é",
    "漢",
    "50%",
    "%41",
    "x/y",
    "k=v",
    "it's",
    '"',
    "\\",
    "[a]*?",
    "#",
    "null",
    ":",
)
NAN, INFINITY = float("nan"), float("inf")


@dataclass(frozen=True, slots=True)
class Kind:
    """A type: as Arrow and SQL name it, values to draw from, and a value as SQL."""

    arrow: pa.DataType
    sql: str
    values: tuple[Any, ...]
    literal: Callable[[Any], str]


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _double(value: float) -> str:
    special = not math.isfinite(value)
    return f"CAST('{value}' AS DOUBLE)" if special else f"{value!r}D"


def _moment(value: dt.datetime) -> str:
    return f"TIMESTAMP'{value.replace(tzinfo=None).isoformat(sep=' ')}'"


def _struct(value: Row) -> str:
    a, b = (literal(kind, value[name]) for name, kind in FIELDS.items())
    return f"named_struct('a', {a}, 'b', {b})"


def _array(value: Sequence[int | None]) -> str:
    return "CAST(array(" + ", ".join(literal("int", one) for one in value) + ") AS array<int>)"


FIELDS = {"a": "int", "b": "text"}
KINDS = {
    "int": Kind(pa.int32(), "int", tuple(range(-3, 10)), str),
    "long": Kind(pa.int64(), "bigint", (-(2**40), -1, 0, 1, 7, 2**40), str),
    "text": Kind(pa.string(), "string", TEXTS, _text),
    "place": Kind(pa.string(), "string", ("a b", "50%", "é/=:"), _text),
    "double": Kind(pa.float64(), "double", (0.0, -0.0, NAN, INFINITY, -INFINITY, 1.5, -2.25, 1e300), _double),
    "date": Kind(
        pa.date32(),
        "date",
        (dt.date(1950, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 3, 1), dt.date(1582, 10, 4)),
        lambda value: f"DATE'{value}'",
    ),
    "moment": Kind(
        pa.timestamp("us", tz="UTC"),
        "timestamp",
        (
            dt.datetime(2024, 1, 1, 5, 30, tzinfo=dt.UTC),
            dt.datetime(2024, 1, 1, 5, 30, 0, 123456, tzinfo=dt.UTC),
            dt.datetime(2024, 1, 1, 5, 30, 0, 123999, tzinfo=dt.UTC),
            dt.datetime(1959, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
        ),
        _moment,
    ),
    "decimal": Kind(
        pa.decimal128(8, 2),
        "decimal(8,2)",
        (Decimal("0.00"), Decimal("1.50"), Decimal("-20.25"), Decimal("999999.99")),
        lambda value: f"CAST({value} AS decimal(8,2))",
    ),
    "flag": Kind(pa.bool_(), "boolean", (True, False), lambda value: str(value).lower()),
    "struct": Kind(
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        "struct<a: int, b: string>",
        ({"a": 1, "b": "x"}, {"a": None, "b": ""}, {"a": 5, "b": None}, {"a": None, "b": None}),
        _struct,
    ),
    "array": Kind(pa.list_(pa.int32()), "array<int>", ([], [1], [None, 2], [3, 3, 3]), _array),
}
NESTED = ("struct", "array")
PLAIN = tuple(kind for kind in KINDS if kind not in NESTED)


def literal(kind: str, value: Any) -> str:
    return f"CAST(NULL AS {KINDS[kind].sql})" if value is None else KINDS[kind].literal(value)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# Conditions and values.


@dataclass(frozen=True, slots=True)
class Expression:
    """SQL, and what it gives for the rows of each side."""

    sql: str
    of: Callable[[Sides], Any]

    def holds(self, sides: Sides) -> bool:
        return self.of(sides) is True

    def __repr__(self) -> str:
        return self.sql


@dataclass(frozen=True, slots=True)
class Reference:
    """A column, or a field of a struct, of one side."""

    sql: str
    side: str
    path: tuple[str, ...]
    kind: str

    def of(self, sides: Sides) -> Any:
        value: Any = sides[self.side]
        for name in self.path:
            if value is None:
                return None
            value = value[name]
        return value


def references(columns: Mapping[str, str], side: str, *, qualified: bool = False) -> list[Reference]:
    found = []
    for name, kind in columns.items():
        sql = f"{side}.{quoted(name)}" if qualified else quoted(name)
        found.append(Reference(sql, side, (name,), kind))
        if kind == "struct":
            inner = [(f"{sql}.{quoted(part)}", (name, part), one) for part, one in FIELDS.items()]
            found += [Reference(text, side, path, one) for text, path, one in inner]
    return found


def _ordered(value: Any) -> Any:
    """Spark's order: NaN equals itself and is above all, texts go by their bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def compared(operator: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    return COMPARISONS[operator](_ordered(left), _ordered(right))


def all_of(first: bool | None, second: bool | None) -> bool | None:
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def inverse(value: bool | None) -> bool | None:
    return None if value is None else not value


def any_of(values: Iterable[bool | None]) -> bool | None:
    found: bool | None = False
    for value in values:
        found = inverse(all_of(inverse(found), inverse(value)))
    return found


def random_condition(rng: random.Random, refs: Sequence[Reference], depth: int = 2) -> Expression:
    form = rng.choice(["leaf", "leaf", "and", "or", "not"]) if depth else "leaf"
    if form == "leaf":
        return _leaf(rng, refs)
    first = random_condition(rng, refs, depth - 1)
    if form == "not":
        return Expression(f"NOT ({first.sql})", lambda sides: inverse(first.of(sides)))
    second = random_condition(rng, refs, depth - 1)
    if form == "and":
        return Expression(
            f"({first.sql}) AND ({second.sql})", lambda sides: all_of(first.of(sides), second.of(sides))
        )
    return Expression(
        f"({first.sql}) OR ({second.sql})", lambda sides: any_of([first.of(sides), second.of(sides)])
    )


def _leaf(rng: random.Random, refs: Sequence[Reference]) -> Expression:
    plain = [ref for ref in refs if ref.kind in PLAIN]
    ref = rng.choice(plain)
    form = rng.choice(["literal", "literal", "literal", "column", "in", "null", "not null", "null-safe"])
    if form in ("null", "not null"):
        ref = rng.choice(refs)
        word = "IS NULL" if form == "null" else "IS NOT NULL"
        return Expression(f"{ref.sql} {word}", lambda sides: (ref.of(sides) is None) == (form == "null"))
    if form == "in":
        values = [_drawn(rng, ref, nulls=0.1) for _ in range(rng.randrange(1, 4))]
        texts = ", ".join(literal(ref.kind, value) for value in values)
        negated = rng.random() < 0.3
        return Expression(
            f"{ref.sql} {'NOT ' if negated else ''}IN ({texts})",
            lambda sides: _is_in(ref.of(sides), values, negated=negated),
        )
    others = [other for other in plain if other.kind == ref.kind and other != ref]
    right: Any = rng.choice(others) if form == "column" and others else None
    value = _drawn(rng, ref, nulls=0.05)
    text = literal(ref.kind, value) if right is None else right.sql
    second = (lambda _: value) if right is None else right.of
    if form == "null-safe":
        return Expression(f"{ref.sql} <=> {text}", lambda sides: _same(ref.of(sides), second(sides)))
    operator = rng.choice(list(COMPARISONS))
    return Expression(
        f"{ref.sql} {operator} {text}", lambda sides: compared(operator, ref.of(sides), second(sides))
    )


def _is_in(value: Any, values: Sequence[Any], *, negated: bool) -> bool | None:
    found = any_of(compared("=", value, one) for one in values)
    return inverse(found) if negated else found


def _same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    return bool(compared("=", left, right))


def _drawn(rng: random.Random, ref: Reference, nulls: float) -> Any:
    if rng.random() < nulls:
        return None
    return rng.randrange(50) if ref.path == (KEY,) else rng.choice(KINDS[ref.kind].values)


def random_value(rng: random.Random, kind: str, refs: Sequence[Reference]) -> Expression:
    """A value for a column of this kind: a literal, another column, or a sum."""
    alike = [ref for ref in refs if ref.kind == kind]
    if alike and rng.random() < 0.6:
        ref, amount = rng.choice(alike), rng.choice([1, 2, -1])
        if kind in ("int", "long") and rng.random() < 0.6:
            return Expression(f"{ref.sql} + ({amount})", lambda sides: _sum(ref.of(sides), amount))
        return Expression(ref.sql, ref.of)
    value = None if rng.random() < 0.2 else rng.choice(KINDS[kind].values)
    text = "NULL" if value is None and rng.random() < 0.5 else literal(kind, value)
    return Expression(text, lambda _: value)


def _sum(value: int | None, amount: int) -> int | None:
    return None if value is None else value + amount


# Changes of a table.

Values = Mapping[tuple[str, ...], Expression]
"""An expression for each column, or for a field of a struct by the path to it."""


@dataclass(frozen=True, slots=True)
class Append:
    rows: list[Row]
    columns: Mapping[str, str]
    new_column: bool = False


@dataclass(frozen=True, slots=True)
class Overwrite:
    rows: list[Row]
    columns: Mapping[str, str]
    where: Expression | None = None
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    where: Expression | None


@dataclass(frozen=True, slots=True)
class Update:
    values: Values
    where: Expression | None


@dataclass(frozen=True, slots=True)
class Clause:
    """``values`` None: all columns, from the source's."""

    kind: str
    action: str
    condition: Expression | None
    values: Values | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    rows: list[Row]
    columns: Mapping[str, str]
    on: Expression
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class DeleteKeys:
    """``rows``: the keys, in the columns ``on``; none of them twice."""

    rows: list[Row]
    columns: Mapping[str, str]
    on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Upsert:
    """``order_by``: the column of ``rows`` whose largest value wins; the table does not have it."""

    rows: list[Row]
    columns: Mapping[str, str]
    on: tuple[str, ...]
    order_by: str | None = None


@dataclass(frozen=True, slots=True)
class SetProperties:
    properties: Mapping[str, str]


Step = Append | Overwrite | Delete | Update | Merge | DeleteKeys | Upsert | SetProperties


@dataclass(slots=True)
class Effect:
    """What a step does: changes of rows as a change feed tells them, and counts; or it is refused."""

    changes: list[tuple[str, Row]] = field(default_factory=list)
    metrics: dict[str, int] = field(default_factory=dict)
    commits: bool = True
    refused: bool = False


@dataclass(slots=True)
class Model:
    """A table as a list of rows. ``empty_is_null``: in partition columns the empty text is null."""

    columns: dict[str, str]
    partition_by: tuple[str, ...] = ()
    rows: list[Row] = field(default_factory=list)
    empty_is_null: bool = True

    def apply(self, step: Step) -> Effect:
        match step:
            case Append():
                return self._append(step)
            case Overwrite():
                return self._overwrite(step)
            case Delete():
                return self._delete(step)
            case Update():
                return self._update(step)
            case Merge():
                return self._merge(step)
            case DeleteKeys():
                return self._delete_keys(step)
            case Upsert():
                return self._upsert(step)
        return Effect()

    def stored(self, row: Row) -> Row:
        """Columns that it lacks are null."""
        whole = {name: row.get(name) for name in self.columns}
        for name in self.partition_by:
            whole[name] = None if self.empty_is_null and whole[name] == "" else whole[name]
        return whole

    def _append(self, step: Append) -> Effect:
        self._add_columns(step.columns)
        new = [self.stored(row) for row in step.rows]
        self.rows = self.rows + new
        metrics = {"numOutputRows": len(new)}
        return Effect([("insert", row) for row in new], metrics, commits=bool(new) or step.new_column)

    def _add_columns(self, columns: Mapping[str, str]) -> None:
        for name, kind in columns.items():
            if name not in self.columns:
                self.columns[name] = kind
                self.rows = [row | {name: None} for row in self.rows]

    def _overwrite(self, step: Overwrite) -> Effect:
        where = step.where
        if where is not None and not all(where.holds({TARGET: row}) for row in step.rows):
            return Effect(refused=True)
        new = [self.stored(row) for row in step.rows]
        if step.dynamic:
            replaced = {self._partition(row) for row in new}
            gone = [row for row in self.rows if self._partition(row) in replaced]
        else:
            gone = [row for row in self.rows if where is None or where.holds({TARGET: row})]
        taken = {id(row) for row in gone}
        self.rows = [row for row in self.rows if id(row) not in taken] + new
        changes = [("delete", row) for row in gone] + [("insert", row) for row in new]
        return Effect(changes, {"numOutputRows": len(new)}, commits=bool(changes))

    def _partition(self, row: Row) -> str:
        return repr([row[name] for name in self.partition_by])

    def _delete(self, step: Delete) -> Effect:
        gone = [row for row in self.rows if step.where is None or step.where.holds({TARGET: row})]
        taken = {id(row) for row in gone}
        self.rows = [row for row in self.rows if id(row) not in taken]
        metrics = {"numDeletedRows": len(gone)}
        return Effect([("delete", row) for row in gone], metrics, commits=bool(gone))

    def _delete_keys(self, step: DeleteKeys) -> Effect:
        gone = self._without_keys(step.on, step.rows)
        metrics = {
            "numKeys": len({_key_of(step.on, row) for row in step.rows}),
            "numDeletedRows": len(gone),
        }
        return Effect([("delete", row) for row in gone], metrics, commits=bool(gone))

    def _upsert(self, step: Upsert) -> Effect:
        last: dict[str, Row] = {}
        for row in step.rows:
            key = _key_of(step.on, row)
            if key in last and step.order_by is None:
                return Effect(refused=True)
            if key not in last or row[step.order_by] > last[key][step.order_by]:  # type: ignore[index]
                last[key] = row
        new = [self.stored({n: v for n, v in row.items() if n in self.columns}) for row in last.values()]
        gone = self._without_keys(step.on, last.values())
        self.rows = self.rows + new
        changes = [("delete", row) for row in gone] + [("insert", row) for row in new]
        metrics = {"numKeys": len(new), "numDeletedRows": len(gone), "numOutputRows": len(new)}
        return Effect(changes, metrics, commits=bool(changes))

    def _without_keys(self, on: Sequence[str], rows: Iterable[Row]) -> list[Row]:
        """Delete the rows that have one of the keys, and return them. Null equals null."""
        keys = {_key_of(on, row) for row in rows}
        gone = [row for row in self.rows if _key_of(on, row) in keys]
        taken = {id(row) for row in gone}
        self.rows = [row for row in self.rows if id(row) not in taken]
        return gone

    def _update(self, step: Update) -> Effect:
        effect, rows = Effect(), []
        for row in self.rows:
            if step.where is None or step.where.holds({TARGET: row}):
                new = self._changed(row, step.values, {TARGET: row})
                effect.changes += [(BEFORE, row), (AFTER, new)]
                rows.append(new)
            else:
                rows.append(row)
        self.rows = rows
        effect.metrics = {"numUpdatedRows": len(effect.changes) // 2}
        effect.commits = bool(effect.changes)
        return effect

    def _changed(self, old: Row, values: Values, sides: Sides) -> Row:
        new = dict(old)
        for path, value in values.items():
            if len(path) == 1:
                new[path[0]] = value.of(sides)
            else:  # a null struct becomes one whose other fields are null
                inside = new[path[0]] or dict.fromkeys(FIELDS)
                new[path[0]] = inside | {path[1]: value.of(sides)}
        return self.stored(new)

    def _merge(self, step: Merge) -> Effect:
        effect, rows = Effect(), []
        matched: set[int] = set()
        for row in self.rows:
            partners = [n for n, one in enumerate(step.rows) if step.on.holds({TARGET: row, SOURCE: one})]
            matched.update(partners)
            sides: list[Sides] = [{TARGET: row, SOURCE: step.rows[n]} for n in partners]
            kind = MATCHED if partners else BY_SOURCE
            chosen = [(_chosen(step, kind, one), one) for one in sides or [{TARGET: row, SOURCE: None}]]
            acting = [(clause, one) for clause, one in chosen if clause is not None]
            if len(acting) > 1 and not _may_repeat(step):
                return Effect(refused=True)
            rows += self._merged(row, acting[:1], effect)
        inserted = [
            row for n, one in enumerate(step.rows) if n not in matched for row in self._inserted(step, one)
        ]
        effect.changes += [("insert", row) for row in inserted]
        self.rows = rows + inserted
        kinds = [kind for kind, _ in effect.changes]
        updated, deleted = kinds.count(BEFORE), kinds.count("delete")
        effect.metrics = {
            "numSourceRows": len(step.rows),
            "numTargetRowsUpdated": updated,
            "numTargetRowsDeleted": deleted,
            "numTargetRowsInserted": len(inserted),
            "numOutputRows": updated + len(inserted),
        }
        effect.commits = bool(effect.changes)
        return effect

    def _merged(self, row: Row, acting: Sequence[tuple[Clause, Sides]], effect: Effect) -> list[Row]:
        if not acting:
            return [row]
        clause, sides = acting[0]
        if clause.action == DELETE:
            effect.changes.append(("delete", row))
            return []
        if clause.values is None:
            source = sides[SOURCE]
            assert source is not None
            new = self.stored(row | source)
        else:
            new = self._changed(row, clause.values, sides)
        effect.changes += [(BEFORE, row), (AFTER, new)]
        return [new]

    def _inserted(self, step: Merge, source: Row) -> list[Row]:
        sides: Sides = {TARGET: None, SOURCE: source}
        clause = _chosen(step, NOT_MATCHED, sides)
        if clause is None:
            return []
        if clause.values is None:
            return [self.stored(source)]
        return [self._changed(dict.fromkeys(self.columns), clause.values, sides)]


def _key_of(on: Sequence[str], row: Row) -> str:
    return repr([row[name] for name in on])


def _chosen(step: Merge, kind: str, sides: Sides) -> Clause | None:
    for clause in step.clauses:
        if clause.kind == kind and (clause.condition is None or clause.condition.holds(sides)):
            return clause
    return None


def _may_repeat(step: Merge) -> bool:
    matched = [clause for clause in step.clauses if clause.kind == MATCHED]
    return len(matched) == 1 and matched[0].action == DELETE and matched[0].condition is None


# Random ones.


def random_rows(rng: random.Random, columns: Mapping[str, str], count: int) -> list[Row]:
    return [
        {
            name: rng.randrange(50) if name == KEY else _value(rng, kind)
            for name, kind in columns.items()
        }
        for _ in range(count)
    ]  # fmt: skip


def _value(rng: random.Random, kind: str) -> Any:
    return None if rng.random() < 0.15 else rng.choice(KINDS[kind].values)


def random_step(rng: random.Random, model: Model) -> Step:
    refs = references(model.columns, TARGET)
    verbs = ["append", "delete", "delete", "update", "update", "merge", "merge", "overwrite"]
    match rng.choice([*verbs, "delete_keys", "upsert", "upsert"]):
        case "delete_keys":
            return random_delete_keys(rng, model)
        case "upsert":
            return random_upsert(rng, model)
        case "append":
            return random_append(rng, model)
        case "delete":
            return Delete(None if rng.random() < 0.05 else random_condition(rng, refs))
        case "update":
            where = None if rng.random() < 0.1 else random_condition(rng, refs)
            return Update(random_values(rng, model.columns, refs), where)
        case "merge":
            return random_merge(rng, model)
    return random_overwrite(rng, model)


_KEY_KINDS = frozenset(("int", "long", "text", "place", "date", "moment", "decimal", "flag"))
_ORDER = "order_of_rows"


def random_on(rng: random.Random, model: Model) -> tuple[str, ...]:
    """The columns of a key: the key column, others of types that keys may have, or both."""
    others = [name for name, kind in model.columns.items() if kind in _KEY_KINDS and name != KEY]
    more = rng.sample(others, rng.randrange(min(2, len(others)) + 1)) if rng.random() < 0.5 else []
    names = [*more, *([KEY] if not more or rng.random() < 0.5 else [])]
    return tuple(rng.sample(names, len(names)))


def random_delete_keys(rng: random.Random, model: Model) -> DeleteKeys:
    on = random_on(rng, model)
    columns = {name: model.columns[name] for name in on}
    keys = [dict(row) for row in random_rows(rng, columns, rng.choice([0, 1, 3, 8]))]
    keys += [{name: row[name] for name in on} for row in rng.sample(model.rows, min(2, len(model.rows)))]
    return DeleteKeys(keys, columns, on)


def random_upsert(rng: random.Random, model: Model) -> Upsert:
    on = random_on(rng, model)
    names = rng.sample(list(model.columns), len(model.columns))
    left_out = [name for name in names if name not in on and rng.random() < 0.1]
    columns = {name: model.columns[name] for name in names if name not in left_out}
    rows = random_rows(rng, columns, rng.choice([0, 1, 4, 12]))
    if rng.random() < 0.8:  # otherwise a key may be there twice
        rows = list({_key_of(on, row): row for row in rows}.values())
    if rng.random() < 0.3:
        order = rng.sample(range(100), len(rows))
        rows = [row | {_ORDER: number} for row, number in zip(rows, order, strict=True)]
        return Upsert(rows, columns | {_ORDER: "int"}, on, _ORDER)
    return Upsert(rows, columns, on)


def random_append(rng: random.Random, model: Model) -> Append:
    columns = dict(model.columns)
    change = rng.choice(["none", "none", "less", "more"])
    if change == "less":
        left_out = rng.sample(list(columns)[1:], rng.randrange(len(columns)))
        columns = {name: kind for name, kind in columns.items() if name not in left_out}
    if change == "more":
        columns[f"more {len(columns)}".replace(" ", "_")] = rng.choice(list(KINDS))
    order = rng.sample(list(columns), len(columns))
    columns = {name: columns[name] for name in order}
    return Append(random_rows(rng, columns, rng.randrange(1, 30)), columns, new_column=change == "more")


def random_overwrite(rng: random.Random, model: Model) -> Overwrite:
    form = rng.choice(["all", "where", "where", "dynamic" if model.partition_by else "where"])
    rows = random_rows(rng, model.columns, rng.choice([0, 5, 20]))
    if form != "where":
        return Overwrite(rows, dict(model.columns), dynamic=form == "dynamic")
    where = random_condition(rng, references(model.columns, TARGET), depth=1)
    if rng.random() < 0.8:
        rows = [row for row in map(model.stored, rows) if where.holds({TARGET: row})]
    rows = list(map(model.stored, rows))  # an empty text in a partition column is judged as null or not
    return Overwrite(rows, dict(model.columns), where)


def random_values(rng: random.Random, columns: Mapping[str, str], refs: Sequence[Reference]) -> Values:
    chosen: dict[tuple[str, ...], Expression] = {}
    for name in rng.sample(list(columns), rng.randrange(1, min(4, len(columns) + 1))):
        kind = columns[name]
        if kind == "struct" and rng.random() < 0.5:
            for part in rng.sample(list(FIELDS), rng.randrange(1, 3)):
                chosen[name, part] = random_value(rng, FIELDS[part], refs)
        else:
            chosen[name,] = random_value(rng, kind, refs)
    return chosen


def random_merge(rng: random.Random, model: Model) -> Merge:
    columns = {name: model.columns[name] for name in rng.sample(list(model.columns), len(model.columns))}
    count = rng.choice([0, 3, 12, 25])
    rows = random_rows(rng, columns, count)
    repeated = rng.random() < 0.2
    if not repeated:
        for row, key in zip(rows, rng.sample(range(60), count), strict=True):
            row[KEY] = key
    if rows and rng.random() < 0.3:
        rows[0][KEY] = None
    mine = references(model.columns, TARGET, qualified=True)
    theirs = references(columns, SOURCE, qualified=True)
    key = compared_keys()
    on = key
    if rng.random() < 0.3:
        more = random_condition(rng, [*mine, *theirs], depth=1)
        on = Expression(f"{key.sql} AND ({more.sql})", lambda sides: all_of(key.of(sides), more.of(sides)))
    clauses: list[Clause] = []
    if repeated and rng.random() < 0.5:  # the one clause that several source rows may share a target row for
        clauses = [Clause(MATCHED, DELETE, None), *_random_clauses(rng, model.columns, NOT_MATCHED, theirs)]
    while not clauses:
        for kind, refs in ((MATCHED, [*mine, *theirs]), (NOT_MATCHED, theirs), (BY_SOURCE, mine)):
            clauses += _random_clauses(rng, model.columns, kind, refs)
    return Merge(rows, columns, on, tuple(clauses))


def compared_keys() -> Expression:
    return Expression(
        f"target.{KEY} = source.{KEY}", lambda sides: compared("=", _key(sides, TARGET), _key(sides, SOURCE))
    )


def _key(sides: Sides, side: str) -> Any:
    row = sides[side]
    return None if row is None else row[KEY]


def _random_clauses(
    rng: random.Random, columns: Mapping[str, str], kind: str, refs: Sequence[Reference]
) -> list[Clause]:
    count = rng.choice([0, 1, 1, 2])
    clauses = []
    for number in range(count):
        last = number == count - 1
        condition = None if last and rng.random() < 0.6 else random_condition(rng, refs, depth=1)
        action = INSERT if kind == NOT_MATCHED else rng.choice([UPDATE, UPDATE, DELETE])
        values: Values | None = None
        if action != DELETE and (kind == BY_SOURCE or rng.random() < 0.5):
            values = random_values(rng, columns, refs)
            if action == INSERT:
                values = {(path[0],): value for path, value in values.items() if len(path) == 1}
                values = values or {(KEY,): random_value(rng, columns[KEY], refs)}
        clauses.append(Clause(kind, action, condition, values))
    return clauses


# Told to an engine.


def arrow_rows(rows: Sequence[Row], columns: Mapping[str, str]) -> pa.Table:
    schema = pa.schema([(name, KINDS[kind].arrow) for name, kind in columns.items()])
    return pa.Table.from_pylist(list(rows), schema=schema)


def schema_text(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(name)} {KINDS[kind].sql}" for name, kind in columns.items())


def _paths(values: Values) -> dict[str, str]:
    return {".".join(map(quoted, path)): value.sql for path, value in values.items()}


def run_by_delvec(
    spark: Any, table: Any, step: Step, *, files: int = 1, condition: Callable[[str], Any] = str
) -> Any:
    """The step by the verbs of ``delvec.Table``.

    ``files``: how many tasks write the new rows. ``condition`` makes what is given from a condition's SQL.
    """
    match step:
        case Append(rows, columns, new_column):
            return table.append(_frame(spark, rows, columns, files), merge_schema=new_column)
        case Overwrite(rows, columns, where, dynamic):
            partitions = "dynamic" if dynamic else "static"
            frame = _frame(spark, rows, columns, files)
            return table.overwrite(frame, where=where and condition(where.sql), partitions=partitions)
        case Delete(where):
            return table.delete(where and condition(where.sql))
        case Update(values, where):
            return table.update(_paths(values), where and condition(where.sql))
        case SetProperties(properties):
            return table.set_properties(properties)
        case DeleteKeys(rows, columns, on):
            return table.delete_keys(_frame(spark, rows, columns, files), on=list(on))
        case Upsert(rows, columns, on, order_by):
            return table.upsert(_frame(spark, rows, columns, files), list(on), order_by)
        case Merge(rows, columns, on, clauses):
            builder = table.merge(_frame(spark, rows, columns, files), on.sql)
            for clause in clauses:
                builder = _with_clause(builder, clause)
            return builder.execute()


def _frame(spark: Any, rows: Sequence[Row], columns: Mapping[str, str], files: int) -> Any:
    return spark.createDataFrame(arrow_rows(rows, columns)).repartition(files)


def _with_clause(builder: Any, clause: Clause) -> Any:
    condition = clause.condition and clause.condition.sql
    verb = f"when_{clause.kind.lower().replace(' ', '_')}_{clause.action.lower()}"
    if clause.action == DELETE:
        return getattr(builder, verb)(condition=condition)
    if clause.values is None:
        return getattr(builder, f"{verb}_all")(condition=condition)
    return getattr(builder, verb)(_paths(clause.values), condition=condition)


def run_by_sql(spark: Any, name: str, step: Step) -> None:
    """The step as SQL, for an engine that has the statements."""
    match step:
        case Append(rows, columns):
            _frame(spark, rows, columns, 1).createOrReplaceTempView("model_rows")
            spark.sql(f"INSERT INTO {name} BY NAME SELECT * FROM model_rows")
        case Delete(where):
            spark.sql(f"DELETE FROM {name}" + ("" if where is None else f" WHERE {where.sql}"))
        case Update(values, where):
            assigned = ", ".join(f"{path} = {value}" for path, value in _paths(values).items())
            spark.sql(f"UPDATE {name} SET {assigned}" + ("" if where is None else f" WHERE {where.sql}"))
        case Merge(rows, columns, on, clauses):
            _frame(spark, rows, columns, 1).createOrReplaceTempView("model_rows")
            text = " ".join(map(_clause_text, clauses))
            spark.sql(f"MERGE INTO {name} AS target USING model_rows AS source ON {on.sql} {text}")
        case _:
            raise AssertionError(step)


def _clause_text(clause: Clause) -> str:
    condition = "" if clause.condition is None else f" AND {clause.condition.sql}"
    head = f"WHEN {clause.kind}{condition} THEN {clause.action}"
    if clause.action == DELETE:
        return head
    if clause.values is None:
        return f"{head} *" if clause.action == INSERT else f"{head} SET *"
    values = _paths(clause.values)
    if clause.action == INSERT:
        return f"{head} ({', '.join(values)}) VALUES ({', '.join(values.values())})"
    return f"{head} SET " + ", ".join(f"{path} = {value}" for path, value in values.items())
