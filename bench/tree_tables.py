"""Tables of metadata without data files, made by commits of deltas: Iceberg of version 3 and 4, and Delta.

Each file has 5,000 rows and statistics of two columns. ``clustered`` files have ranges of ids of their own;
in others each file spans all ids, so that no statistics prune. Reads and writes of a storage are counted, and
each costs what a request to an object store costs.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from delvec import blob
from delvec.bitmap import Bitmap
from delvec.delta.table import DeltaTable
from delvec.iceberg.table import IcebergTable
from delvec.partition_spec import UNPARTITIONED
from delvec.row_delta import (
    VECTORS_SCHEMA,
    Committed,
    Operation,
    Read,
    Request,
    RowDelta,
    Verb,
    added_schema,
)
from delvec.schema import Field, Primitive, Struct
from delvec.storage import Storage

ROWS = 5_000
BATCH = 50_000
SCHEMA = Struct((Field("id", Primitive("long")), Field("price", Primitive("double"))))
KINDS = ("v4", "v3", "delta")

REQUEST_SECONDS, BYTES_PER_SECOND = 0.030, 90e6


@dataclass(slots=True)
class Cost:
    """Requests and bytes of an operation, by reads and writes, and bytes written by the kind of file."""

    requests: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)

    @property
    def seconds(self) -> float:
        """One request after the other, as the store model has them."""
        moved = self.sizes["read"] + self.sizes["put"]
        return sum(self.requests.values()) * REQUEST_SECONDS + moved / BYTES_PER_SECOND

    def metadata_bytes(self) -> int:
        """Bytes written without metadata.json and data."""
        return sum(n for kind, n in self.written.items() if kind not in ("metadata.json", "puffin"))

    def metadata_files(self) -> int:
        return sum(n for kind, n in self.files.items() if kind not in ("metadata.json", "puffin"))


class CountingStorage(Storage):
    """A storage that counts. ``cost`` may be replaced at any time."""

    def __init__(self, root: str, options: Any = None, **more: Any) -> None:
        super().__init__(root, options, **more)
        self.cost = Cost()

    def read(self, path: str) -> bytes:
        data = super().read(path)
        self._count("read", len(data))
        return data

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        found = super().read_ranges(path, ranges)
        self._count("read", sum(map(len, found)))
        return found

    def head(self, path: str) -> Any:
        self._count("head", 0)
        return super().head(path)

    def list_folder(self, prefix: str = "") -> Any:
        self._count("list", 0)
        return super().list_folder(prefix)

    def put(self, path: str, data: bytes) -> None:
        self._put(path, data)
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._put(path, data)
        return super().put_if_absent(path, data)

    def _put(self, path: str, data: bytes) -> None:
        self._count("put", len(data))
        kind = "metadata.json" if path.endswith(".metadata.json") else path.rsplit(".", 1)[-1]
        if kind != "text":
            self.cost.files[kind] += 1
            self.cost.written[kind] += len(data)

    def _count(self, kind: str, size: int) -> None:
        self.cost.requests[kind] += 1
        self.cost.sizes[kind] += size


@dataclass(slots=True)
class BenchTable:
    """A table, and the number of files that it was given."""

    kind: str
    root: Path
    storage: CountingStorage
    table: Any
    count: int = 0

    def opened(self) -> BenchTable:
        """The same table as another process finds it."""
        return BenchTable(self.kind, self.root, *_opened(self.kind, self.root), count=self.count)

    def append(self, count: int, *, clustered: bool = True, draft: Any = None) -> Any:
        """Add files that are not there."""
        base = draft if draft is not None else self.table.snapshot()
        operation = Operation.CREATE if draft is not None else Operation.APPEND
        delta = RowDelta(
            base.base, Request(operation), Read(), Verb.APPEND, added=self._files(count, clustered)
        )
        outcome = self.table.commit(base, delta)
        assert isinstance(outcome, Committed), outcome
        self.count += count

    def delete(self, number: int) -> None:
        """Delete a row of the file with this number, which has no vector yet."""
        snapshot = self.table.snapshot()
        from delvec.predicate.condition import parse

        plan = snapshot.plan(parse(f"id = {number * ROWS + 7}", snapshot.schema))
        row = {
            "file_id": plan.files.column("file_id")[0].as_py(),
            "rows": blob.encode(Bitmap.of(7)),
            "cardinality": 1,
            "deleted": 1,
        }
        delta = RowDelta(
            snapshot.base,
            Request(Operation.DELETE),
            Read(blind=True),
            Verb.DELETE,
            vectors=pa.Table.from_pylist([row], VECTORS_SCHEMA),
        )
        outcome = self.table.commit(snapshot, delta)
        assert isinstance(outcome, Committed), outcome

    def _files(self, count: int, clustered: bool) -> pa.Table:
        numbers = np.arange(self.count, self.count + count, dtype=np.int64)
        home = str(self.root)
        draw = random.Random(self.count)
        names = (uuid.UUID(int=draw.getrandbits(128)) for _ in range(count))
        places = [f"{home}/data/{name}.parquet" for name in names]
        low = numbers * ROWS if clustered else np.zeros(count, np.int64)
        high = low + ROWS - 1 if clustered else np.full(count, 2**40, np.int64)
        columns = {
            "location": pa.array(places),
            "size": pa.repeat(pa.scalar(400_000, pa.int64()), count),
            "modified_ms": pa.repeat(pa.scalar(0, pa.int64()), count),
            "record_count": pa.repeat(pa.scalar(ROWS, pa.int64()), count),
            "split_offsets": pa.array([[4]] * count, pa.list_(pa.int64())),
            "partition": pa.array([{}] * count, pa.struct([])),
            "stats": pa.StructArray.from_arrays(
                [
                    _statistics(pa.array(low), pa.array(high)),
                    _statistics(pa.array(numbers * 0.5), pa.array(numbers * 0.5 + 99.0)),
                ],
                names=["id", "price"],
            ),
        }
        order = [*added_schema(UNPARTITIONED).names, "stats"]
        return pa.table({name: columns[name] for name in order})


def _statistics(lower: pa.Array, upper: pa.Array) -> pa.StructArray:
    count = len(lower)
    parts = {
        "lower": lower,
        "upper": upper,
        "upper_covers_nan": pa.repeat(pa.scalar(value=True), count),
        "null_count": pa.repeat(pa.scalar(0, pa.int64()), count),
        "value_count": pa.repeat(pa.scalar(ROWS, pa.int64()), count),
    }
    return pa.StructArray.from_arrays(list(parts.values()), names=list(parts))


def new_table(
    kind: str, root: Path, count: int, *, clustered: bool = True, properties: dict[str, str] | None = None
) -> BenchTable:
    """A table of ``count`` files, added by commits of at most ``BATCH``."""
    root.mkdir(parents=True)
    storage, table = _opened(kind, root)
    made = BenchTable(kind, root, storage, table)
    version = {} if kind == "delta" else {"format_version": int(kind[1:])}
    made.append(0, draft=table.draft(SCHEMA, properties=properties, **version))
    while made.count < count:
        made.append(min(BATCH, count - made.count), clustered=clustered)
    return made


def _opened(kind: str, root: Path) -> tuple[CountingStorage, Any]:
    storage = CountingStorage(str(root))
    return storage, (DeltaTable if kind == "delta" else IcebergTable)(storage)
