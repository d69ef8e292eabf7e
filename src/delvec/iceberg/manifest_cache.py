"""Parsed manifests of the process: a manifest never changes, and most are part of the next snapshot too.

The cache of versions 1 to 3 holds live entries only. A cache is bounded by bytes; what was not used for
longest goes first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from delvec.iceberg.manifest import Manifest

Key = tuple[Any, ...]
"""Location and length of a manifest file, and what else its parsed form depends on."""

MAX_BYTES = 256 * 1024 * 1024


class Parsed(Protocol):
    """A parsed manifest."""

    @property
    def entries(self) -> pa.Table: ...


M = TypeVar("M", bound=Parsed)


class ManifestCache(Generic[M]):
    """Threads may share it."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._manifests: OrderedDict[Key, tuple[M, int]] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        return self._bytes

    def get(self, key: Key) -> M | None:
        """The manifest; None if the cache does not have it."""
        with self._lock:
            found = self._manifests.get(key)
            if found is None:
                return None
            self._manifests.move_to_end(key)
            return found[0]

    def put(self, key: Key, manifest: M) -> None:
        """Keep the manifest, unless it alone is larger than the cache."""
        size = manifest.entries.get_total_buffer_size()
        if size > self.max_bytes:
            return
        with self._lock:
            if key in self._manifests:
                return
            self._manifests[key] = manifest, size
            self._bytes += size
            while self._bytes > self.max_bytes:
                _, (_, freed) = self._manifests.popitem(last=False)
                self._bytes -= freed

    def clear(self) -> None:
        with self._lock:
            self._manifests.clear()
            self._bytes = 0


MANIFESTS: ManifestCache[Manifest] = ManifestCache()
"""The cache of this process for manifests of versions 1 to 3."""
