"""Planning a scan of an Iceberg v3 table of many files, beside pyiceberg and Iceberg's own library.

The table is generated: manifests of 10,000 entries with statistics of eight columns and a day as partition, a
vector on every third file. There are no data files: nobody reads them. Each reader first plans a small table,
so that imports, and in Java the compiler, are not counted; then the table, cold, and the same table again.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import shutil
import struct
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.harness import Figure, Section, alternate, as_seconds, at_most, cache, probe, seconds

SIZES = (10_000, 100_000)
QUICK_SIZES = (1_000, 4_000)
WARM_UP = 2_000
GENERATION = 1  # part of the folder's name: raised when what is generated changes
ENTRIES = 10_000  # of a manifest
DAYS, RECORDS, FIRST_DAY = 1000, 5000, 19_358
VECTORS_EVERY = 3
VECTOR_BYTES = 48
SNAPSHOT_ID = 7_777_777_777
MOST_FOR_PYICEBERG = 20_000  # its plans take a time that grows with the square of the vectors

COLUMNS = {
    "order_id": "long",
    "customer_id": "long",
    "price": "double",
    "quantity": "int",
    "shipped": "date",
    "ordered_at": "timestamptz",
    "status": "string",
    "note": "string",
    "day": "date",
}

# --- the table -------------------------------------------------------------------------------------


def planning_table(count: int) -> Path:
    """The table of ``count`` files; generated when it is not in the cache."""
    folder = cache() / "bench" / f"planning-{count}-{GENERATION}"
    if not folder.is_dir():
        scratch = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
        try:
            _write_table(scratch, folder, count)
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder


def vectors_of(count: int) -> int:
    return (count + VECTORS_EVERY - 1) // VECTORS_EVERY


def _write_table(scratch: Path, location: Path, count: int) -> None:
    from iceberg_tables import avro

    (scratch / "metadata").mkdir(parents=True)
    partition = avro.partition_type([(1000, "day", "date")])
    schema = avro.manifest_schema(3, partition)
    kinds = ((0, _data_entries(location, count)), (1, _vector_entries(location, count)))
    manifests = []
    for content, entries in kinds:
        for number, part in enumerate(_parts(entries)):
            metadata = {"format-version": "3", "content": "deletes" if content else "data"}
            metadata |= {"partition-spec-id": "0", "partition-spec": json.dumps(_spec()["fields"])}
            metadata |= {"schema": json.dumps(_schema()), "schema-id": "0"}
            name = f"metadata/{uuid.UUID(int=number)}-m{content}-{number}.avro"
            data = _avro_bytes(schema, part, metadata)
            (scratch / name).write_bytes(data)
            manifests.append(_manifest(f"{location}/{name}", len(data), content, part))
    first_row_id = 0
    for manifest in manifests:
        if manifest["content"] == 0:
            manifest["first_row_id"] = first_row_id
            first_row_id += manifest["added_rows_count"]
    name = f"metadata/snap-{SNAPSHOT_ID}-1-{uuid.UUID(int=9)}.avro"
    metadata = {"snapshot-id": str(SNAPSHOT_ID), "sequence-number": "1", "format-version": "3"}
    data = _avro_bytes(avro.manifest_list_schema(3), manifests, metadata)
    (scratch / name).write_bytes(data)
    tree = _metadata(location, f"{location}/{name}", count, first_row_id)
    (scratch / "metadata/v1.metadata.json").write_text(json.dumps(tree))
    (scratch / "metadata/version-hint.text").write_text("1")


def _avro_bytes(schema: Any, records: list[Any], metadata: dict[str, str]) -> bytes:
    import fastavro

    sink = io.BytesIO()
    # Blocks of the size that Java writes.
    fastavro.writer(sink, schema, records, codec="deflate", metadata=metadata, sync_interval=64_000)
    return sink.getvalue()


def _parts(entries: Iterator[Any]) -> Iterator[list[Any]]:
    part = []
    for entry in entries:
        part.append(entry)
        if len(part) == ENTRIES:
            yield part
            part = []
    if part:
        yield part


def _path(location: Path, i: int, draw: random.Random) -> str:
    return (
        f"{location}/data/day={i % DAYS}/{i % 200:05d}-{uuid.UUID(int=draw.getrandbits(128))}-00001.parquet"
    )


def _data_entries(location: Path, count: int) -> Iterator[dict[str, Any]]:
    draw, stats = random.Random(7), random.Random(8)
    for i in range(count):
        low, high = _bounds(i, stats)
        counts = [{"key": key, "value": RECORDS} for key in range(1, 10)]
        yield _entry(
            {
                "content": 0,
                "file_path": _path(location, i, draw),
                "file_format": "PARQUET",
                "partition": {"day": FIRST_DAY + i % DAYS},
                "record_count": RECORDS,
                "file_size_in_bytes": 200_000 + i % 7919,
                "column_sizes": [{"key": key, "value": stats.randrange(100_000)} for key in range(1, 10)],
                "value_counts": counts,
                "null_value_counts": [{"key": key, "value": 0} for key in range(1, 10)],
                "nan_value_counts": [{"key": 3, "value": 0}],
                "lower_bounds": low,
                "upper_bounds": high,
                "split_offsets": [4],
                "sort_order_id": 0,
            }
        )


def _vector_entries(location: Path, count: int) -> Iterator[dict[str, Any]]:
    draw = random.Random(7)
    for i in range(count):
        path = _path(location, i, draw)
        if i % VECTORS_EVERY:
            continue
        slot = i // VECTORS_EVERY
        yield _entry(
            {
                "content": 1,
                "file_path": f"{location}/data/{uuid.UUID(int=slot // 100)}-deletes.puffin",
                "file_format": "PUFFIN",
                "partition": {"day": FIRST_DAY + i % DAYS},
                "record_count": 1 + slot % 4,
                "file_size_in_bytes": 100 * VECTOR_BYTES,
                "referenced_data_file": path,
                "content_offset": 4 + slot % 100 * VECTOR_BYTES,
                "content_size_in_bytes": VECTOR_BYTES,
            }
        )


def _entry(data_file: dict[str, Any]) -> dict[str, Any]:
    return {"status": 1, "snapshot_id": SNAPSHOT_ID, "data_file": data_file}


def _bounds(i: int, draw: random.Random) -> tuple[list[Any], list[Any]]:
    """The lowest and highest values: orders ascend with the file's number, the rest is by chance."""
    day = FIRST_DAY + i % DAYS
    micros = day * 86_400_000_000
    text = f"{draw.getrandbits(64):016x}"
    low = (i * RECORDS, draw.randrange(99_991), draw.random(), 1, day, micros, "cancelled", f"a {text}"[:16])
    high = (
        (i + 1) * RECORDS - 1,
        99_000_000,
        5000.5,
        99,
        day + 30,
        micros + 86_399_999_999,
        "shipped",
        f"z {text}"[:16],
    )
    return _encoded((*low, day)), _encoded((*high, day))


