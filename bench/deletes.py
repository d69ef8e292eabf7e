"""How a delete of keys is stored: a vector, key-only Parquet, and Parquet of full rows. No Spark.

    grid     100 to 100,000 deletes of a table of a million rows: write, read, size, memory
    shapes   a million deletes, dense, clustered and sparse

The vector and the key-only file are those of delvec's writers. Full rows are the rows of a wide table, as
Flink and others write them. Reading is loading the keys for a scan. Memory is what a process of its own takes
for that, beyond its imports.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness import Figure, Section, alternate, as_seconds, at_most, memory, probe, seconds
from bench.scan import without_bars
from delvec.bitmap import Bitmap
from delvec.deletes.encoding import DeleteEncoding
from delvec.deletes.equality import KeyColumn
from delvec.deletes.equality_writer import EqualityDeleteWriter
from delvec.deletes.key_rows import key_file
from delvec.deletes.key_vector import read_vector_file
from delvec.deletes.stored_keys import stored_keys
from delvec.deletes.write_options import DeleteWriteOptions, EncodingHint
from delvec.deletes.writers import DeleteWriterFactory
from delvec.schema import Field, Primitive, Struct
from delvec.storage import open_storage

ROWS, QUICK_ROWS = 1_000_000, 100_000
DELETES = (100, 1_000, 10_000, 100_000)
ROUNDS, QUICK_ROUNDS = 7, 3
WIDE = 20
VECTOR, KEYS, FULL = "vector", "key-only Parquet", "full rows"
DENSE_SIZE_BAR, DENSE_LOAD_BAR = 1 / 40, 1 / 10

FIELD = Field("id", Primitive("long"), field_id=1)
COLUMN = KeyColumn(1, ("id",), Primitive("long"), (("id",),))


def bench(*, quick: bool) -> list[Section]:
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    sections = [grid(rows, rounds), shapes(rows, rounds)]
    return [without_bars(section) for section in sections] if quick else sections


def grid(rows: int, rounds: int) -> Section:
    rng = np.random.default_rng(1)
    figures: list[Figure] = []
    for count in (count for count in DELETES if count < rows):
        keys = np.sort(rng.choice(rows, count, replace=False))
        with _stored(keys, rounds, ways=(VECTOR, FULL)) as found:
            figures += _grid_figures(f"{count:,} deletes", found)
    how = (
        f"Keys of random rows of {rows:,}, as a vector and as full rows of {WIDE} columns in Parquet; "
        f"medians of {rounds} interleaved rounds, writes to the local disk."
    )
    return Section(f"Deletes of {rows:,} rows", how, figures, FULL)


def _grid_figures(what: str, found: Mapping[str, Stored]) -> Iterator[Figure]:
    ours, other = found[VECTOR], found[FULL]
    for name, form in (("write", as_seconds), ("read", as_seconds), ("size", _size), ("memory", _size)):
        mine, theirs = getattr(ours, name), getattr(other, name)
        yield Figure(f"{what}, {name}", form(mine), form(theirs), mine / max(theirs, 1e-9))


def shapes(rows: int, rounds: int) -> Section:
    rng = np.random.default_rng(2)
    starts = np.sort(rng.choice(1000 * rows // 1000, rows // 1000, replace=False)) * 1000
    sets = {
        "dense, one run": np.arange(rows),
        "dense, half of twice as many": np.sort(rng.choice(2 * rows, rows, replace=False)),
        "clustered, runs of 1,000": (starts[:, None] + np.arange(1000)).ravel(),
        "sparse, a thousandth": np.sort(rng.choice(1000 * rows, rows, replace=False)),
    }
    figures: list[Figure] = []
    for name, keys in sets.items():
        with _stored(keys, rounds) as found:
            figures += _shape_figures(name, found)
    how = (
        f"{rows:,} keys. What is kept is what delvec's writer keeps for these keys, a vector or key-only "
        f"Parquet; full rows have {WIDE} columns. Medians of {rounds} interleaved rounds."
    )
    return Section(f"{rows:,} deletes", how, figures, "the other")


def _shape_figures(name: str, found: Mapping[str, Stored]) -> Iterator[Figure]:
    vector, keys, full = found[VECTOR], found[KEYS], found[FULL]
    is_dense = name.startswith("dense")
    kept = found[KEPT]
    yield _bound(
        f"{name}: size kept; {FULL}", kept.size, full.size, DENSE_SIZE_BAR if is_dense else None, _size
    )
    yield _bound(f"{name}: size kept; {KEYS}", kept.size, keys.size, 1.0, _size)
    yield _bound(f"{name}: size of the vector; {KEYS}", vector.size, keys.size, None, _size)
    yield _bound(f"{name}: load as a bitmap; {KEYS}", vector.bitmap, keys.bitmap, None, as_seconds)
    for other in (KEYS, FULL):
        bar = DENSE_LOAD_BAR if is_dense else None
        yield _bound(f"{name}: load; {other}", vector.read, found[other].read, bar, as_seconds)
    yield _bound(f"{name}: memory to load; {FULL}", vector.memory, full.memory, None, _size)


def _bound(what: str, ours: float, theirs: float, bar: float | None, form: Callable[[float], str]) -> Figure:
    if bar is not None:
        figure = at_most(what, ours, theirs, bar, form)
        return replace(figure, ratio=round(ours / theirs, 4))
    return Figure(what, form(ours), form(theirs), ours / max(theirs, 1e-9))


def _size(value: float) -> str:
    if value >= 1 << 20:
        return f"{value / (1 << 20):,.1f} MiB"
    return f"{value / 1024:,.1f} KiB" if value >= 10_000 else f"{value:,.0f} bytes"


# --- stored deletes --------------------------------------------------------------------------------

KEPT = "kept"


@dataclass(frozen=True)
class Stored:
    """Seconds to write a delete, to load its keys and to load them as a bitmap; its bytes; the memory that
    loading takes.
    """

    write: float
    read: float
    bitmap: float
    size: int
    memory: float


@contextmanager
def _stored(
    keys: np.ndarray[Any, Any], rounds: int, *, ways: Sequence[str] = (VECTOR, KEYS, FULL)
) -> Iterator[dict[str, Stored]]:
    folder = Path(tempfile.mkdtemp(prefix="delvec-deletes-"))
    (folder / "small").mkdir()
    try:
        writes = {way: _writer(way, keys, folder) for way in ways}
        files = {way: write() for way, write in writes.items()}
        reads = {way: _reader(file) for way, file in files.items()}
        bitmaps = {way: _bitmap_reader(file) for way, file in files.items()}
        took = {}
        for name, actions in (("write", writes), ("read", reads), ("bitmap", bitmaps)):
            probes = {way: lambda a=action: {"seconds": seconds(a)} for way, action in actions.items()}
            took[name] = {way: found["seconds"] for way, found in alternate(rounds, probes).items()}
        small = {way: _writer(way, keys[:1], folder / "small")() for way in ways}
        found = {
            way: Stored(*(took[name][way] for name in took), file["size"], _memory(small[way], file))
            for way, file in files.items()
        }
        kept = _written(keys, folder, EncodingHint.AUTO)
        yield found | {KEPT: replace(found[VECTOR], size=kept["size"])}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _writer(way: str, keys: np.ndarray[Any, Any], folder: Path) -> Callable[[], dict[str, Any]]:
    if way == VECTOR:
        return lambda: _written(keys, folder, EncodingHint.DELETION_VECTOR, always=True)
    place = folder / f"{way.replace(' ', '-')}.parquet"
    if way == KEYS:
        return lambda: _put(place, key_file([pa.array(keys)], [FIELD]), len(keys))
    rows = full_rows(keys)
    return lambda: _put_rows(place, rows)


def _written(
    keys: np.ndarray[Any, Any], folder: Path, hint: EncodingHint, *, always: bool = False
) -> dict[str, Any]:
    """What delvec's writer stores. ``always``: a vector, also if rows would be smaller."""
    options = DeleteWriteOptions(3, hint, vectors_of_keys=True)
    factory = DeleteWriterFactory(open_storage(str(folder)), Struct((FIELD,)), options)
    writer = factory.create_equality_writer([1])
    if always:
        writer = _Vectors(
            **{name: getattr(writer, name) for name in ("storage", "fields", "options", "codec")}
        )
    writer.write_batch(pa.table({"id": keys}))
    (file,) = writer.close().files
    return {
        "encoding": file.encoding.text,
        "location": file.location,
        "offset": file.offset,
        "length": file.length if file.encoding is DeleteEncoding.DELETION_VECTOR else file.size,
        "cardinality": len(keys),
        "size": file.size,
    }


