"""A Spark Connect server in a process of its own, for any number of client processes.

python server.py <port> <settings as JSON>

It says ``ready`` and stays until its input ends. Decisions and storage calls of delvec are in the clients.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_TRIES = 3
_READY_SECONDS = 90
_SETTINGS = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def connect_server(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a server; for fixtures: skips where there can be none."""
    import pytest

    if shutil.which("java") is None:
        pytest.skip("Java is absent: Spark needs it")
    pytest.importorskip("grpc", reason="grpcio is absent: Spark Connect needs it")
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(_TRIES):  # another process may take the port meanwhile
        port = _free_port()
        with (folder / "server.log").open("wb") as log:
            process = _started(port, settings or {}, folder, log)
            try:
                if _is_ready(process):
                    yield f"sc://127.0.0.1:{port}"
                    return
            finally:
                _stop(process)
    pytest.skip(
        f"a Spark Connect server cannot be started here: {(folder / 'server.log').read_text()[-500:]}"
    )


def _started(port: int, settings: Mapping[str, str], folder: Path, log) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment["PYSPARK_PYTHON"] = sys.executable
    return subprocess.Popen(
        [sys.executable, __file__, str(port), json.dumps(dict(settings))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=environment,
        cwd=folder,
    )


def _is_ready(process: subprocess.Popen[bytes]) -> bool:
    readable, _, _ = select.select([process.stdout], [], [], _READY_SECONDS)
    return bool(readable) and process.stdout.readline() == b"ready\n"


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.stdin.close()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    from pyspark.sql import SparkSession

    port, settings = sys.argv[1], json.loads(sys.argv[2])
    builder = SparkSession.builder.master("local[2]")
    for name, value in (_SETTINGS | {"spark.connect.grpc.binding.port": port} | settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1).collect()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main()
