"""Starting client processes: forked from one that has imported everything, since to import takes seconds."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from writers import client

_CONTEXT = multiprocessing.get_context("forkserver")
_FOLDER = str(Path(__file__).parents[1])
_STOP_SECONDS = 20


def started(target: Callable[..., None], *given: Any) -> Any:
    """A process that runs ``target``; it is killed with ours."""
    _warm_up()
    process = _CONTEXT.Process(target=target, args=given, daemon=True)
    process.start()
    return process


def meeting(parties: int, seconds: float) -> Any:
    """A barrier for processes."""
    _warm_up()
    return _CONTEXT.Barrier(parties, timeout=seconds)


def joined(processes: Any, seconds: float) -> list[int]:
    """The exit codes; a process that takes longer fails the test."""
    for process in processes:
        process.join(seconds)
        if process.exitcode is None:
            for each in processes:
                each.kill()
            raise TimeoutError(f"a client did not end within {seconds} s")
    return [process.exitcode for process in processes]


class Conversation:
    """A client that does as it is told through a pipe, for as long as it is told anything."""

    def __init__(self, target: Callable[..., None], *given: Any) -> None:
        _warm_up()
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process = started(target, *given, theirs)
        theirs.close()

    def ask(self, request: Any) -> Any:
        self._pipe.send(request)
        return self._pipe.recv()

    def end(self) -> None:
        with suppress(OSError):  # it may have ended by itself
            self._pipe.send(None)
        self._process.join(_STOP_SECONDS)
        self._process.kill()
        self._pipe.close()


class Servant(Conversation):
    """A client that lives as long as the tests, and carries out any statement."""

    def __init__(self, server: str, options: Mapping[str, str]) -> None:
        super().__init__(client.serve, server, dict(options))

    def __call__(self, location: Any, statement: Any, point: Any = None) -> dict[str, Any]:
        answer: dict[str, Any] = self.ask((str(location), statement, point))
        return answer


@contextmanager
def conversation(target: Callable[..., None], *given: Any) -> Iterator[Conversation]:
    one = Conversation(target, *given)
    try:
        yield one
    finally:
        one.end()


@contextmanager
def servant(server: str, options: Mapping[str, str] | None = None) -> Iterator[Servant]:
    one = Servant(server, options or {})
    try:
        yield one
    finally:
        one.end()


def _warm_up() -> None:
    """The process that others are forked from: it must find our modules, and no session of others."""
    if forkserver._forkserver._forkserver_pid is not None:
        return
    old = dict(os.environ)
    for name in [
        name for name in old if name == "SPARK_REMOTE" or name.startswith(("AWS_", "SPARK_CONNECT"))
    ]:
        del os.environ[name]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_FOLDER, old.get("PYTHONPATH")]))
    os.environ["AWS_METADATA_ENDPOINT"] = "http://127.0.0.1:9"  # credentials are given, or there are none
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        _CONTEXT.set_forkserver_preload(["writers.warm"])
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(old)
