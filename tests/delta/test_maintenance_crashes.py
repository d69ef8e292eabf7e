"""A writer that dies at each storage call of RESTORE and of DROP FEATURE that changes something, before or
after the call.

Afterwards the table reads as before or as after; another writer repeats the statement, and it is as after.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from delta_writer import NUMBERS, append, delete_ids, numbers
from delvec.delta.table import DeltaTable
from delvec.restore import restore
from delvec.storage import Storage
from delvec.verify import verify_table
from rows import read_rows
from vector_dropping import dropped

CALLS = ("put", "put_if_absent", "delete")
AFTER_ALL = [0, *range(4, 10)]


class Died(BaseException):
    pass


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, at: int, *, after: bool) -> Iterator[None]:
    """The storage call with this number is the last one; ``after``: it still happens. So are all later calls
    of other threads: nothing happens after a death.
    """
    numbers, lock = itertools.count(1), threading.Lock()

    def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(self: Storage, *arguments: Any, **options: Any) -> Any:
            with lock:
                number = next(numbers)
            if number > at or (number == at and not after):
                raise Died
            result = call(self, *arguments, **options)
            if number == at:
                raise Died
            return result

        return counted

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(Storage, name, wrapped(getattr(Storage, name)))
        yield


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    location = tmp_path_factory.mktemp("template") / "t"
    table = DeltaTable.create(str(location), NUMBERS)
    append(table, numbers(0, 10))
    delete_ids(table, [1, 2])
    delete_ids(table, [3])
    return location


def ids(table: DeltaTable) -> list[int]:
    return sorted(row["id"] for row in read_rows(table.snapshot().plan(), table.storage))


def deaths(
    monkeypatch: pytest.MonkeyPatch, template: Path, root: Path, run: Callable[[DeltaTable], object]
) -> Iterator[DeltaTable]:
    """A table for each way to die, as it is then."""
    for after in (False, True):
        for at in itertools.count(1):
            location = shutil.copytree(template, root / f"{at}-{after}")
            died = False
            with dying(monkeypatch, at, after=after):
                try:
                    run(DeltaTable.open(str(location)))
                except Died:
                    died = True
            yield DeltaTable.open(str(location))
            shutil.rmtree(location)
            if not died:
                break


def test_a_restore_happens_whole_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, template: Path, tmp_path: Path
) -> None:
    versions = []
    for table in deaths(monkeypatch, template, tmp_path, lambda table: restore(table, version=2)):
        versions.append(table.snapshot().version)
        assert ids(table) == (AFTER_ALL if versions[-1] == 3 else [0, *range(3, 10)])
        assert not verify_table(table).findings
        assert restore(table, version=2).version == 4
        assert ids(table) == [0, *range(3, 10)]
    assert set(versions) == {3, 4}


def test_dropping_vectors_can_be_done_again(
    monkeypatch: pytest.MonkeyPatch, template: Path, tmp_path: Path
) -> None:
    versions = []
    for table in deaths(monkeypatch, template, tmp_path, dropped):
        versions.append(table.snapshot().version)
        assert ids(table) == AFTER_ALL
        assert not verify_table(table).findings
        dropped(table)
        newest = DeltaTable(table.storage).snapshot()
        assert newest.protocol.min_reader_version == 1
        protected = int(newest.properties["delta.requireCheckpointProtectionBeforeVersion"])
        checkpoints = [e.path for e in table.storage.list_folder("_delta_log") if ".checkpoint." in e.path]
        before = [path for path in checkpoints if int(Path(path).name[:20]) < protected]
        assert len(before) >= 3
        assert ids(table) == AFTER_ALL
    assert set(versions) == set(range(3, 11))