def _encoded(values: tuple[Any, ...]) -> list[dict[str, Any]]:
    forms = {"long": "<q", "timestamptz": "<q", "double": "<d", "int": "<i", "date": "<i"}
    return [
        {"key": key, "value": value.encode() if kind == "string" else struct.pack(forms[kind], value)}
        for key, (kind, value) in enumerate(zip(COLUMNS.values(), values, strict=True), start=1)
    ]


def _manifest(path: str, length: int, content: int, part: list[Any]) -> dict[str, Any]:
    days = [struct.pack("<i", day) for day in (FIRST_DAY, FIRST_DAY + DAYS - 1)]
    return {
        "manifest_path": path,
        "manifest_length": length,
        "partition_spec_id": 0,
        "content": content,
        "sequence_number": 1,
        "min_sequence_number": 1,
        "added_snapshot_id": SNAPSHOT_ID,
        **{f"{kind}_{what}_count": 0 for kind in ("existing", "deleted") for what in ("files", "rows")},
        "added_files_count": len(part),
        "added_rows_count": sum(entry["data_file"]["record_count"] for entry in part),
        "partitions": [{"contains_null": False, "lower_bound": days[0], "upper_bound": days[1]}],
    }


def _schema() -> dict[str, Any]:
    fields = [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, kind) in enumerate(COLUMNS.items(), start=1)
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def _spec() -> dict[str, Any]:
    field = {"source-id": 9, "field-id": 1000, "name": "day", "transform": "identity"}
    return {"spec-id": 0, "fields": [field]}


