"""The commands that change rows: who is asked, what a dry run says, what is done, what is said at the end."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.progress import Progress

from delvec import detect
from delvec.cli import change, progress
from delvec.cli.progress import Line, Stage, spark_progress, watched
from delvec.cli.spark import session_settings, store_options
from delvec.cli.sql import is_query, parameters
from delvec.cli.update import assigned
from delvec.errors import InvalidOperationError
from delvec.row_delta import Isolation
from rows import read_rows

COMMAND = Path(sys.executable).with_name("delvec")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def at_terminal(monkeypatch):
    """Someone is there, and gives this answer."""

    def answer(text):
        monkeypatch.setattr(sys, "stdin", Terminal(text))
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    return answer


def rows(orders):
    table = detect.open_table(str(orders))
    return {row["id"]: row for row in read_rows(table.snapshot().plan(), table.storage)}


def version(orders):
    return detect.open_table(str(orders)).snapshot().version


@pytest.mark.spark
def test_delete(delvec, orders, in_spark):
    before = rows(orders)
    run = delvec("delete", orders, "--where", "amount > 50 OR region = 'us'", "--yes", "--json")
    assert (run.code, run.err) == (0, "")
    left = {i: row for i, row in before.items() if not (row["amount"] > 50 or row["region"] == "us")}
    assert rows(orders) == left
    told = run.json
    metrics = told.pop("metrics")
    assert told == {"location": str(orders), "operation": "DELETE", "version": 3}
    assert metrics["numDeletedRows"] == len(before) - len(left)


@pytest.mark.spark
@pytest.mark.parametrize("level", Isolation)
def test_isolation(delvec, orders, in_spark, level):
    changes = (["delete", "--where", "id = 36"], ["update", "--set", "amount = 1", "--where", "id = 35"])
    for command, *rest in changes:
        assert delvec(command, orders, *rest, "--yes", "--isolation", level).code == 0
        (newest,) = delvec("history", orders, "--limit", "1", "--json").json["commits"]
        assert newest["isolation_level"].lower().removesuffix("isolation") == level.replace("-", "")


@pytest.mark.spark
def test_delete_for_people(delvec, orders, in_spark):
    run = delvec("delete", orders, "--where", "id = 36", "--yes")
    assert re.search(r"^version +3$", run.out, re.MULTILINE)
    assert re.search(r"^numDeletedRows +1$", run.out, re.MULTILINE)
    assert " 0\n" not in run.out
    again = delvec("delete", orders, "--where", "id = 36", "--yes")
    assert re.search(r"^version +3 \(unchanged: no row matched\)$", again.out, re.MULTILINE)


@pytest.mark.spark
def test_delete_of_all_rows(delvec, orders, in_spark):
    assert delvec("delete", orders, "--all", "--yes").code == 0
    assert rows(orders) == {}


@pytest.mark.spark
def test_update(delvec, orders, in_spark):
    before = rows(orders)
    sets = ("--set", "amount = amount * 2", "--set", "customer=concat(customer, '=x')")
    run = delvec("update", orders, *sets, "--where", "id < 12", "--yes", "--json")
    assert (run.code, run.json["operation"], run.json["metrics"]["numUpdatedRows"]) == (
        0,
        "UPDATE",
        sum(i < 12 for i in before),
    )
    changed = {
        i: row | {"amount": row["amount"] * 2, "customer": row["customer"] + "=x"} if i < 12 else row
        for i, row in before.items()
    }
    assert rows(orders) == changed
    assert delvec("update", orders, "--set", "customer = 'all'", "--all", "--yes").code == 0
    assert {row["customer"] for row in rows(orders).values()} == {"all"}


@pytest.mark.spark
def test_dry_run(delvec, orders, in_spark):
    before, files = rows(orders), sorted(orders.rglob("*"))
    run = delvec("delete", orders, "--where", "id IN (36, 38) OR id < 10", "--dry-run", "--json")
    assert (run.code, run.err) == (0, "")
    told = run.json
    listed = {file.pop("path"): file for file in told.pop("files")}
    assert told == {
        "dry_run": True,
        "location": str(orders),
        "operation": "DELETE",
        "version": 2,
        "where": "id IN (36, 38) OR id < 10",
        "rows": sum(i in {36, 38} or i < 10 for i in before),
        "keys": None,
        "copied_rows": 0,
        "change_files": False,
        "total": 2,
        "outcomes": {"removed": 1, "new-vector": 0, "grown-vector": 1, "rewritten": 0, "keys": 0},
        "read": 1,
        "skipped": 2,
        "metrics": {"numDeletedRows": told["rows"], "numCopiedRows": 0},
    }
    assert listed["region=us/part-00003.parquet"] == {
        "location": f"{orders}/region=us/part-00003.parquet",
        "size": (orders / "region=us/part-00003.parquet").stat().st_size,
        "rows": 10,
        "deleted": 3,
        "matching": 2,
        "remaining": 5,
        "outcome": "grown-vector",
    }
    assert listed["region=eu/part-00000.parquet"]["outcome"] == "removed"
    assert (version(orders), rows(orders), sorted(orders.rglob("*"))) == (2, before, files)


@pytest.mark.spark
def test_dry_run_for_people(delvec, orders, in_spark):
    run = delvec("update", orders, "--set", "amount = 0", "--where", "id IN (36, 38, 5)", "--dry-run")
    assert run.code == 0
    assert re.search(r"part-00003.parquet +10 +3 +2 +5 +vector grown\n", run.out)
    assert "UPDATE would change 3 rows in 2 files of version 2\n" in run.out
    assert "files: 0 removed, 0 new vectors, 2 vectors grown, 0 rewritten (0 rows copied)\n" in run.out
    limited = delvec("update", orders, "--set", "amount = 0", "--all", "--dry-run", "--limit", 1)
    assert "3 more not shown (--limit)" in limited.out
    assert "read 0 files for this preview, skipped 0" in limited.out
    nothing = delvec("delete", orders, "--where", "id > 1000", "--dry-run")
    expected = (
        "DELETE would change 0 rows in 0 files of version 2\nread 0 files for this preview, skipped 4\n"
    )
    assert nothing.out == expected
    assert version(orders) == 2


def test_outcomes_have_words():
    from delvec.spark.dry_run import OUTCOMES

    assert tuple(change._OUTCOMES) == OUTCOMES


@pytest.mark.spark
@pytest.mark.parametrize("answer", ["y\n", "yes\n"])
def test_who_agrees(delvec, orders, in_spark, at_terminal, answer):
    at_terminal(answer)
    run = delvec("delete", orders, "--where", "id = 36")
    assert run.code == 0
    assert "DELETE would change 1 row in 1 file of version 2" in run.err
    assert "Continue? [y/N]" in run.err
    assert "would" not in run.out
    assert version(orders) == 3


@pytest.mark.spark
@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_who_does_not_agree(delvec, orders, in_spark, at_terminal, answer):
    at_terminal(answer)
    run = delvec("update", orders, "--set", "amount = 1", "--all")
    assert (run.code, run.out) == (2, "")
    assert "not confirmed: nothing was changed" in run.err
    assert version(orders) == 2


@pytest.mark.spark
def test_who_leaves(delvec, orders, in_spark, at_terminal):
    at_terminal("")
    assert delvec("delete", orders, "--all").code == 130
    assert version(orders) == 2


CHANGES = [
    ["delete", "--where", "id = 1"],
    ["update", "--set", "amount = 1", "--all"],
]


@pytest.mark.parametrize("arguments", CHANGES, ids=lambda one: one[0])
def test_where_nobody_can_be_asked(delvec, orders, no_spark, at_terminal, arguments):
    command, *rest = arguments
    run = delvec(command, orders, *rest)
    assert (run.code, run.out) == (2, "")
    assert run.err == (
        "error: no terminal to confirm on: pass --yes to change rows, or --dry-run to see what would change\n"
    )
    at_terminal("y\n")
    run = delvec(command, orders, *rest, "--json")
    assert run.code == 2
    assert "--json does not ask for confirmation: pass --yes" in run.json["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["delete", "--yes"], "--where is missing: pass a condition, or --all to change every row"),
        (
            ["delete", "--where", "id = 1", "--all", "--yes"],
            "--where and --all exclude each other: pass one of them",
        ),
        (["update", "--set", "amount = 1", "--yes"], "--where is missing"),
        (["update", "--all", "--yes"], "--set"),
        (["update", "--set", "amount", "--all", "--yes"], "--set 'amount' is not COLUMN=SQL"),
        (["update", "--set", "amount = ", "--all", "--yes"], "is not COLUMN=SQL"),
        (["update", "--set", "a=1", "--set", "a=2", "--all", "--yes"], "--set sets column a twice"),
        (["delete", "--all", "--yes", "--option", "novalue"], "--option is not KEY=VALUE"),
        (["delete", "--all", "--dry-run", "--isolation", "none"], "'none'"),
    ],
)
def test_bad_command_lines_are_refused_before_spark_starts(delvec, orders, no_spark, arguments, message):
    run = delvec(arguments[0], orders, *arguments[1:])
    assert (run.code, run.out) == (2, "")
    assert message in run.err


@pytest.mark.parametrize("arguments", CHANGES, ids=lambda one: one[0])
def test_a_wrong_path_is_told_before_spark_starts(delvec, tmp_path, no_spark, arguments):
    command, *rest = arguments
    assert delvec(command, tmp_path / "absent", *rest, "--yes").code == 3


@pytest.mark.spark
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["delete", "--where", "prize > 3"], "prize"),
        (["delete", "--where", "id > 3 +"], "syntax error in the condition"),
        (["delete", "--where", "array(id) >"], "condition 'array(id) >' is invalid"),
        (["update", "--set", "prize = 3", "--all"], "unknown column `prize` in --set"),
        (
            ["update", "--set", "amount = 'much'", "--all"],
            "value for column amount is of type string, expected double",
        ),
    ],
)
def test_bad_conditions(delvec, orders, in_spark, arguments, message):
    for how in ("--yes", "--dry-run"):
        run = delvec(arguments[0], orders, *arguments[1:], how)
        assert (run.code, run.out) == (2, "")
        assert message in run.err
    assert version(orders) == 2


@pytest.mark.parametrize(
    ("text", "column", "value"),
    [
        ("a=1", "a", "1"),
        (" a = b = c ", "a", "b = c"),
        ("a=concat(b, '=')", "a", "concat(b, '=')"),
        ("`a=b` = 1", "`a=b`", "1"),
        ("s.`x``=y`.z=1", "s.`x``=y`.z", "1"),
        ("a =\n  1", "a", "1"),
    ],
)
def test_assignments(text, column, value):
    assert assigned([text]) == {column: value}


@pytest.mark.parametrize("text", ["", "=1", "a", "a=", "a == 1", "`a=1"])
def test_bad_assignments(text):
    with pytest.raises(InvalidOperationError, match="is not COLUMN=SQL"):
        assigned([text])


def test_options_reach_spark_and_the_store():
    options = {"aws_region": "eu", "spark.executor.x": "1", "spark.hadoop.fs.s3a.a": "2", "fs.s3a.b": "3"}
    assert session_settings(options) == {
        "spark.executor.x": "1",
        "spark.hadoop.fs.s3a.a": "2",
        "spark.hadoop.fs.s3a.b": "3",
    }
    assert store_options(options) == {"aws_region": "eu", "spark.hadoop.fs.s3a.a": "2", "fs.s3a.b": "3"}


@pytest.mark.spark
def test_options_are_handed_on(delvec, orders, in_spark, started):
    given = ("--option", "spark.x=1", "--option", "region=eu")
    assert delvec("delete", orders, "--where", "id > 99", "--yes", *given).code == 0
    assert started == [{"spark.x": "1"}]


@pytest.mark.spark
def test_another_writer_came_first(delvec, orders, in_spark, monkeypatch):
    from delvec.errors import CommitConflictError
    from delvec.table import Table

    def lost(*_arguments, **_options):
        raise CommitConflictError("DELETE at version 2 conflicts with version 3 (WRITE)")

    monkeypatch.setattr(Table, "delete", lost)
    assert delvec("delete", orders, "--all", "--yes").code == 8


def shown(bar):
    (task,) = bar.tasks
    return (task.description, task.completed, task.total, task.fields["counts"])


def test_the_line_of_progress():
    bar = Progress(console=Console(file=io.StringIO()))
    line = Line(bar, bar.add_task("Spark", total=None, counts=""))
    line.running([Stage(4, 1, 3)])
    assert shown(bar) == ("Spark stage 4", 1, 3, "")
    line.count("rows found", 1000)
    line.count("files written", 2)
    line.count("rows found", 234)
    line.running([Stage(4, 3, 3), Stage(5, 0, 7)])
    assert shown(bar) == ("Spark stages 4, 5", 3, 10, "1,234 rows found, 2 files written")
    line.running([])
    assert shown(bar)[0] == "Spark"


@pytest.mark.spark
def test_running_stages_are_watched(spark):
    seen = []
    with watched(spark, seen.append):
        spark.sparkContext.parallelize(range(4), 4).foreach(lambda _: time.sleep(0.5))
    assert {stage.tasks for stages in seen for stage in stages} == {4}
    count = len(seen)
    time.sleep(3 * progress._INTERVAL)
    assert len(seen) == count


def test_stages_that_the_tracker_knows():
    known = {7: SimpleNamespace(stageId=7, numCompletedTasks=2, numTasks=9), 8: None}
    tracker = SimpleNamespace(getActiveStageIds=lambda: [8, 7], getStageInfo=known.get)
    assert progress.running_stages(tracker) == [Stage(7, 2, 9)]


def test_connect_sessions_tell_what_runs():
    handlers = []

    class Session:
        registerProgressHandler = staticmethod(handlers.append)  # noqa: N815 - the name is Spark's
        removeProgressHandler = staticmethod(handlers.remove)  # noqa: N815

    ended = SimpleNamespace(stage_id=1, num_tasks=5, num_completed_tasks=5, done=True)
    running = SimpleNamespace(stage_id=2, num_tasks=7, num_completed_tasks=3, done=False)
    seen = []
    with watched(Session(), seen.append):
        (handler,) = handlers
        handler(stages=[ended, running], inflight_tasks=1, operation_id="x", done=False)
        handler(stages=None, inflight_tasks=0, operation_id=None, done=True)
    assert seen == [[Stage(2, 3, 7)], []]
    assert handlers == []


def test_a_jvm_that_goes_away_ends_the_watch_quietly():
    class Tracker:
        def getActiveStageIds(self):  # noqa: N802 - the name is Spark's
            raise ConnectionError

    with progress._polled(Tracker(), lambda _: None):
        time.sleep(2 * progress._INTERVAL)


@pytest.mark.parametrize("hidden", [True, False])
def test_no_progress_is_shown_where_no_one_looks(capsys, hidden):
    with spark_progress(None, hidden=hidden):
        pass
    assert capsys.readouterr() == ("", "")


@pytest.mark.spark
def test_verbs_tell_what_they_do(spark, orders):
    from delvec.spark.progress import reported_to
    from delvec.table import Table

    table, heard = Table.open(spark, str(orders)), []
    with reported_to(lambda *told: heard.append(told)):
        table.delete("customer = 'gus'")
        table.update({"amount": "0"}, "id = 36")
    found, *rest = heard
    assert found[0] == "rows found"
    assert rest == [("rows found", 1), ("files written", 1)]
    table.delete("id = 38")
    assert len(heard) == 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("1.50", Decimal("1.50")),
        ("1e3", 1000.0),
        ("true", True),
        ("null", None),
        ("eu", "eu"),
        ("", ""),
        ("a=b", "a=b"),
        ("007", "007"),
        ("NaN", "NaN"),
        ("[1]", "[1]"),
        ('{"a": 1}', '{"a": 1}'),
        ("True", "True"),
        ('"7"', "7"),
        ("2025-01-01", "2025-01-01"),
        ("it's; -- DROP", "it's; -- DROP"),
    ],
)
def test_parameters(text, value):
    found = parameters([f"name={text}"])
    assert found == {"name": value}
    assert type(found["name"]) is type(value)


@pytest.mark.parametrize("text", ["", "=1", "a", "a b=1", ":a=1"])
def test_bad_parameters(text):
    with pytest.raises(InvalidOperationError, match="is not NAME=VALUE"):
        parameters([text])
    with pytest.raises(InvalidOperationError, match="twice"):
        parameters(["a=1", "a=2"])


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("SELECT 1", True),
        ("  -- delete\n /* update */ select `delete`, 'merge' from t", True),
        ("(SELECT 1)", True),
        ("WITH a AS (SELECT 1) SELECT * FROM a", True),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", False),
        ("with a as (select 1) delete from t", False),
        ("WITH a AS (SELECT 'delete' AS `insert`) SELECT * FROM a", True),
        ("FROM a SELECT b", True),
        ("FROM a INSERT INTO b SELECT *", False),
        ("VALUES (1)", True),
        ("TABLE t", True),
        ("SHOW TABLES", True),
        ("DESCRIBE HISTORY t", True),
        ("EXPLAIN DELETE FROM t", True),
        ("DELETE FROM t", False),
        ("/* SELECT */ UPDATE t SET a = 1", False),
        ("MERGE INTO t USING u ON 1 = 1 WHEN MATCHED THEN DELETE", False),
        ("CREATE TABLE t (a INT)", False),
        ("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')", False),
        ("DROP TABLE t", False),
        ("SELECT 'open", False),
        ("", False),
    ],
)
def test_what_may_change_something(text, query):
    assert is_query(text) is query


def ours(orders):
    return f"delvec.`{orders}`"


@pytest.mark.spark
def test_sql_query(delvec, orders, in_spark):
    before = rows(orders)
    condition = "region = :r AND id < :most"
    text = f"SELECT id, id AS id, NULL AS n, placed FROM {ours(orders)} WHERE {condition} ORDER BY id"
    run = delvec("sql", text, "--param", "r=eu", "--param", "most=12", "--json")
    assert (run.code, run.err) == (0, "")
    found = [row for i, row in sorted(before.items()) if i < 12]
    assert run.json == {
        "columns": [
            {"name": "id", "type": "bigint"},
            {"name": "id", "type": "bigint"},
            {"name": "n", "type": "void"},
            {"name": "placed", "type": "date"},
        ],
        "rows": [[row["id"], row["id"], None, row["placed"].isoformat()] for row in found],
        "truncated": False,
    }
    limited = delvec("sql", text, "--param", "r=eu", "--param", "most=12", "--limit", 2)
    assert limited.out.endswith("2 rows; more not shown (--limit)\n")
    assert "NULL" in limited.out


@pytest.mark.spark
def test_sql_that_changes(delvec, orders, in_spark, tmp_path):
    before = rows(orders)
    statement = f"DELETE FROM {ours(orders)} AS o WHERE o.customer = :who"
    count = sum(row["customer"] == "gus" for row in before.values())
    dry = delvec("sql", statement, "--param", "who=gus", "--dry-run", "--json").json
    assert (dry["dry_run"], dry["operation"], dry["rows"]) == (True, "DELETE", count)
    assert version(orders) == 2
    (tmp_path / "f.sql").write_text(statement + ";\n")
    done = delvec("sql", "--file", tmp_path / "f.sql", "--param", "who=gus", "--yes", "--json").json
    assert done["rows"] == [[count]]
    assert rows(orders) == {i: row for i, row in before.items() if row["customer"] != "gus"}
    dry = delvec("sql", f"UPDATE {ours(orders)} SET amount = 1 WHERE id = 36", "--dry-run")
    assert "UPDATE would change 1 row in 1 file of version 3" in dry.out
    source = f"(SELECT * FROM {ours(orders)} WHERE id IN (36, 38))"
    merge = f"MERGE INTO {ours(orders)} AS t USING {source} AS s ON t.id = s.id WHEN MATCHED THEN DELETE"
    dry = delvec("sql", merge, "--dry-run", "--json").json
    assert (dry["operation"], dry["metrics"]["numTargetRowsDeleted"]) == ("MERGE", 2)
    dry = delvec("sql", f"INSERT OVERWRITE {ours(orders)} {source[1:-1]}", "--dry-run")
    assert "new rows: 2\n" in dry.out
    assert version(orders) == 3
    defined = delvec("sql", f"ALTER TABLE {ours(orders)} SET TBLPROPERTIES ('a' = 'b')", "--yes")
    assert (defined.code, defined.out) == (0, "done\n")


@pytest.mark.spark
def test_sql_asks_before_it_changes(delvec, orders, in_spark, at_terminal):
    at_terminal("n\n")
    run = delvec("sql", f"DELETE FROM {ours(orders)} WHERE id = 36")
    assert run.code == 2
    assert "DELETE would change 1 row in 1 file of version 2" in run.err
    at_terminal("n\n")
    run = delvec("sql", f"INSERT INTO {ours(orders)} SELECT * FROM {ours(orders)}")
    assert run.code == 2
    assert "no preview for this statement" in run.err
    assert version(orders) == 2


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("SELEC 1", 2, "pass --yes"),
        ("SELECT nothing", 2, "nothing"),
        ("SELECT 1 FROM delvec.`/nowhere/at/all`", 3, "/nowhere/at/all"),
        ("SELECT (1", 2, ""),
    ],
)
def test_sql_that_is_refused(delvec, in_spark, text, code, message):
    run = delvec("sql", text)
    assert (run.code, run.out) == (code, "")
    assert message in run.err
    assert "Traceback" not in run.err


@pytest.mark.spark
def test_no_dry_run_of_other_statements(delvec, orders, in_spark):
    run = delvec("sql", f"INSERT INTO {ours(orders)} SELECT * FROM {ours(orders)}", "--dry-run")
    assert run.code == 2
    assert "--dry-run does not support this statement" in run.err
    assert version(orders) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "no statement: pass either TEXT or --file"),
        (["SELECT 1", "--file", "x"], 2, "TEXT and --file exclude each other: pass either TEXT or --file"),
        (["--file", "/nowhere/x.sql"], 3, "no such file: /nowhere/x.sql"),
        (["DELETE FROM t"], 2, "no terminal to confirm on: pass --yes"),
        (["DELETE FROM t", "--json"], 2, "--json does not ask for confirmation: pass --yes"),
        (["SELECT 1", "--dry-run"], 2, "--dry-run does not apply to a query"),
        (["SELECT 1", "--param", "x"], 2, "--param 'x' is not NAME=VALUE"),
        (["SELECT 1", "--option", "region=eu"], 2, "--option region is not a Spark setting"),
    ],
)
def test_bad_command_lines_of_sql(delvec, no_spark, arguments, code, message):
    run = delvec("sql", *arguments)
    assert run.code == code
    assert message in run.err + run.out


def in_terminal(arguments, answer):
    """What the command writes to stdout, a pipe, and to stderr, a terminal at which ``answer`` is typed."""
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"} | {"TERM": "xterm"}
    with subprocess.Popen(
        [COMMAND, *arguments], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True
    ) as process:
        os.close(theirs)
        seen = b""
        while True:
            if not select.select([ours], [], [], 120)[0]:
                process.kill()
                break
            try:
                piece = os.read(ours, 4096)
            except OSError:  # how a terminal ends on Linux
                break
            seen += piece
            if seen.rstrip().endswith(b"[y/N]:"):
                os.write(ours, answer)
        out = process.stdout.read()
        code = process.wait(timeout=60)
    os.close(ours)
    return code, out, seen.decode()


@pytest.mark.spark
def test_in_a_terminal(orders):
    """A process of its own: it starts Spark, shows what runs, asks, and ends Spark."""
    before = rows(orders)
    where = "customer > 'c' AND length(customer) > 2"
    code, out, seen = in_terminal(["delete", str(orders), "--where", where], b"y\n")
    assert code == 0, seen
    gone = {i for i, row in before.items() if row["customer"] > "c" and len(row["customer"]) > 2}
    assert rows(orders) == {i: row for i, row in before.items() if i not in gone}
    assert f"DELETE would change {len(gone)} rows" in seen
    assert "Spark" in seen
    assert "WARN" not in seen
    assert re.search(rf"^numDeletedRows +{len(gone)}$", out, re.MULTILINE)
    assert "\x1b" not in out
