"""Queries over tables of delvec: versions anywhere, names that hide others, files that are not opened."""

from __future__ import annotations

import pytest

from contract.kinds import Change
from scanning import collected, files_read
from verbs import frame_of

pytestmark = pytest.mark.spark

DDL = "id bigint, p int, name string"


@pytest.fixture(scope="module")
def tables(kind, spark, tmp_path_factory):
    """``a``: five files by p, ids of a hundred each; three versions. ``b``: one file."""
    root = tmp_path_factory.mktemp("queries")
    rows = [(p * 100 + n, p, f"n{n}") for p in range(5) for n in range(10)]
    changes = [
        Change("id % 10 = 3", lambda row: row["id"] % 10 == 3),
        Change(
            "p = 0",
            lambda row: row["p"] == 0,
            {"name": "upper(name)"},
            lambda row: row | {"name": row["name"].upper()},
        ),
    ]
    a, versions = kind.history(spark, root / "a {x} é", DDL, rows, *changes, partition_by=["p"])
    b = kind.table(spark, root / "b", "id bigint, word string", [(1, "one"), (101, "hundred"), (999, "none")])
    a.register("ta")
    b.register("tb")
    return a, b, versions


@pytest.fixture
def ask(spark, tables):
    from delvec import sql

    def rows(text, args=None):
        return [tuple(row.values()) for row in collected(sql(spark, filled(text, tables), args))]

    return rows


def filled(text, tables):
    """A query with the names of the tables, and versions by their place: ``{v1}``."""
    a, b, versions = tables
    text = text.replace("{a}", f"delvec.`{a.location}`").replace("{b}", f"delvec.`{b.location}`")
    for place, version in enumerate(versions, 1):
        text = text.replace(f"{{v{place}}}", str(version))
    return text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) FROM {a}", [(45,)]),
        ("SELECT count(*) FROM ta VERSION AS OF {v1}", [(50,)]),
        ("SELECT count(*) FROM ta FOR VERSION AS OF '{v2}' x WHERE x.p = 1", [(9,)]),
        ("SELECT count(*) FROM {a} FOR SYSTEM_VERSION AS OF {v1}", [(50,)]),
        ("SELECT n.name, o.name AS old FROM ta n JOIN {a} VERSION AS OF {v1} AS o USING (id) WHERE id = 5",
         [("N5", "n5")]),
        ("SELECT (SELECT count(*) FROM ta VERSION AS OF {v1}) - count(*) FROM ta", [(5,)]),
        ("SELECT id FROM {b} WHERE id IN (SELECT id FROM {a} VERSION AS OF {v1} WHERE p = 1)", [(101,)]),
        ("SELECT tb.word FROM tb WHERE EXISTS (SELECT 1 FROM ta WHERE ta.id = tb.id AND p = 0)", [("one",)]),
        ("WITH c AS (SELECT * FROM ta VERSION AS OF {v1}), d AS (SELECT * FROM c WHERE id = 3) TABLE d",
         [(3, 0, "n3")]),
        ("SELECT 1 FROM ta VERSION AS OF {v1} WHERE id = 3 UNION ALL SELECT 2 FROM ta WHERE id = 3", [(1,)]),
        ("FROM ta |> WHERE id < 2 |> AGGREGATE count(*)", [(2,)]),
        ("SELECT `{y}` FROM (SELECT '{z}' AS `{y}` FROM ta LIMIT 1)", [("{z}",)]),
        ("SELECT count(*) FROM ta x, LATERAL (SELECT * FROM tb y WHERE y.id = x.id)", [(2,)]),
        ("SELECT max(k) FROM ta LATERAL VIEW explode(array(p, 9)) e AS k WHERE id = 1", [(9,)]),
        ("SELECT /*+ BROADCAST(tb) */ tb.word FROM ta JOIN tb ON ta.id = tb.id WHERE ta.p = 1",
         [("hundred",)]),
        ("SELECT {a}.id FROM {a} WHERE {a}.id = 7", [(7,)]),
        ("TABLE tb ORDER BY id LIMIT 1", [(1, "one")]),
        ("SELECT extract(DAY FROM DATE'2025-01-31'), count(*) FROM tb", [(31, 3)]),
        ("SELECT count(*) FROM ta TABLESAMPLE (100 PERCENT) WHERE ta.id < 2", [(2,)]),
    ],
)  # fmt: skip
def test_queries(ask, query, expected):
    assert ask(query) == expected


