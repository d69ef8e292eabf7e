"""What is surely wrong is told before Spark starts; what only may be wrong is left to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from delvec.cli.before_spark import verify_expression
from delvec.cli.main import app
from delvec.schema import Field, Primitive, Struct

PROGRAM = """
import json, sys
from delvec.cli.main import main
code = main(sys.argv[1:])
print(json.dumps([code, "pyspark" in sys.modules]), file=sys.stderr)
"""
COLUMNS = "expected one of amount, region, placed, customer, id"
ORDERS = Struct(tuple(Field(name, Primitive("string")) for name in ("id", "customer", "amount", "s")))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["delete", "--where", "amuont > 3"], f"unknown column `amuont` in --where 'amuont > 3', {COLUMNS}"),
        (["delete", "--where", "upper(`amuont`) = 'A' AND id IN (SELECT x FROM y)"], "unknown column"),
        (["delete", "--where", "id > "], "syntax error in the condition"),
        (["delete", "--where", "id = 3 4"], "syntax error in the condition"),
        (["delete", "--where", "id IN (1, 2"], "syntax error at line 1, column 7: ( is not closed"),
        (["delete", "--where", "customer = 'x"], "the string does not end"),
        (["delete", "--where", " "], "--where is empty"),
        (["update", "--set", "amuont = 1", "--all"], f"unknown column `amuont` in --set, {COLUMNS}"),
        (["update", "--set", "`amuont` = 1", "--all"], "unknown column `amuont` in --set"),
        (["update", "--set", "amount = 2 * amuont", "--all"], "in --set amount = '2 * amuont'"),
        (["update", "--set", "amount = 1", "--where", "idd = 1"], "unknown column `idd` in --where"),
    ],
)
def test_changes(delvec, orders, no_spark, command, message):
    run = delvec(command[0], orders, *command[1:], "--yes")
    assert (run.code, run.out) == (2, "")
    assert message in run.err


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        ("", 2, "the statement is empty"),
        ("SELECT (1", 2, "( is not closed"),
        ("SELECT 'a", 2, "the string does not end"),
        ("SELECT 1; SELECT 2", 2, "syntax error"),
        ("SELECT * FROM delvec.`/nowhere/at/all`", 3, "no table at /nowhere/at/all"),
        ("INSERT INTO delvec.`/nowhere/at/all` VALUES (1)", 3, "no table at /nowhere/at/all"),
        ("EXPLAIN DELETE FROM {orders} WHERE amuont > 3", 2, "unknown column `amuont` in WHERE"),
        (
            "FROM {orders} INSERT INTO delvec.`/nowhere/a` SELECT 1 INSERT INTO {orders} SELECT *",
            3,
            "/nowhere/a",
        ),
        ("DELETE FROM {orders} WHERE", 2, "expected a condition"),
        ("DELETE FROM {orders} WHERE amuont > 3", 2, "unknown column `amuont` in WHERE 'amuont > 3'"),
        ("UPDATE {orders} SET amuont = 3", 2, "unknown column `amuont` in SET"),
        ("UPDATE {orders} SET amount = amuont + 1", 2, "unknown column `amuont` in the value of SET"),
        ("UPDATE {orders} SET amount = 1 WHERE id = ", 2, "syntax error"),
        (
            "INSERT INTO {orders} (id, amuont) VALUES (1, 2)",
            2,
            "unknown column `amuont` in the list of columns",
        ),
    ],
)
@pytest.mark.usefixtures("no_spark")
def test_statements(delvec, orders, statement, code, message):
    run = delvec("sql", statement.format(orders=f"delvec.`{orders}`"), "--yes")
    assert (run.code, run.out) == (code, "")
    assert message in run.err


@pytest.mark.parametrize(
    "condition",
    [
        "ID = 1",
        "t.id = 1",
        "target.nothing = 1",
        "s.x.y = 1",
        "id = :nothing",
        "id = ${nothing}",
        "id > current_date AND user = 'a'",
        "exists(split(customer, ','), part -> part = id)",
        "id IN (SELECT nothing FROM elsewhere)",
        "timestampadd(HOUR, 1, id) > id",
        'customer = "nothing"',
        "id = cast(amount AS odd type)",
        "id LIKE ANY ('a', 'b') AND id RLIKE 'x' AND id::int DIV 2 = 0",
    ],
)
def test_what_only_spark_can_tell_is_left_to_it(condition):
    verify_expression(condition, ORDERS, "--where")


def test_keywords_may_be_columns():
    schema = Struct((*ORDERS.fields, Field("in", Primitive("long"))))
    verify_expression("id = in", schema, "--where")


def test_no_java_and_no_pyspark(orders):
    arguments = ["delete", str(orders), "--where", "amuont > 3", "--yes", "--json"]
    environment = {**os.environ, "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert json.loads(run.stdout)["error"]["kind"] == "InvalidOperationError"
    assert json.loads(run.stderr) == [2, False]


def example_words(command):
    """The words of the example in the command's help, as bash takes them apart."""
    (epilog,) = [known.epilog for known in app.registered_commands if known.callback.__name__ == command]
    program = 'delvec() { printf "%s\\0" "$@"; }; ' + epilog.removeprefix("Example: ")
    run = subprocess.run(["bash", "-euc", program], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return run.stdout.split("\0")[:-1]


@pytest.mark.spark
def test_the_example_of_sql_is_taken_as_it_is_by_bash(delvec, orders, in_spark):
    words = [word.replace("/lake/orders", str(orders)) for word in example_words("sql")]
    run = delvec(*words)
    assert (run.code, run.err) == (0, "")
    assert "1 row" in run.out


@pytest.mark.parametrize("command", ["show", "files", "history", "dv", "verify", "delete", "update", "demo"])
def test_the_other_examples_are_command_lines(command):
    words = example_words(command)
    assert words[0] == command
    assert not any("`" in word for word in words)
