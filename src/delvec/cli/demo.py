"""`delvec demo`: explains a table with deletion vectors, from its bytes upward."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from delvec.cli.arguments import Json, StorageOptions, Where, storage_options
from delvec.cli.output import Result, cell, size, table
from delvec.cli.spark import read_rows
from delvec.errors import TableNotFoundError, UnsupportedFeatureError

if TYPE_CHECKING:
    from delvec.deletes.sets import DeleteSets
    from delvec.formats import Table
    from delvec.plan import ScanPlan

SAMPLE_CONDITION = "region = 'us' AND id > 35"
SHOWN_FILES = 20
SHOWN_ROWS = 10
SHOWN_COLUMNS = 6
SHOWN_COMMITS = 3
SHOWN_BYTES = 64
DUMP_WIDTH = 16

Kept = Annotated[
    str | None,
    typer.Option(
        "--path",
        metavar="PATH",
        help="Explain the table at PATH; if there is none, write the demo's table there and keep it.",
        show_default=False,
    ),
]


WithSpark = Annotated[bool, typer.Option("--spark/--no-spark", help="Read rows in a local Spark session.")]


def demo(
    *,
    path: Kept = None,
    where: Where = None,
    spark: WithSpark = True,
    json: Json = False,
    option: StorageOptions = None,
) -> Demo:
    """Explain deletion vectors on a small table.

    Shows the files on disk, the bytes of a vector, the rows in Spark, file pruning, verification and a
    damaged vector. Without --path the table is written to a temporary folder and removed at the end.
    """
    del json
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="delvec-demo-"))
        source, is_sample = _open_or_write(path or f"{folder}/orders", storage_options(option))
        condition = where or (SAMPLE_CONDITION if is_sample else None)
        steps = tuple(_steps(source, condition, folder, spark=spark))
        return Demo(source.location, kept=path is not None, steps=steps)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the demo: a title, an explanation, the output, and the same output as data."""

    title: str
    text: str
    parts: tuple[RenderableType, ...]
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Demo:
    location: str
    kept: bool
    steps: tuple[Step, ...]

    exit_code = 0

    def document(self) -> Mapping[str, Any]:
        steps = [{"title": step.title, **step.data} for step in self.steps]
        return {"location": self.location, "kept": self.kept, "steps": steps}

    def render(self) -> Iterable[RenderableType]:
        for count, step in enumerate(self.steps, 1):
            yield Text(f"{count}  {step.title}", style="bold cyan")
            yield Text(f"   {step.text}", style="italic")
            yield ""
            yield from step.parts
            yield ""
        if not self.kept:
            yield "The table was in a temporary folder. To keep one: delvec demo --path DIR"


def _open_or_write(path: str, options: Mapping[str, str]) -> tuple[Table, bool]:
    """The table at the path, or a new sample table there; and whether it is the sample."""
    from delvec import detect
    from delvec.storage import open_storage

    try:
        return detect.open_table(path, options), False
    except TableNotFoundError:
        if open_storage(path, options).list_folder():
            raise  # the folder has files but is not a table: write nothing into it
        return detect.write_sample_table(path, options), True


def _steps(source: Table, where: str | None, folder: str, *, spark: bool) -> Iterator[Step]:
    plan = source.snapshot().plan()
    last = _last_delete(plan)
    yield _on_disk(source, plan)
    yield _commits(source)
    yield _summary(source)
    if last is not None:
        yield _vector(source, plan, last)
        yield _rows(source, last)
    if where is not None:
        yield _pruning(source, where)
    if spark:
        yield _in_spark(source, where)
    yield _verification(source)
    if last is not None and last.describe().column("offset")[0].is_valid:
        yield _broken(source, last, folder)


def _last_delete(plan: ScanPlan) -> DeleteSets | None:
    """The last delete of the plan, for its data file; None if there is none."""
    import numpy as np

    from delvec.deletes.sets import DeleteSets

    sets = DeleteSets.of(plan)
    return sets.pairs_at(np.array([len(sets.file) - 1])) if len(sets.file) else None


def _on_disk(source: Table, plan: ScanPlan) -> Step:
    data = set(plan.files.column("location").to_pylist())
    vectors = set(plan.deletes.column("location").to_pylist())
    entries = source.storage.list()
    listing = table("file", "size", "what it is", numbers=("size",), fold=("file",))
    files = []
    for entry in entries[:SHOWN_FILES]:
        place = f"{source.location}/{entry.path}"
        kind = (
            "data"
            if place in data
            else "deletion vectors"
            if place in vectors
            else "metadata, or removed from the table"
        )
        files.append({"path": entry.path, "size": entry.size, "kind": kind})
        listing.add_row(cell(entry.path), size(entry.size), kind)
    text = "A delete does not rewrite data files. It writes a small file that lists the deleted rows."
    return Step("Files on disk", text, (listing,), {"files": files, "total": len(entries)})


def _commits(source: Table) -> Step:
    from delvec.cli.history import history

    commits = history(source.location, limit=SHOWN_COMMITS, option=_options(source))
    return _step(
        "History", "Each commit is one file in the log. The newest commit is the current version.", commits
    )


