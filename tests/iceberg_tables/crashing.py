"""A store that fails at one request."""

from __future__ import annotations

from typing import Any

from delvec.errors import StorageError
from delvec.storage import Storage


class CrashingStore(Storage):
    """A store of which one request fails: the one with number ``at``, before or after it was executed."""

    at: int | None = None
    when = "before"
    calls = 0

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("read", "head", "put", "put_if_absent", "list_folder", "delete") or self.at is None:
            return found

        def request(*args: Any) -> Any:
            self.calls += 1
            fails = self.calls - 1 == self.at
            if fails and self.when == "before":
                raise StorageError("the store is down", path=str(args[0]))
            result = found(*args)
            if fails:
                raise StorageError("the answer was lost", path=str(args[0]))
            return result

        return request
