"""Races whose loser is known: another statement commits just before the first attempt of this one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from delta_writer import added, put_file
from delvec import detect
from delvec.row_delta import Operation, Read, Request, RowDelta, Verb
from plans import plan_where
from rows import read_table

Statement = Callable[[Any], Any]


class _Raced:
    """A format's table. Before each of its first commits, another statement commits."""

    def __init__(self, table: Any, others: Sequence[Callable[[], Any]]) -> None:
        self._table = table
        self._others = list(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def commit(self, snapshot: Any, delta: Any) -> Any:
        if self._others:
            self._others.pop(0)()
        return self._table.commit(snapshot, delta)


def losing(spark: Any, location: str, *winners: Statement) -> Any:
    """The table, opened by a writer that loses to each winner in turn, one at each attempt."""
    from delvec.table import Table

    table = Table.open(spark, location)

    def winning(statement: Statement) -> Callable[[], Any]:
        return lambda: statement(Table.open(spark, location))

    table._table = _Raced(table._table, [winning(statement) for statement in winners])  # type: ignore[assignment]
    return table


def compact(location: str, where: str) -> None:
    """Write the files that may have matching rows again as one, without a change of data."""
    inner = detect.open_table(location)
    snapshot = inner.snapshot()
    plan = plan_where(snapshot, where)
    delta = RowDelta(
        snapshot.base,
        Request(Operation.COMPACT),
        Read(where),
        Verb.COMPACT,
        added=added([put_file(inner.storage, read_table(plan, inner.storage))]),
        removed=plan.files.column("file_id").combine_chunks(),
        data_change=False,
    )
    inner.commit(snapshot, delta)


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def log_messages(name: str = "delvec") -> Iterator[list[str]]:
    """The messages that are logged in the ``with`` block."""
    logger, handler = logging.getLogger(name), _Messages()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield handler.messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