def test_names_hide_tables(ask):
    """A common table expression hides a table, but not in itself; an inner one does so only inside."""
    assert ask("WITH tb AS (SELECT 5 AS id) SELECT id FROM tb") == [(5,)]
    assert ask("WITH tb AS (SELECT max(id) AS id FROM tb) SELECT id FROM tb") == [(999,)]
    query = "SELECT (SELECT count(*) FROM (WITH tb AS (SELECT 1) SELECT * FROM tb)), count(*) FROM tb"
    assert ask(query) == [(1, 3)]
    assert ask("SELECT ta.word FROM tb AS ta WHERE ta.id = 1") == [("one",)]


@pytest.mark.common
def test_timestamps(ask, tables):
    times = {row["version"]: row["timestamp"] for row in collected(tables[0].history())}
    first, second, _ = tables[2]
    text = times[first].isoformat(sep=" ")
    assert ask(f"SELECT count(*) FROM ta TIMESTAMP AS OF '{text}'") == [(50,)]
    assert ask("SELECT count(*) FROM ta FOR SYSTEM_TIME AS OF :t x", {"t": times[second]}) == [(45,)]
    just_before = f"TIMESTAMP '{times[second].isoformat(sep=' ')}' - INTERVAL '0.001' SECOND"
    assert ask(f"SELECT count(*) FROM ta TIMESTAMP AS OF {just_before} y") == [(50,)]


def test_a_timestamp_is_in_the_sessions_zone(ask, conf, tables):
    times = {row["version"]: row["timestamp"] for row in collected(tables[0].history())}
    conf("spark.sql.session.timeZone", "America/New_York")
    from zoneinfo import ZoneInfo

    local = (
        times[tables[2][0]].astimezone(ZoneInfo("America/New_York")).replace(tzinfo=None).isoformat(sep=" ")
    )
    assert ask(f"SELECT count(*) FROM ta TIMESTAMP AS OF '{local}'") == [(50,)]


def test_parameters_go_with_the_query(ask, tables):
    query = "SELECT ?, count(*) FROM ta VERSION AS OF ? WHERE id < ?"
    assert ask(query, ["a' OR '1", tables[2][0], 4]) == [("a' OR '1", 4)]
    assert ask("SELECT :x FROM ta WHERE id = :y OR name = :x", {"x": "N4", "y": 5}) == [("N4",)] * 2


def test_the_rows_stay_at_their_version(kind, spark, tmp_path):
    from delvec import sql

    table = kind.table(spark, tmp_path / "t", DDL, [(1, 1, "a")])
    frame = sql(spark, f"SELECT * FROM delvec.`{table.location}`")
    table.append(frame_of(spark, DDL, [(2, 2, "b")]))
    assert frame.count() == 1
    assert not [view.name for view in spark.catalog.listTables() if view.name.startswith("_")]


@pytest.mark.parametrize(
    ("query", "args", "files"),
    [
        ("SELECT * FROM ta", None, 5),
        ("SELECT * FROM ta WHERE id < 150", None, 2),
        ("SELECT * FROM ta x WHERE x.id = :i", {"i": 205}, 1),
        ("SELECT * FROM ta WHERE id IN (?, ?)", [1, 401], 2),
        (
            "SELECT max(id) FROM ta VERSION AS OF {v1} WHERE id BETWEEN 100 AND 120 AND name LIKE 'n%'",
            None,
            1,
        ),
        ("SELECT * FROM ta JOIN tb ON ta.id = tb.id WHERE ta.id < 50", None, 2),
        ("WITH c AS (SELECT * FROM ta WHERE id > 399) SELECT * FROM c", None, 1),
        ("SELECT * FROM ta WHERE id < 50 UNION ALL SELECT * FROM ta WHERE id > 350", None, 2),
        ("SELECT * FROM tb LEFT JOIN ta ON ta.id = tb.id WHERE ta.id IS NULL", None, 6),
    ],
)
def test_files_that_where_excludes_are_not_opened(spark, tables, query, args, files):
    from delvec import sql

    assert files_read(sql(spark, filled(query, tables), args)) == files


def test_a_pruned_outer_join_would_be_wrong(ask):
    """The rows without a partner must stay, though WHERE is about the side that lacks them."""
    query = "SELECT tb.id FROM tb LEFT JOIN ta ON ta.id = tb.id WHERE ta.id IS NULL"
    assert ask(query) == [(999,)]
