"""An engine to be measured: a Spark session in a process of its own, as its users have it.

In one JVM the engines would change each other: Spark's reader, which delvec and Delta-Spark share and Iceberg
does not, is compiled for all that has run through it. So each has its JVM, and they take turns: while one
works, the others wait.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

DELVEC, DELTA, ICEBERG = "delvec", "Delta-Spark", "Iceberg-Spark"

_CONTEXT = multiprocessing.get_context("spawn")


class Engine:
    """What ``make(*arguments)`` gives, in another process, until this is closed."""

    def __init__(self, make: Callable[..., Any], *arguments: object) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(theirs, make, arguments))
        self._process.start()
        theirs.close()
        self._answer()

    def ask(self, name: str, *arguments: object, **named: object) -> Any:
        """What its method of that name returns."""
        self._pipe.send((name, arguments, named))
        return self._answer()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join()

    def _answer(self) -> Any:
        done, answer = self._pipe.recv()
        if not done:
            raise RuntimeError(f"an engine failed:\n{answer}")
        return answer


def _serve(pipe: Connection, make: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    try:
        served = make(*arguments)
        pipe.send((True, None))
        while True:
            name, given, named = pipe.recv()
            pipe.send((True, getattr(served, name)(*given, **named)))
    except EOFError:  # closed: the work is done
        return
    except Exception:  # told to the process that asked
        pipe.send((False, traceback.format_exc()))
