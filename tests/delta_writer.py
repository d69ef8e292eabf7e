"""Deltas made by hand: data files written with pyarrow, rows deleted by position; and other readers' rows."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deleted_rows import deleted_rows
from delvec import blob
from delvec.bitmap import Bitmap
from delvec.delta.snapshot import Snapshot
from delvec.delta.table import DeltaTable
from delvec.partition_spec import UNPARTITIONED, PartitionSpec
from delvec.plan import Base
from delvec.row_delta import (
    VECTORS_SCHEMA,
    Committed,
    Operation,
    Outcome,
    Read,
    Request,
    RowDelta,
    Verb,
    added_schema,
)
from delvec.schema import Field, Primitive, Schema, Struct
from delvec.storage import Storage
from parquet_files import put_parquet

LONG, STRING = Primitive("long"), Primitive("string")
NUMBERS: Schema = Struct((Field("id", LONG), Field("name", STRING)))

_MEMORY = itertools.count()


def memory_location() -> str:
    return f"memory://delta-writer-{next(_MEMORY)}/a table"


def numbers(first: int, last: int) -> pa.Table:
    ids = range(first, last)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]})


def put_file(
    storage: Storage, rows: pa.Table, *, partition: Mapping[str, Any] | None = None, folder: str = ""
) -> dict[str, Any]:
    """Write a data file; returned is its row of ``RowDelta.added``."""
    path = put_parquet(storage, rows, f"{folder}/" * bool(folder) + f"part-{uuid.uuid4()}.parquet")
    return {
        "location": f"{storage.root}/{path}",
        "size": storage.head(path).size,
        "modified_ms": 1_700_000_000_000,
        "partition": partition or {},
    }


def added(files: Iterable[Mapping[str, Any]], spec: PartitionSpec = UNPARTITIONED) -> pa.Table:
    return pa.Table.from_pylist(list(files), schema=added_schema(spec))


def append_delta(snapshot: Snapshot, *tables: pa.Table, **more: Any) -> RowDelta:
    files = [put_file(snapshot.storage, table) for table in tables]
    return RowDelta(
        Base(snapshot.version),
        Request(Operation.APPEND),
        Read(blind=True),
        Verb.APPEND,
        added=added(files),
        **more,
    )


def append(table: DeltaTable, *tables: pa.Table, **more: Any) -> Outcome:
    snapshot = table.snapshot()
    return table.commit(snapshot, append_delta(snapshot, *tables, **more))


def delete_delta(snapshot: Snapshot, rows: Mapping[int, Iterable[int]], **more: Any) -> RowDelta:
    """Delete rows by file id and position; vectors of before are united with them."""
    plan = snapshot.plan()
    old = deleted_rows(snapshot.storage, plan)
    vectors = []
    for file_id, positions in rows.items():
        before = old[file_id]
        after = before | Bitmap.from_iterable(positions)
        vectors.append(
            {
                "file_id": file_id,
                "rows": blob.encode(after),
                "cardinality": len(after),
                "deleted": len(after) - len(before),
            }
        )
    more = {"read": Read("id >= 0"), "verb": Verb.DELETE} | more
    return RowDelta(
        Base(snapshot.version),
        Request(more.pop("operation", Operation.DELETE), "id >= 0"),
        vectors=pa.Table.from_pylist(vectors, schema=VECTORS_SCHEMA),
        **more,
    )


def delete(table: DeltaTable, rows: Mapping[int, Iterable[int]], **more: Any) -> Outcome:
    snapshot = table.snapshot()
    return table.commit(snapshot, delete_delta(snapshot, rows, **more))


def positions_of(snapshot: Snapshot, gone: Iterable[int], column: str = "id") -> dict[int, list[int]]:
    """Where the rows are whose id is in ``gone``, by file id; files without any are left out."""
    wanted, found = set(gone), {}
    for file in snapshot.plan().files.to_pylist():
        with snapshot.storage.open_input(file["location"]) as source:
            held = pq.read_table(source).column(column).to_pylist()
        positions = [position for position, number in enumerate(held) if number in wanted]
        if positions:
            found[file["file_id"]] = positions
    return found


class Blind:
    """The probe of a writer that read nothing."""

    repeatable = True

    def reads_target(self) -> bool:
        return False

    def new_match(self, newest: Any, file_ids: Any) -> int | None:
        del newest, file_ids

    def rows_read(self) -> dict[int, Bitmap]:
        return {}

    def deleted_by_key(self, newest: Any, file_ids: Any, after: int) -> dict[int, Bitmap]:
        del newest, file_ids, after
        return {}

    def replanned(self, newest: Any) -> RowDelta:
        raise AssertionError(f"nothing is replaced at version {newest.version}")


def delete_ids(table: DeltaTable, gone: Iterable[int]) -> Outcome:
    return delete(table, positions_of(table.snapshot(), gone))


def committed(outcome: Outcome) -> Committed:
    assert isinstance(outcome, Committed), outcome
    return outcome


def actions(storage: Storage, version: int) -> list[tuple[str, dict[str, Any]]]:
    data = storage.read(f"_delta_log/{version:020d}.json")
    return [next(iter(orjson.loads(line).items())) for line in data.splitlines()]


def bodies(storage: Storage, version: int, name: str) -> list[dict[str, Any]]:
    return [body for kind, body in actions(storage, version) if kind == name]


def read_by_delta_rs(path: Path | str, version: int | None = None) -> list[dict[str, Any]]:
    deltalake = pytest.importorskip("deltalake")
    found = deltalake.DeltaTable(str(path), version=version)
    batches = deltalake.QueryBuilder().register("t", found).execute("SELECT * FROM t").read_all()
    rows: list[dict[str, Any]] = pa.table(batches).to_pylist()
    return rows


def read_by_duckdb(path: Path | str) -> list[dict[str, Any]]:
    duckdb = pytest.importorskip("duckdb")
    extension = pytest.importorskip("duckdb_extension_delta")
    file = next(Path(extension.__path__[0]).rglob("delta.duckdb_extension"))
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{file}'")
        found = connection.execute("SELECT * FROM delta_scan(?)", [str(path)]).to_arrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows
