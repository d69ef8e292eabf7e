"""Many writers of one table on S3, each a process: Spark writes by ``s3a``, delvec by its storage."""

from __future__ import annotations

import sys

import pytest

from jars import JarsUnavailableError, s3a_jars
from s3server import BUCKET, s3_server_or_skip
from verbs import VECTORS_OFF
from writers import client, processes
from writers.client import Place, Task
from writers.judge import Judge, told_in
from writers.schedule import KEYS, first_rows
from writers.serial import State, after
from writers.server import connect_server
from writers.statements import CREATE, DELETE, Statement, Term

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SEED = 20_262
WRITERS, STATEMENTS = 4, 6
SECONDS = 600
KINDS = {
    "vectors": {},
    "copy-on-write": {"properties": VECTORS_OFF},
    "partitioned": {"partition_by": ("p",)},
    "iceberg": {"format": "iceberg", "format_version": 3},
}


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    try:
        s3a_jars()
    except JarsUnavailableError as error:
        pytest.skip(str(error))
    with s3_server_or_skip(tmp_path_factory.mktemp("s3") / "server") as server:
        yield server


@pytest.fixture(scope="module")
def server(s3, tmp_path_factory):
    settings = {
        "spark.hadoop.fs.s3a.access.key": s3.access_key,
        "spark.hadoop.fs.s3a.secret.key": s3.secret_key,
        "spark.hadoop.fs.s3a.endpoint": s3.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.driver.extraClassPath": ":".join(map(str, s3a_jars())),
    }
    with connect_server(tmp_path_factory.mktemp("server"), settings) as address:
        yield address


@pytest.fixture
def place(server, s3, tmp_path):
    return Place(server, f"s3://{BUCKET}/{tmp_path.name}", s3.options)


def made(place, **kind):
    statement = Statement(CREATE, 0, rows=first_rows(), **kind)
    with processes.servant(place.server, place.options) as servant:
        answer = servant(place.location, statement)
    assert "version" in answer, answer
    return after(State(), statement)[0]


def judged(place, first, tasks):
    judge = Judge(place.location, place.options)
    verdict = judge.judge(first, told_in(tasks))
    sys.stdout.write(f"{verdict}\n")
    judge.check_sound()
    return verdict


ORDINARY = ("vectors", "iceberg")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in ORDINARY else [pytest.mark.slow]) for kind in KINDS]
)
def test_the_table_is_what_the_successes_give_one_by_one(place, tmp_path, kind):
    first = made(place, **KINDS[kind])
    start = processes.meeting(WRITERS, SECONDS)
    tasks = [Task(SEED, writer, tmp_path / f"{writer}.journal", STATEMENTS) for writer in range(WRITERS)]
    started = [processes.started(client.write, place, task, start) for task in tasks]
    assert processes.joined(started, SECONDS) == [0] * WRITERS
    assert judged(place, first, tasks).commits >= WRITERS


def test_three_deleters_of_rows_of_one_file(place, tmp_path):
    first = made(place)
    meeting = processes.meeting(3, 120)
    deletes = [Statement(DELETE, n + 1, where=(Term("id", "IN", (n, n + 10)),)) for n in range(3)]
    tasks = [Task(0, n, tmp_path / f"{n}.journal", given=(one,)) for n, one in enumerate(deletes)]
    started = [processes.started(client.write, place, task, None, meeting) for task in tasks]
    assert processes.joined(started, SECONDS) == [0, 0, 0]
    assert judged(place, first, tasks).commits == 3
    plan = Judge(place.location, place.options).table.snapshot().plan()
    assert plan.files.column("record_count").to_pylist() == [KEYS]
    assert plan.deletes.column("cardinality").to_pylist() == [6]