def _metadata(location: Path, manifest_list: str, count: int, next_row_id: int) -> dict[str, Any]:
    snapshot = {
        "snapshot-id": SNAPSHOT_ID,
        "sequence-number": 1,
        "timestamp-ms": 1_760_000_000_000,
        "manifest-list": manifest_list,
        "summary": {"operation": "overwrite", "total-data-files": str(count)},
        "schema-id": 0,
        "first-row-id": 0,
        "added-rows": next_row_id,
    }
    return {
        "format-version": 3,
        "table-uuid": str(uuid.UUID(int=count)),
        "location": str(location),
        "last-sequence-number": 1,
        "last-updated-ms": 1_760_000_000_000,
        "last-column-id": len(COLUMNS),
        "schemas": [_schema()],
        "current-schema-id": 0,
        "partition-specs": [_spec()],
        "default-spec-id": 0,
        "last-partition-id": 1000,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "current-snapshot-id": SNAPSHOT_ID,
        "refs": {"main": {"snapshot-id": SNAPSHOT_ID, "type": "branch"}},
        "snapshots": [snapshot],
        "snapshot-log": [{"timestamp-ms": 1_760_000_000_000, "snapshot-id": SNAPSHOT_ID}],
        "metadata-log": [],
        "next-row-id": next_row_id,
    }


# --- the probes ------------------------------------------------------------------------------------

Planner = Callable[[], tuple[int, int]]
"""Plans a scan of all rows. Returns the numbers of files and of vectors, -1 where it does not say."""


def _delvec(path: str) -> Planner:
    from delvec.iceberg.table import IcebergTable
    from delvec.storage import open_storage

    table = IcebergTable(open_storage(path))
    snapshots: list[Any] = []

    def plan() -> tuple[int, int]:
        if not snapshots:
            snapshots.append(table.snapshot())
        planned = snapshots[0].plan()
        return len(planned.files), len(planned.deletes)

    return plan


def _pyiceberg(path: str) -> Planner:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(f"{path}/metadata/v1.metadata.json")

    def plan() -> tuple[int, int]:
        # It pairs each file with all vectors of its partition, and looks into the Puffin files when it reads.
        return len(list(table.scan().plan_files())), -1

    return plan


def _java(spark: Any) -> Callable[[str], Planner]:
    jvm = spark._jvm
    count = jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size
    tables = jvm.org.apache.iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())

    def of(path: str) -> Planner:
        table = tables.load(path)

        def plan() -> tuple[int, int]:
            files = table.newScan().planFiles()
            try:
                return count(files), -1
            finally:
                files.close()

        return plan

    return of


def _session() -> Any:
    import sys

    sys.path.insert(0, "tests")
    from pyspark.sql import SparkSession

    from jars import iceberg_jars

    jars = ",".join(str(jar) for jar in iceberg_jars())
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.driver.memory", "4g").config("spark.jars", jars).getOrCreate()


def measure(of: Callable[[str], Planner], path: str, warm_up: str, warm_ups: int = 1) -> dict[str, Any]:
    """Opens and plans another table first; then this one, cold, and again."""
    for _ in range(warm_ups):
        of(warm_up)()
    found: list[tuple[int, int]] = []
    planner: list[Planner] = []

    def cold() -> None:
        planner.append(of(path))
        found.append(planner[0]())

    took = seconds(cold)
    again = seconds(lambda: found.append(planner[0]()))
    return {"cold": took, "warm": again, "files": found[0][0], "vectors": found[0][1]}