class _Vectors(EqualityDeleteWriter):
    """Keeps vectors of any size."""

    def _smaller_vector(self, numbers: Any) -> tuple[bytes, int, int]:
        from delvec.deletes.key_vector import KeyVector, vector_file

        data, placed = vector_file(KeyVector(1, numbers))
        return data, placed.offset, placed.length


def full_rows(keys: np.ndarray[Any, Any]) -> pa.Table:
    """Rows of a wide table: the key, and numbers, amounts and texts."""
    rng = np.random.default_rng(3)
    schema = [pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})]
    columns: list[pa.Array] = [pa.array(keys)]
    for number in range(2, WIDE + 1):
        values = rng.integers(0, 1 << 40, len(keys))
        kinds = (pa.int64(), pa.float64(), pa.string())
        kind = kinds[number % 3]
        texts = np.char.add("customer ", values.astype("U13")) if kind == pa.string() else values
        columns.append(pa.array(texts).cast(kind))
        schema.append(pa.field(f"c{number}", kind, metadata={"PARQUET:field_id": str(number)}))
    return pa.Table.from_arrays(columns, schema=pa.schema(schema))


def _put_rows(place: Path, rows: pa.Table) -> dict[str, Any]:
    pq.write_table(rows, place, compression="zstd")
    return _of_rows(place, len(rows))


