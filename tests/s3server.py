"""A real S3 server on loopback for the tests: versitygw, which keeps each bucket as a folder."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

BUCKET = "lake"
WHY_SKIPPED = (
    "no versitygw (an S3 server) in the cache or on the PATH: install with `make s3-server`, needs Go"
)
_READY_SECONDS = 20


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server; ``folder`` is where the bucket's objects are files, ``log`` tells each request."""

    endpoint: str
    access_key: str
    secret_key: str
    folder: Path
    log: Path

    @property
    def options(self) -> dict[str, str]:
        return {
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "aws_endpoint_url": self.endpoint,
            "aws_region": "us-east-1",
        }


def find_versitygw() -> str | None:
    cache = Path(os.environ.get("DELVEC_CACHE") or Path.home() / ".cache" / "delvec")
    installed = cache / "bin" / "versitygw"
    return str(installed) if installed.is_file() else shutil.which("versitygw")


@contextmanager
def s3_server_or_skip(folder: Path) -> Iterator[S3Server]:
    """For fixtures: the server over ``folder``, or the test is skipped with the reason."""
    if find_versitygw() is None:
        pytest.skip(WHY_SKIPPED)
    with running_s3_server(folder) as server:
        yield server


@contextmanager
def running_s3_server(folder: Path) -> Iterator[S3Server]:
    """Starts the server over ``folder`` with fresh credentials and one bucket, and stops it afterwards."""
    program = find_versitygw()
    if program is None:
        raise FileNotFoundError(WHY_SKIPPED)
    bucket = folder / BUCKET
    bucket.mkdir(parents=True)
    port = _free_port()
    access_key, secret_key = "delvec-tests", secrets.token_hex(16)
    requests = folder.parent / f"{folder.name}.requests"
    environment = {**os.environ, "ROOT_ACCESS_KEY": access_key, "ROOT_SECRET_KEY": secret_key}
    with (folder.parent / f"{folder.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                "--port",
                f"127.0.0.1:{port}",
                "--quiet",
                "--access-log",
                str(requests),
                "posix",
                folder,
            ],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_until_ready(process, port)
            yield S3Server(f"http://127.0.0.1:{port}", access_key, secret_key, bucket, requests)
        finally:
            process.terminate()
            process.wait(timeout=10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"versitygw ended with {process.returncode} before it was ready")
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"versitygw did not listen within {_READY_SECONDS} s")
