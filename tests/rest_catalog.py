"""Iceberg's reference REST catalog as a server of the tests, on loopback."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from jars import rest_catalog_jars

_PROGRAM = Path(__file__).parent / "java" / "RestServer.java"


@contextmanager
def rest_catalog(
    warehouse: Path, settings: Mapping[str, str] | None = None, jars: Sequence[Path] = ()
) -> Iterator[str]:
    """The address of a catalog whose tables are below ``warehouse``; JarsUnavailableError without jars.

    ``settings``: of Hadoop (``fs.…``) and of the catalog (another ``warehouse``). ``jars``: what these need.
    """
    classes = ":".join(map(str, [*jars, *rest_catalog_jars()]))  # Iceberg's test jar has a stub of s3a
    warehouse.mkdir(parents=True, exist_ok=True)
    command = ["java", "-cp", classes, str(_PROGRAM), str(warehouse)]
    with (warehouse / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            # Not as arguments: other users of the machine see these, and settings may hold keys.
            lines = [f"{name}={value}\n" for name, value in (settings or {}).items()]
            server.stdin.write("".join([*lines, "\n"]))
            server.stdin.flush()
            line = server.stdout.readline()
            assert line.startswith("port "), (warehouse / "server.log").read_text()
            yield f"http://127.0.0.1:{int(line.split()[1])}"
        finally:
            assert server.stdin is not None
            server.stdin.close()  # the server ends
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            assert server.stdout is not None
            server.stdout.close()
