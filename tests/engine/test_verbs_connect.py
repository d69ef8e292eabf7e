"""The verbs in a Spark Connect session: the rows that a classic one would leave, and errors of ours."""

from __future__ import annotations

from collections import Counter

import pytest

import scan_process
from rows import multiset

pytestmark = pytest.mark.spark

QUERY = "SELECT id, CAST(id % 3 AS INT) AS `p q`, id * 2 AS v FROM range({})"
MAPPED = {"delta.columnMapping.mode": "name"}
WITHOUT_VECTORS = MAPPED | {"delta.enableDeletionVectors": "false"}
CREATE = ("create", {"rows": QUERY.format("0, 30, 1, 2"), "partition_by": ["p q"], "properties": MAPPED})
STEPS = [
    ("append", {"rows": QUERY.format("30, 40")}),
    ("delete", {"where": "id % 5 = 0"}),
    ("update", {"set": {"v": "-v", "`p q`": "9"}, "where": "id % 7 = 1"}),
    ("merge", {"rows": QUERY.format("36, 44"), "on": "target.id = source.id"}),
    ("overwrite", {"rows": "SELECT 100L AS id, 9 AS `p q`, 1L AS v", "where": "`p q` = 9"}),
    ("delete", {"where": "`p q` = 0 AND id < 20"}),
]


def expected():
    rows = {i: {"id": i, "p q": i % 3, "v": i * 2} for i in range(40) if i % 5}
    for i, row in rows.items():
        if i % 7 == 1:
            rows[i] = {"id": i, "p q": 9, "v": -row["v"]}
    rows |= {i: {"id": i, "p q": i % 3, "v": i * 2} for i in range(36, 44)}
    del rows[7]
    left = [row for row in rows.values() if row["p q"] != 9] + [{"id": 100, "p q": 9, "v": 1}]
    return [row for row in left if not (row["p q"] == 0 and row["id"] < 20)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    root = tmp_path_factory.mktemp("verbs-connect")
    asked = {
        "vectors": {"table": str(root / "vectors"), "verbs": [CREATE, *STEPS]},
        "files written again": {
            "table": str(root / "again"),
            "verbs": [("create", CREATE[1] | {"properties": WITHOUT_VECTORS}), *STEPS],
        },
        "unknown column": {
            "table": str(root / "unknown"),
            "verbs": [CREATE, ("update", {"set": {"nothing": "1"}, "where": "id = 1"})],
        },
        "null": {
            "table": str(root / "null"),
            "verbs": [CREATE, ("append", {"rows": "SELECT 'x' AS id, 1 AS `p q`, 2L AS v"})],
        },
        "double-quoted names": {
            "table": str(root / "quoted"),
            "conf": {"spark.sql.ansi.doubleQuotedIdentifiers": "true"},
            "verbs": [
                (
                    "create",
                    {"rows": "SELECT * FROM VALUES ('y', 'a'), ('a', 'a') t(x, y)", "partition_by": ["x"]},
                ),
                ("delete", {"where": 'x = "y"'}),
            ],
        },
    }
    return scan_process.answers(root / "process", asked, remote=True)


@pytest.mark.parametrize("name", ["vectors", "files written again"])
def test_the_same_rows(answers, name):
    assert Counter(answers[name]["rows"]) == multiset(expected())


def test_conditions_are_read_by_the_settings_of_the_session(answers):
    assert Counter(answers["double-quoted names"]["rows"]) == multiset([{"x": "y", "y": "a"}])


def test_errors_are_ours(answers):
    assert "InvalidOperationError: unknown column 'nothing'" in answers["unknown column"]["error"]
    assert (
        "InvalidOperationError: value for column id is of type string, expected bigint"
        in answers["null"]["error"]
    )
