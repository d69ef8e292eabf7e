"""`delvec dv`: the deletion vectors of a table, of one data file, or in a vector file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from delvec.cli.arguments import (
    DEFAULT_LIMIT,
    Catalog,
    Json,
    Limit,
    Path,
    Ref,
    Relocate,
    StorageOptions,
    Timestamp,
    Version,
    first,
    open_source,
    storage_options,
)
from delvec.cli.files import place_text, vector_place
from delvec.cli.output import cell, counted, number, pairs, size, table
from delvec.errors import InvalidOperationError

if TYPE_CHECKING:
    from delvec.deletes.examine import Examined
    from delvec.detect import VectorBlob
    from delvec.plan import ScanPlan

BAD_FILE = 4

File = Annotated[
    str | None,
    typer.Option(
        "--file", metavar="NAME", help="Show only the vector of this data file.", show_default=False
    ),
]
Ranges = Annotated[
    int,
    typer.Option("--ranges", metavar="N", min=0, help="List at most N ranges of deleted rows per vector."),
]


def dv(
    path: Path,
    *,
    file: File = None,
    ranges: Ranges = 5,
    limit: Limit = DEFAULT_LIMIT,
    version: Version = None,
    timestamp: Timestamp = None,
    catalog: Catalog = None,
    ref: Ref = None,
    relocate: Relocate = False,
    json: Json = False,
    option: StorageOptions = None,
) -> VectorList:
    """List the deletion vectors and the rows that they delete.

    PATH is a table or a single vector file (.bin, .puffin).
    """
    import numpy as np

    from delvec import detect

    del json
    options = storage_options(option)
    if path.endswith(detect.VECTOR_FILE_NAMES):
        _verify_no_table_option(file=file, version=version, timestamp=timestamp, catalog=catalog, ref=ref)
        return list_blobs(path, detect.open_vector_file(path, options), ranges=ranges, limit=limit)
    source = open_source(path, options, catalog=catalog, ref=ref, relocate=relocate)
    plan = source.snapshot(version, timestamp).plan()
    if file is not None:
        plan, limit = plan.at(np.array([find_file(plan, file)])), 0
    return list_vectors(plan, source.storage, ranges=ranges, limit=limit)


@dataclass(frozen=True, slots=True)
class VectorList:
    """The first of ``total`` vectors; an invalid one has an ``error`` and no content.

    ``equality_files``: delete files of the same data files that name values, not rows. They are not listed.
    """

    location: str
    version: int | None
    total: int
    vectors: tuple[Mapping[str, Any], ...]
    equality_files: int = 0

    @property
    def exit_code(self) -> int:
        return BAD_FILE if any(vector["error"] for vector in self.vectors) else 0

    def document(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in VectorList.__slots__}

    def render(self) -> Iterable[RenderableType]:
        if len(self.vectors) == self.total == 1:
            yield pairs(_details(self.vectors[0]))
            yield from self._not_listed()
            return
        if self.vectors:
            yield self._table()
        for vector in self.vectors:
            if vector["error"]:
                yield cell(f"error: {vector['error']['message']}")
        more = self.total - len(self.vectors)
        yield counted(self.total, "vector") + (f"; {more:,} more not shown (--limit)" if more else "")
        yield from self._not_listed()

    def _not_listed(self) -> Iterator[str]:
        if self.equality_files:
            files = counted(self.equality_files, "equality-delete file")
            yield f"not listed, because they delete rows by their values: {files}"

    def _table(self) -> RenderableType:
        numbers = ("size", "rows", "first", "last", "ranges")
        grid = table("data file", "stored in", *numbers, "containers", numbers=numbers, fold=("data file",))
        for vector in self.vectors:
            grid.add_row(
                cell(vector["data_file"]),
                place_text(vector),
                size(vector["size"]),
                number(vector["cardinality"]),
                *(cell(vector[name]) for name in ("min", "max", "range_count")),
                "bad" if vector["error"] else containers(vector["containers"]),
            )
        return grid


def list_vectors(plan: ScanPlan, storage: Any, *, ranges: int, limit: int) -> VectorList:
    """The deletes of the plan's files: the first of them."""
    import numpy as np

    from delvec import location
    from delvec.deletes.equality import EqualityDeletes
    from delvec.deletes.examine import examine
    from delvec.deletes.sets import DeleteSets

    sets = DeleteSets.of(plan)
    selected = sets.pairs_at(np.arange(first(len(sets.file), limit)))
    examined = sorted(examine(storage, selected), key=lambda result: result.pair)
    vectors = []
    for result, delete in zip(examined, selected.describe().to_pylist(), strict=True):
        data_file = delete["data_file"]
        place = vector_place(plan.location, delete)
        name = location.relative(plan.location, data_file) or data_file
        vectors.append(_vector(result, name, place, delete["cardinality"], ranges))
    equality_files = sum(len(layer.deletes) for layer in EqualityDeletes.of(plan).layers)
    return VectorList(plan.location, plan.base.version, len(sets.file), tuple(vectors), equality_files)