def _summary(source: Table) -> Step:
    from delvec.cli.show import summarize

    summary = summarize(source, source.snapshot())
    return _step("The table now", "Live rows are the rows in data files minus the deleted rows.", summary)


def _vector(source: Table, plan: ScanPlan, last: DeleteSets) -> Step:
    from delvec.cli.dv import list_vectors
    from delvec.deletes.examine import examine

    vectors = list_vectors(plan.at(last.file), source.storage, ranges=SHOWN_ROWS, limit=1)
    (examined,) = examine(source.storage, last)
    text = (
        "Length, magic D1D33964, a Roaring bitmap of row numbers, CRC-32. "
        "Delta and Iceberg use the same encoding."
    )
    parts = (*vectors.render(), "", *_dump(examined.data))
    return Step(
        "A deletion vector and its bytes", text, parts, {**vectors.document(), "bytes": examined.data.hex()}
    )


def _dump(data: bytes) -> Iterator[Text]:
    """The first bytes in hexadecimal, with length, magic and CRC in colour."""
    for start in range(0, min(len(data), SHOWN_BYTES), DUMP_WIDTH):
        line = Text(f"   {start:04x} ")
        for at in range(start, min(start + DUMP_WIDTH, len(data))):
            style = "yellow" if at < 4 else "green" if at < 8 else "magenta" if at >= len(data) - 4 else ""
            line.append(f" {data[at]:02x}", style=style)
        yield line
    if len(data) > SHOWN_BYTES:
        yield Text(f"   … {len(data) - SHOWN_BYTES:,} more bytes")


def _rows(source: Table, last: DeleteSets) -> Step:
    import pyarrow.parquet as pq

    from delvec.deletes.loader import DeleteLoader

    (deleted,) = DeleteLoader(source.storage).load(last.at(last.file))
    assert deleted is not None
    place = last.describe().column("data_file")[0].as_py()
    with pq.ParquetFile(source.storage.open_input(place)) as file:
        batch = next(file.iter_batches(SHOWN_ROWS, columns=file.schema_arrow.names[:SHOWN_COLUMNS]))
    grid = table("row", *batch.schema.names, "", numbers=("row",))
    for at, values in enumerate(batch.to_pylist()):
        is_deleted = at in deleted
        style = "dim strike" if is_deleted else ""
        cells = (Text(cell(value), style) for value in values.values())
        grid.add_row(str(at), *cells, "deleted" if is_deleted else "")
    flags = [at in deleted for at in range(batch.num_rows)]
    text = "The data file still contains every row. Readers skip the rows in the vector."
    return Step("The rows that it deletes", text, (grid,), {"data_file": place, "deleted": flags})


def _pruning(source: Table, where: str) -> Step:
    from delvec.cli.files import list_files

    files = list_files(source.snapshot(), where, SHOWN_FILES)
    text = f"WHERE {cell(where)}: partition values and statistics exclude files before any is opened."
    return _step("Files that may match a condition", text, files)


def _in_spark(source: Table, where: str | None) -> Step:
    from delvec.cli.show import RowSample

    text = "Table.open(spark, path).to_df(where=…) reads the live rows in a stock PySpark session: no jar."
    try:
        columns, rows = read_rows(source, source.snapshot(), SHOWN_ROWS, where=where)
    except UnsupportedFeatureError as error:
        return Step("The rows in Spark", text, (cell(f"not shown: {error}"),), {"rows": None})
    sample = RowSample(tuple(columns), rows)
    return Step("The rows in Spark", text, (sample.render(),), {"rows": sample.rows})


def _verification(source: Table) -> Step:
    from delvec.cli.verify import Verification
    from delvec.verify import verify_table

    text = "Every vector is read and checked against the log and its data file."
    return _step("Verification", text, Verification(verify_table(source)))


def _broken(source: Table, last: DeleteSets, folder: str) -> Step:
    """Flips one bit in a copy of the vector; reading the copy must fail."""
    from delvec.deletes.examine import examine
    from delvec.deletes.sets import described
    from delvec.storage import open_storage

    (delete,) = last.describe().to_pylist()
    data = bytearray(source.storage.read(delete["location"]))
    data[delete["offset"] + delete["length"] // 2] ^= 1
    copies = open_storage(f"{folder}/broken")
    copy = f"{copies.root}/{delete['location'].rpartition('/')[2]}"
    copies.put(copy, bytes(data))
    (examined,) = examine(copies, described([[delete | {"location": copy}]]))
    assert examined.error is not None
    line = Text.assemble("   ", ("error:", "bold red"), " ", cell(examined.error))
    text = "One bit of a copy is flipped. A damaged vector is an error, never read as 'no rows deleted'."
    error = {"kind": type(examined.error).__name__, "message": str(examined.error)}
    return Step("A damaged vector", text, (line,), {"error": error})


def _step(title: str, text: str, result: Result) -> Step:
    return Step(title, text, tuple(result.render()), result.document())


def _options(source: Table) -> list[str]:
    return [f"{key}={value}" for key, value in source.storage.options.items()]