def probe_delvec(path: str, warm_up: str) -> dict[str, Any]:
    return measure(_delvec, path, warm_up)


def probe_pyiceberg(path: str, warm_up: str) -> dict[str, Any]:
    return measure(_pyiceberg, path, warm_up)


def probe_java(path: str, warm_up: str) -> dict[str, Any]:
    spark = _session()
    try:
        return measure(_java(spark), path, warm_up, warm_ups=20)
    finally:
        spark.stop()


PROBES = {"delvec": probe_delvec, "pyiceberg": probe_pyiceberg, "iceberg-java": probe_java}


# --- the figures -----------------------------------------------------------------------------------


def bench(*, quick: bool) -> list[Section]:
    sizes, runs = (QUICK_SIZES, 1) if quick else (SIZES, 3)
    results = {count: _measured(count, runs) for count in sizes}
    figures = [figure for count in sizes for figure in _figures(count, results[count])]
    first, last = (results[count]["delvec"]["cold"] for count in sizes)
    growth = sizes[1] / sizes[0]
    figures.append(
        Figure(
            f"cold, {sizes[1]:,} files against {sizes[0]:,}",
            f"{last / first:.1f}×",
            bar=f"≤ {growth * 1.2:.0f}×",
            holds=last / first <= growth * 1.2,
        )
    )
    if quick:  # the bars are set for the full sizes: fixed costs weigh more in small tables
        figures = [replace(figure, bar="", holds=None) for figure in figures]
    how = (
        "An Iceberg v3 table with statistics of nine columns, a vector on every third file, manifests of "
        f"{ENTRIES:,} entries; local disk, file cache warm; medians of {runs}, each in a fresh process that "
        "has planned a small table before. Cold: opened and planned. Warm: the same snapshot planned again. "
        f"pyiceberg up to {MOST_FOR_PYICEBERG:,} files: its time grows with files × vectors."
    )
    return [Section("Planning Iceberg tables", how, figures, "pyiceberg, Iceberg's library")]


def _measured(count: int, runs: int) -> dict[str, dict[str, Any]]:
    path, warm_up = str(planning_table(count)), str(planning_table(WARM_UP))
    names = [name for name in PROBES if name != "pyiceberg" or count <= MOST_FOR_PYICEBERG]
    probes = {name: lambda n=name: probe("bench.planning", n, path, warm_up) for name in names}
    results = alternate(runs, probes)
    for name, result in results.items():
        found = int(result["files"]), int(result["vectors"])
        if found[0] != count or found[1] not in (-1, vectors_of(count)):
            raise RuntimeError(
                f"{name} finds {found} files and vectors, expected {count} and {vectors_of(count)}"
            )
    return results


def _figures(count: int, results: dict[str, dict[str, Any]]) -> list[Figure]:
    ours, java, python = (results.get(name) for name in ("delvec", "iceberg-java", "pyiceberg"))
    assert ours is not None
    assert java is not None
    figures = [
        at_most(
            f"{count:,} files, cold, beside Iceberg's library", ours["cold"], java["cold"], 2.0, as_seconds
        ),
        at_most(
            f"{count:,} files, warm, beside Iceberg's library", ours["warm"], java["warm"], 1.0, as_seconds
        ),
    ]
    if python is not None:
        figures += [
            at_most(
                f"{count:,} files, cold, beside pyiceberg", ours["cold"], python["cold"], 0.1, as_seconds
            ),
            at_most(
                f"{count:,} files, warm, beside pyiceberg", ours["warm"], python["warm"], 1.0, as_seconds
            ),
        ]
    return figures


def main() -> None:
    import sys

    sys.path.insert(0, "tests")
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["probe", "generate"])
    parser.add_argument("arguments", nargs="*")
    given = parser.parse_args()
    if given.command == "generate":
        print(planning_table(int(given.arguments[0])))
    else:
        name, path, warm_up = given.arguments
        print(json.dumps(PROBES[name](path, warm_up)))


if __name__ == "__main__":
    main()
