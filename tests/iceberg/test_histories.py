"""Random histories: every snapshot has the rows of the model, and no file with a matching row is skipped."""

from __future__ import annotations

import datetime as dt
import random

import pytest

from connector_rows import connector_rows
from delvec.detect import open_table
from delvec.plan import MATCH_ALL
from iceberg_tables.avro import DATA
from iceberg_tables.columns import projected
from iceberg_tables.histories import MOMENT, TEXTS, History
from plans import plan_where
from rewritten_manifests import rewrite
from rows import multiset

SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 12 else []) for seed in range(150)]


def made(root, seed):
    """Some steps of a random history."""
    history = History(root, random.Random(seed))
    for _ in range(history.rng.randrange(2, 14)):
        history.step()
    return history


def plain(row):
    """Timestamps in UTC, as the model has them."""
    return {
        name: value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value
        for name, value in row.items()
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_and_files_of_a_random_history(tmp_path, seed):
    history = made(tmp_path / "t", seed)
    table = history.table
    newest = multiset(map(plain, connector_rows(table.root)))
    assert newest == multiset(table.rows())
    for snapshot in history.rng.sample(list(table.snapshots), min(3, len(table.snapshots))):
        found = multiset(map(plain, connector_rows(table.root, version=snapshot)))
        assert found == multiset(table.rows(snapshot)), snapshot
    snapshot = open_table(str(table.root)).snapshot()
    for _ in range(12):
        no_matching_file_is_skipped(table, snapshot, *condition(history))


@pytest.mark.parametrize("seed", SEEDS[:40])
def test_a_random_history_whose_manifests_delvec_wrote_again(tmp_path, seed):
    """Rows, and the files that summaries and statistics let a reader skip."""
    history = made(tmp_path / "t", seed)
    table = history.table
    if table.format_version == 1:
        table.upgrade(2)
    rewrite(table)
    assert multiset(map(plain, connector_rows(table.root))) == multiset(table.rows())
    snapshot = open_table(str(table.root)).snapshot()
    for _ in range(12):
        no_matching_file_is_skipped(table, snapshot, *condition(history))


def condition(history):
    """A condition on a column, as text and as a function of a row."""
    rng = history.rng
    texts = {
        "int": lambda: str(rng.randrange(-12, 12)),
        "long": lambda: str(rng.randrange(-5, 120)),
        "string": lambda: f"'{rng.choice(TEXTS)}'",
        "date": lambda: f"DATE '{MOMENT.date() + dt.timedelta(days=rng.randrange(-400, 400))}'",
        "timestamptz": lambda: (
            f"TIMESTAMP '{(MOMENT + dt.timedelta(hours=rng.randrange(-60, 60))).replace(tzinfo=None)}'"
        ),
        "decimal(9, 2)": lambda: str(rng.randrange(-500, 500) / 100),
    }
    column = rng.choice([column for column in history.table.schema if column.type in texts])
    name, literal = f"`{column.name}`", texts[column.type]()
    value = parsed(column.type, literal)
    some = [literal, texts[column.type]()]
    values = {value, parsed(column.type, some[1])}
    cases = {
        f"{name} = {literal}": lambda v: v is not None and v == value,
        f"{name} < {literal}": lambda v: v is not None and v < value,
        f"{name} >= {literal}": lambda v: v is not None and v >= value,
        f"{name} <> {literal}": lambda v: v is not None and v != value,
        f"{name} IN ({', '.join(some)})": lambda v: v is not None and v in values,
        f"{name} IS NULL": lambda v: v is None,
        f"{name} IS NOT NULL": lambda v: v is not None,
    }
    text = rng.choice(list(cases))
    return text, lambda row: cases[text](row[column.name])


def parsed(kind, literal):
    from decimal import Decimal

    text = literal.split("'")[1] if "'" in literal else literal
    match kind:
        case "string":
            return text
        case "date":
            return dt.date.fromisoformat(text)
        case "timestamptz":
            return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)
        case "decimal(9, 2)":
            return Decimal(text)
    return int(text)


def no_matching_file_is_skipped(table, snapshot, text, matches):
    kept = {row["location"]: row["match"] for row in plan_where(snapshot, text).files.to_pylist()}
    for entry in table.head.entries(DATA):
        gone = table.deleted(entry)
        rows = enumerate(entry.file.rows)
        live = [projected(row, entry.file.schema, table.schema) for at, row in rows if at not in gone]
        found = [matches(row) for row in live]
        assert not any(found) or entry.file.path in kept, f"{text} skips {entry.file.path}"
        if kept.get(entry.file.path) == MATCH_ALL:
            assert all(found), f"{text} does not match all of {entry.file.path}"
