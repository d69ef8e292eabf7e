"""The sample table is an ordinary one: other engines read the same rows from it."""

from __future__ import annotations

import pytest

from delvec import detect
from rows import read_rows

DELETED = {
    0: set(),
    1: {order for order in range(40) if order % 3 == 1},
    2: {order for order in range(40) if order % 3 == 1} | set(range(21, 27)),
}


@pytest.mark.parametrize("version", DELETED)
def test_rows_of_each_version(tmp_path, version):
    table = detect.write_sample_table(str(tmp_path))
    rows = read_rows(table.snapshot(version).plan(), table.storage)
    assert sorted(row["id"] for row in rows) == sorted(set(range(40)) - DELETED[version])
    assert {row["region"] for row in rows} == {"eu", "us"}


@pytest.mark.parametrize("version", DELETED)
def test_another_engine_reads_the_same_rows(tmp_path, version):
    deltalake = pytest.importorskip("deltalake")
    detect.write_sample_table(str(tmp_path))
    engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(tmp_path), version=version))
    found = engine.execute("SELECT id FROM t").read_all()["id"].to_pylist()
    assert sorted(found) == sorted(set(range(40)) - DELETED[version])


def test_it_is_always_the_same(tmp_path):
    for name in ("a", "b"):
        detect.write_sample_table(str(tmp_path / name))
    first, second = (
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in ("a", "b")
    )
    assert first == second
