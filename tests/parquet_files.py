"""Data files for tests that need no Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delvec.storage import Storage


def put_parquet(storage: Storage, table: pa.Table, name: str = "f.parquet", **options: Any) -> str:
    """Write the rows as a Parquet file; ``options`` are those of ``pyarrow.parquet.write_table``."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    storage.put(name, sink.getvalue().to_pybytes())
    return name