def _put(place: Path, data: bytes, count: int) -> dict[str, Any]:
    place.write_bytes(data)
    return _of_rows(place, count)


def _of_rows(place: Path, count: int) -> dict[str, Any]:
    size = place.stat().st_size
    found = {"encoding": "full-row", "location": str(place), "offset": None, "length": size}
    return found | {"cardinality": count, "size": size}


def _reader(file: Mapping[str, Any]) -> Callable[[], list[pa.ChunkedArray]]:
    """Loads the keys, as a vector stays a vector: what a scan does with either is the same."""
    storage = open_storage(str(Path(file["location"]).parent))
    return lambda: stored_keys(storage, file, [COLUMN])


def _bitmap_reader(file: Mapping[str, Any]) -> Callable[[], object]:
    """Loads a bitmap that can be asked for keys."""
    if file["encoding"] == DeleteEncoding.FULL_ROW.text:
        read = _reader(file)
        return lambda: Bitmap.from_numpy(read()[0].to_numpy())
    storage = open_storage(str(Path(file["location"]).parent))
    place = {"offset": file["offset"], "length": file["length"], "cardinality": file["cardinality"]}
    return lambda: read_vector_file(storage.read(file["location"]), field_id=1, **place)


def _memory(small: Mapping[str, Any], file: Mapping[str, Any]) -> int:
    """What loading takes in a process that has loaded a small delete before: the most memory that it held, in
    the smallest of three runs.
    """
    arguments = (json.dumps(dict(small)), json.dumps(dict(file)))
    return int(min(probe("bench.deletes", *arguments)["bytes"] for _ in range(3)))


def main() -> None:
    small, file = map(json.loads, sys.argv[2:])
    _reader(small)()
    read = _reader(file)
    before = memory()
    read()
    print(json.dumps({"bytes": memory() - before}))


if __name__ == "__main__":
    main()