def list_blobs(path: str, blobs: list[VectorBlob], *, ranges: int, limit: int) -> VectorList:
    """The vectors in a vector file."""
    vectors = [_blob_vector(path, blob, ranges) for blob in blobs[: first(len(blobs), limit)]]
    return VectorList(path, None, len(blobs), tuple(vectors))


def find_file(plan: ScanPlan, name: str) -> int:
    """The row of the plan's file with this location, relative path, or end of a path."""
    import numpy as np
    import pyarrow.compute as pc

    locations = plan.files.column("location")
    same = pc.or_(pc.equal(locations, name), pc.ends_with(locations, "/" + name.lstrip("/")))
    rows = np.flatnonzero(same.to_numpy())
    if len(rows) != 1:
        problem = "no data file has" if not len(rows) else f"{len(rows)} data files have"
        raise InvalidOperationError(
            f"--file {name!r}: {problem} this name in version {plan.base.version} of {plan.location}"
        )
    return int(rows[0])


def containers(counts: Mapping[str, int] | None) -> str:
    """The number of containers of each kind."""
    kinds = [f"{count:,} {kind}" for kind, count in (counts or {}).items() if count]
    return ", ".join(kinds) or "none"


def _vector(
    examined: Examined, data_file: str | None, place: Mapping[str, Any], recorded: int | None, ranges: int
) -> Mapping[str, Any]:
    return {
        "data_file": data_file,
        **place,
        "recorded_cardinality": recorded,
        **_content(examined, ranges),
        "error": {"kind": type(examined.error).__name__, "message": str(examined.error)}
        if examined.error
        else None,
    }


def _content(examined: Examined | None, ranges: int) -> Mapping[str, Any]:
    """The content of a delete; all None if it is invalid or not a vector."""
    if examined is None or examined.bitmap is None:
        return dict.fromkeys(("cardinality", "min", "max", "range_count", "ranges", "bitmaps", "containers"))
    bitmap, layout = examined.bitmap, examined.describe()
    all_ranges = bitmap.ranges()
    return {
        "cardinality": bitmap.cardinality,
        "min": bitmap.min(),
        "max": bitmap.max(),
        "range_count": len(all_ranges),
        "ranges": all_ranges[:ranges].tolist(),
        "bitmaps": None if layout is None else layout.keys,
        "containers": None
        if layout is None
        else {
            "array": layout.array_containers,
            "bitmap": layout.bitmap_containers,
            "run": layout.run_containers,
        },
    }


def _blob_vector(path: str, blob: VectorBlob, ranges: int) -> Mapping[str, Any]:
    from delvec.deletes.examine import Examined, examine_blob

    text = blob.attributes.get("cardinality", "")
    recorded = int(text) if text.isdecimal() else None
    data_file = blob.attributes.get("referenced-data-file")
    place = {"storage": "file", "path": path, "offset": blob.offset, "size": len(blob.data)}
    if not blob.is_vector:
        fields = {"data_file": data_file, **place, "recorded_cardinality": recorded, **_content(None, 0)}
        return {**fields, "error": None, "attributes": blob.attributes}
    examined = examine_blob(blob.data, expected_cardinality=recorded)
    if examined.error is not None:
        examined = Examined(0, data=blob.data, error=examined.error.at(path, blob.offset))
    return {**_vector(examined, data_file, place, recorded, ranges), "attributes": blob.attributes}


def _details(vector: Mapping[str, Any]) -> Iterator[tuple[str, RenderableType]]:
    if vector["data_file"] is not None:
        yield "data file", cell(vector["data_file"])
    yield (
        "stored",
        "inline, in the table's metadata" if vector["storage"] == "inline" else cell(vector["path"]),
    )
    if vector["offset"] is not None:
        yield "offset", cell(vector["offset"])
    yield "size", size(vector["size"])
    if vector["error"]:
        yield "error", cell(vector["error"]["message"])
        return
    if vector["cardinality"] is not None:
        yield from _content_pairs(vector)
    for name, value in vector.get("attributes", {}).items():
        yield cell(name), cell(value)


def _content_pairs(vector: Mapping[str, Any]) -> Iterator[tuple[str, RenderableType]]:
    yield "rows", number(vector["cardinality"])
    if vector["cardinality"]:
        yield "first, last", f"{vector['min']:,}, {vector['max']:,}"
    yield "ranges", _ranges(vector)
    if vector["containers"] is not None:
        yield "containers", f"{containers(vector['containers'])} in {counted(vector['bitmaps'], 'bitmap')}"


def _ranges(vector: Mapping[str, Any]) -> str:
    texts = [f"{a:,}" if b == a + 1 else f"{a:,}–{b - 1:,}" for a, b in vector["ranges"]]
    more = vector["range_count"] - len(texts)
    listed = f": {', '.join(texts)}" if texts else ""
    return f"{vector['range_count']:,}{listed}" + (f", … {more:,} more (--ranges)" if texts and more else "")


def _verify_no_table_option(**options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise InvalidOperationError(f"--{name} needs a table, but PATH is a vector file")
