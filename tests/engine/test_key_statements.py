"""DELETE statements that become deletes by key: which do, how the keys are stored, and what is reported."""

from __future__ import annotations

from typing import Any

import pytest

import delvec
from delvec import detect
from delvec.spark import condition_keys
from delvec.table import Table
from racing import log_messages
from verbs import rows_of, unchanged

pytestmark = pytest.mark.spark

GATE = "write.delete.equality-vector.enabled"
HINT = "write.delete.encoding-hint"
ON = {GATE: "true"}
VECTOR, FULL_ROW = "deletion-vector", "full-row"
DDL = "order_id bigint, customer_id int, name string, amount decimal(10,2), p int"
ROWS = [(number, number % 7, "ABCDE"[number % 5], None, number % 2) for number in range(0, 400, 5)]
MORE = [(-100, 1, "A", None, 0), (None, 5, None, None, 1), (12345, 3, "B", None, 0)]
ALL = ROWS + MORE


@pytest.fixture(scope="module")
def templates(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Tables are made once, and restored to their first version for each test."""
    tables: dict[str, tuple[Any, int]] = {}

    def template(version: int = 3, partition_by: tuple[str, ...] = (), **properties: str) -> Any:
        named = ON | {name.replace("_", "."): value for name, value in properties.items()}
        key = repr((version, partition_by, sorted(named.items())))
        if key not in tables:
            place = tmp_path_factory.mktemp("orders") / "t"
            table = Table.create(
                spark,
                str(place),
                spark.createDataFrame(ALL, DDL).coalesce(1),
                format="iceberg",
                format_version=version,
                properties=named,
                partition_by=partition_by,
            )
            tables[key] = table, table.version
        table, first = tables[key]
        table.restore(version=first)
        return table

    return template


def encodings(table: Any) -> list[str]:
    """How the deletes of the newest version are stored: those by key; "positions" for others."""
    deletes = detect.open_table(table.location).snapshot().live_deletes().to_pylist()
    return sorted(d["encoding"] if d["kind"] == "equality-file" else "positions" for d in deletes)


def left(**columns: Any) -> list[Any]:
    """The rows that a delete of these values leaves."""

    def is_hit(row: Any) -> bool:
        values = dict(zip(("order_id", "customer_id", "name", "amount", "p"), row, strict=True))
        return all(values[name] in wanted for name, wanted in columns.items())

    return sorted((row for row in ALL if not is_hit(row)), key=str)


# The seven statements of the design of equality delete vectors, as statements on one table.
EXAMPLES: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "order_id IN (100, 200, 300)": ({"order_id": (100, 200, 300)}, VECTOR, None),
    "order_id = 12345": ({"order_id": (12345,)}, VECTOR, None),
    "customer_id = 5": ({"customer_id": (5,)}, FULL_ROW, "KeyType"),
    "order_id = 10 AND customer_id = 3": (
        {"order_id": (10,), "customer_id": (3,)},
        FULL_ROW,
        "CompositeKey",
    ),
    "name IN ('A', 'B')": ({"name": ("A", "B")}, FULL_ROW, "KeyType"),
    "order_id = -100": ({"order_id": (-100,)}, FULL_ROW, "Negative"),
    "order_id IS NULL": ({"order_id": (None,)}, FULL_ROW, "Null"),
}


@pytest.mark.parametrize("where", EXAMPLES)
def test_the_examples_of_the_design(spark, templates, where):
    columns, encoding, fallback = EXAMPLES[where]
    table = templates()
    with log_messages() as messages:
        (counts,) = delvec.sql(spark, f"DELETE FROM delvec.`{table.location}` WHERE {where}").collect()
    assert counts.num_affected_rows is None
    assert encodings(table) == [encoding]
    assert rows_of(table) == left(**columns)
    summary = table._table.snapshot().record.summary
    assert summary["operation"] == "delete"
    assert summary["total-equality-deletes"] == str(max(map(len, columns.values())))
    assert summary["equality-delete-vectors"] == str(int(encoding == VECTOR))
    assert summary["equality-delete-files"] == str(int(encoding == FULL_ROW))
    assert (int(summary["edv-size-bytes"]) > 0) == (encoding == VECTOR)
    told = any("are written as full rows" in message for message in messages)
    assert told == (fallback is not None)


def test_the_result(templates):
    table = templates()
    found = table.delete("order_id IN (10, 20, 77, NULL, 10)")
    assert found.metrics["numDeletedRows"] is None
    assert (found.metrics["numKeys"], found.metrics["numKeysInVectors"]) == (3, 3)
    assert found.metrics["numKeysInRows"] == 0
    assert rows_of(table) == left(order_id=(10, 20))
    table.delete("customer_id IN (1, 2) AND name = 'C' AND customer_id = 2")
    expected = [row for row in left(order_id=(10, 20)) if (row[1], row[2]) != (2, "C")]
    assert rows_of(table) == expected
    # A part that is no key makes it an ordinary DELETE.
    ordinary = table.delete("order_id = 25 AND order_id <= 9999")
    assert ordinary.metrics["numDeletedRows"] == 1
    assert rows_of(table) == [row for row in expected if row[0] != 25]
    mixed = table.delete("order_id IN (-100, 30, 35)")
    assert mixed.metrics["numKeysInVectors"] == 2
    assert mixed.metrics["numKeysInRowsNegative"] == 1


NOT_KEYS = (
    "order_id > 390 AND order_id < 400",
    "order_id = 10 OR order_id = 20",
    "NOT order_id <> 15",
    "order_id + 0 = 25",
    "order_id = (SELECT 30)",
    "p = 1 AND order_id IS NOT NULL AND order_id < 10",
)


def test_other_conditions_find_their_rows(spark, templates):
    table, expected = templates(), ALL
    for where in NOT_KEYS:
        result = table.delete(where)
        assert result.metrics["numDeletedRows"], where
        frame = spark.createDataFrame(expected, DDL)
        hit = {tuple(row) for row in frame.where(where).collect()}
        expected = [row for row in expected if row not in hit]
    assert encodings(table) == ["positions"]
    assert rows_of(table) == sorted(expected, key=str)


def test_conditions_that_no_value_satisfies_commit_nothing(templates):
    table = templates()
    conditions = (
        "order_id = NULL",
        "order_id = 5.5",
        "order_id IN (5.5, NULL)",
        "customer_id = 1 AND customer_id = 2",
    )
    for where in conditions:
        with unchanged(table):
            assert table.delete(where).metrics["numDeletedRows"] == 0
    with unchanged(table):  # the bounds of the only file exclude it
        assert table.delete("order_id = 99999999").metrics["numDeletedRows"] == 0


def test_a_delete_that_metadata_decides_removes_whole_files(templates):
    table = templates(partition_by=("p",))
    result = table.delete("p = 1")
    assert encodings(table) == []
    assert result.metrics["numDeletedRows"] == sum(row[4] == 1 for row in ALL)
    assert rows_of(table) == left(p=(1,))
    # The key decides the partition, and all files have the newest partitioning.
    table.delete("p = 0 AND order_id = 20")
    (delete,) = detect.open_table(table.location).snapshot().live_deletes().to_pylist()
    assert delete["spec_id"] == 0
    assert rows_of(table) == [row for row in left(p=(1,)) if row[0] != 20]


def test_tables_that_do_not_ask_for_it(templates):
    for options, encoding in (
        ({"write_delete_mode": "copy-on-write"}, []),
        ({GATE.replace(".", "_"): "false"}, ["positions"]),
    ):
        table = templates(**options)
        assert table.delete("order_id = 20").metrics["numDeletedRows"] == 1
        assert encodings(table) == encoding


def test_version_2_stores_full_rows(templates):
    table = templates(version=2)
    result = table.delete("order_id IN (10, 20)")
    assert encodings(table) == [FULL_ROW]
    assert result.metrics["numKeysInRowsFormatVersion"] == 2
    assert rows_of(table) == left(order_id=(10, 20))


@pytest.mark.parametrize("hint", ["auto", "deletion-vector", "full-row"])
def test_the_hint(templates, hint):
    table = templates()
    table.set_properties({HINT: hint})
    table.delete("customer_id IN (2, 5)")
    table.delete("order_id = 20")
    expected = {
        "auto": [VECTOR, FULL_ROW],
        "deletion-vector": [VECTOR, VECTOR],
        "full-row": [FULL_ROW, FULL_ROW],
    }
    assert encodings(table) == expected[hint]
    table.set_properties({HINT: None})
    assert rows_of(table) == [row for row in left(customer_id=(2, 5)) if row[0] != 20]


def test_too_many_combinations_are_an_ordinary_delete(templates, monkeypatch):
    monkeypatch.setattr(condition_keys, "MOST_COMBINED_KEYS", 5)
    table = templates()
    # One list may be as long as it likes.
    assert table.delete("order_id IN (0, 5, 10, 15, 20, 25)").metrics["numDeletedRows"] is None
    assert table.delete("customer_id IN (1, 2) AND name IN ('A', 'B')").metrics["numDeletedRows"] is None
    assert encodings(table) == [VECTOR, FULL_ROW]
    result = table.delete("customer_id IN (3, 4) AND name IN ('A', 'B', 'C')")
    assert result.metrics["numDeletedRows"] is not None
    assert "positions" in encodings(table)


def test_a_dry_run_says_it(spark, templates):
    table = templates()
    with unchanged(table):
        preview = table.delete("order_id IN (10, 20)", dry_run=True)
        explained = delvec.sql(
            spark, f"EXPLAIN DELETE FROM delvec.`{table.location}` WHERE order_id IN (10, 20)"
        ).collect()
    assert (preview.keys, preview.matching, preview.metrics["numDeletedRows"]) == (2, None, None)
    assert "would store 2 keys; 1 file may lose rows; numKeys=2, numDeletedRows=None;" in repr(preview)
    assert [row.outcome for row in explained] == ["keys"]
    ordinary = table.delete("order_id < 10", dry_run=True)
    assert (ordinary.keys, ordinary.matching) == (None, 3)


TYPED = {
    "b": ("boolean", "true", "false"),
    "y": ("tinyint", "1", "2"),
    "l": ("bigint", "9223372036854775807", "-5"),
    "d": ("decimal(10,2)", "5.25", "5.26"),
    "t": ("string", "'é'", "''"),
    "x": ("binary", "X'00FF'", "X''"),
    "day": ("date", "DATE'2024-02-29'", "'1960-01-01'"),
    "ts": ("timestamp", "TIMESTAMP'2024-02-29 01:02:03.000004'", "TIMESTAMP'1960-01-01 00:00:00'"),
    "local": ("timestamp_ntz", "TIMESTAMP_NTZ'2024-02-29 01:02:03.000004'", "'1960-01-01 00:00:00'"),
}


def test_literals_of_every_type(spark, tmp_path):
    ddl = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPED.items())
    selects = [
        ", ".join(f"CAST({values[n]} AS {values[0]}) AS {name}" for name, values in TYPED.items())
        for n in (1, 2)
    ]
    selects.append(", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, (kind, _, _) in TYPED.items()))
    rows = spark.sql(" UNION ALL ".join(f"SELECT {columns}" for columns in selects)).coalesce(1)
    table = Table.create(spark, str(tmp_path / "t"), ddl, format="iceberg", properties=ON)
    table.append(rows)
    first, before, at = table.version, rows_of(table), list(TYPED).index("y")
    for name, (_, one, other) in TYPED.items():
        for where, deleted in ((f"{name} = {one}", 1), (f"{other} = {name}", 2), (f"{name} IS NULL", None)):
            assert table.delete(where).metrics["numDeletedRows"] is None, where
            after = rows_of(table)
            assert [row[at] for row in before if row not in after] == [deleted], where
            table.restore(version=first)
