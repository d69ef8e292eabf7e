"""Tables in catalogs become version 3 by delvec or by Iceberg-Spark; the other goes on writing, then both."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_turns import PLAIN, Turns, id_in, merged_by_delvec, merged_by_iceberg_spark

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.mark.parametrize("upgrader", ["delvec", "Iceberg-Spark"])
@pytest.mark.parametrize("place", ["rest", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_the_other_goes_on_writing(shared_catalog: Any, place: str, upgrader: str) -> None:
    t = Turns(shared_catalog(place).table(f"upgraded_by_{upgrader[0].lower()}"), PLAIN, 2)
    t.table.create(t.columns(), 2)
    rows = t.new_rows(*range(12))
    t.mine(lambda table: table.append(t.arrow(rows)), added=rows)
    t.theirs("DELETE FROM {t} WHERE id = 1", gone=id_in(1))
    t.mine(lambda table: table.delete("id = 2"), gone=id_in(2))
    added = t.new_rows(12, 13)
    if upgrader == "delvec":
        t.mine(lambda table: table.upgrade(3))
        t.source(added)
        t.theirs("INSERT INTO {t} SELECT * FROM source", added=added)
    else:
        t.theirs("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
        t.mine(lambda table: table.append(t.arrow(added)), added=added)
    t.upgraded()
    assert t.table.metadata()["format-version"] == 3
    steps = [by_iceberg_spark, by_delvec]
    for number, step in enumerate(steps if upgrader == "delvec" else steps[::-1]):
        step(t, number)
    t.mine(lambda table: table.optimize())
    assert t.table.open().verify().findings == ()


def by_iceberg_spark(t: Turns, number: int) -> None:
    """Vectors on files that have position deletes, or vectors of delvec."""
    first = 3 + 4 * number
    t.theirs(f"DELETE FROM {{t}} WHERE id = {first}", gone=id_in(first))
    t.theirs(f"UPDATE {{t}} SET v = -1 WHERE id = {first + 1}", hit=id_in(first + 1), new=lambda _: {"v": -1})
    merged_by_iceberg_spark(t, t.new_rows(first + 2, first + 3, 20 + number, v=50), gone=first + 3)


def by_delvec(t: Turns, number: int) -> None:
    first = 3 + 4 * number
    t.mine(lambda table: table.delete(f"id = {first}"), gone=id_in(first))
    t.mine(
        lambda table: table.update({"v": "-2"}, f"id = {first + 1}"),
        hit=id_in(first + 1),
        new=lambda _: {"v": -2},
    )
    merged_by_delvec(t, t.new_rows(first + 2, 20 + number, v=60))
