"""Of writers that race for one name, one wins, and what is stored is the winner's: threads and processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from delvec.storage import open_storage
from s3server import BUCKET, s3_server_or_skip

WRITERS = 16
ROUNDS = 200
PROCESSES = 4

# A process of writers: for each round that it reads, its threads race at once, and it prints who won.
WORKER = """
import json, sys, threading
from concurrent.futures import ThreadPoolExecutor
from delvec.storage import open_storage

root, options, name, threads = json.loads(sys.argv[1])
storage = open_storage(root, options)
start = threading.Barrier(threads)

def write(task):
    number, thread = task
    start.wait()
    content = f"{name}.{thread} " * 2000
    return f"{name}.{thread}" if storage.put_if_absent(f"log/{number}.json", content.encode()) else None

with ThreadPoolExecutor(threads) as pool:
    print("ready", flush=True)
    for line in sys.stdin:
        won = pool.map(write, [(int(line), thread) for thread in range(threads)])
        print(json.dumps([writer for writer in won if writer]), flush=True)
"""


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory):
    with s3_server_or_skip(tmp_path_factory.mktemp("s3") / "server") as server:
        yield server


@pytest.fixture(params=["local", "memory", "s3"])
def place(request, tmp_path):
    """The root of an empty table, and its options."""
    if request.param == "local":
        return str(tmp_path / "table"), {}
    if request.param == "memory":
        return f"memory://{tmp_path.name}", {}
    return f"s3://{BUCKET}/{tmp_path.name}", request.getfixturevalue("s3_server").options


def content_of(writer):
    return (f"{writer} " * 2000).encode()


def test_one_of_many_threads_wins(place):
    root, options = place
    storages = [open_storage(root, options) for _ in range(WRITERS)]  # no state is shared but the store
    start = threading.Barrier(WRITERS)

    def write(number, writer):
        start.wait()
        return storages[writer].put_if_absent(f"log/{number}.json", content_of(writer))

    winners = []
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(ROUNDS):
            won = list(pool.map(write, [number] * WRITERS, range(WRITERS)))
            assert won.count(True) == 1, f"round {number}: {won.count(True)} writers were told that they won"
            winners.append(won.index(True))
            assert storages[0].read(f"log/{number}.json") == content_of(winners[-1])
    assert len(storages[0].list()) == ROUNDS
    assert len(set(winners)) > 1, "one writer won every round: there was no race"


@pytest.mark.parametrize("place", ["local", "s3"], indirect=True)
def test_one_of_many_processes_wins(place):
    root, options = place
    storage = open_storage(root, options)
    winners = []
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(root, options, name)) for name in range(PROCESSES)]
        assert all(process.stdout.readline() == "ready\n" for process in workers)
        for number in range(ROUNDS):
            for process in workers:
                process.stdin.write(f"{number}\n")
                process.stdin.flush()
            won = [writer for process in workers for writer in json.loads(process.stdout.readline())]
            assert len(won) == 1, f"round {number}: {won} were told that they won"
            winners += won
            assert storage.read(f"log/{number}.json") == content_of(won[0])
        for process in workers:
            process.stdin.close()
    assert [process.returncode for process in workers] == [0] * PROCESSES
    assert len({winner.partition(".")[0] for winner in winners}) > 1, "one process won every round"


def worker(root, options, name):
    arguments = json.dumps([root, options, name, WRITERS // PROCESSES])
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_readers_never_see_half_a_file(place):
    root, options = place
    storage, reader = open_storage(root, options), open_storage(root, options)
    contents = [bytes([number]) * 2_000_000 for number in range(8)]
    storage.put_if_absent("f", contents[0])
    stop = threading.Event()
    seen = [reader.read("f")]

    def read():
        while not stop.is_set():
            seen.append(reader.read("f"))

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        for content in contents * 3:
            storage.put("f", content)
        stop.set()
        reading.result()
    assert all(content in contents for content in seen)
